"""Plugins that were priorities and score by resources: least, most, balanced, and by a curve.

Two things differ from `plugins/noderesources`: a resource that a node does not have counts, as one of which
nothing is left; and extended resources count also for pods that ask for none.
"""

import math
from collections.abc import Hashable, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from msgspec.structs import replace

from stowplan.api.fielderrors import Path, duplicate, invalid
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.gocompat.numbers import MAX_INT64
from stowplan.scheduler.framework import (
    Contract,
    Cycle,
    Handle,
    NodeRows,
    PodInfo,
    Reads,
    Scores,
    Signs,
)
from stowplan.scheduler.framework.advanced import FeatureGates
from stowplan.scheduler.plugins.legacy.base import LegacyPlugin, PriorityArgs
from stowplan.scheduler.plugins.noderesources.resource_allocation import (
    CPU_AND_MEMORY,
    MAX_SHAPE_SCORE,
    ResourceSpec,
    UtilizationShapePoint,
    complete_resources,
    exact,
    saturated_sum,
    utilization_scores,
    validate_shape,
)
from stowplan.scheduler.plugins.normalize import rounded
from stowplan.scheduler.table.columns import CPU, MEMORY, IntArray, Lines
from stowplan.scheduler.table.table import ClusterTable

FREE_IS_BETTER = (
    UtilizationShapePoint(utilization=0, score=MAX_SHAPE_SCORE),
    UtilizationShapePoint(utilization=100, score=0),
)
"""The shape where none is given: the emptier a node, the better."""


class OldAllocationArgs(PriorityArgs, frozen=True):
    """The resources that count, and how much; 0 and absent weights stand for 1."""

    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY

    def completed(self, gates: FeatureGates = DEFAULT_GATES) -> Self:
        return replace(self, resources=complete_resources(self.resources))

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors = super().validate(path, gates)
        seen = set()
        for index, spec in enumerate(self.resources):
            where = path.child("resources").at(index)
            if spec.name in seen:
                errors.append(duplicate(where.child("name"), spec.name))
            seen.add(spec.name)
            if spec.weight < 1:
                errors.append(invalid(where.child("weight"), spec.weight, "must be greater than zero"))
        return errors


class NodeResourcesLeastAllocatedArgs(OldAllocationArgs, frozen=True):
    """Arguments of NodeResourcesLeastAllocated."""


class NodeResourcesMostAllocatedArgs(OldAllocationArgs, frozen=True):
    """Arguments of NodeResourcesMostAllocated."""


class RequestedToCapacityRatioArgs(OldAllocationArgs, frozen=True):
    """The scoring function as points, and the resources it is applied to."""

    shape: tuple[UtilizationShapePoint, ...] = FREE_IS_BETTER

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        return [*super().validate(path, gates), *validate_shape(self.shape, path.child("shape"))]


class ResourceRequests:
    """The resources a score looks at, and what a class of pods asks of each."""

    __slots__ = ("_amounts", "_lines", "_listed")

    def __init__(self, table: ClusterTable, names: Sequence[str], amounts: Sequence[int]) -> None:
        self._lines = Lines([table.line_of(name) for name in names])
        self._amounts = np.array(amounts, dtype=np.int64)[:, None]
        self._listed = tuple(zip(self._lines.listed, amounts, strict=True))

    def look(self, nodes: NodeRows) -> tuple[IntArray, IntArray]:
        """By resource and row: what there is, and what would be taken of it with the pod."""
        table, rows = nodes.table, nodes.rows
        used = self._lines.of(table.requested, rows).copy()
        for position, line in enumerate(self._lines.listed):
            if line in (CPU, MEMORY):
                used[position] = table.non_zero[line, rows]
        return self._lines.of(table.allocatable, rows), saturated_sum(used, self._amounts)

    def look_at(self, table: ClusterTable, row: int) -> list[tuple[int, int]]:
        """The same for one row, by resource."""
        return [
            (
                table.allocatable.item(line, row),
                min(
                    (table.non_zero if line in (CPU, MEMORY) else table.requested).item(line, row) + amount,
                    MAX_INT64,
                ),
            )
            for line, amount in self._listed
        ]


class OldAllocation(LegacyPlugin):
    """A score by resources. Subclasses bring the formula, for many rows and for one."""

    contract = Contract(reads=Reads.USAGE, signs=Signs.TEMPLATE)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._names: tuple[str, ...] = tuple(self.resources())
        for name in self._names:
            handle.table.hold_resource(name)

    def resources(self) -> Sequence[str]:
        """The resources that count."""
        return [spec.name for spec in self.args.resources]

    def points(self, capacity: IntArray, requested: IntArray) -> Scores:
        """Points on the scale of the arguments, by row."""
        raise LookupError(self.name)

    def points_of(self, figures: list[tuple[int, int]]) -> int:
        """The same for one row."""
        raise LookupError(self.name)

    def sign(self, pod: PodInfo) -> Hashable:
        return self._asked(pod)

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores:
        capacity, requested = self._demand(cycle, pod).look(nodes)
        unit: int = self.args.unit
        return self.points(capacity, requested) * unit

    def score_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        unit: int = self.args.unit
        return self.points_of(self._demand(cycle, pod).look_at(cycle.table, row)) * unit

    def _demand(self, cycle: Cycle, pod: PodInfo) -> ResourceRequests:
        kept: ResourceRequests | None = cycle.memo(self)
        if kept is None:
            kept = ResourceRequests(cycle.table, self._names, self._asked(pod))
            cycle.remember(self, kept)
        return kept

    def _asked(self, pod: PodInfo) -> tuple[int, ...]:
        return pod.template.asked(self._names, non_zero=True, pod_level=False)


Amount = TypeVar("Amount", int, IntArray)
"""One row's number, or many rows' numbers: the formulas serve both."""


class _MeanShare(OldAllocation):
    """The weighted mean of a share per resource. Each share is rounded down, and so is the mean."""

    args: OldAllocationArgs

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._listed = [spec.weight for spec in self.args.resources]
        self._weights: IntArray = np.array(self._listed, dtype=np.int64)[:, None]

    def share(self, requested: Amount, capacity: Amount, most: int) -> Amount:
        """Score of a resource, if there is some and the pod fits."""
        raise LookupError(self.name)

    def points(self, capacity: IntArray, requested: IntArray) -> Scores:
        counts = (capacity > 0) & (requested <= capacity)
        most = self.args.max_priority
        asked, there = exact(np.where(counts, requested, 0), np.where(counts, capacity, 1))
        shares = self.share(asked, there, most).astype(np.int64, copy=False)
        summed: Scores = (shares * counts * self._weights).sum(axis=0)
        return summed // int(self._weights.sum())

    def points_of(self, figures: list[tuple[int, int]]) -> int:
        most = self.args.max_priority
        summed = sum(
            self.share(requested, capacity, most) * weight
            for (capacity, requested), weight in zip(figures, self._listed, strict=True)
            if capacity and requested <= capacity
        )
        return summed // sum(self._listed)


class NodeResourcesLeastAllocated(_MeanShare):
    """The emptier a node, the better: LeastRequestedPriority. NodeResourcesFit rounds otherwise."""

    args_type = NodeResourcesLeastAllocatedArgs

    def share(self, requested: Amount, capacity: Amount, most: int) -> Amount:
        return (capacity - requested) * most // capacity


class NodeResourcesMostAllocated(_MeanShare):
    """The fuller a node, the better: MostRequestedPriority. NodeResourcesFit rounds otherwise."""

    args_type = NodeResourcesMostAllocatedArgs

    def share(self, requested: Amount, capacity: Amount, most: int) -> Amount:
        return requested * most // capacity


class BalancedResourceAllocationArgs(PriorityArgs, frozen=True):
    """Arguments of BalancedResourceAllocation."""


class BalancedResourceAllocation(OldAllocation):
    """Prefers nodes where cpu and memory would be used to the same degree; 0 where one of them would be full.

    NodeResourcesBalancedAllocation scores how the pod changes the balance instead.
    """

    args_type = BalancedResourceAllocationArgs
    args: BalancedResourceAllocationArgs

    def resources(self) -> Sequence[str]:
        return ("cpu", "memory")

    def points(self, capacity: IntArray, requested: IntArray) -> Scores:
        fractions = np.where(capacity > 0, requested / np.maximum(capacity, 1), 1.0)
        difference = np.abs(fractions[0] - fractions[1])
        balance: Scores = ((1 - difference) * self.args.max_priority).astype(np.int64)
        return np.where((fractions >= 1).any(axis=0), 0, balance)

    def points_of(self, figures: list[tuple[int, int]]) -> int:
        cpu, memory = (requested / capacity if capacity else 1.0 for capacity, requested in figures)
        if cpu >= 1 or memory >= 1:
            return 0
        return int((1 - abs(cpu - memory)) * self.args.max_priority)


class RequestedToCapacityRatio(OldAllocation):
    """Scores by a curve over utilization: the priority RequestedToCapacityRatioPriority.

    The weighted mean over resources, rounded; those that score 0 do not count. The strategy of
    NodeResourcesFit rounds utilization down, this up, and leaves out resources that a node does not have.
    """

    args_type = RequestedToCapacityRatioArgs
    args: RequestedToCapacityRatioArgs

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._curve = utilization_scores(self.args.shape, self.args.max_priority)
        self._by_percent: list[int] = self._curve.tolist()
        self._listed = [spec.weight for spec in self.args.resources]
        self._weights: IntArray = np.array(self._listed, dtype=np.int64)[:, None]

    def points(self, capacity: IntArray, requested: IntArray) -> Scores:
        fits = (capacity > 0) & (requested <= capacity)
        left, there = exact(np.where(fits, capacity - requested, 0), np.maximum(capacity, 1))
        free = (left * 100 // there).astype(np.int64, copy=False)
        scores = self._curve[100 - free]
        counted = np.where(scores > 0, self._weights, 0)
        return rounded((scores * counted).sum(axis=0) / np.maximum(counted.sum(axis=0), 1))

    def points_of(self, figures: list[tuple[int, int]]) -> int:
        total = summed = 0
        for (capacity, requested), weight in zip(figures, self._listed, strict=True):
            fits = capacity and requested <= capacity
            score = self._by_percent[100 - (capacity - requested) * 100 // capacity if fits else 100]
            if score > 0:
                summed += score * weight
                total += weight
        return math.floor(summed / total + 0.5) if total else 0
