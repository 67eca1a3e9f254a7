"""How good a node is by how well the volumes a pod would get there are used."""

import math
from collections.abc import Sequence

from stowplan.cluster.volumepools import VolumeGroup
from stowplan.plugins.allocation import utilization_scores
from stowplan.plugins.args.shape import UtilizationShapePoint
from stowplan.plugins.volumebinding.demand import Wish
from stowplan.plugins.volumebinding.placement import Placement

_BILLION = 10**9


class CapacityScorer:
    """The mean over storage classes of a score for their utilization.

    Free volumes that would be taken count if there are any, else the pools that volumes would be made from.
    """

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._by_percent: list[int] = utilization_scores(shape).tolist()

    def score(self, wishes: Sequence[Wish], placement: Placement) -> int:
        used = _of_taken(wishes, placement) if placement.taken else _of_made(wishes, placement)
        if not used:
            return 0
        total = sum(self._of_class(requested, capacity) for requested, capacity in used.values())
        return math.floor(total / len(used) + 0.5)

    def _of_class(self, requested: int, capacity: int) -> int:
        if not capacity or requested > capacity:
            return self._by_percent[100]
        return self._by_percent[requested * 100 // capacity]


def _of_taken(wishes: Sequence[Wish], placement: Placement) -> dict[str, tuple[int, int]]:
    """What is asked of the volumes that would be taken, and what they hold, by class."""
    used: dict[str, tuple[int, int]] = {}
    for number, volume in placement.taken:
        if isinstance(volume, VolumeGroup):
            name, size = volume.offer.class_name, -(-volume.offer.size // _BILLION)
        else:
            name, size = volume.class_name, volume.capacity
        requested, capacity = used.get(name, (0, 0))
        used[name] = (requested + (wishes[number].bytes or 0), capacity + size)
    return used


def _of_made(wishes: Sequence[Wish], placement: Placement) -> dict[str, tuple[int, int]]:
    """What is asked of the pools that volumes would be made from, and what they hold, by class."""
    used: dict[str, tuple[int, int]] = {}
    for number, pool in placement.made:
        if pool is not None:
            name = wishes[number].class_name
            requested = used.get(name, (0, 0))[0]
            used[name] = (requested + (wishes[number].bytes or 0), pool.capacity)
    return used
