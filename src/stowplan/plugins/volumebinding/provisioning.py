"""Whether volumes can be made for a claim: the class's provisioner, its topologies, and room for the size."""

from functools import lru_cache
from typing import Final, NamedTuple

from stowplan.api.nodeselector import CompiledNodeSelector, RequiredNodeAffinity, compile_term
from stowplan.api.pod import NodeSelectorRequirement, NodeSelectorTerm
from stowplan.api.storage import TopologySelectorTerm
from stowplan.cluster.storage import Storage
from stowplan.cluster.volumepools import CapacityPool, CapacityPools
from stowplan.plugins.volumebinding.demand import Wish
from stowplan.plugins.volumebinding.partition import EVERYWHERE, Kind, Partition

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


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
