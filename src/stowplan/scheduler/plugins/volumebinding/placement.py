"""The volumes a pod would get on a kind of node: bound, free or to be provisioned; and their score."""

import math
from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import IntFlag
from functools import lru_cache
from heapq import merge
from operator import attrgetter
from typing import Final, NamedTuple

from stowplan.api.pod import NodeSelectorRequirement, NodeSelectorTerm
from stowplan.api.rules.nodeselector import CompiledNodeSelector, RequiredNodeAffinity, compile_term
from stowplan.api.storage import TopologySelectorTerm
from stowplan.gocompat.numbers import MAX_INT64
from stowplan.scheduler.plugins.noderesources.resource_allocation import (
    UtilizationShapePoint,
    utilization_scores,
)
from stowplan.scheduler.plugins.volumebinding.claims import ClaimRequest, PreboundVolume
from stowplan.scheduler.plugins.volumebinding.partition import EVERYWHERE, Kind, Partition
from stowplan.scheduler.table.storage import Storage
from stowplan.scheduler.table.volumepools import CapacityPool, CapacityPools, VolumeGroup

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_BILLION = 10**9


_order: Final = attrgetter("order")


class FreeVolumes:
    """Groups of volumes that at least one of some claims could have.

    Only as many volumes of a group matter as there are claims that look for one.
    """

    def __init__(
        self, requests: Sequence[ClaimRequest], looking: Sequence[int], partition: Partition
    ) -> None:
        self._requests = requests
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

    def fits(self, request: int, group: VolumeGroup) -> bool:
        return request in self._fits[group.number]

    def reached_from(self, kind: Kind) -> Iterator[VolumeGroup]:
        """The groups with free volumes that nodes of a kind reach, those to be taken first first."""
        lists = [free for test in (EVERYWHERE, *sorted(kind)) if (free := self._free.get(test))]
        return iter(lists[0]) if len(lists) == 1 else merge(*lists, key=_order)

    def _admit(self, group: VolumeGroup) -> bool:
        """Add a group unless none of the claims could have its volumes."""
        fits = frozenset(request for request in self._looking if self._requests[request].fits(group))
        if not fits:
            return False
        self._groups[group.number] = group
        self._fits[group.number] = fits
        self._levels[group.number] = 0
        self._tests[group.number] = self._partition.number(group.offer.reach)
        return True


class Capacity:
    """The pools that are large enough for a claim, by the number of the test of nodes that reach them."""

    def __init__(self, request: ClaimRequest, pools: CapacityPools, partition: Partition) -> None:
        self._request = request
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
        if pool.class_name != self._request.class_name or pool.limit < (self._request.bytes or 0):
            return None
        test = self._tests[number] = self._partition.number(pool.reach)
        self._pools.setdefault(test, {})[number] = pool
        return test

    def pool_for(self, kind: Kind) -> CapacityPool | None:
        """The pool to be used from nodes of a kind: the first by key."""
        found = [pool for test in (EVERYWHERE, *kind) for pool in self._pools.get(test, {}).values()]
        return min(found, key=lambda pool: pool.key, default=None)


class Provisioning(NamedTuple):
    """Provisioning of a volume for a claim: if it is possible, and for which nodes.

    `topologies`: the test of nodes that the class allows; None: no volume can be provisioned. Without
    `capacity` the size of the volume does not matter.
    """

    topologies: int | None = None
    capacity: Capacity | None = None


def provisioning(request: ClaimRequest, storage: Storage, partition: Partition) -> Provisioning:
    """Provisioning for a claim with the current classes, drivers and pools."""
    found = storage.classes.get(request.class_name)
    if found is None or found.provisioner in ("", NO_PROVISIONER):
        return Provisioning()
    topologies = partition.number(allowed_topologies(found.allowed_topologies))
    driver = storage.csi_drivers.get(found.provisioner)
    if request.bytes is None or driver is None or not driver.spec.storage_capacity:
        return Provisioning(topologies)
    return Provisioning(topologies, Capacity(request, storage.pools, partition))


@lru_cache(maxsize=1024)
def allowed_topologies(terms: tuple[TopologySelectorTerm, ...]) -> RequiredNodeAffinity | None:
    """The topologies of nodes that a class provisions volumes for, None if any."""
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


class VolumeConflict(IntFlag):
    """Why a node is rejected, in the order in which the reasons are reported."""

    NODE_CONFLICT = 1
    BIND_CONFLICT = 2
    NOT_ENOUGH_SPACE = 4
    PV_NOT_EXIST = 8


class BoundTests(NamedTuple):
    """Tests that a node must pass to reach a bound volume; another test where CSI took over (`migrated`)."""

    test: int
    migrated: int | None = None
    test_if_migrated: int = EVERYWHERE
    missing: bool = False


class VolumePlacement(NamedTuple):
    """The volumes a pod would get on a kind of node, or why it gets none. Requests go by their number."""

    conflicts: VolumeConflict
    static_bindings: Sequence[tuple[int, VolumeGroup | PreboundVolume]] = ()
    dynamic_provisions: Sequence[tuple[int, CapacityPool | None]] = ()


class Question(NamedTuple):
    """Requirements in terms of tests. `by_size` are the requests that look for a volume, smallest first."""

    bound: Sequence[BoundTests]
    requests: Sequence[ClaimRequest]
    selected: Mapping[int, int]
    prebound: Mapping[int, int]
    by_size: Sequence[int]


def place(
    question: Question, free_volumes: FreeVolumes, provisioning: Sequence[Provisioning], kind: Kind
) -> VolumePlacement:
    """Find volumes for all claims of a pod on nodes that pass certain tests and no others."""
    conflicts = _check_bound(question.bound, kind)
    if any(test not in kind for test in question.selected.values()):
        return VolumePlacement(conflicts | VolumeConflict.BIND_CONFLICT)
    bindings = _find_matching_volumes(question, free_volumes, kind)
    found = {request for request, _ in bindings}
    to_provision = [*question.selected, *(request for request in question.by_size if request not in found)]
    provisions: list[tuple[int, CapacityPool | None]] = []
    for request in to_provision:
        problem, pool = _check_provisioning(provisioning[request], kind)
        if problem:
            return VolumePlacement(conflicts | problem)
        provisions.append((request, pool))
    return VolumePlacement(conflicts, bindings, provisions)


def _check_bound(bound: Sequence[BoundTests], kind: Kind) -> VolumeConflict:
    """The first bound volume that does not exist or is out of reach decides."""
    for volume in bound:
        if volume.missing:
            return VolumeConflict.PV_NOT_EXIST
        test = volume.test
        if volume.migrated is not None and volume.migrated in kind:
            test = volume.test_if_migrated
        if not passes(test, kind):
            return VolumeConflict.NODE_CONFLICT
    return VolumeConflict(0)


def _find_matching_volumes(
    question: Question, free_volumes: FreeVolumes, kind: Kind
) -> list[tuple[int, VolumeGroup | PreboundVolume]]:
    """Match claims with free volumes, the smallest claim first, each with the smallest that will do."""
    taken: list[tuple[int, VolumeGroup | PreboundVolume]] = []
    used: dict[int, int] = {}
    given: set[str] = set()
    for number in question.by_size:
        prebound = question.requests[number].prebound
        if prebound is not None and prebound.name not in given:
            if passes(question.prebound[number], kind):
                given.add(prebound.name)
                taken.append((number, prebound))
            continue
        for group in free_volumes.reached_from(kind):
            left = len(group.names) - used.get(group.number, 0)
            if left > 0 and free_volumes.fits(number, group):
                used[group.number] = used.get(group.number, 0) + 1
                taken.append((number, group))
                break
    return taken


def _check_provisioning(provisioning: Provisioning, kind: Kind) -> tuple[VolumeConflict, CapacityPool | None]:
    if provisioning.topologies is None or not passes(provisioning.topologies, kind):
        return VolumeConflict.BIND_CONFLICT, None
    if provisioning.capacity is None:
        return VolumeConflict(0), None
    pool = provisioning.capacity.pool_for(kind)
    return VolumeConflict.NOT_ENOUGH_SPACE if pool is None else VolumeConflict(0), pool


def passes(test: int, kind: Collection[int]) -> bool:
    return test == EVERYWHERE or test in kind


class CapacityScorer:
    """The mean over storage classes of a score for their utilization.

    Free volumes that would be taken count if there are any, else the pools that volumes would be made from.
    """

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._by_percent: list[int] = utilization_scores(shape).tolist()

    def score(self, requests: Sequence[ClaimRequest], placement: VolumePlacement) -> int:
        used = (
            _bound_by_class(requests, placement)
            if placement.static_bindings
            else _provisioned_by_class(requests, placement)
        )
        if not used:
            return 0
        total = sum(self._of_class(requested, capacity) for requested, capacity in used.values())
        return math.floor(total / len(used) + 0.5)

    def _of_class(self, requested: int, capacity: int) -> int:
        if not capacity or requested > capacity:
            return self._by_percent[100]
        # Either may be negative: an amount beyond int64 wraps around.
        return self._by_percent[min(max(requested * 100 // capacity, 0), 100)]


def _bound_by_class(
    requests: Sequence[ClaimRequest], placement: VolumePlacement
) -> dict[str, tuple[int, int]]:
    """Amounts requested of the volumes that would be taken, and their capacity, by class."""
    used: dict[str, tuple[int, int]] = {}
    for number, volume in placement.static_bindings:
        if isinstance(volume, VolumeGroup):
            name, size = volume.offer.class_name, min(-(-volume.offer.size // _BILLION), MAX_INT64)
        else:
            name, size = volume.class_name, volume.capacity
        requested, capacity = used.get(name, (0, 0))
        used[name] = (requested + (requests[number].bytes or 0), capacity + size)
    return used


def _provisioned_by_class(
    requests: Sequence[ClaimRequest], placement: VolumePlacement
) -> dict[str, tuple[int, int]]:
    """Amounts requested of the pools that volumes would be provisioned from, and their capacity, by class."""
    used: dict[str, tuple[int, int]] = {}
    for number, pool in placement.dynamic_provisions:
        if pool is not None:
            name = requests[number].class_name
            requested = used.get(name, (0, 0))[0]
            used[name] = (requested + (requests[number].bytes or 0), pool.capacity)
    return used
