"""Measurements during a run: waiting times of pods, utilization of nodes, costs."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final, NamedTuple

import numpy as np

from stowplan.api.requests import Json
from stowplan.contrib.gpushare.devices import COUNT as GPU_COUNT
from stowplan.contrib.gpushare.devices import MILLI as GPU_MILLI
from stowplan.contrib.gpushare.devices import gpus_of, request_of
from stowplan.scheduler.table.table import ClusterTable
from stowplan.simulate.scenario.model import Scenario
from stowplan.simulate.scenario.runlog import RunLog

PERCENTILES: Final = (50, 90, 99)
USUAL: Final = 20
"""Fragmentation is measured by so many of the most frequent pods."""

_ALWAYS: Final = ("cpu", "memory")
HOUR: Final = 3600.0


class Waits:
    """Seconds from the creation of pods to their binding."""

    def __init__(self) -> None:
        self._all: list[float] = []
        self._recent: list[float] = []

    def __len__(self) -> int:
        return len(self._all)

    def add(self, seconds: float) -> None:
        self._all.append(seconds)
        self._recent.append(seconds)

    def taken_recent(self) -> list[float]:
        """Those since the last time this was asked."""
        recent, self._recent = self._recent, []
        return recent

    def document(self) -> dict[str, Any]:
        found = sorted(self._all)
        return {
            "pods": len(found),
            **{f"p{percent}": percentile(found, percent) for percent in PERCENTILES},
            "max": _rounded(found[-1]) if found else None,
        }


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """The value that so many percent do not exceed; None if there is none."""
    return _rounded(ordered[max(ceil(len(ordered) * percent / 100) - 1, 0)]) if ordered else None


def _rounded(value: float) -> float:
    return round(value, 3)


@dataclass(frozen=True, slots=True)
class Moment:
    """The cluster at a second of a run, for metrics: the table of the scheduler, and counts."""

    second: float
    table: ClusterTable
    pending: int
    preemptions: int

    def share(self, resource: str) -> float | None:
        """The requested share of what living nodes offer of a resource; None if they offer none."""
        rows = self.table.valid[: self.table.rows_in_use]
        offered = int(self.table.allocatable_of(resource)[: self.table.rows_in_use][rows].sum())
        taken = int(self.table.requested_of(resource)[: self.table.rows_in_use][rows].sum())
        return taken / offered if offered else None


class Metric(NamedTuple):
    """A figure of one's own: measured at every sample, None where it cannot be measured."""

    name: str
    measure: Callable[[Moment], float | None]
    unit: str = ""


@dataclass(slots=True)
class Sample:
    """The cluster at a second of the run. Preemptions and waits are those since the sample before."""

    second: float
    pending: int
    running: int
    nodes: int
    preemptions: int
    cost_per_hour: float
    utilisation: Mapping[str, float]
    fragmentation: Mapping[str, float]
    wait_p50: float | None
    wait_p99: float | None
    wait_p99_by_priority: Mapping[int, float | None]
    wait_p99_by_namespace: Mapping[str, float | None]
    metrics: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(slots=True)
class _Waiting:
    since: float
    priority: int
    namespace: str
    name: str


@dataclass(slots=True)
class Refused:
    """Pods of a workload that the API server refused: how many, how many in the end, the first message."""

    message: str
    pods: int = 0
    created_later: int = 0

    @property
    def not_created(self) -> int:
        return self.pods - self.created_later


@dataclass(slots=True)
class Measures:
    """Counts and samples of one run."""

    scenario: Scenario
    seed: int
    table: ClusterTable
    created_pods: int = 0
    finished: int = 0
    evicted: int = 0
    failures: int = 0
    scaled_up: int = 0
    scaled_down: int = 0
    preemptions: int = 0
    preempted_by_priority: Counter[int] = field(default_factory=Counter)
    waits_of_all: Waits = field(default_factory=Waits)
    by_priority: dict[int, Waits] = field(default_factory=dict)
    by_namespace: dict[str, Waits] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    node_hours: dict[str, float] = field(default_factory=dict)
    refused: dict[str, Refused] = field(default_factory=dict)
    """By workload. A pod counts once, however often its controller tries."""
    metrics: Sequence[Metric] = ()
    log: RunLog | None = None
    left_waiting: list[float] = field(default_factory=list)
    """Waiting times of the pods that are pending at the end."""
    _pending: dict[str, _Waiting] = field(default_factory=dict)
    _unschedulable: dict[str, tuple[str, str]] = field(default_factory=dict)
    _nodes: dict[str, tuple[str, float]] = field(default_factory=dict)
    _sizes: Counter[str] = field(default_factory=Counter)
    _usual: Counter[tuple[tuple[int, int], ...]] = field(default_factory=Counter)
    _sampled_preemptions: int = 0
    _asked_for: set[str] = field(default_factory=set)
    """Resources that some pod has requested: of others nothing can be measured."""
    _shares_gpus: bool = False
    """True if some pod requests GPUs by annotations."""

    # Pods

    def created(self, pod: Json, second: float) -> None:
        metadata = pod["metadata"]
        self.created_pods += 1
        for container in pod["spec"].get("containers") or ():
            self._asked_for.update((container.get("resources") or {}).get("requests") or ())
        self._shares_gpus = self._shares_gpus or GPU_COUNT in (metadata.get("annotations") or {})
        self._pending[metadata["uid"]] = _Waiting(
            second, pod["spec"].get("priority") or 0, metadata.get("namespace", ""), metadata["name"]
        )
        if self.log is not None:
            self.log.created(pod, second)

    def refuses(self, workload: str, message: str) -> None:
        """The API server refuses a pod."""
        self.refused.setdefault(workload, Refused(message)).pods += 1

    @property
    def not_created(self) -> int:
        """Pods that were refused and never created."""
        return sum(one.not_created for one in self.refused.values())

    def waits(self, pod: Json) -> None:
        """A pod without a node has changed: perhaps the scheduler says that it cannot place it."""
        for condition in pod["status"].get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
                metadata = pod["metadata"]
                self._unschedulable[metadata["uid"]] = (metadata.get("namespace", ""), metadata["name"])

    def unschedulable(self) -> Iterator[tuple[str, str]]:
        """Pods that the scheduler could not place, the first first."""
        return iter(self._unschedulable.values())

    def bound(self, pod: Json, second: float) -> None:
        uid = pod["metadata"]["uid"]
        self._unschedulable.pop(uid, None)
        if self.log is not None:
            self.log.placed(pod, second)
        waiting = self._pending.pop(uid, None)
        if waiting is not None:
            wait = second - waiting.since
            self.waits_of_all.add(wait)
            self.by_priority.setdefault(waiting.priority, Waits()).add(wait)
            self.by_namespace.setdefault(waiting.namespace, Waits()).add(wait)
        info = self.table.pods.get(uid)
        if info is not None:
            self._usual[tuple(self.table.taken_by(info.template))] += 1

    def preempted(self, pod: Json) -> None:
        self.preemptions += 1
        self.preempted_by_priority[pod["spec"].get("priority") or 0] += 1

    def gone(self, pod: Json, second: float) -> None:
        uid = pod["metadata"]["uid"]
        self._pending.pop(uid, None)
        self._unschedulable.pop(uid, None)
        if self.log is not None:
            self.log.ended(uid, second)

    @property
    def pending(self) -> int:
        return len(self._pending)

    # Nodes

    def node_added(self, name: str, group: str, second: float) -> None:
        self._nodes[name] = (group, second)
        self._sizes[group] += 1
        if self.log is not None:
            self.log.node_added(name, group, second, self.prices.get(group, 0.0))

    def node_removed(self, name: str, second: float) -> None:
        group, since = self._nodes.pop(name)
        self._sizes[group] -= 1
        if self.log is not None:
            self.log.node_removed(name, second)
        self.node_hours[group] = self.node_hours.get(group, 0.0) + (second - since) / HOUR

    @property
    def prices(self) -> dict[str, float]:
        return {group.name: group.price for group in self.scenario.groups}

    @property
    def cost(self) -> float:
        """Of all nodes, for the time they were there."""
        prices = self.prices
        return sum(hours * prices.get(group, 0.0) for group, hours in self.node_hours.items())

    # Samples

    def sample(self, second: float) -> None:
        recent = sorted(self.waits_of_all.taken_recent())
        prices = self.prices
        self.samples.append(
            Sample(
                second,
                self.pending,
                len(self.table.pods),
                self.table.node_count,
                self.preemptions - self._sampled_preemptions,
                round(sum(count * prices.get(group, 0.0) for group, count in self._sizes.items()), 6),
                self._utilisation(),
                self._fragmentation(),
                percentile(recent, 50),
                percentile(recent, 99),
                {key: percentile(sorted(one.taken_recent()), 99) for key, one in self.by_priority.items()},
                {key: percentile(sorted(one.taken_recent()), 99) for key, one in self.by_namespace.items()},
                self._own_metrics(second),
            )
        )
        self._sampled_preemptions = self.preemptions

    def _own_metrics(self, second: float) -> dict[str, float | None]:
        if not self.metrics:
            return {}
        moment = Moment(second, self.table, self.pending, self.preemptions)
        return {metric.name: metric.measure(moment) for metric in self.metrics}

    def finish(self, second: float) -> None:
        """The run is over."""
        self.sample(second)
        # Their hours end with the run, but they are still there.
        log, self.log = self.log, None
        for name in list(self._nodes):
            self.node_removed(name, second)
        self.log = log
        self.left_waiting = sorted(second - waiting.since for waiting in self._pending.values())

    def _lines(self) -> list[tuple[int, str]]:
        """The resources that nodes offer and that some pod has requested, cpu and memory: line and name."""
        table = self.table
        offered = table.allocatable[:, : table.rows_in_use].sum(axis=1)
        taken = table.requested[:, : table.rows_in_use].sum(axis=1)
        named = [(line, name) for line, name in enumerate(table.resources.names) if name is not None]
        self._asked_for.update(name for line, name in named if taken[line] > 0)
        known = self._asked_for.union(_ALWAYS)
        return [(line, name) for line, name in named if offered[line] > 0 and name in known]

    def _utilisation(self) -> dict[str, float]:
        table = self.table
        rows = table.valid[: table.rows_in_use]
        found = {}
        for line, name in self._lines():
            offered = int(table.allocatable[line, : table.rows_in_use][rows].sum())
            taken = int(table.requested[line, : table.rows_in_use][rows].sum())
            if offered:
                found[name] = round(taken / offered, 4)
        if self._shares_gpus:
            offered = sum(gpus_of(node) for node in table.nodes[: table.rows_in_use] if node is not None)
            asked = sum(request_of(info).total for info in table.pods.values() if info.row >= 0)
            if offered:
                found[GPU_COUNT] = round(asked / (offered * GPU_MILLI), 4)
        return found

    def _fragmentation(self) -> dict[str, float]:
        """By resource, the share of what is free that the pods placed so far could not use, on average.

        For each of the most frequent requests, weighted by how often it came: the free amount on nodes where
        it does not fit. Only amounts are compared, not taints or affinities.
        """
        table = self.table
        size = table.rows_in_use
        rows = table.valid[:size]
        free = np.maximum(table.allocatable[:, :size] - table.requested[:, :size], 0)
        has_slot = table.pod_count[:size] < table.allowed_pods[:size]
        usual = self._usual.most_common(USUAL)
        total = sum(count for _, count in usual)
        found: dict[str, float] = {}
        if not total:
            return found
        lost = np.zeros(len(free), dtype=np.float64)
        for requests, count in usual:
            fits = rows & has_slot
            for line, amount in requests:
                fits = fits & (free[line] >= amount)
            lost += count / total * free[:, rows & ~fits].sum(axis=1)
        for line, name in self._lines():
            all_free = int(free[line, rows].sum())
            if all_free:
                found[name] = round(float(lost[line]) / all_free, 4)
        return found
