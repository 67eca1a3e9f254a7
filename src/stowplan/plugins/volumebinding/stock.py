"""The free volumes that pods of one demand can have, by the nodes that reach them."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from heapq import merge
from operator import attrgetter
from typing import Final

from stowplan.cluster.volumepools import VolumeGroup
from stowplan.plugins.volumebinding.demand import Wish
from stowplan.plugins.volumebinding.partition import EVERYWHERE, Kind, Partition

_order: Final = attrgetter("order")


class Stock:
    """Groups of volumes that at least one of some claims could have.

    Only as many volumes of a group matter as there are claims that look for one.
    """

    def __init__(self, wishes: Sequence[Wish], looking: Sequence[int], partition: Partition) -> None:
        self._wishes = wishes
        self._looking = looking
        self._partition = partition
        self._tests: dict[int, int] = {}
        self._groups: dict[int, VolumeGroup] = {}
        self._levels: dict[int, int] = {}
        self._fits: dict[int, frozenset[int]] = {}
        self._free: dict[int, list[VolumeGroup]] = {}

    def update(self, number: int, group: VolumeGroup | None) -> int | None:
        """Look at a group again (None: it is known no more).

        Returns the test of the nodes for which that makes a difference, None if it makes none.
        """
        group = group or self._groups.get(number)
        if group is None or (number not in self._groups and not self._admit(group)):
            return None
        level = min(len(group.names), len(self._looking))
        before, self._levels[number] = self._levels[number], level
        if level == before:
            return None
        test = self._tests[number]
        free = self._free.setdefault(test, [])
        if not before:
            insort(free, group, key=_order)
        elif not level:
            del free[bisect_left(free, group.order, key=_order)]
        return test

    def fits(self, wish: int, group: VolumeGroup) -> bool:
        return wish in self._fits[group.number]

    def reached_from(self, kind: Kind) -> Iterator[VolumeGroup]:
        """The groups with free volumes that nodes of a kind reach, those to be taken first first."""
        lists = [free for test in (EVERYWHERE, *sorted(kind)) if (free := self._free.get(test))]
        return iter(lists[0]) if len(lists) == 1 else merge(*lists, key=_order)

    def _admit(self, group: VolumeGroup) -> bool:
        """Take in a group unless none of the claims could have its volumes."""
        fits = frozenset(wish for wish in self._looking if self._wishes[wish].fits(group))
        if not fits:
            return False
        self._groups[group.number] = group
        self._fits[group.number] = fits
        self._levels[group.number] = 0
        self._tests[group.number] = self._partition.number(group.offer.reach)
        return True
