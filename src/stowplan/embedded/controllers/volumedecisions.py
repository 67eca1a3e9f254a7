"""What is to be done with a claim or a volume, seen with the other one: plain functions over objects."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from stowplan.api.requests import Json
from stowplan.embedded.controllers.events import NORMAL, WARNING
from stowplan.embedded.controllers.objects import annotations_of, name_of, spec_of, status_of, uid_of
from stowplan.embedded.controllers.volumematching import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    PROVISIONED_BY,
    best_volume,
    class_of,
    is_claimed_by,
    mismatch,
    waits_for_consumer,
)

_NOBODY = "no persistent volumes available for this claim and no storage class is set"
_WAITING = "waiting for first consumer to be created before binding"
_LOST_REFERENCE = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
_LOST_VOLUME = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
_TWO_CLAIMS = "Two claims are bound to the same volume, this one is bound incorrectly"


@dataclass(frozen=True, slots=True)
class ClaimStep:
    """What is next for a claim: a volume to bind, a provisioner to ask, a phase to show, an event to tell."""

    volume: Json | None = None
    provisioner: str = ""
    phase: str = ""
    event: tuple[str, str, str] | None = None


def claim_step(
    claim: Json, storage_class: Json | None, named: Json | None, volumes: Iterable[Json]
) -> ClaimStep:
    """What to do with a claim. `named` is the volume it names, `volumes` are those to choose from."""
    if BIND_COMPLETED in annotations_of(claim):
        return _bound_claim(claim, named)
    if spec_of(claim).get("volumeName"):
        return _choosy_claim(claim, named)
    waits = waits_for_consumer(claim, storage_class)
    volume = best_volume(claim, volumes, only_promised=waits)
    if volume is not None:
        return ClaimStep(volume)
    if waits:
        return ClaimStep(phase="Pending", event=(NORMAL, "WaitForFirstConsumer", _WAITING))
    if not class_of(claim):
        return ClaimStep(phase="Pending", event=(NORMAL, "FailedBinding", _NOBODY))
    if storage_class is None:
        note = f'storageclass.storage.k8s.io "{class_of(claim)}" not found'
        return ClaimStep(phase="Pending", event=(WARNING, "ProvisioningFailed", note))
    provisioner = storage_class.get("provisioner", "")
    if provisioner == NO_PROVISIONER:
        return ClaimStep(phase="Pending")
    note = (
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually "
        "by the system administrator. If volume creation is delayed, please verify that the provisioner is "
        "running and correctly registered."
    )
    return ClaimStep(provisioner=provisioner, phase="Pending", event=(NORMAL, "ExternalProvisioning", note))


def _bound_claim(claim: Json, volume: Json | None) -> ClaimStep:
    """A claim that has been bound: whoever lost its volume will not get another."""
    lost = "" if volume is not None else _LOST_VOLUME
    if not spec_of(claim).get("volumeName"):
        lost = _LOST_REFERENCE
    if lost:
        told = None if status_of(claim).get("phase") == "Lost" else (WARNING, "ClaimLost", lost)
        return ClaimStep(phase="Lost", event=told)
    assert volume is not None
    if not spec_of(volume).get("claimRef") or is_claimed_by(volume, claim):
        return ClaimStep(volume)
    return ClaimStep(phase="Lost", event=(WARNING, "ClaimMisbound", _TWO_CLAIMS))


def _choosy_claim(claim: Json, volume: Json | None) -> ClaimStep:
    """A claim that names the volume it wants."""
    if volume is None:
        return ClaimStep(phase="Pending")
    if is_claimed_by(volume, claim):
        return ClaimStep(volume)
    if spec_of(volume).get("claimRef"):
        note = f'volume "{name_of(volume)}" already bound to a different claim.'
        return ClaimStep(phase="Pending", event=(WARNING, "FailedBinding", note))
    why = mismatch(volume, claim)
    if why:
        note = f'Cannot bind to requested volume "{name_of(volume)}": {why}'
        return ClaimStep(phase="Pending", event=(WARNING, "VolumeMismatch", note))
    return ClaimStep(volume)


def volume_binding(volume: Json, claim: Json) -> Json:
    """The change that makes a volume a claim's; nothing if it is."""
    ref = spec_of(volume).get("claimRef") or {}
    if ref.get("uid") == uid_of(claim) and is_claimed_by(volume, claim):
        return {}
    metadata = claim["metadata"]
    change: Json = {
        "spec": {
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": metadata.get("namespace", ""),
                "name": metadata["name"],
                "uid": uid_of(claim),
                "resourceVersion": metadata["resourceVersion"],
            }
        }
    }
    if not is_claimed_by(volume, claim):
        change["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return change


def claim_binding(claim: Json, volume: Json) -> Json:
    """The change that gives a claim its volume; nothing if it has it."""
    change: Json = {}
    annotations: dict[str, str] = {}
    if spec_of(claim).get("volumeName") != name_of(volume):
        change["spec"] = {"volumeName": name_of(volume)}
        annotations[BOUND_BY_CONTROLLER] = "yes"
    if BIND_COMPLETED not in annotations_of(claim):
        annotations[BIND_COMPLETED] = "yes"
    if annotations:
        change["metadata"] = {"annotations": annotations}
    return change


def claim_status(volume: Json) -> Json:
    """The status of a claim that has this volume."""
    spec = spec_of(volume)
    status: Json = {
        "phase": "Bound",
        "accessModes": list(spec.get("accessModes") or ()),
        "capacity": dict(spec.get("capacity") or {}),
    }
    if spec.get("volumeAttributesClassName"):
        status["currentVolumeAttributesClassName"] = spec["volumeAttributesClassName"]
    return status


class VolumeStep(Enum):
    """What is next for a volume."""

    FREE = auto()
    BOUND = auto()
    WAIT = auto()
    UNBIND = auto()
    RELEASE = auto()


def volume_step(volume: Json, claim: Json | None) -> VolumeStep:
    """What to do with a volume; `claim` is the one that its claimRef names, whatever its uid."""
    ref = spec_of(volume).get("claimRef")
    if not ref or not ref.get("uid"):
        return VolumeStep.FREE
    if claim is None or uid_of(claim) != ref["uid"]:
        return VolumeStep.RELEASE
    has = spec_of(claim).get("volumeName") or ""
    if has == name_of(volume):
        return VolumeStep.BOUND
    if not has:
        return VolumeStep.WAIT
    made_for_it = PROVISIONED_BY in annotations_of(volume)
    reclaimed = spec_of(volume).get("persistentVolumeReclaimPolicy") == "Delete"
    return VolumeStep.RELEASE if made_for_it and reclaimed else VolumeStep.UNBIND
