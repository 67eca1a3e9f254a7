"""How full nodes are and would be: the arithmetic that resource scores share."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from stowplan.api.resources import is_scalar
from stowplan.cluster.columns import MEMORY
from stowplan.cluster.counts import IntArray
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.view import NodeRows
from stowplan.framework.plugin import MAX_NODE_SCORE, Scores
from stowplan.plugins.args import ScoringStrategy, UtilizationShapePoint
from stowplan.plugins.args.node_resources_fit import LEAST_ALLOCATED, MOST_ALLOCATED
from stowplan.plugins.args.shape import MAX_SHAPE_SCORE
from stowplan.plugins.normalize import rounded


class Figures(NamedTuple):
    """For each resource that counts, by row: what there is, what is used, and that plus the pod.

    `which` says for each line which of the configured resources it is. A resource that a node does not have
    counts nothing there: its `allocatable` is 0.
    """

    which: tuple[int, ...]
    allocatable: IntArray
    used: IntArray
    requested: IntArray


class ScoredResources:
    """The resources a score looks at, and what a class of pods asks of each."""

    __slots__ = ("_amounts", "_lines", "which")

    def __init__(self, table: ClusterTable, names: Sequence[str], amounts: Sequence[int]) -> None:
        counted = [
            (index, table.resource_index(name), amount)
            for index, (name, amount) in enumerate(zip(names, amounts, strict=True))
            if amount or not is_scalar(name)
        ]
        self.which = tuple(index for index, _, _ in counted)
        self._lines = np.array([line for _, line, _ in counted], dtype=np.intp)
        self._amounts = np.array([amount for _, _, amount in counted], dtype=np.int64)[:, None]

    def look(self, nodes: NodeRows, *, with_defaults: bool) -> Figures:
        """Figures of some rows; `with_defaults` counts containers without requests at the customary sizes."""
        table, rows = nodes.table, nodes.rows
        at = self._lines if isinstance(rows, slice) else self._lines[:, None]
        allocatable = table.allocatable[at, rows]
        used = table.requested[at, rows]
        if with_defaults:
            for position, line in enumerate(self._lines.tolist()):
                if line <= MEMORY:
                    used[position] = table.non_zero[line, rows]
        return Figures(self.which, allocatable, used, used + self._amounts)


Scorer = Callable[[Figures], Scores]


def strategy_scorer(strategy: ScoringStrategy) -> Scorer:
    """The scoring function a strategy describes."""
    weights = np.array([spec.weight for spec in strategy.resources], dtype=np.int64)
    if strategy.type == LEAST_ALLOCATED:
        return lambda figures: _average(figures, weights, _free_share)
    if strategy.type == MOST_ALLOCATED:
        return lambda figures: _average(figures, weights, _used_share)
    ratio = strategy.requested_to_capacity_ratio
    shape = ratio.shape if ratio is not None else ()
    curve = utilization_scores(shape)
    return lambda figures: _by_curve(figures, weights, curve)


def _free_share(requested: IntArray, allocatable: IntArray) -> IntArray:
    shares = (allocatable - requested) * MAX_NODE_SCORE // np.maximum(allocatable, 1)
    shares[requested > allocatable] = 0
    return shares


def _used_share(requested: IntArray, allocatable: IntArray) -> IntArray:
    shares: IntArray = np.minimum(requested, allocatable) * MAX_NODE_SCORE // np.maximum(allocatable, 1)
    return shares


def _average(figures: Figures, weights: IntArray, share: Callable[[IntArray, IntArray], IntArray]) -> Scores:
    """The weighted mean of the shares over the resources a node has, rounded down."""
    shares = share(figures.requested, figures.allocatable)
    weight = weights[list(figures.which)][:, None]
    missing = figures.allocatable == 0
    if not missing.any():
        total = int(weight.sum())
        if not total:
            return np.zeros(shares.shape[1], dtype=np.int64)
        summed: Scores = (shares * weight).sum(axis=0) // total
        return summed
    counted = np.where(missing, 0, weight)
    scores: Scores = (shares * counted).sum(axis=0) // np.maximum(counted.sum(axis=0), 1)
    return scores


def _by_curve(figures: Figures, weights: IntArray, curve: IntArray) -> Scores:
    """The weighted mean, rounded, of a curve over utilization; resources that score 0 do not count."""
    allocatable = np.maximum(figures.allocatable, 1)
    percent = np.where(figures.requested > figures.allocatable, 100, figures.requested * 100 // allocatable)
    scores = curve[percent]
    counted = np.where((figures.allocatable == 0) | (scores <= 0), 0, weights[list(figures.which)][:, None])
    total = counted.sum(axis=0)
    mean = (scores * counted).sum(axis=0) / np.maximum(total, 1)
    return rounded(mean)


def utilization_scores(shape: Sequence[UtilizationShapePoint]) -> IntArray:
    """The score of every whole percentage of utilization, by straight lines between the points of a shape."""
    scale = MAX_NODE_SCORE // MAX_SHAPE_SCORE
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
