"""Storage for the workload `volumes`: claims that wait for their pod's node, and free volumes in zones."""

import msgspec

from stowplan.api.decode import decode
from stowplan.api.meta import ObjectMeta
from stowplan.api.pod import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ResourceRequirements
from stowplan.api.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeNodeAffinity,
)

CLASS = "zonal"
_SIZE = "10Gi"
_MODES = ("ReadWriteOnce",)

_encode = msgspec.json.Encoder().encode


def waiting_class() -> StorageClass:
    """The class of volumes that are there already and bound once a pod's node is known."""
    return StorageClass(
        metadata=_metadata(CLASS),
        provisioner="kubernetes.io/no-provisioner",
        volume_binding_mode="WaitForFirstConsumer",
    )


def waiting_claim(namespace: str, name: str) -> PersistentVolumeClaim:
    claim = PersistentVolumeClaim(
        metadata=_metadata(name, namespace),
        spec=PersistentVolumeClaimSpec(
            access_modes=_MODES,
            storage_class_name=CLASS,
            resources=ResourceRequirements(requests={"storage": _SIZE}),
        ),
        status=PersistentVolumeClaimStatus(phase="Pending"),
    )
    return decode(_encode(claim), PersistentVolumeClaim)


def free_volume(name: str, key: str, value: str) -> PersistentVolume:
    """A volume for nodes with a label."""
    here = NodeSelectorRequirement(key=key, operator="In", values=(value,))
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(here,)),))
    volume = PersistentVolume(
        metadata=_metadata(name),
        spec=PersistentVolumeSpec(
            capacity={"storage": _SIZE},
            access_modes=_MODES,
            storage_class_name=CLASS,
            node_affinity=VolumeNodeAffinity(required=required),
        ),
        status=PersistentVolumeStatus(phase="Available"),
    )
    return decode(_encode(volume), PersistentVolume)


def _metadata(name: str, namespace: str = "") -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, uid=f"uid-{name}", resource_version="1")
