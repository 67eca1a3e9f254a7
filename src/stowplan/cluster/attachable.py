"""Which volumes of a pod have to be attached to its node, and by which driver."""

from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from stowplan.api.csitranslation import (
    AWS_EBS,
    AZURE_DISK,
    CINDER,
    GCE_PD,
    TranslationError,
    in_tree_kind,
    kind_of_plugin,
    translated_inline,
    translated_source,
)
from stowplan.api.pod import Pod, Volume
from stowplan.api.storage import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, StorageClass
from stowplan.cluster.storage import Storage

_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"

Source = tuple[type, str]
"""A storage object that an answer rests on, by its type and key; it need not exist."""


class Attachable(NamedTuple):
    """A volume as a driver counts it. One that is yet to be made has no handle, but a claim.

    Volumes of built-in kinds are known twice: under the name of their CSI driver, and with the old name of
    their kind as the driver, for those who still count by kind.
    """

    driver: str
    handle: str
    claim: str = ""


class Trouble(Enum):
    """What can be wrong with a volume of a pod."""

    MISSING = "missing"
    """Its claim does not exist."""
    WRONG = "wrong"
    """Its claim is not the pod's own, or has no name."""
    NOT_TRANSLATED = "not translated"
    """Its CSI driver cannot be told of it."""


class Problem(NamedTuple):
    """Why the volumes of a pod are not known."""

    trouble: Trouble
    message: str


class Needs(NamedTuple):
    """The volumes a pod needs, each once, and the first problem with them.

    `sources` are the storage objects this rests on.
    """

    volumes: tuple[Attachable, ...]
    problem: Problem | None
    sources: tuple[Source, ...]


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The claim a volume of a pod is about, None if it is about none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return None


def class_name(claim: PersistentVolumeClaim) -> str:
    """The storage class of a claim; an annotation of old goes first."""
    annotated = claim.metadata.annotations.get(_CLASS_ANNOTATION)
    return (claim.spec.storage_class_name or "") if annotated is None else annotated


def is_made_for(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether a claim was made for this very pod."""
    owner = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
    return claim.namespace == pod.namespace and owner is not None and owner.uid == pod.metadata.uid


def not_made_for(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """The error about a claim with the name of a pod's own that was not made for it."""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def needs_of(pod: Pod, volumes: Iterable[Volume], storage: Storage, *, migrated: bool, new: bool) -> Needs:
    """What a pod needs attached.

    `migrated`: on a node that has a CSINode, where volumes of built-in kinds belong to CSI drivers. For a
    `new` pod the first claim that is missing is a problem; a running one goes without.
    """
    search = _Search(pod, storage, migrated, new)
    for volume in volumes:
        search.look_at(volume)
        if search.problem is not None:
            break
    return Needs(tuple(search.found), search.problem, tuple(search.sources))


class _Search:
    """The volumes of one pod, looked at one after the other."""

    __slots__ = ("_migrated", "_new", "_pod", "_storage", "found", "problem", "sources")

    def __init__(self, pod: Pod, storage: Storage, migrated: bool, new: bool) -> None:
        self._pod = pod
        self._storage = storage
        self._migrated = migrated
        self._new = new
        self.found: dict[Attachable, None] = {}
        self.sources: dict[Source, None] = {}
        self.problem: Problem | None = None

    def look_at(self, volume: Volume) -> None:
        name = claim_name(self._pod, volume)
        if name is None:
            self._inline(volume)
        elif not name:
            self.problem = Problem(Trouble.WRONG, "PersistentVolumeClaim had no name")
        else:
            self._claimed(name, volume.ephemeral is not None and volume.persistent_volume_claim is None)

    def _inline(self, volume: Volume) -> None:
        kind = in_tree_kind(volume)
        if kind is None:
            return
        self._by_kind(volume)
        if not (self._migrated and kind.migrated):
            return
        try:
            source = translated_inline(volume, self._pod.namespace)
        except TranslationError as error:
            text = f"converting volume({volume.name}) from inline to csi: {error}"
            self.problem = Problem(Trouble.NOT_TRANSLATED, text)
            return
        self.found[Attachable(source.driver, source.volume_handle)] = None

    def _claimed(self, name: str, own: bool) -> None:
        key = f"{self._pod.namespace}/{name}"
        self.sources[PersistentVolumeClaim, key] = None
        claim = self._storage.claims.get(key)
        if claim is None:
            if self._new:
                text = f'looking up PVC {key}: persistentvolumeclaim "{name}" not found'
                self.problem = Problem(Trouble.MISSING, text)
        elif own and not is_made_for(claim, self._pod):
            self.problem = Problem(Trouble.WRONG, not_made_for(claim, self._pod))
        else:
            self._behind(claim)

    def _behind(self, claim: PersistentVolumeClaim) -> None:
        """The volume of a claim, or the one that will be made for it."""
        name = claim.spec.volume_name
        if name:
            self.sources[PersistentVolume, name] = None
        volume = self._storage.volumes.get(name) if name else None
        if volume is None:
            self._to_be_made(claim)
        elif volume.spec.csi is not None:
            self._counted(volume.spec.csi.driver, volume.spec.csi.volume_handle)
        else:
            self._built_in(volume)

    def _built_in(self, volume: PersistentVolume) -> None:
        kind = in_tree_kind(volume.spec)
        if kind is None:
            return
        self._by_kind(volume.spec)
        if not (self._migrated and kind.migrated):
            return
        try:
            source = translated_source(volume)
        except TranslationError:
            return
        self._counted(source.driver, source.volume_handle)

    def _counted(self, driver: str, handle: str) -> None:
        if driver and handle:
            self.found[Attachable(driver, handle)] = None

    def _to_be_made(self, claim: PersistentVolumeClaim) -> None:
        named = class_name(claim)
        storage_class = self._class(named)
        provisioner = storage_class.provisioner if storage_class is not None else ""
        kind = kind_of_plugin(provisioner)
        if kind is None:
            if provisioner:
                self.found[Attachable(provisioner, "", claim.key)] = None
        elif self._migrated and kind.migrated:
            self.found[Attachable(kind.driver, "", claim.key)] = None
        if claim.spec.storage_class_name != named:
            storage_class = self._class(claim.spec.storage_class_name or "")
            provisioner = storage_class.provisioner if storage_class is not None else ""
        if provisioner in COUNTED_BY_KIND:
            self.found[Attachable(provisioner, "", claim.key)] = None

    def _class(self, name: str) -> StorageClass | None:
        if not name:
            return None
        self.sources[StorageClass, name] = None
        return self._storage.classes.get(name)

    def _by_kind(self, holder: Volume | PersistentVolumeSpec) -> None:
        """Count a volume of a built-in kind under the kind's own name, too."""
        if holder.aws_elastic_block_store is not None:
            self.found[Attachable(AWS_EBS, holder.aws_elastic_block_store.volume_id)] = None
        elif holder.gce_persistent_disk is not None:
            self.found[Attachable(GCE_PD, holder.gce_persistent_disk.pd_name)] = None
        elif holder.azure_disk is not None:
            self.found[Attachable(AZURE_DISK, holder.azure_disk.disk_name)] = None
        elif holder.cinder is not None:
            self.found[Attachable(CINDER, holder.cinder.volume_id)] = None


COUNTED_BY_KIND: Final = frozenset((AWS_EBS, GCE_PD, AZURE_DISK, CINDER))
"""The kinds that volumes are known by beside their CSI drivers."""
