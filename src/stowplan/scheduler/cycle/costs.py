"""Scheduling time by who costs it: the owners of pods, attempts that take long, and how they are held back.

One thread schedules everybody. If cycles become slow the question is whose, so every cycle's time is added to
the owner of the pod (its controller, its pod group, or the pod itself). A pod whose attempt takes longer than
a second and fails is *held back*: it backs off until the time spent on all such pods is at most a fixed share
of the time that has passed. kube-scheduler lets it come back after its usual backoff, at most 10 s; a handful
of such pods then takes all of its time.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from heapq import nlargest
from math import ceil
from typing import Final, NamedTuple

from stowplan.api.pod import Pod
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger, Ref
from stowplan.scheduler.queue.queued_group import QueuedGroup
from stowplan.scheduler.queue.queued_pod import QueuedPod

SLOW: Final = 1.0
"""Seconds from which on an attempt is slow."""

SHARE: Final = 0.2
"""The share of the time that slow attempts that fail may take together."""

LONGEST_HOLD: Final = 600.0
"""Seconds that a pod is held back at most. If more slow pods wait than fit into their share in that time,
they take more than it."""

MOST_OWNERS: Final = 1000
"""Of how many owners the time is kept, those that cost most. Up to twice as many are counted in between."""

SHOWN: Final = 10
"""Number of owners that the metric shows."""

TELL_EVERY: Final = 60.0
"""Seconds between two log lines about slow attempts of one owner."""

SAMPLE_EVERY: Final = 0.25
"""Seconds between two readings of the CPU time, which takes longer than to schedule a simple pod."""

_FACT: Final = "cycle cost"


class CostOwner(NamedTuple):
    """Whose pods they are; a pod without a controller is its own owner."""

    namespace: str
    kind: str
    name: str

    @property
    def text(self) -> str:
        """`Kind/name`."""
        return f"{self.kind}/{self.name}"


_OTHERS: Final = CostOwner("", "", "")


class OwnerCost:
    """The costs of the pods of one owner so far. `kept` ends when it is no longer among the most costly."""

    __slots__ = ("attempts", "kept", "owner", "pod", "seconds", "slow", "told", "worst")

    def __init__(self, owner: CostOwner, pod: str) -> None:
        self.owner = owner
        self.pod = pod
        """The pod (`namespace/name`) of the longest attempt."""
        self.attempts = 0
        self.seconds = 0.0
        self.worst = 0.0
        self.slow = 0
        self.kept = True
        self.told = float("-inf")


class CycleCosts:
    """The time of all scheduling cycles by owner.

    `spent` is called once per cycle. Owners beyond `MOST_OWNERS` are summed up in `others`; one that costs
    more than a thousandth of the time stays in the list. Without `holds` no owner is held back: with
    extenders the duration of a cycle is theirs, whichever pod it is for.

    `cpu` reads the CPU time of the process. On a machine that is too busy for the scheduler any attempt may
    last a second: one counts as slow only if the process used that much since it began, or shortly before.
    """

    def __init__(
        self,
        clock: Clock,
        logger: Logger,
        slow: Callable[[str], None],
        *,
        holds: bool = True,
        cpu: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock
        self._holds = holds
        self._logger = logger
        self._count_slow = slow
        self._owners: dict[CostOwner, OwnerCost] = {}
        self.others = OwnerCost(_OTHERS, "")
        self._cpu = cpu
        self._sampled = 0.0
        self._sampled_at = float("-inf") if cpu is not None else float("inf")
        self._free_at = 0.0
        """When slow attempts will have had no more than their share."""

    def __len__(self) -> int:
        return len(self._owners)

    def spent(self, queued: QueuedPod, seconds: float, now: float, earlier: float = 0.0) -> None:
        """Add the time of a cycle that ended `now`, by the timer, to whose it is.

        `earlier` are the seconds before it was put aside.
        """
        if seconds >= SLOW and self._cpu is not None:
            seconds = min(seconds, self._cpu() - self._sampled)
        if now - self._sampled_at >= SAMPLE_EVERY and self._cpu is not None:
            self._sampled, self._sampled_at = self._cpu(), now
        seconds += earlier
        queued.cost = seconds
        template = queued.template
        cost = None if template is None else template.facts.get(_FACT)
        if not isinstance(cost, OwnerCost) or not cost.kept:
            cost = self._of(queued)
            if template is not None:
                template.note(_FACT, cost)
        cost.attempts += 1
        cost.seconds += seconds
        if seconds > cost.worst:
            cost.worst = seconds
            cost.pod = queued.key
        if seconds >= SLOW:
            self._slow(queued, cost, seconds)

    def hold_back(self, queued: QueuedPod) -> str:
        """Hold back a pod whose attempt failed, if that was slow; returns the message for its owner, or "".

        Call it before the pod returns to the queue: the queue takes the backoff from `held_until`.
        """
        queued.held_until = 0
        if queued.cost < SLOW or not self._holds:
            return ""
        now = self._clock.monotonic()
        self._free_at = max(self._free_at, now) + queued.cost / SHARE
        hold = min(self._free_at - now, LONGEST_HOLD)
        queued.held_until = round((now + hold) * 1e9)
        return (
            f"The attempt took {queued.cost:.1f}s of the scheduler's time, more than {SLOW:.0f}s, "
            f"so the next one is {ceil(hold)}s later at the earliest."
        )

    def most_costly(self, count: int, visible: Collection[str] | None = None) -> list[OwnerCost]:
        """The owners that cost most, in namespaces that may be seen (None: in all)."""
        found: Iterator[OwnerCost] = iter(self._owners.values())
        if visible is not None:
            found = (cost for cost in found if cost.owner.namespace in visible)
        return nlargest(count, found, key=_seconds)

    def series(self) -> Mapping[tuple[str, ...], float]:
        """The seconds of the most costly owners, by namespace and owner."""
        costs = self.most_costly(SHOWN)
        return {(cost.owner.namespace, cost.owner.text): cost.seconds for cost in costs}

    def namespaces(self) -> set[str]:
        """The namespaces of all owners that are kept."""
        return {owner.namespace for owner in self._owners}

    @property
    def total(self) -> tuple[int, float]:
        """All cycles, and the seconds they took."""
        costs = [*self._owners.values(), self.others]
        return sum(cost.attempts for cost in costs), sum(cost.seconds for cost in costs)

    def _of(self, queued: QueuedPod) -> OwnerCost:
        owner = owner_of(queued)
        cost = self._owners.get(owner)
        if cost is None:
            if len(self._owners) >= 2 * MOST_OWNERS:
                self._drop_cheap()
            cost = self._owners[owner] = OwnerCost(owner, queued.key)
        return cost

    def _drop_cheap(self) -> None:
        """Sum up all but the most costly owners as others."""
        kept = nlargest(MOST_OWNERS, self._owners.values(), key=_seconds)
        self._owners, before = {cost.owner: cost for cost in kept}, self._owners
        for owner, cost in before.items():
            if owner not in self._owners:
                cost.kept = False
                self.others.attempts += cost.attempts
                self.others.seconds += cost.seconds
                self.others.slow += cost.slow
                self.others.worst = max(self.others.worst, cost.worst)

    def _slow(self, queued: QueuedPod, cost: OwnerCost, seconds: float) -> None:
        cost.slow += 1
        self._count_slow(queued.profile)
        now = self._clock.monotonic()
        if now - cost.told < TELL_EVERY:
            return
        cost.told = now
        self._logger.info(
            0,
            "Scheduling attempts take long",
            pod=Ref(queued.key),
            owner=f"{cost.owner.namespace}/{cost.owner.text}",
            duration=f"{seconds:.3f}s",
            slowAttempts=cost.slow,
            attempts=cost.attempts,
            total=f"{cost.seconds:.3f}s",
            shareOfAllCycles=f"{cost.seconds / max(self.total[1], 1e-9):.0%}",
        )


def owner_of(queued: QueuedPod) -> CostOwner:
    """Whose a pod is, or a group of pods that is tried as one."""
    if isinstance(queued, QueuedGroup):
        kind = "PodGroup" if queued.root.startswith("podgroup/") else "CompositePodGroup"
        return CostOwner(queued.namespace, kind, queued.name)
    pod: Pod = queued.pod.pod
    for reference in pod.metadata.owner_references:
        if reference.controller:
            return CostOwner(pod.namespace, reference.kind, reference.name)
    return CostOwner(pod.namespace, "Pod", pod.name)


def _seconds(cost: OwnerCost) -> float:
    return cost.seconds
