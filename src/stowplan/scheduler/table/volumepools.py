"""Supply for claims: free volumes, grouped by their properties, and the capacity of CSI drivers."""

import heapq
from collections.abc import Mapping
from functools import lru_cache
from itertools import count
from typing import Final

import msgspec

from stowplan.api.labels import SelectorError, compile_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.quantity import QuantityError, quantity_of, value_of
from stowplan.api.rules.nodeselector import (
    CompiledNodeSelector,
    RequiredNodeAffinity,
    Term,
    compile_node_selector,
)
from stowplan.api.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeNodeAffinity,
)
from stowplan.scheduler.table.changes import ChangeLog

FILESYSTEM: Final = "Filesystem"
"""The mode of volumes and claims that name none."""
AVAILABLE: Final = "Available"

_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_STORAGE: Final = "storage"
_MOST_EMPTY: Final = 4096


class Offer(msgspec.Struct, frozen=True, cache_hash=True):
    """All that claims and nodes can tell of a free volume. `size` is in billionths of a byte.

    `reach` is what a node needs for the volume to be reached from there; None: nothing.
    """

    class_name: str
    size: int
    mode: str
    attributes_class: str
    access_modes: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    reach: RequiredNodeAffinity | None


class VolumeGroup:
    """Free volumes that differ only in name.

    `order` decides which group is taken from if several will do: the smallest volumes first, among equals
    those with the fewest other uses. It depends on the offer alone, and on all of it: no two groups have the
    same.
    """

    __slots__ = ("_heap", "labels", "names", "number", "offer", "order")

    def __init__(self, number: int, offer: Offer) -> None:
        self.number = number
        self.offer = offer
        self.labels: Mapping[str, str] = dict(offer.labels)
        self.order = (
            offer.size,
            offer.reach is None,
            len(offer.access_modes),
            offer.access_modes,
            offer.labels,
            offer.class_name,
            offer.mode,
            offer.attributes_class,
            repr(offer.reach),
        )
        self.names: set[str] = set()
        self._heap: list[str] = []

    def add(self, name: str) -> None:
        self.names.add(name)
        heapq.heappush(self._heap, name)
        if len(self._heap) > 2 * len(self.names) + 64:
            self._heap = sorted(self.names)

    def first(self) -> str:
        """The volume to take: the first by name. There must be one."""
        while self._heap[0] not in self.names:
            heapq.heappop(self._heap)
        return self._heap[0]


class VolumeGroups:
    """Every volume is in one place: free in a group, reserved for a claim (or bound to it), or unusable.

    `log` has the numbers of groups that gained or lost volumes.
    """

    def __init__(self) -> None:
        self.log = ChangeLog()
        self.by_number: dict[int, VolumeGroup] = {}
        self._numbers = count()
        self._by_offer: dict[Offer, VolumeGroup] = {}
        self._by_class: dict[str, dict[int, VolumeGroup]] = {}
        self._group_of: dict[str, VolumeGroup] = {}
        self._claim_of: dict[str, str] = {}
        self._reserved: dict[str, dict[str, PersistentVolume]] = {}
        self._empty = 0

    def sizes(self) -> dict[str, int]:
        """Number of entries; empty groups, of which a few thousand are kept, do not count."""
        return {
            "groups of free volumes": len(self._by_offer) - self._empty,
            "free volumes": len(self._group_of),
            "reserved volumes": len(self._claim_of),
        }

    def of_class(self, class_name: str) -> list[VolumeGroup]:
        """The groups of a storage class."""
        return list(self._by_class.get(class_name, {}).values())

    def reserved_for(self, claim_key: str) -> list[PersistentVolume]:
        """Volumes that name a claim as theirs, by name."""
        found = self._reserved.get(claim_key)
        return sorted(found.values(), key=lambda volume: volume.name) if found else []

    def put(self, volume: PersistentVolume) -> None:
        """Take in a volume, new or changed."""
        name = volume.name
        claim = volume.spec.claim_ref
        offer = _offer(volume) if claim is None else None
        group = self._group_of.get(name)
        if group is not None and group.offer == offer:
            return
        self.remove(name)
        if claim is not None:
            key = f"{claim.namespace}/{claim.name}"
            self._claim_of[name] = key
            self._reserved.setdefault(key, {})[name] = volume
        elif offer is not None:
            self._add(self._group(offer), name)

    def remove(self, name: str) -> None:
        """Forget a volume, if it is known."""
        key = self._claim_of.pop(name, None)
        if key is not None:
            reserved = self._reserved[key]
            del reserved[name]
            if not reserved:
                del self._reserved[key]
        group = self._group_of.pop(name, None)
        if group is not None:
            group.names.remove(name)
            self.log.append(group.number)
            self._empty += not group.names
            if self._empty > _MOST_EMPTY:
                self._forget_empty()

    def _add(self, group: VolumeGroup, name: str) -> None:
        self._empty -= not group.names
        group.add(name)
        self._group_of[name] = group
        self.log.append(group.number)

    def _group(self, offer: Offer) -> VolumeGroup:
        group = self._by_offer.get(offer)
        if group is None:
            group = self._by_offer[offer] = VolumeGroup(next(self._numbers), offer)
            self.by_number[group.number] = group
            self._by_class.setdefault(offer.class_name, {})[group.number] = group
            self._empty += 1
        return group

    def _forget_empty(self) -> None:
        """Volumes like those may never come back; if they do they get a new group."""
        for group in [group for group in self.by_number.values() if not group.names]:
            del self.by_number[group.number]
            del self._by_offer[group.offer]
            of_class = self._by_class[group.offer.class_name]
            del of_class[group.number]
            if not of_class:
                del self._by_class[group.offer.class_name]
        self._empty = 0


def class_of(obj: PersistentVolume | PersistentVolumeClaim) -> str:
    """The name of the storage class of a volume or claim; an old annotation goes before the field."""
    annotated = obj.metadata.annotations.get(_CLASS_ANNOTATION)
    return (obj.spec.storage_class_name or "") if annotated is None else annotated


@lru_cache(maxsize=65536, typed=True)
def exact_size(raw: str | int | float) -> int:
    """An amount in billionths, in which any two compare as quantities do. Raises QuantityError.

    Amounts from 10^64 on have larger numbers than that, in the same order (`Quantity.order_key`).
    """
    return quantity_of(raw).order_key()


def size_of(volume: PersistentVolume) -> int:
    """How large a volume is, in billionths of a byte. Raises QuantityError."""
    return exact_size(volume.spec.capacity.get(_STORAGE, 0))


@lru_cache(maxsize=16384)
def reach_of(affinity: VolumeNodeAffinity | None) -> RequiredNodeAffinity | None:
    """Requirement on the nodes that reach a volume, None if every node does.

    Only labels count: field requirements of a term are ignored, and a term with nothing else matches every
    node.
    """
    if affinity is None or affinity.required is None:
        return None
    terms = compile_node_selector(affinity.required).terms
    if any(term.fields and not term.expressions for term in terms):
        return None
    legible = tuple(Term(term.expressions) for term in terms if term.expressions)
    return RequiredNodeAffinity(None, CompiledNodeSelector(legible))


def _offer(volume: PersistentVolume) -> Offer | None:
    """Properties of a free volume; None if it is not available."""
    spec, metadata = volume.spec, volume.metadata
    if volume.status.phase != AVAILABLE or metadata.deletion_timestamp is not None:
        return None
    try:
        size = size_of(volume)
    except QuantityError:
        return None
    return Offer(
        class_of(volume),
        size,
        spec.volume_mode or FILESYSTEM,
        spec.volume_attributes_class_name or "",
        tuple(sorted(set(spec.access_modes))),
        tuple(sorted(metadata.labels.items())),
        reach_of(spec.node_affinity),
    )


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
