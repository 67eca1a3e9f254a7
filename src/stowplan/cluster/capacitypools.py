"""What CSI drivers say about the room they have for new volumes."""

import msgspec

from stowplan.api.labels import SelectorError, compile_selector
from stowplan.api.nodeselector import RequiredNodeAffinity
from stowplan.api.quantity import QuantityError, value_of
from stowplan.api.storage import CSIStorageCapacity


class CapacityPool(msgspec.Struct, frozen=True):
    """Room for volumes of a class, for nodes that `reach` it. `limit`: the largest volume; sizes in bytes."""

    key: str
    limit: int
    capacity: int
    reach: RequiredNodeAffinity


class CapacityPools:
    """Pools by storage class. Only those that some volume and some node could use are kept."""

    __slots__ = ("_class_of", "_pools", "version")

    def __init__(self) -> None:
        self.version = 0
        self._pools: dict[str, dict[str, CapacityPool]] = {}
        self._class_of: dict[str, str] = {}

    def of_class(self, class_name: str) -> list[CapacityPool]:
        """The pools of a class, by key."""
        found = self._pools.get(class_name, {})
        return [found[key] for key in sorted(found)]

    def put(self, capacity: CSIStorageCapacity) -> None:
        """Take in what a driver says, new or changed."""
        self.remove(capacity.key)
        pool = _pool(capacity)
        if pool is not None:
            self._class_of[pool.key] = capacity.storage_class_name
            self._pools.setdefault(capacity.storage_class_name, {})[pool.key] = pool

    def remove(self, key: str) -> None:
        self.version += 1
        class_name = self._class_of.pop(key, None)
        if class_name is not None:
            pools = self._pools[class_name]
            del pools[key]
            if not pools:
                del self._pools[class_name]


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """The size in bytes of the largest volume that can be made, None if that is not known.

    Raises QuantityError.
    """
    raw = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return None if raw is None else value_of(raw)


def _pool(capacity: CSIStorageCapacity) -> CapacityPool | None:
    if capacity.node_topology is None:
        return None
    try:
        limit = volume_limit(capacity)
        room = 0 if capacity.capacity is None else value_of(capacity.capacity)
        labels = compile_selector(capacity.node_topology)
    except (QuantityError, SelectorError):
        return None
    return None if limit is None else CapacityPool(capacity.key, limit, room, RequiredNodeAffinity(labels))
