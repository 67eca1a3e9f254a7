"""The rules of VolumeBinding node by node and volume by volume, without any of the shortcuts.

Volumes of one size count as equal: the choice among several equally small ones is not specified.
"""

from collections.abc import Iterable

from scheduler.plugins.volumebinding.binding import AFFINITY, NO_ROOM, NO_VOLUME, VOLUME_MISSING
from stowplan.api.labels import compile_selector
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.quantity import quantity_of
from stowplan.api.rules.nodeselector import compile_node_selector
from stowplan.api.storage import PersistentVolume, PersistentVolumeClaim
from stowplan.scheduler.table.storage import Storage

SELECTED = "volume.kubernetes.io/selected-node"


def reasons(storage: Storage, pod: Pod, node: Node) -> tuple[str, ...] | None:
    """Why a node will not do; None if no node would."""
    claims = []
    for one in pod.spec.volumes:
        assert one.persistent_volume_claim is not None
        key = f"{pod.namespace}/{one.persistent_volume_claim.claim_name}"
        if key not in storage.claims:
            return None
        found = storage.claim(key)
        assert found is not None
        claims.append(found)
    bound = [claim for claim in claims if claim.spec.volume_name]
    waiting = [claim for claim in claims if not claim.spec.volume_name]
    if any(claim.spec.storage_class_name not in storage.classes for claim in waiting):
        return None
    return (*_bound(storage, bound, node), *_unbound(storage, waiting, node), *_gone(storage, bound, node))


def _reaches(volume: PersistentVolume, node: Node) -> bool:
    needs = volume.spec.node_affinity
    if needs is None or needs.required is None:
        return True
    return compile_node_selector(needs.required).matches(node.metadata.labels, "")


def _first_problem(storage: Storage, bound: Iterable[PersistentVolumeClaim], node: Node) -> str | None:
    for claim in bound:
        volume = storage.volume(claim.spec.volume_name)
        if volume is None:
            return VOLUME_MISSING
        if not _reaches(volume, node):
            return AFFINITY
    return None


def _bound(storage: Storage, bound: Iterable[PersistentVolumeClaim], node: Node) -> tuple[str, ...]:
    return (AFFINITY,) if _first_problem(storage, bound, node) == AFFINITY else ()


def _gone(storage: Storage, bound: Iterable[PersistentVolumeClaim], node: Node) -> tuple[str, ...]:
    return (VOLUME_MISSING,) if _first_problem(storage, bound, node) == VOLUME_MISSING else ()


def _size(claim: PersistentVolumeClaim) -> object:
    return quantity_of(claim.spec.resources.requests.get("storage", 0))


def _unbound(storage: Storage, waiting: list[PersistentVolumeClaim], node: Node) -> tuple[str, ...]:
    selected = [claim for claim in waiting if SELECTED in claim.metadata.annotations]
    if any(claim.metadata.annotations[SELECTED] != node.name for claim in selected):
        return (NO_VOLUME,)
    chosen: set[str] = set()
    to_make = list(selected)
    for claim in sorted((one for one in waiting if one not in selected), key=_size):  # type: ignore[arg-type]
        volume = _match(storage, claim, node, chosen)
        if volume is None:
            to_make.append(claim)
        else:
            chosen.add(volume.name)
    for claim in to_make:
        problem = _cannot_be_made(storage, claim, node)
        if problem is not None:
            return (problem,)
    return ()


def _match(
    storage: Storage, claim: PersistentVolumeClaim, node: Node, chosen: set[str]
) -> PersistentVolume | None:
    smallest: PersistentVolume | None = None
    for name in sorted(storage.volumes):
        volume = storage.volume(name)
        assert volume is not None
        if name in chosen or volume.spec.storage_class_name != claim.spec.storage_class_name:
            continue
        size = quantity_of(volume.spec.capacity["storage"])
        if size < quantity_of(claim.spec.resources.requests.get("storage", 0)):
            continue
        owner = volume.spec.claim_ref
        if owner is not None:
            if (owner.name, owner.uid) == (claim.name, claim.metadata.uid):
                return volume if _reaches(volume, node) else None
            continue
        wanted = claim.spec.selector
        fits = (
            volume.status.phase == "Available"
            and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
            and (wanted is None or compile_selector(wanted).matches(volume.metadata.labels))
            and _reaches(volume, node)
        )
        if fits and (smallest is None or size < quantity_of(smallest.spec.capacity["storage"])):
            smallest = volume
    return smallest


def _cannot_be_made(storage: Storage, claim: PersistentVolumeClaim, node: Node) -> str | None:
    found = storage.classes[claim.spec.storage_class_name or ""]
    labels = node.metadata.labels
    if found.provisioner == "kubernetes.io/no-provisioner":
        return NO_VOLUME
    allowed = found.allowed_topologies
    if allowed and not any(
        all(labels.get(one.key) in one.values for one in term.match_label_expressions) for term in allowed
    ):
        return NO_VOLUME
    driver = storage.csi_drivers.get(found.provisioner)
    asked = claim.spec.resources.requests.get("storage")
    if driver is None or not driver.spec.storage_capacity or asked is None:
        return None
    for pool in storage.capacities.values():
        limit = pool.maximum_volume_size or pool.capacity
        if (
            pool.storage_class_name == found.name
            and limit is not None
            and quantity_of(limit) >= quantity_of(asked)
            and pool.node_topology is not None
            and compile_selector(pool.node_topology).matches(labels)
        ):
            return None
    return NO_ROOM
