"""The persistent volume controller: binds claims to volumes, and reclaims volumes whose claim is gone."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar, Final

import msgspec

from stowplan.api.catalogue import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from stowplan.api.labels import Selector, SelectorError, compile_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.quantity import Quantity, QuantityError, quantity_of
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllerruntime.events import NORMAL, WARNING
from stowplan.localcluster.controllers.storage.volumeprotection import claims_of
from stowplan.localcluster.objects.fields import (
    annotations_of,
    claim_reference,
    is_deleting,
    is_finished,
    key_of,
    labels_of,
    name_of,
    node_of,
    spec_of,
    status_of,
    uid_of,
)

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
BETA_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
FIRST_CONSUMER: Final = "WaitForFirstConsumer"
MIGRATED: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}
"""Provisioners that were part of Kubernetes once, and the drivers that have taken their place."""


def class_of(obj: Json) -> str:
    """The name of the class of a claim or a volume."""
    return annotations_of(obj).get(BETA_CLASS) or spec_of(obj).get("storageClassName") or ""


def default_class(classes: Iterable[Json]) -> Json | None:
    """The class of claims that name none: of several the newest."""
    marked = [one for one in classes if annotations_of(one).get(DEFAULT_CLASS) == "true"]
    by_name = sorted(marked, key=name_of)
    return max(by_name, key=lambda one: one["metadata"].get("creationTimestamp", ""), default=None)


def waits_for_consumer(claim: Json, storage_class: Json | None) -> bool:
    """True if a claim has to wait until a scheduler has chosen a node for it."""
    if SELECTED_NODE in annotations_of(claim):
        return False
    return storage_class is not None and storage_class.get("volumeBindingMode") == FIRST_CONSUMER


def is_claimed_by(volume: Json, claim: Json) -> bool:
    """True if a volume names this claim; one reserved by name only does too."""
    ref = spec_of(volume).get("claimRef")
    if not ref:
        return False
    metadata = claim["metadata"]
    if (ref.get("namespace"), ref.get("name")) != (metadata.get("namespace"), metadata["name"]):
        return False
    return not ref.get("uid") or ref["uid"] == uid_of(claim)


def mismatch(volume: Json, claim: Json) -> str:
    """Why a volume is none for a claim, "" if it is."""
    if _capacity(spec_of(volume).get("capacity")) < _requested(claim):
        return "requested PV is too small"
    if class_of(volume) != class_of(claim):
        return "storageClassName does not match"
    if _mode(volume) != _mode(claim):
        return "incompatible volumeMode"
    if not set(spec_of(claim).get("accessModes") or ()) <= set(spec_of(volume).get("accessModes") or ()):
        return "incompatible accessMode"
    return ""


def best_volume(claim: Json, volumes: Iterable[Json], *, only_reserved: bool) -> Json | None:
    """The volume whose claimRef names the claim, else the smallest that is free and fits.

    `only_reserved`: the choice among free volumes is the scheduler's.
    """
    selector = _selector(claim)
    best: Json | None = None
    for volume in volumes:
        if mismatch(volume, claim) or is_deleting(volume):
            continue
        if is_claimed_by(volume, claim):
            return volume
        if only_reserved or spec_of(volume).get("claimRef") or selector is None:
            continue
        if status_of(volume).get("phase") != "Available" or not selector.matches(labels_of(volume)):
            continue
        if _attributes(volume) == _attributes(claim) and (best is None or _order(volume) < _order(best)):
            best = volume
    return best


def _order(volume: Json) -> tuple[Quantity, str]:
    return _capacity(spec_of(volume).get("capacity")), name_of(volume)


def _selector(claim: Json) -> Selector | None:
    """Label selector of a claim: empty if it has none, None if it is invalid."""
    given = spec_of(claim).get("selector")
    try:
        return compile_selector(msgspec.convert(given or {}, LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return None


def _requested(claim: Json) -> Quantity:
    return _capacity((spec_of(claim).get("resources") or {}).get("requests"))


def _capacity(amounts: Any) -> Quantity:
    try:
        return quantity_of((amounts or {}).get("storage", 0))
    except QuantityError:
        return quantity_of(0)


def _mode(obj: Json) -> str:
    return spec_of(obj).get("volumeMode") or "Filesystem"


def _attributes(obj: Json) -> str:
    return spec_of(obj).get("volumeAttributesClassName") or ""


_NO_VOLUMES = "no persistent volumes available for this claim and no storage class is set"
_WAITING = "waiting for first consumer to be created before binding"
_IN_TREE = "kubernetes.io/"
_TEMPORARY = re.compile("/tmp/.+")
_LOST_REFERENCE = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
_LOST_VOLUME = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
_TWO_CLAIMS = "Two claims are bound to the same volume, this one is bound incorrectly"


@dataclass(frozen=True, slots=True)
class ClaimStep:
    """Next step for a claim: a volume to bind, a provisioner to request, a phase, an event."""

    volume: Json | None = None
    provisioner: str = ""
    phase: str = ""
    event: tuple[str, str, str] | None = None


def claim_step(
    claim: Json,
    storage_class: Json | None,
    named: Json | None,
    volumes: Iterable[Json],
    waiting: Sequence[str] = (),
) -> ClaimStep:
    """Next step for a claim.

    `named` is the volume it names, `volumes` are the candidates, `waiting` the pods with it that have no node
    yet.
    """
    if BIND_COMPLETED in annotations_of(claim):
        return _bound_claim(claim, named)
    if spec_of(claim).get("volumeName"):
        return _prebound_claim(claim, named)
    waits = waits_for_consumer(claim, storage_class)
    volume = best_volume(claim, volumes, only_reserved=waits)
    if volume is not None:
        return ClaimStep(volume)
    if waits:
        return ClaimStep(phase="Pending", event=_waiting_event(waiting))
    if not class_of(claim):
        return ClaimStep(phase="Pending", event=(NORMAL, "FailedBinding", _NO_VOLUMES))
    if storage_class is None:
        note = f'storageclass.storage.k8s.io "{class_of(claim)}" not found'
        return ClaimStep(phase="Pending", event=(WARNING, "ProvisioningFailed", note))
    provisioner: str = storage_class.get("provisioner") or ""
    if provisioner.startswith(_IN_TREE) and provisioner not in MIGRATED:
        note = f"no volume plugin matched name: {provisioner}"
        return ClaimStep(phase="Pending", event=(WARNING, "ProvisioningFailed", note))
    provisioner = MIGRATED.get(provisioner, provisioner)
    note = (
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually "
        "by the system administrator. If volume creation is delayed, please verify that the provisioner is "
        "running and correctly registered."
    )
    return ClaimStep(provisioner=provisioner, phase="Pending", event=(NORMAL, "ExternalProvisioning", note))


def _waiting_event(pods: Sequence[str]) -> tuple[str, str, str]:
    if not pods:
        return NORMAL, "WaitForFirstConsumer", _WAITING
    several = "pods" if len(pods) > 1 else "pod"
    return NORMAL, "WaitForPodScheduled", f"waiting for {several} {','.join(pods)} to be scheduled"


def _bound_claim(claim: Json, volume: Json | None) -> ClaimStep:
    """A claim that has been bound: a lost volume is not replaced."""
    lost = "" if volume is not None else _LOST_VOLUME
    if not spec_of(claim).get("volumeName"):
        lost = _LOST_REFERENCE
    if lost:
        event = None if status_of(claim).get("phase") == "Lost" else (WARNING, "ClaimLost", lost)
        return ClaimStep(phase="Lost", event=event)
    assert volume is not None
    if not spec_of(volume).get("claimRef") or is_claimed_by(volume, claim):
        return ClaimStep(volume)
    return ClaimStep(phase="Lost", event=(WARNING, "ClaimMisbound", _TWO_CLAIMS))


def _prebound_claim(claim: Json, volume: Json | None) -> ClaimStep:
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
    change: Json = {"spec": {"claimRef": claim_reference(claim)}}
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
    """Next step for a volume."""

    FREE = auto()
    BOUND = auto()
    WAIT = auto()
    UNBIND = auto()
    RELEASE = auto()


def volume_step(volume: Json, claim: Json | None) -> VolumeStep:
    """Next step for a volume; `claim` is the one that its claimRef names, with any uid."""
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


def deletion_problem(volume: Json) -> str | None:
    """Why a released volume cannot be deleted, "" if it can, None if another controller has to do it."""
    spec = spec_of(volume)
    provisioner = annotations_of(volume).get(PROVISIONED_BY, "")
    if provisioner.startswith(_IN_TREE):
        return f"no volume plugin matched name: {provisioner}"
    if provisioner or "csi" in spec or MIGRATED_TO in annotations_of(volume):
        return None
    if "hostPath" in spec:
        path = spec["hostPath"].get("path", "")
        if _TEMPORARY.fullmatch(path):
            return ""
        return f"host_path deleter only supports /tmp/.+ but received provided {path}"
    known = "nfs" in spec or "local" in spec
    found = "no deletable volume plugin matched" if known else "no volume plugin matched"
    return f'error getting deleter volume plugin for volume "{name_of(volume)}": {found}'


CLAIM = "claim "
VOLUME = "volume "


class PersistentVolumeController(Controller):
    """Binds claims and volumes. One worker: no two claims choose at the same time."""

    name: ClassVar[str] = "persistentvolume-controller"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.claims = self.informer(PERSISTENT_VOLUME_CLAIMS)
        self.volumes = self.informer(PERSISTENT_VOLUMES)
        self.classes = self.informer(STORAGE_CLASSES)
        self.by_claim = self.volumes.index(_claims_named)
        self._users = self.informer(PODS).index(claims_of)
        self.named = self.claims.index(_volumes_named)
        self.claims.add_handler(self._claim_changed)
        self.volumes.add_handler(self._volume_changed)
        self.classes.add_handler(lambda old, new: self._class_changed())

    async def sync(self, key: str) -> None:
        if key.startswith(VOLUME):
            volume = self.volumes.get(key.removeprefix(VOLUME))
            if volume is not None:
                await self._sync_volume(volume)
        else:
            claim = self.claims.get(key.removeprefix(CLAIM))
            if claim is not None:
                await self._sync_claim(claim)

    # News

    def _claim_changed(self, old: Json | None, new: Json | None) -> None:
        for claim in (old, new):
            if claim is None:
                continue
            self.queue.add(CLAIM + key_of(claim))
            for name in (*_volumes_named(claim), *self.by_claim[key_of(claim)]):
                self.queue.add(VOLUME + name)

    def _volume_changed(self, old: Json | None, new: Json | None) -> None:
        for volume in (old, new):
            if volume is None:
                continue
            self.queue.add(VOLUME + name_of(volume))
            for key in (*_claims_named(volume), *self.named[name_of(volume)]):
                self.queue.add(CLAIM + key)
        if new is not None and status_of(new).get("phase") == "Available":
            self._wake_unbound(class_of(new))

    def _class_changed(self) -> None:
        for key, claim in self.claims.objects.items():
            if not spec_of(claim).get("volumeName"):
                self.queue.add(CLAIM + key)

    def _wake_unbound(self, class_name: str) -> None:
        for key in self.named[""]:
            if class_of(self.claims.objects[key]) == class_name:
                self.queue.add(CLAIM + key)

    # Claims

    async def _sync_claim(self, claim: Json) -> None:
        if "storageClassName" not in spec_of(claim) and not class_of(claim):
            default = default_class(self.classes)
            if default is not None and not spec_of(claim).get("volumeName"):
                claim = await self.change(
                    PERSISTENT_VOLUME_CLAIMS, claim, {"spec": {"storageClassName": name_of(default)}}
                )
        storage_class = self.classes.get(class_of(claim))
        named = self.volumes.get(spec_of(claim).get("volumeName") or "")
        candidates = [self.volumes.objects[name] for name in self.by_claim[key_of(claim)]]
        waiting = self._waiting_pods(claim)
        step = claim_step(claim, storage_class, named, candidates or self.volumes, waiting)
        if step.event is not None:
            kind, reason, note = step.event
            await self.record_event(claim, reason, note, kind)
        if step.provisioner:
            claim = await self._ask_provisioner(claim, step.provisioner)
        if step.volume is not None:
            await self._bind(step.volume, claim)
        elif step.phase:
            await self._set_phase(claim, step)

    def _waiting_pods(self, claim: Json) -> list[str]:
        users = self._users[key_of(claim)].values()
        return sorted(name_of(pod) for pod in users if not node_of(pod) and not is_finished(pod))

    async def _ask_provisioner(self, claim: Json, provisioner: str) -> Json:
        if annotations_of(claim).get(PROVISIONER) == provisioner:
            return claim
        asked = {PROVISIONER: provisioner, BETA_PROVISIONER: provisioner}
        return await self.change(PERSISTENT_VOLUME_CLAIMS, claim, {"metadata": {"annotations": asked}})

    async def _set_phase(self, claim: Json, step: ClaimStep) -> None:
        if status_of(claim).get("phase") != step.phase:
            status = {"phase": step.phase, "accessModes": None, "capacity": None}
            await self.set_status(PERSISTENT_VOLUME_CLAIMS, claim, status)

    async def _bind(self, volume: Json, claim: Json) -> None:
        """Bind both objects, then set their states: volume first, so that a failure at any point can be
        resumed."""
        change = volume_binding(volume, claim)
        if change:
            volume = await self.change(PERSISTENT_VOLUMES, volume, change)
        volume = await self._set_volume_phase(volume, "Bound")
        change = claim_binding(claim, volume)
        if change:
            claim = await self.change(PERSISTENT_VOLUME_CLAIMS, claim, change)
        await self.set_status(PERSISTENT_VOLUME_CLAIMS, claim, claim_status(volume))

    # Volumes

    async def _sync_volume(self, volume: Json) -> None:
        claims = _claims_named(volume)
        claim = self.claims.get(claims[0]) if claims else None
        step = volume_step(volume, claim)
        if step is VolumeStep.FREE:
            await self._set_volume_phase(volume, "Available")
        elif step is VolumeStep.BOUND:
            await self._set_volume_phase(volume, "Bound")
        elif step is VolumeStep.RELEASE and not await self._is_wanted(volume):
            if status_of(volume).get("phase") not in ("Released", "Failed"):
                volume = await self._set_volume_phase(volume, "Released")
            await self._reclaim(volume)
        elif step is VolumeStep.UNBIND:
            await self._unbind(volume)

    async def _set_volume_phase(self, volume: Json, phase: str, message: str = "") -> Json:
        if status_of(volume).get("phase") == phase:
            return volume
        status = {"phase": phase, "message": message or None, "lastPhaseTransitionTime": self.stamp()}
        return await self.set_status(PERSISTENT_VOLUMES, volume, status)

    async def _reclaim(self, volume: Json) -> None:
        """Do with a released volume what its policy says; those of provisioners are left to them."""
        policy = spec_of(volume).get("persistentVolumeReclaimPolicy")
        if policy == "Delete":
            problem = deletion_problem(volume)
            if problem == "":
                await self.delete(PERSISTENT_VOLUMES, volume)
            elif problem:
                await self._fail_volume(volume, "VolumeFailedDelete", problem)
        elif policy == "Recycle":
            if "hostPath" in spec_of(volume) or "nfs" in spec_of(volume):
                await self.record_event(volume, "VolumeRecycled", "Volume recycled")
                await self._unbind(volume)
            else:
                problem = "No recycler plugin found for the volume!"
                await self._fail_volume(volume, "VolumeFailedRecycle", problem)

    async def _fail_volume(self, volume: Json, reason: str, message: str) -> None:
        if status_of(volume).get("phase") != "Failed":
            await self._set_volume_phase(volume, "Failed", message)
            await self.record_event(volume, reason, message, WARNING)

    async def _is_wanted(self, volume: Json) -> bool:
        """True if there is a claim that the cache lacks: no volume is released by mistake."""
        ref = spec_of(volume)["claimRef"]
        try:
            claim = await self.client.get(PERSISTENT_VOLUME_CLAIMS, ref.get("namespace", ""), ref["name"])
        except ApiError as error:
            if error.is_not_found:
                return False
            raise
        return volume_step(volume, claim) is not VolumeStep.RELEASE

    async def _unbind(self, volume: Json) -> None:
        """Clear a claimRef that the scheduler or this controller set; one that a user set keeps its name."""
        if BOUND_BY_CONTROLLER in annotations_of(volume):
            change: Json = {
                "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}},
                "spec": {"claimRef": None},
            }
        else:
            change = {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
        volume = await self.change(PERSISTENT_VOLUMES, volume, change)
        if not is_deleting(volume):
            await self._set_volume_phase(volume, "Available")


def _claims_named(volume: Json) -> list[str]:
    ref = spec_of(volume).get("claimRef")
    return [f"{ref.get('namespace', '')}/{ref.get('name', '')}"] if ref else []


def _volumes_named(claim: Json) -> list[str]:
    """The volume of a claim; claims without one are found under ""."""
    return [spec_of(claim).get("volumeName") or ""]


class ExpandController(Controller):
    """Reports claims that request more than they have: an external resizer expands volumes."""

    name: ClassVar[str] = "persistentvolume-expander-controller"
    event_source: ClassVar[str] = "volume_expand"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.claims = self.informer(PERSISTENT_VOLUME_CLAIMS)
        self.claims.add_handler(self._claim_changed)

    def _claim_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None and (old is None or _requested(old) != _requested(new)) and needs_expansion(new):
            self.queue.add(key_of(new))

    async def sync(self, key: str) -> None:
        claim = self.claims.get(key)
        if claim is not None and needs_expansion(claim):
            note = "waiting for an external controller to expand this PVC"
            await self.record_event(claim, "ExternalExpanding", note)


def needs_expansion(claim: Json) -> bool:
    """True if a bound claim requests more than its volume has."""
    status = status_of(claim)
    return status.get("phase") == "Bound" and _requested(claim) > _capacity(status.get("capacity"))
