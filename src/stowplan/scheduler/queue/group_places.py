"""Where groups and their members wait: PreEnqueue of a group, and members without a place in one."""

from collections.abc import Iterator, Sequence
from typing import Any

from stowplan.runtime.logs import Ref
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.queue.instrument import ACTIVE, BACKOFF, GATED, UNSCHEDULABLE
from stowplan.scheduler.queue.queued_group import QueuedGroup
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.sub_queues import (
    QUEUES,
    AlreadyQueuedError,
    Strategy,
    SubQueues,
    gate,
    run_pre_enqueue,
)

_PLACES = {Strategy.SKIP: UNSCHEDULABLE, Strategy.AFTER_BACKOFF: BACKOFF, Strategy.IMMEDIATELY: ACTIVE}


class MemberPods:
    """Pods of groups outside of any entity, by the key of their PodGroup."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, QueuedPod]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_group.values()))

    def __iter__(self) -> Iterator[QueuedPod]:
        for members in self._by_group.values():
            yield from members.values()

    def add(self, group: str, queued: QueuedPod) -> None:
        self._by_group.setdefault(group, {})[queued.key] = queued

    def get(self, group: str, pod_key: str) -> QueuedPod | None:
        return self._by_group.get(group, {}).get(pod_key)

    def remove(self, group: str, pod_key: str) -> QueuedPod | None:
        members = self._by_group.get(group)
        queued = None if members is None else members.pop(pod_key, None)
        if members is not None and not members:
            del self._by_group[group]
        return queued

    def take(self, group: str) -> list[QueuedPod]:
        """Take out all members of a group."""
        return list(self._by_group.pop(group, {}).values())


class GroupSubQueues(SubQueues):
    """The sub-queues with groups in them.

    A group is held back as long as PreEnqueue plugins hold back any of its members. So one pod with a
    scheduling gate blocks its group, even one that could do without it.
    """

    _came_from: str | None = None
    """The part of the queue that the group that is being moved was in; None if it is new."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._split_plugins: dict[str, tuple[Sequence[Plugin], Sequence[Plugin]]] = {}

    def check_group_absent(self, group: QueuedGroup) -> None:
        """Raises AlreadyQueuedError if a group is in any of the places."""
        places = (
            ("unschedulable queue", self.unschedulable),
            ("the active queue", self.active),
            ("the backoff queue", self.backoff),
        )
        for name, place in places:
            if group.key in place:
                ref = f"{group.namespace}/{group.name}"
                raise AlreadyQueuedError(f"pod group {ref} is already present in {name}")

    def take_out(self, key: str) -> tuple[QueuedGroup, Strategy] | None:
        """Take a group out of the place it is in, with the strategy that puts it back there."""
        for place, strategy in (
            (self.active, Strategy.IMMEDIATELY),
            (self.backoff, Strategy.AFTER_BACKOFF),
            (self.unschedulable, Strategy.SKIP),
        ):
            found = place.remove(key)
            if isinstance(found, QueuedGroup):
                return found, strategy
        return None

    def put_back(self, group: QueuedGroup, strategy: Strategy, event: str) -> str:
        """Put a group where it was, as its strategy says; returns the place it is in then."""
        self._came_from = _PLACES[strategy]
        try:
            return self.requeue(group, strategy, event)
        finally:
            self._came_from = None

    def to_active(self, queued: QueuedPod, event: str, *, from_backoff: bool = False) -> bool:
        if not super().to_active(queued, event, from_backoff=from_backoff):
            return False
        if isinstance(queued, QueuedGroup):
            now = self._clock.monotonic()
            for member in queued.unstarted.values():
                member.first_attempt = now
            queued.unstarted = {}
        return True

    def _ask_pre_enqueue(self, queued: QueuedPod) -> None:
        if isinstance(queued, QueuedGroup):
            self._ask_group(queued)
        else:
            super()._ask_pre_enqueue(queued)

    def _ask_group(self, group: QueuedGroup) -> None:
        """Call PreEnqueue plugins for all members; the last plugin that gates a member gates the group.

        Plugins with one answer for the whole group are called once. As long as such a plugin gates the group,
        the others are only called for members added since. If no member was gated last time, they are called
        for new members and for members that may be gated at any time (`Plugin.always_enqueues`): a member
        added to a group of thousands costs the same as one added to a small group.
        """
        held_by = group.gating_plugin
        first = group.members[next(iter(group.members))][0]
        by_group, _ = self._plugins_of(first)
        run_pre_enqueue(by_group, first, self._hooks)
        shared = first.gate
        again = shared is not None and held_by == shared.plugin
        passed = shared is None and not held_by
        if again:
            asked = list(group.fresh.values())
        elif passed:
            asked = list((group.to_ask | group.fresh).values())
        else:
            asked = list(group.pods())
        for member in asked:
            self._ask_member(member, first)
            if shared is not None and not member.gated:
                gate(shared.plugin, shared, member, self._hooks)
        group.fresh = {}
        last = None if passed and not any(member.gated for member in asked) else group.last_gated()
        if last is None:
            group.forget_rejectors()
            return
        group.gating_plugin, group.gate = last.gating_plugin, last.gate
        counted = [group, *asked] if again else asked
        group.unschedulable_plugins = frozenset().union(*(one.unschedulable_plugins for one in counted))
        group.pending_plugins = frozenset().union(*(one.pending_plugins for one in counted))
        self._report(group)

    def _ask_member(self, member: QueuedPod, first: QueuedPod) -> None:
        """Ask the plugins with an answer of their own for each pod."""
        if member is first and member.gated:
            return
        _, each = self._plugins_of(member)
        run_pre_enqueue(each, member, self._hooks)
        group = member.group
        if isinstance(group, QueuedGroup) and not all(plugin.always_enqueues(member.pod) for plugin in each):
            group.to_ask[member.key] = member

    def _plugins_of(self, member: QueuedPod) -> tuple[Sequence[Plugin], Sequence[Plugin]]:
        """The PreEnqueue plugins that answer for the whole group, and the others."""
        known = self._split_plugins.get(member.profile)
        if known is None:
            rules = self._profiles.get(member.profile)
            plugins = rules.pre_enqueue if rules else ()
            by_group = [plugin for plugin in plugins if plugin.contract.pre_enqueue_by_group]
            known = by_group, [plugin for plugin in plugins if not plugin.contract.pre_enqueue_by_group]
            self._split_plugins[member.profile] = known
        return known

    def _report(self, group: QueuedGroup) -> None:
        status = group.gate
        if status is not None and status.code is Code.ERROR:
            self.problem(f'running PreEnqueue plugin "{group.gating_plugin}"', group, status.message)

    def _to_gate(self, queued: QueuedPod, event: str) -> None:
        if not isinstance(queued, QueuedGroup):
            super()._to_gate(queued, event)
            return
        if queued.flushed:
            for member in queued.pods():
                member.flushed = False
        queued.flushed = False
        self.to_unschedulable(queued, event)
        if self._logger.enabled(5):
            text = "Entity moved to an internal scheduling queue, because it is gated"
            self._logger.info(5, text, type="podgroup", entity=_ref(queued), event=event, queue=QUEUES[GATED])

    def _tell(self, queued: QueuedPod, queue: str, event: str) -> None:
        if not isinstance(queued, QueuedGroup):
            super()._tell(queued, queue, event)
            return
        if self._hooks.incoming_group is not None:
            new_pods = queued.count_in(GATED if queued.gated else queue)
            self._hooks.incoming_group(queued, queue, event, self._came_from != queue, new_pods)
        if self._logger.level >= 5 and queue != UNSCHEDULABLE:
            self._logger.info(
                5,
                "Entity moved to an internal scheduling queue",
                type="podgroup",
                entity=_ref(queued),
                event=event,
                queue=QUEUES[queue],
            )


def _ref(group: QueuedGroup) -> Ref:
    return Ref(f"{group.namespace}/{group.name}")
