"""Taking the volumes that were found for a pod, in memory only, and giving them back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec.structs import replace

from stowplan.api.storage import ObjectReference, PersistentVolume, PersistentVolumeClaim
from stowplan.cluster.storage import AssumeError, Storage
from stowplan.cluster.volumepools import VolumeGroup
from stowplan.plugins.volumebinding.demand import SELECTED_NODE, is_promised
from stowplan.plugins.volumebinding.placement import Placement

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"


class Match(NamedTuple):
    """A claim and the volume that is to be its own, which says so.

    `assumed`: that is so in memory only, and for this pod's sake.
    """

    claim: PersistentVolumeClaim
    volume: PersistentVolume
    assumed: bool = False


class Request(NamedTuple):
    """A claim that asks for a volume to be made; `assumed` as with a match."""

    claim: PersistentVolumeClaim
    assumed: bool = False


@dataclass(slots=True)
class Reservation:
    """What is written for a pod: volumes with their claims, and claims that ask for a volume to be made.

    Once an object is written it stands here as the API server has it.
    """

    matches: list[Match] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def undo(self, storage: Storage) -> None:
        """Give back what is not written yet. Another pod with the same claim keeps what it has reserved."""
        for match in self.matches:
            if match.assumed:
                storage.restore_volume(match.volume)
        for request in self.requests:
            if request.assumed:
                storage.restore_claim(request.claim)


def reserve_volumes(
    storage: Storage, unbound: Sequence[PersistentVolumeClaim], placement: Placement, node: str
) -> Reservation:
    """Take volumes for claims as a placement has it. Raises AssumeError, having taken nothing."""
    reserved = Reservation()
    try:
        for number, source in placement.taken:
            name = source.first() if isinstance(source, VolumeGroup) else source.name
            reserved.matches.append(_match(storage, unbound[number], name))
        for number, _ in placement.made:
            reserved.requests.append(_request(storage, unbound[number], node))
    except AssumeError:
        reserved.undo(storage)
        raise
    return reserved


def _match(storage: Storage, claim: PersistentVolumeClaim, name: str) -> Match:
    volume = storage.volume(name)
    if volume is None:
        raise AssumeError(f'persistentvolumes "{name}" not found')
    taken = given_to(volume, claim)
    if taken is volume:
        return Match(claim, taken)
    storage.assume_volume(taken)
    return Match(claim, taken, assumed=True)


def given_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """A volume that names a claim as its own; unless somebody else saw to that, it says who did."""
    annotations = volume.metadata.annotations
    if not is_promised(volume, claim) and BOUND_BY_CONTROLLER not in annotations:
        annotations = {**annotations, BOUND_BY_CONTROLLER: "yes"}
        volume = replace(volume, metadata=replace(volume.metadata, annotations=annotations))
    ref = volume.spec.claim_ref
    meta = claim.metadata
    if ref is not None and (ref.namespace, ref.name, ref.uid) == (meta.namespace, meta.name, meta.uid):
        return volume
    reference = ObjectReference(
        kind="PersistentVolumeClaim",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        api_version="v1",
        resource_version=meta.resource_version,
    )
    return replace(volume, spec=replace(volume.spec, claim_ref=reference))


def _request(storage: Storage, claim: PersistentVolumeClaim, node: str) -> Request:
    annotations = claim.metadata.annotations
    if annotations.get(SELECTED_NODE) == node:
        return Request(claim)
    asking = {**annotations, SELECTED_NODE: node}
    claim = replace(claim, metadata=replace(claim.metadata, annotations=asking))
    storage.assume_claim(claim)
    return Request(claim, assumed=True)
