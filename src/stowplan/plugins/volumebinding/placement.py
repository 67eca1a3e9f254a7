"""Which volumes a pod would get on a kind of node: those it has, those free to take, those to be made."""

from collections.abc import Collection, Mapping, Sequence
from enum import IntFlag
from typing import NamedTuple

from stowplan.cluster.volumepools import CapacityPool, VolumeGroup
from stowplan.plugins.volumebinding.demand import Promised, Wish
from stowplan.plugins.volumebinding.partition import EVERYWHERE, Kind
from stowplan.plugins.volumebinding.provisioning import Provisioning
from stowplan.plugins.volumebinding.stock import Stock


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
