"""Which claim keeps a pod from a node, in words: where its volume is, or why it cannot get one there."""

from collections.abc import Iterator
from typing import Final

from stowplan.api.quantity import QuantityError, value_of
from stowplan.api.rules.amounts import shown_amount
from stowplan.api.rules.nodeselector import RequiredNodeAffinity
from stowplan.api.storage import PersistentVolume, PersistentVolumeClaim
from stowplan.scheduler.framework import PodInfo
from stowplan.scheduler.framework.advanced import Shortfall
from stowplan.scheduler.plugins.volumebinding.claims import affinity_seen_from, claim_name, is_bound
from stowplan.scheduler.plugins.volumebinding.partition import PassingRows
from stowplan.scheduler.plugins.volumebinding.placement import (
    NO_PROVISIONER,
    VolumeConflict,
    allowed_topologies,
)
from stowplan.scheduler.table.storage import Storage
from stowplan.scheduler.table.volumepools import class_of, reach_of

_TOPOLOGY: Final = ("/zone", "/region")


def volume_shortfall(
    pod: PodInfo, storage: Storage, passing: PassingRows, node: str, row: int, conflicts: VolumeConflict
) -> Shortfall | None:
    """Shortfall of a node for the first of a pod's claims that fails there."""
    for claim in claims_named(pod, storage):
        found = (
            _bound(claim, storage, passing, node, row)
            if is_bound(claim)
            else _unbound(claim, storage, passing, row, conflicts)
        )
        if found is not None:
            return found
    return None


def claims_named(pod: PodInfo, storage: Storage) -> Iterator[PersistentVolumeClaim]:
    """The claims of a pod that exist, in the order of its volumes."""
    for volume in pod.spec.volumes:
        name = claim_name(pod.name, volume)
        claim = None if name is None else storage.claim(f"{pod.namespace}/{name}")
        if claim is not None:
            yield claim


def _bound(
    claim: PersistentVolumeClaim, storage: Storage, passing: PassingRows, node: str, row: int
) -> Shortfall | None:
    name = claim.spec.volume_name
    volume = storage.volume(name)
    if volume is None:
        return Shortfall("volume", f"claim {claim.name} is bound to {name}, which does not exist")
    reach = reach_of(affinity_seen_from(volume, storage.csi_nodes.get(node)))
    if reach is None or passing.passes(reach, row):
        return None
    return Shortfall("volume elsewhere", f"claim {claim.name} is on {name}, which {place_of(volume)}")


def place_of(volume: PersistentVolume) -> str:
    """Where a volume can be reached from: `is in zone-a`, `needs example.com/rack=3`."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return "is anywhere"
    wanted = []
    for term in affinity.required.node_selector_terms:
        for one in (*term.match_expressions, *term.match_fields):
            if one.operator == "In" and one.key.endswith(_TOPOLOGY):
                word = one.key.rpartition("/")[2]
                places = " or ".join(one.values)
                return f"is in {places}" if places.startswith(word) else f"is in {word} {places}"
            values = f" {' or '.join(one.values)}" if one.values else ""
            wanted.append(f"{one.key} {one.operator}{values}")
    return f"needs a node with {', '.join(wanted)}" if wanted else "is on no node"


def _unbound(
    claim: PersistentVolumeClaim, storage: Storage, passing: PassingRows, row: int, conflicts: VolumeConflict
) -> Shortfall | None:
    name, size, of_class = claim.name, _size(claim), class_of(claim)
    if conflicts & VolumeConflict.NOT_ENOUGH_SPACE:
        largest = max(
            (
                pool.limit
                for pool in storage.pools.by_number.values()
                if pool.class_name == of_class and _reaches(pool.reach, passing, row)
            ),
            default=0,
        )
        room = shown_amount("storage", largest)
        return Shortfall("storage", f"claim {name} wants {size} of class {of_class}, at most {room} here")
    if not conflicts & VolumeConflict.BIND_CONFLICT:
        return None
    found = storage.classes.get(of_class)
    if found is None or found.provisioner in ("", NO_PROVISIONER):
        return Shortfall("volume", _no_free_volume(claim, storage, size))
    reach = allowed_topologies(found.allowed_topologies)
    if _reaches(reach, passing, row):
        return None
    places = " or ".join(
        value
        for term in found.allowed_topologies
        for one in term.match_label_expressions
        for value in one.values
    )
    return Shortfall("volume", f"claim {name}: class {of_class} makes volumes in {places} only")


def _no_free_volume(claim: PersistentVolumeClaim, storage: Storage, size: str) -> str:
    """That none of the volumes made by hand is free, or that the free ones are too small."""
    of_class = class_of(claim)
    free = [
        one.spec.capacity.get("storage", 0)
        for one in storage.volumes.values()
        if one.spec.storage_class_name == of_class and one.spec.claim_ref is None
    ]
    if not free:
        return f"claim {claim.name}: no volume of class {of_class} is free ({size} wanted)"
    try:
        largest = shown_amount("storage", max(map(value_of, free)))
    except QuantityError:
        largest = "another size"
    return f"claim {claim.name} wants {size}, the largest free volume of class {of_class} there has {largest}"


def _reaches(reach: RequiredNodeAffinity | None, passing: PassingRows, row: int) -> bool:
    return reach is None or passing.passes(reach, row)


def _size(claim: PersistentVolumeClaim) -> str:
    requested = claim.spec.resources.requests.get("storage")
    if requested is None:
        return "any size"
    try:
        return shown_amount("storage", value_of(requested))
    except QuantityError:
        return str(requested)
