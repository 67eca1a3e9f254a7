"""Whether volumes can be made for a claim: the class's provisioner, its topologies, and room for the size."""

from functools import lru_cache
from typing import Final, NamedTuple

from stowplan.api.nodeselector import CompiledNodeSelector, RequiredNodeAffinity, compile_term
from stowplan.api.pod import NodeSelectorRequirement, NodeSelectorTerm
from stowplan.api.storage import TopologySelectorTerm
from stowplan.cluster.capacitypools import CapacityPool
from stowplan.cluster.storage import Storage
from stowplan.plugins.volumebinding.demand import Wish

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


class Offering(NamedTuple):
    """What a class and its driver offer a claim.

    `topologies` is what nodes need, None if all will do; `pools` are those with enough room, None if room
    is not asked for.
    """

    topologies: RequiredNodeAffinity | None
    pools: tuple[CapacityPool, ...] | None


def offering(wish: Wish, storage: Storage) -> Offering | None:
    """What can be made for a claim, None if nothing can."""
    found = storage.classes.get(wish.class_name)
    if found is None or found.provisioner in ("", NO_PROVISIONER):
        return None
    pools = None
    driver = storage.csi_drivers.get(found.provisioner)
    if wish.bytes is not None and driver is not None and driver.spec.storage_capacity:
        pools = tuple(pool for pool in storage.pools.of_class(found.name) if pool.limit >= wish.bytes)
    return Offering(allowed_topologies(found.allowed_topologies), pools)


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
