"""NodeResourcesLeastAllocated and NodeResourcesMostAllocated: the emptier a node, or the fuller, the better.

These are the priorities LeastRequestedPriority and MostRequestedPriority. NodeResourcesFit has them as
strategies, with other rounding and other words on resources that are missing or overdrawn.
"""

from typing import Any, TypeVar

import numpy as np

from stowplan.cluster.columns import IntArray
from stowplan.framework.interface import Handle, Scores
from stowplan.plugins.allocation import exact
from stowplan.plugins.args import (
    NodeResourcesLeastAllocatedArgs,
    NodeResourcesMostAllocatedArgs,
    OldAllocationArgs,
)
from stowplan.plugins.legacy.oldallocation import OldAllocation

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
        """What a resource is worth, if there is some and the pod fits."""
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
    """Spreads pods."""

    args_type = NodeResourcesLeastAllocatedArgs

    def share(self, requested: Amount, capacity: Amount, most: int) -> Amount:
        return (capacity - requested) * most // capacity


class NodeResourcesMostAllocated(_MeanShare):
    """Packs pods, so that whole nodes stay free and can be given up."""

    args_type = NodeResourcesMostAllocatedArgs

    def share(self, requested: Amount, capacity: Amount, most: int) -> Amount:
        return requested * most // capacity
