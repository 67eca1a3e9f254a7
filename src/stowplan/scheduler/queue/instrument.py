"""Hooks into the queue; unused hooks cost nothing.

These are the part of an instrument (scheduler/cycle/instrument.py) that the queue calls.
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
"""Names of the parts of the queue in metrics.

Incomplete are members of a group that is not known yet, or whose parent is not. Pending are members of the
group that is being scheduled: they arrived during its cycle, or failed in it.
"""

POD = "pod"
POD_GROUP = "podgroup"
"""Names of the entity types of the queue in metrics."""


class QueueInstrument:
    """Hooks about the queue. Leave out what you do not need: only methods you override are called."""

    def incoming(self, queued: QueuedPod, queue: str, event: str) -> None:
        """A pod entered `queue` (active, backoff or unschedulable) because of an event."""

    def incoming_many(self, count: int, queue: str, event: str) -> None:
        """`count` identical pods entered `queue` together. Without this hook, `incoming` runs for each."""

    def incoming_group(self, group: QueuedGroup, queue: str, event: str, is_new: bool, new_pods: int) -> None:
        """A group entered `queue` because of an event; `is_new`: it was in another queue before.

        `new_pods` is the number of pods that were, since members join a group that waits; gated counts as a
        separate queue.
        """

    def stayed_gated(self, event: str, count: int) -> None:
        """`count` gated pods would have been retried because of an event, but their gate stays closed.

        They count as if they had entered the unschedulable pods again, as they do in kube-scheduler.
        """

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        """One pod more (1) or less (-1) in the queue that a plugin rejected."""

    def in_flight(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Told once: whom to ask how many events are kept for pods in flight, and such pods (`PodPopped`)."""

    def before_hint(self, plugin: str, event: ClusterEvent) -> None:
        """A queueing hint of a plugin is about to run."""

    def after_hint(self, plugin: str, event: ClusterEvent, answer: Answer) -> None:
        """The hint returned; an error is in the answer."""

    def same_hint(self, plugin: str, event: ClusterEvent, answer: Answer, count: int) -> None:
        """A hint was not called because it would have given the same answer `count` more times."""

    def narrowed(self, plugin: str, to_some: bool) -> None:
        """A plugin named the pods an event may help: some, or any (False)."""

    def before_pre_enqueue(self, queued: QueuedPod) -> bool:
        """PreEnqueue plugins are about to run for a pod.

        Return True to have `before_plugin` and `after_plugin` called for each; otherwise they are not.
        """
        return False

    def before_plugin(self, plugin: str) -> None:
        """One of them is about to run."""

    def after_plugin(self, plugin: str, status: Status) -> None:
        """It returned."""

    def after_pre_enqueue(self, queued: QueuedPod) -> None:
        """All of them accepted the pod, or one rejected it."""

    def pre_enqueue_ran(self, profile: str, count: int) -> None:
        """All of them accepted `count` pods of a profile, of which the first was reported before."""

    def problem(self, message: str) -> None:
        """An unexpected condition was logged; the queue continues."""


class Hooks:
    """The implemented hooks of all instruments by name; None for a hook without an implementation."""

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
