"""The claims of a pod: which are bound, what the others ask for, and which rule out every node."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from stowplan.api.labels import Selector, SelectorError, compile_selector
from stowplan.api.pod import RawQuantity, Volume
from stowplan.api.quantity import QuantityError, value_of
from stowplan.api.rules.csitranslation import in_tree_kind, translated_affinity
from stowplan.api.rules.nodeselector import RequiredNodeAffinity
from stowplan.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, VolumeNodeAffinity
from stowplan.scheduler.framework import (
    SKIP,
    PodInfo,
    Status,
    error,
    unresolvable,
)
from stowplan.scheduler.table.storage import Storage
from stowplan.scheduler.table.volumepools import (
    FILESYSTEM,
    VolumeGroup,
    class_of,
    exact_size,
    reach_of,
    size_of,
)

REASON_UNBOUND_IMMEDIATE: Final = "pod has unbound immediate PersistentVolumeClaims"

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"


def is_migrated(plugin: str, node: CSINode | None) -> bool:
    """True if a node leaves a kind of volumes to a CSI driver."""
    return node is not None and plugin in node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


def affinity_seen_from(volume: PersistentVolume, node: CSINode | None) -> VolumeNodeAffinity | None:
    """Node affinity of a volume, in the terms of the component in charge of it on the node."""
    kind = in_tree_kind(volume.spec)
    if kind is None or not kind.migrated or not is_migrated(kind.plugin, node):
        return volume.spec.node_affinity
    return translated_affinity(volume, kind.zone_key, kind.region_key)


class Migration(NamedTuple):
    """A volume of a kind that CSI took over, seen from nodes where it did (`plugin` names the kind)."""

    plugin: str
    reach: RequiredNodeAffinity | None


class BoundVolume(NamedTuple):
    """A volume that a claim is bound to: what a node needs to reach it."""

    reach: RequiredNodeAffinity | None = None
    migration: Migration | None = None
    missing: bool = False


class PreboundVolume(NamedTuple):
    """A volume whose claimRef names a claim that is not bound to it yet. `capacity` is in bytes."""

    name: str
    reach: RequiredNodeAffinity | None
    class_name: str
    capacity: int


class ClaimRequest(msgspec.Struct, frozen=True, cache_hash=True):
    """Request of an unbound claim with delayed binding. `size` is in billionths of a byte, `bytes` in bytes.

    `selected_node` is set once provisioning for that node was requested; `prebound` if a volume names the
    claim.
    """

    class_name: str
    size: int
    bytes: int | None
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    selector: Selector | None
    selected_node: str | None = None
    prebound: PreboundVolume | None = None

    def fits(self, group: VolumeGroup) -> bool:
        """True if the claim could have the volumes of a group, apart from nodes."""
        offer = group.offer
        return (
            offer.size >= self.size
            and offer.class_name == self.class_name
            and offer.mode == self.mode
            and offer.attributes_class == self.attributes_class
            and self.access_modes.issubset(offer.access_modes)
            and (self.selector is None or self.selector.matches(group.labels))
        )


class Requirements(NamedTuple):
    """Requirements of a pod's claims on a node, in the order of its volumes."""

    bound: tuple[BoundVolume, ...]
    requests: tuple[ClaimRequest, ...]


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """True if a claim is bound for good."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def bound_volume(volume: PersistentVolume | None) -> BoundVolume:
    """Requirement on a node to reach a volume."""
    if volume is None:
        return BoundVolume(missing=True)
    reach = reach_of(volume.spec.node_affinity)
    kind = in_tree_kind(volume.spec)
    if kind is None or not kind.migrated:
        return BoundVolume(reach)
    seen = reach_of(translated_affinity(volume, kind.zone_key, kind.region_key))
    return BoundVolume(reach, Migration(kind.plugin, seen) if seen != reach else None)


def request_of(claim: PersistentVolumeClaim, storage: Storage) -> ClaimRequest:
    """Request of an unbound claim. Raises QuantityError and SelectorError."""
    spec = claim.spec
    requested: RawQuantity | None = spec.resources.requests.get("storage")
    request = ClaimRequest(
        class_of(claim),
        0 if requested is None else exact_size(requested),
        None if requested is None else value_of(requested),
        spec.volume_mode or FILESYSTEM,
        spec.volume_attributes_class_name or "",
        frozenset(spec.access_modes),
        None if spec.selector is None else compile_selector(spec.selector),
        claim.metadata.annotations.get(SELECTED_NODE),
    )
    volumes = storage.groups.reserved_for(claim.key)
    if not volumes:
        return request
    prebound = next((volume for volume in volumes if _is_for(volume, claim, request)), None)
    return msgspec.structs.replace(request, prebound=prebound and _prebound(prebound))


def is_bound_to_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """True if the claimRef of a volume names a claim; without a uid any claim of that name is meant."""
    found = volume.spec.claim_ref
    return (
        found is not None
        and found.name == claim.name
        and found.namespace == claim.namespace
        and found.uid in ("", claim.metadata.uid)
    )


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim, request: ClaimRequest) -> bool:
    """True if a volume names a claim and meets its size and kind."""
    spec = volume.spec
    try:
        large_enough = size_of(volume) >= request.size
    except QuantityError:
        return False
    return (
        large_enough
        and is_bound_to_claim(volume, claim)
        and class_of(volume) == request.class_name
        and (spec.volume_mode or FILESYSTEM) == request.mode
        and (spec.volume_attributes_class_name or "") == request.attributes_class
        and volume.metadata.deletion_timestamp is None
    )


def _prebound(volume: PersistentVolume) -> PreboundVolume:
    spec = volume.spec
    return PreboundVolume(
        volume.name,
        reach_of(spec.node_affinity),
        spec.storage_class_name,
        value_of(spec.capacity.get("storage", 0)),
    )


class PodVolumeClaims(NamedTuple):
    """The claims of a pod as they are now.

    `status` says why no node will do, or SKIP for a pod without claims. `failure` is what goes wrong as soon
    as a node is looked at. `unbound` are the claims behind the requests, in the same order.
    """

    status: Status | None = None
    requirements: Requirements = Requirements((), ())
    unbound: tuple[PersistentVolumeClaim, ...] = ()
    failure: str = ""


NO_CLAIMS: Final = PodVolumeClaims(SKIP)


def claim_name(pod_name: str, volume: Volume) -> str | None:
    """The name of a volume's claim, None if it is not about a claim."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod_name}-{volume.name}" if volume.ephemeral is not None else None


def claims_of(pod: PodInfo, storage: Storage) -> PodVolumeClaims:
    """Look at the claims of a pod."""
    volumes = pod.spec.volumes
    if not volumes:
        return NO_CLAIMS
    names = list(_names(pod))
    if not names:
        return NO_CLAIMS
    for name, ephemeral in names:
        problem = _problem(pod, name, ephemeral, storage)
        if problem is not None:
            return PodVolumeClaims(unresolvable(problem))
    return _sorted_out([storage.claim(f"{pod.namespace}/{name}") for name, _ in names], storage)


def _names(pod: PodInfo) -> Iterator[tuple[str, bool]]:
    for volume in pod.spec.volumes:
        name = claim_name(pod.name, volume)
        if name is not None:
            yield name, volume.persistent_volume_claim is None


def _problem(pod: PodInfo, name: str, ephemeral: bool, storage: Storage) -> str | None:
    """Why a claim is of no use to the pod, None if it may be."""
    claim = storage.claims.get(f"{pod.namespace}/{name}")
    if claim is None:
        if ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return f'persistentvolumeclaim "{name}" not found'
    if claim.status.phase == "Lost":
        volume = claim.spec.volume_name
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if ephemeral and not _is_owned(claim, pod):
        return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
    return None


def _is_owned(claim: PersistentVolumeClaim, pod: PodInfo) -> bool:
    owner = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
    return owner is not None and owner.uid == pod.uid


def _sorted_out(claims: list[PersistentVolumeClaim | None], storage: Storage) -> PodVolumeClaims:
    bound: list[BoundVolume] = []
    requests: list[ClaimRequest] = []
    unbound: list[PersistentVolumeClaim] = []
    immediate = False
    try:
        for claim in claims:
            assert claim is not None
            if is_bound(claim):
                bound.append(bound_volume(storage.volume(claim.spec.volume_name)))
            elif _waits(claim, storage) and not claim.spec.volume_name:
                unbound.append(claim)
            else:
                immediate = True
    except _NoModeError as cause:
        return PodVolumeClaims(error(str(cause)))
    if immediate:
        return PodVolumeClaims(unresolvable(REASON_UNBOUND_IMMEDIATE))
    for claim in unbound:
        try:
            requests.append(request_of(claim, storage))
        except SelectorError as cause:
            failure = f"error creating internal label selector for claim: {claim.key}: {cause}"
            return PodVolumeClaims(failure=failure)
        except QuantityError as cause:
            return PodVolumeClaims(failure=f"reading the size that claim {claim.key} asks for: {cause}")
    return PodVolumeClaims(None, Requirements(tuple(bound), tuple(requests)), tuple(unbound))


class _NoModeError(ValueError):
    """A storage class that does not say when its volumes are bound."""


def _waits(claim: PersistentVolumeClaim, storage: Storage) -> bool:
    """True if a claim gets its volume once the node of its pod is known."""
    name = class_of(claim)
    found = storage.classes.get(name) if name else None
    if found is None:
        return False
    if found.volume_binding_mode is None:
        raise _NoModeError(f'VolumeBindingMode not set for StorageClass "{name}"')
    return found.volume_binding_mode == _WAIT_FOR_FIRST_CONSUMER
