"""RequestedToCapacityRatio: scores nodes by a curve over how much of them is used.

The priority RequestedToCapacityRatioPriority. NodeResourcesFit has it as a strategy that rounds the use down
where this rounds it up, and leaves out resources that a node does not have.
"""

import math
from typing import Any

import numpy as np

from stowplan.cluster.columns import IntArray
from stowplan.framework.interface import Handle, Scores
from stowplan.plugins.allocation import exact, utilization_scores
from stowplan.plugins.args import RequestedToCapacityRatioArgs
from stowplan.plugins.legacy.oldallocation import OldAllocation
from stowplan.plugins.normalize import rounded


class RequestedToCapacityRatio(OldAllocation):
    """The weighted mean over resources, rounded; those that score 0 do not count."""

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
