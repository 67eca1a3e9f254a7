"""The volumes a pod would get on a kind of node: bound, free or to be provisioned; and their score."""

import math
from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import IntFlag
from functools import lru_cache
from heapq import merge
from operator import attrgetter
from typing import Final, NamedTuple

from stowplan.api.nodeselector import CompiledNodeSelector, RequiredNodeAffinity, compile_term
from stowplan.api.pod import NodeSelectorRequirement, NodeSelectorTerm
from stowplan.api.storage import TopologySelectorTerm
from stowplan.cluster.capacitypools import CapacityPool, CapacityPools
from stowplan.cluster.storage import Storage
from stowplan.cluster.volumegroups import VolumeGroup
from stowplan.plugins.noderesources.resource_allocation import UtilizationShapePoint, utilization_scores
from stowplan.plugins.volumebinding.claims import Promised, Wish
from stowplan.plugins.volumebinding.partition import EVERYWHERE, Kind, Partition

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_BILLION = 10**9


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


class Room:
    """The pools that are large enough for a claim, by the number of the test of nodes that reach them."""

    def __init__(self, wish: Wish, pools: CapacityPools, partition: Partition) -> None:
        self._wish = wish
        self._partition = partition
        self._tests: dict[int, int] = {}
        self._pools: dict[int, dict[int, CapacityPool]] = {}
        for number, pool in pools.by_number.items():
            self.update(number, pool)

    def update(self, number: int, pool: CapacityPool | None) -> int | None:
        """Look at a pool again (None: it is gone); returns the test of nodes it makes a difference for."""
        if pool is None:
            test = self._tests.pop(number, None)
            if test is not None:
                del self._pools[test][number]
            return test
        if pool.class_name != self._wish.class_name or pool.limit < (self._wish.bytes or 0):
            return None
        test = self._tests[number] = self._partition.number(pool.reach)
        self._pools.setdefault(test, {})[number] = pool
        return test

    def pool_for(self, kind: Kind) -> CapacityPool | None:
        """The pool to be used from nodes of a kind: the first by key."""
        found = [pool for test in (EVERYWHERE, *kind) for pool in self._pools.get(test, {}).values()]
        return min(found, key=lambda pool: pool.key, default=None)


class Provisioning(NamedTuple):
    """Whether a volume can be made for a claim, and for which nodes.

    `topologies`: the test of nodes that the class allows; None: nothing can be made. Without `room` nobody
    asks how large the volume is.
    """

    topologies: int | None = None
    room: Room | None = None


def provisioning(wish: Wish, storage: Storage, partition: Partition) -> Provisioning:
    """What can be made for a claim as classes, drivers and pools are now."""
    found = storage.classes.get(wish.class_name)
    if found is None or found.provisioner in ("", NO_PROVISIONER):
        return Provisioning()
    topologies = partition.number(allowed_topologies(found.allowed_topologies))
    driver = storage.csi_drivers.get(found.provisioner)
    if wish.bytes is None or driver is None or not driver.spec.storage_capacity:
        return Provisioning(topologies)
    return Provisioning(topologies, Room(wish, storage.pools, partition))


@lru_cache(maxsize=1024)
def allowed_topologies(terms: tuple[TopologySelectorTerm, ...]) -> RequiredNodeAffinity | None:
    """What a node needs for volumes of a class to be made for it, None if nothing."""
    if not terms:
        return None
    selectors = (
        NodeSelectorTerm(
            match_expressions=tuple(
                NodeSelectorRequirement(key=one.key, operator="In", values=one.values)
                for one in term.match_label_expressions
            )
        )
        for term in terms
    )
    return RequiredNodeAffinity(None, CompiledNodeSelector(tuple(map(compile_term, selectors))))


class Conflict(IntFlag):
    """What stands against a node, in the order in which the reasons are told."""

    AFFINITY = 1
    NO_VOLUME = 2
    NO_ROOM = 4
    VOLUME_MISSING = 8


class BoundTests(NamedTuple):
    """What a node must pass to reach a bound volume; another test where CSI took over (`migrated`)."""

    test: int
    migrated: int | None = None
    test_if_migrated: int = EVERYWHERE
    missing: bool = False


class Placement(NamedTuple):
    """What would come of a pod on a kind of node. Wishes go by their number."""

    conflicts: Conflict
    taken: Sequence[tuple[int, VolumeGroup | Promised]] = ()
    made: Sequence[tuple[int, CapacityPool | None]] = ()


class Question(NamedTuple):
    """A demand in terms of tests. `by_size` are the wishes that look for a volume, smallest first."""

    bound: Sequence[BoundTests]
    wishes: Sequence[Wish]
    selected: Mapping[int, int]
    promised: Mapping[int, int]
    by_size: Sequence[int]


def place(question: Question, stock: Stock, provisioning: Sequence[Provisioning], kind: Kind) -> Placement:
    """Find volumes for all claims on nodes that pass certain tests and no others."""
    conflicts = _reach_bound(question.bound, kind)
    if any(test not in kind for test in question.selected.values()):
        return Placement(conflicts | Conflict.NO_VOLUME)
    taken = _take(question, stock, kind)
    found = {wish for wish, _ in taken}
    to_make = [*question.selected, *(wish for wish in question.by_size if wish not in found)]
    made: list[tuple[int, CapacityPool | None]] = []
    for wish in to_make:
        problem, pool = _make(provisioning[wish], kind)
        if problem:
            return Placement(conflicts | problem)
        made.append((wish, pool))
    return Placement(conflicts, taken, made)


def _reach_bound(bound: Sequence[BoundTests], kind: Kind) -> Conflict:
    """The first bound volume that is not there or out of reach decides."""
    for volume in bound:
        if volume.missing:
            return Conflict.VOLUME_MISSING
        test = volume.test
        if volume.migrated is not None and volume.migrated in kind:
            test = volume.test_if_migrated
        if not passes(test, kind):
            return Conflict.AFFINITY
    return Conflict(0)


def _take(question: Question, stock: Stock, kind: Kind) -> list[tuple[int, VolumeGroup | Promised]]:
    """Give claims volumes, the smallest claim first, each the smallest volume that will do."""
    taken: list[tuple[int, VolumeGroup | Promised]] = []
    used: dict[int, int] = {}
    given: set[str] = set()
    for number in question.by_size:
        promised = question.wishes[number].promised
        if promised is not None and promised.name not in given:
            if passes(question.promised[number], kind):
                given.add(promised.name)
                taken.append((number, promised))
            continue
        for group in stock.reached_from(kind):
            left = len(group.names) - used.get(group.number, 0)
            if left > 0 and stock.fits(number, group):
                used[group.number] = used.get(group.number, 0) + 1
                taken.append((number, group))
                break
    return taken


def _make(provisioning: Provisioning, kind: Kind) -> tuple[Conflict, CapacityPool | None]:
    if provisioning.topologies is None or not passes(provisioning.topologies, kind):
        return Conflict.NO_VOLUME, None
    if provisioning.room is None:
        return Conflict(0), None
    pool = provisioning.room.pool_for(kind)
    return Conflict.NO_ROOM if pool is None else Conflict(0), pool


def passes(test: int, kind: Collection[int]) -> bool:
    return test == EVERYWHERE or test in kind


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
