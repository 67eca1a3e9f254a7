"""What a pod's claims demand of a node, without their names: like demands are answered once."""

from typing import Final, NamedTuple

import msgspec

from stowplan.api.csitranslation import in_tree_kind, translated_affinity
from stowplan.api.labels import Selector, compile_selector
from stowplan.api.nodeselector import RequiredNodeAffinity
from stowplan.api.pod import RawQuantity
from stowplan.api.quantity import QuantityError, value_of
from stowplan.api.storage import PersistentVolume, PersistentVolumeClaim
from stowplan.cluster.storage import Storage
from stowplan.cluster.volumepools import (
    FILESYSTEM,
    VolumeGroup,
    class_of,
    exact_size,
    reach_of,
    size_of,
)

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


class Migration(NamedTuple):
    """A volume of a kind that CSI took over, seen from nodes where it did (`plugin` names the kind)."""

    plugin: str
    reach: RequiredNodeAffinity | None


class BoundVolume(NamedTuple):
    """A volume that a claim is bound to: what a node needs to reach it."""

    reach: RequiredNodeAffinity | None = None
    migration: Migration | None = None
    missing: bool = False


class Promised(NamedTuple):
    """The volume that names a claim as its own before the claim is bound to it. `capacity` is in bytes."""

    name: str
    reach: RequiredNodeAffinity | None
    class_name: str
    capacity: int


class Wish(msgspec.Struct, frozen=True, cache_hash=True):
    """A claim that waits for its pod's node. `size` is in billionths of a byte, `bytes` in bytes.

    `selected_node` is set once a volume for that node was asked for; `promised` if there is such a volume.
    """

    class_name: str
    size: int
    bytes: int | None
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    selector: Selector | None
    selected_node: str | None = None
    promised: Promised | None = None

    def fits(self, group: VolumeGroup) -> bool:
        """Whether the claim could have the volumes of a group, as far as nodes do not matter."""
        offer = group.offer
        return (
            offer.size >= self.size
            and offer.class_name == self.class_name
            and offer.mode == self.mode
            and offer.attributes_class == self.attributes_class
            and self.access_modes.issubset(offer.access_modes)
            and (self.selector is None or self.selector.matches(group.labels))
        )


class Demand(NamedTuple):
    """All that a pod's claims demand, in the order of its volumes."""

    bound: tuple[BoundVolume, ...]
    wishes: tuple[Wish, ...]


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim has its volume for good."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def bound_volume(volume: PersistentVolume | None) -> BoundVolume:
    """What a node needs to reach a volume."""
    if volume is None:
        return BoundVolume(missing=True)
    reach = reach_of(volume.spec.node_affinity)
    kind = in_tree_kind(volume.spec)
    if kind is None or not kind.migrated:
        return BoundVolume(reach)
    seen = reach_of(translated_affinity(volume, kind.zone_key, kind.region_key))
    return BoundVolume(reach, Migration(kind.plugin, seen) if seen != reach else None)


def wish_of(claim: PersistentVolumeClaim, storage: Storage) -> Wish:
    """What an unbound claim asks for. Raises QuantityError and SelectorError."""
    spec = claim.spec
    requested: RawQuantity | None = spec.resources.requests.get("storage")
    wish = Wish(
        class_of(claim),
        0 if requested is None else exact_size(requested),
        None if requested is None else value_of(requested),
        spec.volume_mode or FILESYSTEM,
        spec.volume_attributes_class_name or "",
        frozenset(spec.access_modes),
        None if spec.selector is None else compile_selector(spec.selector),
        claim.metadata.annotations.get(SELECTED_NODE),
    )
    volumes = storage.groups.promised_to(claim.key)
    if not volumes:
        return wish
    promised = next((volume for volume in volumes if _is_for(volume, claim, wish)), None)
    return msgspec.structs.replace(wish, promised=promised and _promised(promised))


def is_promised(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume names a claim as its own; without a uid any claim of that name is meant."""
    found = volume.spec.claim_ref
    return (
        found is not None
        and found.name == claim.name
        and found.namespace == claim.namespace
        and found.uid in ("", claim.metadata.uid)
    )


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim, wish: Wish) -> bool:
    """Whether a volume is a claim's own and as large and of the kind it asks for."""
    spec = volume.spec
    try:
        large_enough = size_of(volume) >= wish.size
    except QuantityError:
        return False
    return (
        large_enough
        and is_promised(volume, claim)
        and class_of(volume) == wish.class_name
        and (spec.volume_mode or FILESYSTEM) == wish.mode
        and (spec.volume_attributes_class_name or "") == wish.attributes_class
        and volume.metadata.deletion_timestamp is None
    )


def _promised(volume: PersistentVolume) -> Promised:
    spec = volume.spec
    return Promised(
        volume.name,
        reach_of(spec.node_affinity),
        spec.storage_class_name,
        value_of(spec.capacity.get("storage", 0)),
    )
