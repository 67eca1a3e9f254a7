"""A pod in the queue: what it is, since when it waits, how often it was tried, and who turned it down."""

from stowplan.api.pod import Pod
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.table.podinfo import PodInfo, PodTemplate

NOBODY: frozenset[str] = frozenset()


class QueuedPod:
    """One pod on its way through the queue. Plugins that sort the queue are given this."""

    __slots__ = (
        "_claim_keys",
        "attempts",
        "backoff_until",
        "claims",
        "consecutive_errors",
        "cost",
        "first_attempt",
        "flushed",
        "flushed_at",
        "gate",
        "gating_plugin",
        "group",
        "grouped_uid",
        "held_until",
        "key",
        "pending_plugins",
        "pod",
        "profile",
        "ticket",
        "timestamp",
        "uid",
        "unschedulable_count",
        "unschedulable_plugins",
    )

    def __init__(self, pod: PodInfo, timestamp: float) -> None:
        self.pod = pod
        self.uid = pod.uid
        self.key = pod.key
        self.profile = pod.pod.spec.scheduler_name
        """The profile that is to place it."""
        self.timestamp = timestamp
        """When it came, or came back from its last failed attempt."""
        self.attempts = 0
        self.unschedulable_count = 0
        """Attempts that found no node."""
        self.consecutive_errors = 0
        """Attempts in a row that went wrong."""
        self.backoff_until: int | None = None
        """When its backoff ends, in nanoseconds; None if that is yet to be worked out."""
        self.cost = 0.0
        """Seconds that its last attempt took of the scheduling loop."""
        self.held_until = 0
        """Until when, in nanoseconds, it is held back as its attempts are slow; nothing wakes it before."""
        self.first_attempt: float | None = None
        """When it first became ready to be tried."""
        self.unschedulable_plugins = NOBODY
        """Plugins that rejected it, those that wait for something included."""
        self.pending_plugins = NOBODY
        """Plugins that rejected it because they wait for something: if it happens, no backoff is due."""
        self.gating_plugin = ""
        """The plugin that keeps it from being tried at all."""
        self.gate: Status | None = None
        """Status returned by that plugin."""
        self.flushed = False
        """True if it is retried only because it had waited for the maximum duration."""
        self.flushed_at: float | None = None
        self.group: object = None
        """Its place among the pods that wait for an event (unschedulable.py)."""
        self.ticket = -1
        """Its number there, -1 while it is not there."""
        self.grouped_uid = ""
        """The uid by which it is found there."""
        self.claims: tuple[str, ...] = ()
        """The ResourceClaims by which it is found there."""
        self._claim_keys: tuple[Pod | None, tuple[str, ...]] = (None, ())

    def __repr__(self) -> str:
        return f"QueuedPod({self.key!r}, attempts={self.attempts})"

    def update(self, pod: PodInfo) -> None:
        """Take on the pod's present state."""
        self.pod = pod
        self.uid = pod.uid
        self.key = pod.key
        self.profile = pod.pod.spec.scheduler_name

    @property
    def priority(self) -> int:
        """Priority in the queue."""
        return self.pod.pod.spec.priority or 0

    @property
    def lowest_priority(self) -> int:
        """The lowest priority of the pods that stand here."""
        return self.pod.priority

    @property
    def template(self) -> PodTemplate | None:
        """Template for hints that look at templates; None if its pods have several."""
        return self.pod.template

    @property
    def claim_keys(self) -> tuple[str, ...]:
        """The ResourceClaims it refers to, by `namespace/name`."""
        pod = self.pod.pod
        if not pod.spec.resource_claims:
            return ()
        of, keys = self._claim_keys
        if of is not pod:
            keys = tuple(pod.resource_claim_keys)
            self._claim_keys = (pod, keys)
        return keys

    @property
    def size(self) -> int:
        """Number of pods it stands for: more than one for a group."""
        return 1

    @property
    def backoff_size(self) -> int:
        """By how many pods its longest backoff is stretched."""
        return 1

    @property
    def gated(self) -> bool:
        return self.gating_plugin != ""

    @property
    def rejectors(self) -> frozenset[str]:
        """All plugins that rejected it."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def rejected(self) -> bool:
        """True if any plugin rejected it; a pod without a rejection failed with an error."""
        return bool(self.unschedulable_plugins or self.pending_plugins)
