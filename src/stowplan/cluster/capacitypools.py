"""What CSI drivers say about the room they have for new volumes."""

from itertools import count

import msgspec

from stowplan.api.labels import SelectorError, compile_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.nodeselector import CompiledNodeSelector, RequiredNodeAffinity, Term
from stowplan.api.quantity import QuantityError, value_of
from stowplan.api.storage import CSIStorageCapacity
from stowplan.cluster.changes import ChangeLog


class CapacityPool(msgspec.Struct, frozen=True):
    """Room for volumes of a class, as it is said to be; what is said anew is another pool.

    `limit` is the largest volume that can be made; sizes are in bytes. `reach` is what nodes need to use it,
    None if nothing.
    """

    number: int
    key: str
    class_name: str
    limit: int
    capacity: int
    reach: RequiredNodeAffinity | None


class CapacityPools:
    """Pools by number. Only those that some volume and some node could use are kept.

    `log` has the numbers of pools that came and went.
    """

    def __init__(self) -> None:
        self.log = ChangeLog()
        self.by_number: dict[int, CapacityPool] = {}
        self._numbers = count()
        self._by_key: dict[str, CapacityPool] = {}

    def put(self, capacity: CSIStorageCapacity) -> None:
        """Take in what a driver says, new or changed."""
        self.remove(capacity.key)
        pool = _pool(next(self._numbers), capacity)
        if pool is not None:
            self.by_number[pool.number] = self._by_key[pool.key] = pool
            self.log.append(pool.number)

    def remove(self, key: str) -> None:
        pool = self._by_key.pop(key, None)
        if pool is not None:
            del self.by_number[pool.number]
            self.log.append(pool.number)


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """The size in bytes of the largest volume that can be made, None if that is not known.

    Raises QuantityError.
    """
    raw = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return None if raw is None else value_of(raw)


def _pool(number: int, capacity: CSIStorageCapacity) -> CapacityPool | None:
    if capacity.node_topology is None:
        return None
    try:
        limit = volume_limit(capacity)
        room = 0 if capacity.capacity is None else value_of(capacity.capacity)
        reach = _reach(capacity.node_topology)
    except (QuantityError, SelectorError):
        return None
    if limit is None:
        return None
    return CapacityPool(number, capacity.key, capacity.storage_class_name, limit, room, reach)


def _reach(topology: LabelSelector) -> RequiredNodeAffinity | None:
    demands = compile_selector(topology).requirements
    if not demands:
        return None
    term = Term(tuple(demand.without_spelling() for demand in demands))
    return RequiredNodeAffinity(None, CompiledNodeSelector((term,)))
