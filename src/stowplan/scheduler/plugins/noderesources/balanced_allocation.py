"""NodeResourcesBalancedAllocation: prefers nodes whose resources the pod would bring closer to being used
evenly."""

import math
from collections.abc import Hashable
from typing import Self

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from stowplan.api.fielderrors import Path, duplicate, invalid
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.scheduler.framework import (
    MAX_NODE_SCORE,
    SKIP,
    Contract,
    Cycle,
    Handle,
    NodeRows,
    Plugin,
    PodInfo,
    Reads,
    Scores,
    Signs,
    Status,
)
from stowplan.scheduler.framework.advanced import FEW_ROWS, UNSIGNED, FeatureGates, Unsigned
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.noderesources.device_totals import DeviceTotals
from stowplan.scheduler.plugins.noderesources.resource_allocation import (
    CPU_AND_MEMORY,
    ResourceSpec,
    ScoredResources,
    complete_resources,
    scores_devices,
)
from stowplan.scheduler.plugins.noderesources.usage_columns import SmallScores, Usage, UsageColumns
from stowplan.scheduler.table.columns import IntArray

_MOST_KEPT = 16
_HALF = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    """The resources whose use should be balanced; their weights can only be 1."""

    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY

    def completed(self, gates: FeatureGates = DEFAULT_GATES) -> Self:
        return replace(self, resources=complete_resources(self.resources))

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors: list[str] = []
        seen = set()
        for index, spec in enumerate(self.resources):
            where = path.child("resources").at(index)
            if spec.name in seen:
                errors.append(duplicate(where.child("name"), spec.name))
            seen.add(spec.name)
            if spec.weight != 1:
                errors.append(invalid(where.child("weight"), spec.weight, "must be 1"))
        return errors


Floats = npt.NDArray[np.float64]


class NodeResourcesBalancedAllocation(Plugin[NodeResourcesBalancedAllocationArgs]):
    """75 means the pod changes nothing about a node's balance, more that it improves it."""

    contract = Contract(
        reads=Reads.USAGE,
        signs=Signs.TEMPLATE_WITHOUT_LABELS,
        constant_pre_score=True,
    )

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._resources = tuple(spec.name for spec in args.resources)
        self._totals = DeviceTotals(handle.table, handle.gates)
        self._usage = Usage(handle.table)
        for name in self._resources:
            handle.table.hold_resource(name)
        self._as_they_are: dict[tuple[int, ...], _KeptBalance] = {}
        """By the resources that count, of which each pod asks for some."""

    def sign(self, pod: PodInfo) -> Hashable | Unsigned:
        requests = self._requests(pod)
        return UNSIGNED if scores_devices(self._totals, self._resources, requests) else requests

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        requests = self._requests(pod)
        if not any(requests):
            return SKIP
        cycle.write_score(self, ScoredResources(cycle.table, self._resources, requests, self._totals))
        return None

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | SmallScores | None:
        resources: ScoredResources | None = cycle.read_score(self)
        if resources is None:
            requests = self._requests(pod)
            if not any(requests):
                return None
            resources = ScoredResources(cycle.table, self._resources, requests, self._totals)
        columns = self._usage.scored(resources, nodes) if len(resources.lines) == 2 else None
        balance: IntArray | SmallScores
        if columns is None:
            figures = resources.look(nodes, with_defaults=False)
            balance = _balance(figures.requested, figures.allocatable)
        else:
            balance = _balance_of_columns(columns, *resources.wanted)
            if len(columns.odd):
                odd = resources.look(NodeRows(nodes.table, columns.odd), with_defaults=False)
                balance[columns.odd] = _balance(odd.requested, odd.allocatable)
        balance -= self._without_pod(resources, nodes)
        balance += _HALF + MAX_NODE_SCORE
        balance >>= 1
        return balance

    def score_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        resources: ScoredResources = cycle.read_score(self)
        figures = resources.look_at(cycle.table, row, False)
        half = _HALF
        if len(figures) == 2:
            (_, cpu, cpu_used, cpu_then), (_, memory, memory_used, memory_then) = figures
            then = _balance_of_two(cpu_then / cpu, memory_then / memory)
            return half + (half + then - _balance_of_two(cpu_used / cpu, memory_used / memory)) // 2
        with_pod = [min(requested / allocatable, 1.0) for _, allocatable, _, requested in figures]
        without = [min(used / allocatable, 1.0) for _, allocatable, used, _ in figures]
        return half + (half + _balance_of(with_pod) - _balance_of(without)) // 2

    def _without_pod(self, resources: ScoredResources, nodes: NodeRows) -> IntArray | SmallScores:
        """The balance of nodes as they are, which no pod's requests enter: kept for all classes of pods."""
        is_everything = isinstance(nodes.rows, slice) and nodes.table is self.handle.table
        if not is_everything or resources.by_devices:
            return _balance_as_is(resources, nodes)
        kept = self._as_they_are.get(resources.which)
        if kept is None:
            if len(self._as_they_are) >= _MOST_KEPT:
                self._as_they_are.clear()
            kept = self._as_they_are[resources.which] = _KeptBalance()
        return kept.refreshed(resources, nodes)

    def _requests(self, pod: PodInfo) -> tuple[int, ...]:
        return pod.template.asked(self._resources, non_zero=False, pod_level=True)


class _KeptBalance:
    """The balance of all nodes as they are, brought up to date in the rows that were touched."""

    def __init__(self) -> None:
        self._position = -1
        self._values: SmallScores = np.zeros(0, dtype=np.int32)

    def refreshed(self, resources: ScoredResources, nodes: NodeRows) -> SmallScores:
        table, log = nodes.table, nodes.table.usage_log
        position, self._position = self._position, log.position
        if position < 0 or len(self._values) != nodes.count:
            self._values = _balance_as_is(resources, nodes).astype(np.int32)
            return self._values
        few = log.few_since(position, FEW_ROWS)
        if few is not None:
            for row in few:
                some = resources.look_at(table, row, with_defaults=False)
                self._values[row] = _balance_of([min(used / there, 1.0) for _, there, used, _ in some])
            return self._values
        touched = log.since(position)
        if touched is None or len(touched) > nodes.count // 4:
            self._values = _balance_as_is(resources, nodes).astype(np.int32)
        else:
            self._values[touched] = _balance_as_is(resources, NodeRows(table, touched))
        return self._values


def _balance_as_is(resources: ScoredResources, nodes: NodeRows) -> IntArray:
    figures = resources.look(nodes, with_defaults=False)
    return _balance(figures.used, figures.allocatable)


def _balance_of_columns(columns: UsageColumns, one: int, other: int) -> SmallScores:
    """`_balance` of all nodes with a pod on them that requests this of two resources."""
    deviation = columns.half_used(0, one)
    deviation -= columns.half_used(1, other)
    np.abs(deviation, out=deviation)
    np.subtract(1.0, deviation, out=deviation)
    deviation *= float(MAX_NODE_SCORE)
    return deviation.astype(np.int32)


def _balance(used: IntArray, allocatable: IntArray) -> IntArray:
    """100 where all resources are used to the same degree, less the further apart they are."""
    deviation = _deviation(used, allocatable)
    balance: IntArray = ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)
    return balance


def _balance_of_two(one: float, other: float) -> int:
    """The same for one node with two resources, which most have, from their used fractions."""
    one, other = (one if one < 1.0 else 1.0), (other if other < 1.0 else 1.0)
    return int((1 - abs((one - other) / 2)) * MAX_NODE_SCORE)


def _balance_of(fractions: list[float]) -> int:
    """The same for one node, from the used fractions of the resources it has."""
    count = len(fractions)
    if count < 2:
        deviation = 0.0
    elif count == 2:
        return _balance_of_two(*fractions)
    else:
        # Added up one by one, so that the last bit is the same as over many rows.
        total = squares = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / count
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / count)
    return int((1 - deviation) * MAX_NODE_SCORE)


def _deviation(used: IntArray, allocatable: IntArray) -> Floats:
    """The standard deviation of the used fractions, over the resources each node has."""
    if len(allocatable) == 2 and allocatable.all():
        fractions = np.minimum(used / allocatable, 1.0)
        half: Floats = np.abs((fractions[0] - fractions[1]) / 2)
        return half
    present = allocatable != 0
    fractions = np.minimum(used / np.where(present, allocatable, 1), 1.0)
    count = present.sum(axis=0)
    fractions = np.where(present, fractions, 0.0)
    total = np.zeros(fractions.shape[1])
    for line in fractions:
        total = total + line
    mean = total / np.maximum(count, 1)
    spread = np.zeros(fractions.shape[1])
    for line, here in zip(fractions, present, strict=True):
        spread = spread + np.where(here, (line - mean) * (line - mean), 0.0)
    deviation: Floats = np.sqrt(spread / np.maximum(count, 1))
    deviation[count < 2] = 0.0
    two = count == 2
    if two.any():
        # Two fractions a and b: |a - b| / 2, which rounds otherwise than the general formula.
        larger = np.where(present, fractions, -np.inf).max(axis=0)
        smaller = np.where(present, fractions, np.inf).min(axis=0)
        deviation[two] = np.abs((larger[two] - smaller[two]) / 2)
    return deviation
