"""Whether an event is worth another attempt for a pod that was rejected, and how soon."""

from collections.abc import Callable
from enum import Enum
from typing import Any

from stowplan.api.pod import Pod
from stowplan.framework.events import ClusterEvent, Hint
from stowplan.framework.hintmap import Answer, ByPlugin, HintMap, Registered
from stowplan.queue.queued import QueuedPod


class Strategy(Enum):
    """What to do with a pod."""

    SKIP = "Skip"
    """It waits on for an event."""
    AFTER_BACKOFF = "AfterBackoff"
    """It is tried again when its backoff is over."""
    IMMEDIATELY = "Immediately"
    """It is tried again at once."""


Ask = Callable[[Registered, QueuedPod, ClusterEvent, Any, Any], Answer]
"""Asks a plugin for its hint."""


def ask(entry: Registered, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Answer:
    return entry.ask(queued.pod, old, new)


def worth_requeuing(
    hints: HintMap | None, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any, ask: Ask = ask
) -> Strategy:
    """What an event means for a pod that waits.

    Only plugins that rejected it are asked. If one says it may help, the pod is tried again: after its
    backoff, or at once if that plugin was only waiting for this. A wildcard event is for everybody, or only
    for the pod it is about.
    """
    if not queued.rejected:
        return Strategy.AFTER_BACKOFF
    if event.is_wildcard:
        return _by_wildcard(queued, new)
    if hints is None:
        return Strategy.AFTER_BACKOFF
    return by_hints(hints.matching(event), queued, event, old, new, ask)


def by_hints(
    matching: ByPlugin, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any, ask: Ask = ask
) -> Strategy:
    """What the plugins that hear of an event and rejected a pod make of it."""

    def any_helps(plugins: frozenset[str]) -> bool:
        return any(
            ask(entry, queued, event, old, new).hint is Hint.QUEUE
            for plugin, entries in matching.items()
            if plugin in plugins
            for entry in entries
        )

    pending = queued.pending_plugins
    if pending and any_helps(pending):
        return Strategy.IMMEDIATELY
    if any_helps(queued.unschedulable_plugins - pending):
        return Strategy.AFTER_BACKOFF
    return Strategy.SKIP


def _by_wildcard(queued: QueuedPod, new: Any) -> Strategy:
    concerned = new is None or (isinstance(new, Pod) and new.metadata.uid == queued.uid)
    return Strategy.AFTER_BACKOFF if concerned else Strategy.SKIP
