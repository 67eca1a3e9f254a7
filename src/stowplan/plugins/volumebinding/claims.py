"""The claims of a pod: which there are, which are bound, and which stand in its way whatever the node."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from stowplan.api.labels import SelectorError
from stowplan.api.pod import Volume
from stowplan.api.quantity import QuantityError
from stowplan.api.storage import PersistentVolumeClaim
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.storage import Storage
from stowplan.cluster.volumepools import class_of
from stowplan.framework.status import SKIP, Status, error, unresolvable
from stowplan.plugins.volumebinding.demand import BoundVolume, Demand, Wish, bound_volume, is_bound, wish_of

REASON_UNBOUND_IMMEDIATE: Final = "pod has unbound immediate PersistentVolumeClaims"

_WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"


class Claims(NamedTuple):
    """The claims of a pod as they are now.

    `status` says why no node will do, or SKIP for a pod without claims. `failure` is what goes wrong as soon
    as a node is looked at. `unbound` are the claims behind the wishes of the demand, in the same order.
    """

    status: Status | None = None
    demand: Demand = Demand((), ())
    unbound: tuple[PersistentVolumeClaim, ...] = ()
    failure: str = ""


NO_CLAIMS: Final = Claims(SKIP)


def claim_name(pod_name: str, volume: Volume) -> str | None:
    """The name of a volume's claim, None if it is not about a claim."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod_name}-{volume.name}" if volume.ephemeral is not None else None


def claims_of(pod: PodInfo, storage: Storage) -> Claims:
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
            return Claims(unresolvable(problem))
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


def _sorted_out(claims: list[PersistentVolumeClaim | None], storage: Storage) -> Claims:
    bound: list[BoundVolume] = []
    wishes: list[Wish] = []
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
        return Claims(error(str(cause)))
    if immediate:
        return Claims(unresolvable(REASON_UNBOUND_IMMEDIATE))
    for claim in unbound:
        try:
            wishes.append(wish_of(claim, storage))
        except SelectorError as cause:
            failure = f"error creating internal label selector for claim: {claim.key}: {cause}"
            return Claims(failure=failure)
        except QuantityError as cause:
            return Claims(failure=f"reading the size that claim {claim.key} asks for: {cause}")
    return Claims(None, Demand(tuple(bound), tuple(wishes)), tuple(unbound))


class _NoModeError(ValueError):
    """A storage class that does not say when its volumes are bound."""


def _waits(claim: PersistentVolumeClaim, storage: Storage) -> bool:
    """Whether a claim gets its volume once the node of its pod is known."""
    name = class_of(claim)
    found = storage.classes.get(name) if name else None
    if found is None:
        return False
    if found.volume_binding_mode is None:
        raise _NoModeError(f'VolumeBindingMode not set for StorageClass "{name}"')
    return found.volume_binding_mode == _WAIT_FOR_FIRST_CONSUMER
