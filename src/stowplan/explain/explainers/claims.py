"""Claims that keep a pod from every node: missing, being deleted, lost, or without a volume.

Such a pod is rejected before any node is checked. What helps is a claim, a class or a volume, so these
changes are tried with the object as it would be.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from stowplan.api.devices import ResourceClaim
from stowplan.api.meta import ObjectMeta
from stowplan.api.names import closest
from stowplan.api.pod import Pod, ResourceRequirements
from stowplan.api.storage import PersistentVolumeClaim, PersistentVolumeClaimSpec, StorageClass
from stowplan.explain.commands import creating, replacing
from stowplan.scheduler.framework.explanation import Remedy
from stowplan.scheduler.plugins.dynamicresources.claims import ClaimError
from stowplan.scheduler.plugins.dynamicresources.claims import claim_name as device_claim_name
from stowplan.scheduler.plugins.dynamicresources.explanation.remedies import claim_patch
from stowplan.scheduler.plugins.volumebinding.claims import BIND_COMPLETED, claim_name
from stowplan.scheduler.table.storage import Storage
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.volumepools import class_of

_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
_DELAYED: Final = "WaitForFirstConsumer"
_SIZE: Final = "1Gi"
"""Size of a claim that is offered where nothing says how large it should be."""
_BY_HAND: Final = ("", "kubernetes.io/no-provisioner")


class ClaimChange(NamedTuple):
    """A claim as it would be after a change, with the command that makes it so."""

    text: str
    claim: PersistentVolumeClaim
    command: str
    size: float = 0.0


class ClaimProblem(NamedTuple):
    """Why a claim rules out every node, and what helps: changes of the pod, of the claim, and in words."""

    text: str
    remedies: tuple[Remedy, ...] = ()
    changes: tuple[ClaimChange, ...] = ()
    advice: tuple[str, ...] = ()


def claim_problem(pod: Pod, table: ClusterTable) -> ClaimProblem | None:
    """The problem of the first claim of a pod that has one; None if its claims are fine."""
    found = [*_volume_problems(pod, table.storage), *_device_problems(pod, table)]
    if not found:
        return None
    first = found[0]
    if len(found) == 1:
        return first
    return first._replace(text="; ".join(dict.fromkeys(one.text for one in found)))


# Volumes


def _volume_problems(pod: Pod, storage: Storage) -> Iterator[ClaimProblem]:
    for volume in pod.spec.volumes:
        name = claim_name(pod.metadata.name, volume)
        if name is None:
            continue
        claim = storage.claim(f"{pod.namespace}/{name}")
        if claim is None:
            if volume.persistent_volume_claim is not None:
                yield _missing(pod, volume.name, name, storage)
        elif claim.metadata.deletion_timestamp is not None:
            held = ", ".join(claim.metadata.finalizers)
            text = f"claim {name} is being deleted{f' (finalizer {held} holds it)' if held else ''}"
            yield ClaimProblem(text, advice=(f"create claim {name} again when it is gone",))
        elif claim.spec.volume_name:
            if claim.status.phase == "Lost" or storage.volume(claim.spec.volume_name) is None:
                lost = claim.spec.volume_name
                text = f"claim {name} is lost: its volume {lost} does not exist"
                advice = (
                    f"restore volume {lost}, or create claim {name} again, which gets a new and empty volume"
                )
                yield ClaimProblem(text, advice=(advice,))
        else:
            yield from _unbound(claim, storage)


def _missing(pod: Pod, volume: str, name: str, storage: Storage) -> ClaimProblem:
    text = f"claim {name} does not exist"
    names = [one.name for one in storage.claims.values() if one.namespace == pod.namespace]
    meant = closest(name, names)
    remedies: list[Remedy] = []
    if meant:
        text += f"; there is {meant}"
        patch = {"spec": {"volumes": [{"name": volume, "persistentVolumeClaim": {"claimName": meant}}]}}
        remedies.append(Remedy("claimName", f"use claim {meant} instead of {name}", patch, 0.0))
    default = next((one for one in storage.classes.values() if _is_default(one)), None)
    if default is None:
        return ClaimProblem(text, tuple(remedies), advice=(f"create PersistentVolumeClaim {name}",))
    manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": pod.namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": _SIZE}}},
    }
    spec = PersistentVolumeClaimSpec(
        access_modes=("ReadWriteOnce",),
        resources=ResourceRequirements(requests={"storage": _SIZE}),
        storage_class_name=default.name,
    )
    metadata = ObjectMeta(name=name, namespace=pod.namespace, uid=f"new-{name}")
    claim = PersistentVolumeClaim(metadata=metadata, spec=spec)
    made = f"create claim {name} (for example {_SIZE} of class {default.name})"
    return ClaimProblem(text, tuple(remedies), (ClaimChange(made, claim, creating(manifest), 0.5),))


def _unbound(claim: PersistentVolumeClaim, storage: Storage) -> Iterator[ClaimProblem]:
    """A claim that waits for its volume before any pod is scheduled."""
    of_class, name = class_of(claim), claim.name
    known = storage.classes.get(of_class)
    if known is None and of_class:
        text = f"claim {name}: StorageClass {of_class} does not exist"
        meant = closest(of_class, storage.classes)
        if not meant:
            meant = next((one.name for one in storage.classes.values() if _is_default(one)), "")
        else:
            text += f"; there is {meant}"
        changes = [_with_class(claim, meant)] if meant else []
        yield ClaimProblem(
            text, changes=tuple(changes), advice=() if changes else (f"create class {of_class}",)
        )
    elif known is None:
        text = f"claim {name} has no class and is bound to no volume"
        yield ClaimProblem(text, advice=(f"create a PersistentVolume for claim {name}, or give it a class",))
    elif known.volume_binding_mode != _DELAYED:
        if known.provisioner in _BY_HAND:
            text = f"claim {name}: no volume of class {of_class} is free"
            yield ClaimProblem(text, advice=(f"create a PersistentVolume of class {of_class}",))
        else:
            maker = known.provisioner
            text = f"claim {name} has no volume yet: {maker} has to make one of class {of_class} first"
            yield ClaimProblem(text, advice=(f"see whether {maker} is installed and what it logs",))


def _with_class(claim: PersistentVolumeClaim, name: str) -> ClaimChange:
    patch: dict[str, Any] = {"spec": {"storageClassName": name}}
    text = f"class {name} for claim {claim.name} (now {class_of(claim)})"
    command = replacing(f"persistentvolumeclaim/{claim.name}", claim.namespace, patch)
    return ClaimChange(text, replace(claim, spec=replace(claim.spec, storage_class_name=name)), command)


def as_bound(claim: PersistentVolumeClaim, storage: Storage) -> bool:
    """True if the volume of a claim is made before pods are scheduled, so nobody can say where it will be."""
    known = storage.classes.get(class_of(claim))
    return (
        known is None or known.volume_binding_mode != _DELAYED or BIND_COMPLETED in claim.metadata.annotations
    )


def _is_default(one: StorageClass) -> bool:
    return one.metadata.annotations.get(_DEFAULT) == "true"


# Devices


def _device_problems(pod: Pod, table: ClusterTable) -> Iterator[ClaimProblem]:
    devices = table.devices
    for asked in pod.spec.resource_claims:
        try:
            name = device_claim_name(pod, asked)
        except ClaimError:
            continue
        claim = None if name is None else devices.claims.get(f"{pod.namespace}/{name}")
        if claim is None or claim.allocation is not None:
            continue
        for request in claim.spec.devices.requests:
            exactly = request.exactly
            if exactly is None or devices.classes.get(exactly.device_class_name) is not None:
                continue
            wrong = exactly.device_class_name
            text = f"device class {wrong} does not exist (claim {claim.name})"
            meant = closest(wrong, [one.name for one in devices.classes.all()])
            if not meant:
                yield ClaimProblem(text, advice=(f"create DeviceClass {wrong}",))
                continue
            changed = _with_device_class(claim, wrong, meant)
            remedy = Remedy(
                "deviceClass",
                f"device class {meant} for claim {claim.name} (now {wrong})",
                claim_patch(changed),
                0.0,
                claims=(changed,),
                of_claim=changed.key,
            )
            yield ClaimProblem(f"{text}; there is {meant}", (remedy,))


def _with_device_class(claim: ResourceClaim, old: str, new: str) -> ResourceClaim:
    """The claim with another class in its requests."""
    asked = claim.spec.devices
    requests = tuple(
        replace(one, exactly=replace(one.exactly, device_class_name=new))
        if one.exactly is not None and one.exactly.device_class_name == old
        else one
        for one in asked.requests
    )
    return replace(claim, spec=replace(claim.spec, devices=replace(asked, requests=requests)))
