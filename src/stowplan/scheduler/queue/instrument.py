"""Hooks about the queue; those nobody uses cost nothing.

These are the part of an instrument (scheduler/cycle/instrument.py) that the queue knows.
"""

from collections.abc import Callable, Mapping

from stowplan.scheduler.framework.events import Answer, ClusterEvent
from stowplan.scheduler.framework.instrument import hook_of
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
    """Hooks about the queue. Leave out what you do not need: only methods you override are called."""

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


class Hooks:
    """The methods of instruments that somebody wrote, by hook; None for the others."""

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

    def __init__(self, *instruments: object) -> None:
        self.after_hint = hook_of(QueueInstrument, "after_hint", instruments)
        self.after_plugin = hook_of(QueueInstrument, "after_plugin", instruments)
        self.after_pre_enqueue = hook_of(QueueInstrument, "after_pre_enqueue", instruments)
        self.before_hint = hook_of(QueueInstrument, "before_hint", instruments)
        self.before_plugin = hook_of(QueueInstrument, "before_plugin", instruments)
        self.before_pre_enqueue = hook_of(QueueInstrument, "before_pre_enqueue", instruments)
        self.in_flight = hook_of(QueueInstrument, "in_flight", instruments)
        self.incoming = hook_of(QueueInstrument, "incoming", instruments)
        self.incoming_group = hook_of(QueueInstrument, "incoming_group", instruments)
        self.incoming_many = hook_of(QueueInstrument, "incoming_many", instruments)
        self.narrowed = hook_of(QueueInstrument, "narrowed", instruments)
        self.pre_enqueue_ran = hook_of(QueueInstrument, "pre_enqueue_ran", instruments)
        self.problem = hook_of(QueueInstrument, "problem", instruments)
        self.rejected = hook_of(QueueInstrument, "rejected", instruments)
        self.same_hint = hook_of(QueueInstrument, "same_hint", instruments)
        self.stayed_gated = hook_of(QueueInstrument, "stayed_gated", instruments)
