"""Hook points of the queue: metrics, logs and traces hang on these; those nobody uses cost nothing."""

from collections.abc import Callable, Mapping
from typing import Any

from stowplan.scheduler.framework.events import Answer, ClusterEvent
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.queue.queued_group import QueuedGroup
from stowplan.scheduler.queue.queued_pod import QueuedPod

ACTIVE = "active"
BACKOFF = "backoff"
UNSCHEDULABLE = "unschedulable"
GATED = "gated"
INCOMPLETE = "incomplete"
PENDING = "pending"
"""What metrics call the parts of the queue.

Incomplete are members of a group that is not known yet, or whose parent is not. Pending are members of the
group that is being scheduled: they came meanwhile, or have failed in this cycle.
"""

POD = "pod"
POD_GROUP = "podgroup"
"""What metrics call the types of entities in the queue."""


class QueueInstrument:
    """What an instrument may have. Leave out what you do not need: only methods you override are called."""

    def incoming(self, queued: QueuedPod, queue: str, event: str) -> None:
        """A pod came to `queue` (active, backoff or unschedulable) because of an event."""

    def incoming_many(self, count: int, queue: str, event: str) -> None:
        """So many pods that are alike came to `queue` together. Without it `incoming` is told of each."""

    def incoming_group(self, group: QueuedGroup, queue: str, event: str, is_new: bool, new_pods: int) -> None:
        """A group came to `queue` because of an event; `is_new`: it was not in that queue just before.

        `new_pods` are those that were not, as members join a group that waits; gated is a part of its own.
        """

    def stayed_gated(self, event: str, count: int) -> None:
        """So many gated pods would have been tried again because of an event, but their gate stays closed.

        They count as if they had come to the unschedulable pods again, as they do in kube-scheduler.
        """

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        """One pod more (1) or less (-1) in the queue that a plugin rejected."""

    def in_flight(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Told once: whom to ask how many events are kept for pods in flight, and such pods (`PodPopped`)."""

    def before_hint(self, plugin: str, event: ClusterEvent) -> None:
        """A plugin is about to be asked for a hint."""

    def after_hint(self, plugin: str, event: ClusterEvent, answer: Answer) -> None:
        """It answered; an error is in the answer."""

    def same_hint(self, plugin: str, event: ClusterEvent, answer: Answer, count: int) -> None:
        """So many more times it would have answered the same, so it was not asked."""

    def narrowed(self, plugin: str, to_some: bool) -> None:
        """A plugin was asked which pods an event may help: some, or any (False)."""

    def before_pre_enqueue(self, queued: QueuedPod) -> bool:
        """PreEnqueue plugins are about to be asked whether a pod may be tried.

        Whether to tell of every single one of them is the answer: without it nobody is told.
        """
        return False

    def before_plugin(self, plugin: str) -> None:
        """One of them is about to be asked."""

    def after_plugin(self, plugin: str, status: Status) -> None:
        """It answered."""

    def after_pre_enqueue(self, queued: QueuedPod) -> None:
        """All of them agreed, or one said no."""

    def pre_enqueue_ran(self, profile: str, count: int) -> None:
        """All of them agreed to many pods of one profile, of which the first was told of before."""

    def problem(self, message: str) -> None:
        """Something that should not happen was logged; the queue goes on."""


Hook = Callable[..., Any] | None


class Hooks:
    """The methods of an instrument that somebody wrote; None for the others."""

    __slots__ = (
        "after_hint",
        "after_plugin",
        "after_pre_enqueue",
        "before_hint",
        "before_plugin",
        "before_pre_enqueue",
        "in_flight",
        "incoming",
        "incoming_group",
        "incoming_many",
        "narrowed",
        "pre_enqueue_ran",
        "problem",
        "rejected",
        "same_hint",
        "stayed_gated",
    )

    def __init__(self, instrument: QueueInstrument | None) -> None:
        self.incoming = _hook(instrument, "incoming")
        self.incoming_many = _hook(instrument, "incoming_many")
        self.incoming_group = _hook(instrument, "incoming_group")
        self.stayed_gated = _hook(instrument, "stayed_gated")
        self.rejected = _hook(instrument, "rejected")
        self.in_flight = _hook(instrument, "in_flight")
        self.before_hint = _hook(instrument, "before_hint")
        self.after_hint = _hook(instrument, "after_hint")
        self.same_hint = _hook(instrument, "same_hint")
        self.narrowed = _hook(instrument, "narrowed")
        self.before_pre_enqueue = _hook(instrument, "before_pre_enqueue")
        self.before_plugin = _hook(instrument, "before_plugin")
        self.after_plugin = _hook(instrument, "after_plugin")
        self.after_pre_enqueue = _hook(instrument, "after_pre_enqueue")
        self.pre_enqueue_ran = _hook(instrument, "pre_enqueue_ran")
        self.problem = _hook(instrument, "problem")


def _hook(instrument: QueueInstrument | None, name: str) -> Hook:
    if instrument is None or getattr(type(instrument), name) is getattr(QueueInstrument, name):
        return None
    found: Callable[..., Any] = getattr(instrument, name)
    return found
