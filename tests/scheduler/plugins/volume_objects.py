"""Storage objects, and pods with volumes, in one line each."""

from typing import Any

from stowplan.api.meta import ObjectMeta, OwnerReference
from stowplan.api.pod import (
    ISCSI,
    RBD,
    AWSElasticBlockStore,
    AzureDisk,
    EphemeralVolumeSource,
    GCEPersistentDisk,
    PersistentVolumeClaimVolumeSource,
    Volume,
)
from stowplan.api.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    StorageClass,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeResources,
)
from stowplan.testing import PodBuilder, pod

DRIVER = "disk.example.com"
OTHER = "file.example.com"
LATE = "WaitForFirstConsumer"


def csi_volume(name: str, driver: str = DRIVER, handle: str | None = None) -> PersistentVolume:
    source = CSIPersistentVolumeSource(driver=driver, volume_handle=name if handle is None else handle)
    return volume(name, csi=source)


def volume(name: str, labels: dict[str, str] | None = None, **source: Any) -> PersistentVolume:
    return PersistentVolume(
        metadata=ObjectMeta(name=name, labels=labels or {}), spec=PersistentVolumeSpec(**source)
    )


def claim(
    name: str,
    bound_to: str = "",
    *,
    of_class: str | None = None,
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    owner: PodBuilder | None = None,
    namespace: str = "default",
) -> PersistentVolumeClaim:
    owners: tuple[OwnerReference, ...] = ()
    if owner is not None:
        owners = (OwnerReference(kind="Pod", uid=owner.obj().metadata.uid, controller=True),)
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            owner_references=owners,
            annotations={"pv.kubernetes.io/bind-completed": "yes"} if bound_to else {},
        ),
        spec=PersistentVolumeClaimSpec(access_modes=modes, volume_name=bound_to, storage_class_name=of_class),
    )


def storage_class(name: str, provisioner: str = DRIVER, mode: str | None = LATE) -> StorageClass:
    return StorageClass(metadata=ObjectMeta(name=name), provisioner=provisioner, volume_binding_mode=mode)


def csi_node(name: str, **limits: int | None) -> CSINode:
    """Drivers by their first word; None: the driver is there but has no limit."""
    drivers = tuple(
        CSINodeDriver(
            name=f"{word}.example.com",
            allocatable=None if limit is None else VolumeNodeResources(count=limit),
        )
        for word, limit in limits.items()
    )
    return CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=drivers))


def csi_node_of(name: str, driver: str, limit: int) -> CSINode:
    one = CSINodeDriver(name=driver, allocatable=VolumeNodeResources(count=limit))
    return CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=(one,)))


def csi_driver(name: str, *, insists: bool | None = True) -> CSIDriver:
    return CSIDriver(
        metadata=ObjectMeta(name=name), spec=CSIDriverSpec(prevent_pod_scheduling_if_missing=insists)
    )


def attachment(name: str, to: str, of: str | None, by: str = DRIVER) -> VolumeAttachment:
    source = VolumeAttachmentSource(persistent_volume_name=of)
    return VolumeAttachment(
        metadata=ObjectMeta(name=name),
        spec=VolumeAttachmentSpec(attacher=by, node_name=to, source=source),
    )


def with_volumes(builder: PodBuilder, *volumes: Volume) -> PodBuilder:
    return builder.spec(volumes=volumes)


def using(name: str, *claims: str) -> PodBuilder:
    """A pod that uses claims."""
    return with_volumes(pod(name), *map(claimed, claims))


def claimed(name: str) -> Volume:
    return Volume(
        name=f"v-{name}", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=name)
    )


def own(name: str = "v") -> Volume:
    """A volume through a claim that is made for the pod; the claim's name is `<pod>-<name>`."""
    return Volume(name=name, ephemeral=EphemeralVolumeSource())


def ebs(volume_id: str) -> Volume:
    return Volume(name=volume_id, aws_elastic_block_store=AWSElasticBlockStore(volume_id=volume_id))


def gce(name: str, *, read_only: bool = False) -> Volume:
    return Volume(name=name, gce_persistent_disk=GCEPersistentDisk(pd_name=name, read_only=read_only))


def azure(name: str, kind: str | None = None) -> Volume:
    return Volume(name=name, azure_disk=AzureDisk(disk_name=name, disk_uri=f"/disks/{name}", kind=kind))


def iscsi(iqn: str, *, read_only: bool = False, lun: int = 0) -> Volume:
    return Volume(name="i", iscsi=ISCSI(iqn=iqn, lun=lun, read_only=read_only))


def rbd(image: str, *monitors: str, pool: str = "rbd", read_only: bool = False) -> Volume:
    return Volume(name="r", rbd=RBD(image=image, monitors=monitors, pool=pool, read_only=read_only))
