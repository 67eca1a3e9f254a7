"""The arithmetic that resource scores share: how full nodes are and would be."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from stowplan.api.fielderrors import EnumText, Path, forbidden, invalid, not_supported, required
from stowplan.api.meta import Struct
from stowplan.api.rules.resources import is_scalar
from stowplan.gocompat.numbers import MAX_INT64
from stowplan.scheduler.framework import MAX_NODE_SCORE, NodeRows, Scores
from stowplan.scheduler.plugins.noderesources.device_totals import DeviceTotals
from stowplan.scheduler.plugins.normalize import rounded
from stowplan.scheduler.table.columns import CPU, MEMORY, IntArray, lines_of
from stowplan.scheduler.table.table import ClusterTable

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"

MAX_SHAPE_SCORE = 10
"""The best score a point can give."""


class ResourceSpec(Struct, frozen=True):
    """A resource and its weight; 0 stands for 1."""

    name: str = ""
    weight: int = 0


CPU_AND_MEMORY = (ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1))
"""Default resources."""


def complete_resources(resources: Iterable[ResourceSpec]) -> tuple[ResourceSpec, ...]:
    """The resources with missing weights filled in; cpu and memory where there are none."""
    completed = tuple(ResourceSpec(name=spec.name, weight=spec.weight or 1) for spec in resources)
    return completed or CPU_AND_MEMORY


class UtilizationShapePoint(Struct, frozen=True, omit_defaults=False):
    """The score (0 to 10) of a node that is used to this percentage."""

    utilization: int = 0
    score: int = 0


class RequestedToCapacityRatioParam(Struct, frozen=True):
    """The scoring function of the strategy RequestedToCapacityRatio."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(Struct, frozen=True):
    """How nodes are ranked by their resources. A strategy that is given has to name its type."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    def validate(self, path: Path) -> Iterator[str]:
        if self.type not in (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO):
            supported = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
            yield not_supported(path.child("type"), EnumText(self.type), supported)
        for index, spec in enumerate(self.resources):
            if not 0 < spec.weight <= 100:
                where = path.child("resources").at(index).child("weight")
                yield invalid(
                    where, spec.weight, f"resource weight of {spec.name} not in valid range (0, 100]"
                )
        yield from self._validate_ratio(path.child("requestedToCapacityRatio"))

    def _validate_ratio(self, path: Path) -> Iterator[str]:
        ratio = self.requested_to_capacity_ratio
        if self.type == REQUESTED_TO_CAPACITY_RATIO:
            if ratio is None:
                yield required(path, f"must be specified when type is {REQUESTED_TO_CAPACITY_RATIO}")
            else:
                yield from validate_shape(ratio.shape, path.child("shape"))
        elif ratio is not None:
            yield forbidden(path, f"must be nil when type is not {REQUESTED_TO_CAPACITY_RATIO}")


def validate_shape(shape: Sequence[UtilizationShapePoint], path: Path) -> list[str]:
    """A shape needs a point, increasing utilizations, and both coordinates in range."""
    if not shape:
        return [required(path, "at least one point must be specified")]
    errors: list[str] = []
    for index in range(1, len(shape)):
        utilization = shape[index].utilization
        if shape[index - 1].utilization >= utilization:
            where = path.at(index).child("utilization")
            errors.append(invalid(where, utilization, "values must be sorted in increasing order"))
            break
    for index, point in enumerate(shape):
        where = path.at(index)
        if not 0 <= point.utilization <= 100:
            detail = "not in valid range [0, 100]"
            errors.append(invalid(where.child("utilization"), point.utilization, detail))
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            detail = f"not in valid range [0, {MAX_SHAPE_SCORE}]"
            errors.append(invalid(where.child("score"), point.score, detail))
    return errors


class AllocationFigures(NamedTuple):
    """For each resource that counts, by row: what there is, what is used, and that plus the pod.

    `which` says for each line which of the configured resources it is. A resource that a node does not have
    counts nothing there: its `allocatable` is 0.
    """

    which: tuple[int, ...]
    allocatable: IntArray
    used: IntArray
    requested: IntArray


Figure = tuple[int, int, int, int]
"""The same for one resource of one node: which, allocatable, used, requested."""


class ScoredResources:
    """The resources a score looks at, and what a class of pods asks of each."""

    __slots__ = (
        "_devices",
        "_lines",
        "_listed",
        "_only_core",
        "by_devices",
        "lines",
        "wanted",
        "which",
    )

    def __init__(
        self,
        table: ClusterTable,
        names: Sequence[str],
        amounts: Sequence[int],
        devices: DeviceTotals | None = None,
    ) -> None:
        self._listed = tuple(
            [
                (index, table.line_of(names[index]), amount)
                for index, amount in enumerate(amounts)
                if amount or not is_scalar(names[index])
            ]
        )
        self.which = tuple([index for index, _, _ in self._listed])
        self.lines = tuple([line for _, line, _ in self._listed])
        self.wanted = tuple([amount for _, _, amount in self._listed])
        """Their places among all, their lines in the resource columns, and what the pods ask of each."""
        self._devices = devices
        self.by_devices = (
            [
                (place, names[index])
                for place, index in enumerate(self.which)
                if devices.means_devices(names[index])
            ]
            if devices is not None and devices.any
            else []
        )
        """The resources, by their place, that nodes which do not have them may answer with devices."""
        self._lines = lines_of(self.lines)
        self._only_core = self.lines in ((CPU,), (MEMORY,), (CPU, MEMORY))

    def look(self, nodes: NodeRows, *, with_defaults: bool) -> AllocationFigures:
        """Figures of some rows; `with_defaults` counts containers without requests at the customary sizes."""
        table, rows = nodes.table, nodes.rows
        allocatable = self._lines.of(table.allocatable, rows)
        if with_defaults and self._only_core:
            used = self._lines.of(table.non_zero, rows)
        else:
            used = self._lines.of(table.requested, rows)
            if with_defaults:
                used = used.copy()
                for position, line in enumerate(self.lines):
                    if line <= MEMORY:
                        used[position] = table.non_zero[line, rows]
        if self.by_devices:
            allocatable, used = self._with_devices(allocatable, used, rows)
        amounts = np.array(self.wanted, dtype=np.int64)[:, None]
        return AllocationFigures(self.which, allocatable, used, saturated_sum(used, amounts))

    def _with_devices(
        self, allocatable: IntArray, used: IntArray, rows: IntArray | slice
    ) -> tuple[IntArray, IntArray]:
        """Count devices where a node does not have the resource they stand for."""
        allocatable, used = allocatable.copy(), used.copy()
        for place, name in self.by_devices:
            totals = None if self._devices is None else self._devices.of(name)
            if totals is not None:
                counts = (allocatable[place] == 0) & (totals.capacity[rows] > 0)
                allocatable[place][counts] = totals.capacity[rows][counts]
                used[place][counts] = totals.allocated[rows][counts]
        return allocatable, used

    def look_at(self, table: ClusterTable, row: int, with_defaults: bool) -> list[Figure]:
        """Figures of one row, without the resources the node does not have."""
        if self.by_devices:
            return self._look_at_devices(table, row, with_defaults)
        figures = []
        for index, line, amount in self._listed:
            allocatable = table.allocatable.item(line, row)
            if allocatable:
                column = table.non_zero if with_defaults and line <= MEMORY else table.requested
                used = column.item(line, row)
                then = used + amount
                figures.append((index, allocatable, used, then if then < MAX_INT64 else MAX_INT64))
        return figures

    def _look_at_devices(self, table: ClusterTable, row: int, with_defaults: bool) -> list[Figure]:
        nodes = NodeRows(table, np.array([row], dtype=np.intp))
        _, allocatable, used, requested = self.look(nodes, with_defaults=with_defaults)
        return [
            (index, allocatable.item(place, 0), used.item(place, 0), requested.item(place, 0))
            for place, index in enumerate(self.which)
            if allocatable.item(place, 0)
        ]


def scores_devices(totals: DeviceTotals, names: Sequence[str], amounts: Sequence[int]) -> bool:
    """True if a pod requests a resource of a score that devices may provide.

    Their number can change in any row at any time, so nothing can be kept for identical pods.
    """
    return any(
        amount and is_scalar(name) and totals.means_devices(name)
        for name, amount in zip(names, amounts, strict=True)
    )


def saturated_sum(used: IntArray, amounts: IntArray) -> IntArray:
    """Sums of numbers that are not negative; past 64 bits, the largest number."""
    sums = used + amounts
    if sums.min(initial=0) < 0:
        sums[sums < 0] = MAX_INT64
    return sums


def exact(numbers: IntArray, others: IntArray) -> tuple[IntArray, IntArray]:
    """The same numbers, as Python's where a hundred times the larger ones, the others, is past 64 bits."""
    if others.max(initial=0) > MAX_INT64 // MAX_NODE_SCORE:
        return numbers.astype(object), others.astype(object)
    return numbers, others


Scorer = Callable[[AllocationFigures], Scores]
RowScorer = Callable[[list[Figure]], int]


def strategy_scorers(strategy: ScoringStrategy) -> tuple[Scorer, RowScorer]:
    """The scoring function a strategy describes, for many rows and for one."""
    listed = [spec.weight for spec in strategy.resources]
    weights = np.array(listed, dtype=np.int64)
    if strategy.type in (LEAST_ALLOCATED, MOST_ALLOCATED):
        share = free_share if strategy.type == LEAST_ALLOCATED else used_share
        return (
            lambda figures: _average(figures, weights, share),
            partial(_average_one, listed, share),
        )
    ratio = strategy.requested_to_capacity_ratio
    curve = utilization_scores(ratio.shape if ratio is not None else ())
    by_percent: list[int] = curve.tolist()
    return (
        lambda figures: _by_curve(figures, weights, curve),
        partial(_by_curve_one, listed, by_percent),
    )


Amount = TypeVar("Amount", int, IntArray)
"""One row's number, or many rows' numbers: the formulas below serve both."""


def free_share(requested: Amount, allocatable: Amount) -> Amount:
    """Share of a resource that would be left, 0 to 100; 0 if the request does not fit."""
    return (allocatable - requested) * MAX_NODE_SCORE // allocatable * (requested <= allocatable)


def used_share(requested: Amount, allocatable: Amount) -> Amount:
    """Share of a resource that would be used, 0 to 100; 100 if the request does not fit."""
    fits = requested <= allocatable
    return requested * fits * MAX_NODE_SCORE // allocatable + MAX_NODE_SCORE * (1 - fits)


def _average(
    figures: AllocationFigures, weights: IntArray, share: Callable[[IntArray, IntArray], IntArray]
) -> Scores:
    """The weighted mean of the shares over the resources a node has, rounded down."""
    weight = weights[list(figures.which)][:, None]
    missing = figures.allocatable == 0
    if not missing.any():
        total = max(int(weight.sum()), 1)
        shares = share(*exact(figures.requested, figures.allocatable)).astype(np.int64, copy=False)
        summed: Scores = (shares * weight).sum(axis=0) // total
        return summed
    there = np.where(missing, 1, figures.allocatable)
    shares = share(*exact(figures.requested, there)).astype(np.int64, copy=False)
    counted = np.where(missing, 0, weight)
    scores: Scores = (shares * counted).sum(axis=0) // np.maximum(counted.sum(axis=0), 1)
    return scores


def _average_one(weights: list[int], share: Callable[[int, int], int], figures: list[Figure]) -> int:
    total = summed = 0
    for which, allocatable, _, requested in figures:
        summed += share(requested, allocatable) * weights[which]
        total += weights[which]
    return summed // total if total else 0


def _by_curve(figures: AllocationFigures, weights: IntArray, curve: IntArray) -> Scores:
    """The weighted mean, rounded, of a curve over utilization; resources that score 0 do not count."""
    allocatable = np.maximum(figures.allocatable, 1)
    fits = figures.requested <= figures.allocatable
    requested, capacity = exact(np.where(fits, figures.requested, 0), allocatable)
    percent = np.where(fits, (requested * 100 // capacity).astype(np.int64, copy=False), 100)
    scores = curve[percent]
    counted = np.where((figures.allocatable == 0) | (scores <= 0), 0, weights[list(figures.which)][:, None])
    total = counted.sum(axis=0)
    return rounded((scores * counted).sum(axis=0) / np.maximum(total, 1))


def _by_curve_one(weights: list[int], curve: list[int], figures: list[Figure]) -> int:
    total = summed = 0
    for which, allocatable, _, requested in figures:
        score = curve[100 if requested > allocatable else requested * 100 // allocatable]
        if score > 0:
            summed += score * weights[which]
            total += weights[which]
    return math.floor(summed / total + 0.5) if total else 0


def utilization_scores(shape: Sequence[UtilizationShapePoint], highest: int = MAX_NODE_SCORE) -> IntArray:
    """The score of every whole percentage of utilization, by straight lines between the points of a shape."""
    scale = highest // MAX_SHAPE_SCORE
    points = [(point.utilization, point.score * scale) for point in shape]
    return np.array([_on_curve(points, percent) for percent in range(101)], dtype=np.int64)


def _on_curve(points: Sequence[tuple[int, int]], percent: int) -> int:
    for position, (utilization, score) in enumerate(points):
        if percent <= utilization:
            if not position:
                return score
            before_utilization, before_score = points[position - 1]
            rise = (score - before_score) * (percent - before_utilization)
            run = utilization - before_utilization
            # Division truncates toward zero, also downhill.
            step = abs(rise) // run
            return before_score + (step if rise >= 0 else -step)
    return points[-1][1] if points else 0
