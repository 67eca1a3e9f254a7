"""BalancedResourceAllocation: prefers nodes where cpu and memory would be used to the same degree.

The priority of that name. NodeResourcesBalancedAllocation looks at how the pod changes the balance instead.
"""

from collections.abc import Sequence

import numpy as np

from stowplan.cluster.columns import IntArray
from stowplan.framework.interface import Scores
from stowplan.plugins.args import BalancedResourceAllocationArgs
from stowplan.plugins.legacy.oldallocation import OldAllocation


class BalancedResourceAllocation(OldAllocation):
    """Nothing for nodes that would be full in one of the two."""

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
