"""The kinds of objects that decisions depend on."""

from typing import Final, NamedTuple

from stowplan.api import catalogue, coscheduling
from stowplan.api.catalogue import Resource as Served
from stowplan.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from stowplan.api.meta import Namespace, Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import CompositePodGroup, PodGroup
from stowplan.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.api.workloads import (
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from stowplan.scheduler.framework.events import Resource


class Watched(NamedTuple):
    """A kind of object: where it is served, as what it is read, and what events call it ("" if nothing).

    `without` says what suffers if the server forbids or lacks it; "" means that nothing goes without it. It
    is watched `always`, or if a plugin needs its objects (`Contract.needs`) or registered for its events.
    """

    served: Served
    cls: type[Object]
    event: str = ""
    without: str = ""
    always: bool = False


PODS: Final = Watched(catalogue.PODS, Pod, Resource.POD)
NODES: Final = Watched(catalogue.NODES, Node, Resource.NODE)

_UNSPREAD: Final = "pods are not spread by default as members of theirs"
_CLAIMLESS: Final = "pods with volume claims wait"
_DEVICELESS: Final = "pods with resource claims wait"

AROUND_PODS: Final = (
    Watched(
        catalogue.NAMESPACES,
        Namespace,
        without="namespace selectors of pod affinity select no namespace by its labels",
        always=True,
    ),
    Watched(catalogue.SERVICES, Service, without=_UNSPREAD),
    Watched(catalogue.REPLICATION_CONTROLLERS, ReplicationController, without=_UNSPREAD),
    Watched(catalogue.REPLICA_SETS, ReplicaSet, without=_UNSPREAD),
    Watched(catalogue.STATEFUL_SETS, StatefulSet, without=_UNSPREAD),
    Watched(
        catalogue.POD_DISRUPTION_BUDGETS,
        PodDisruptionBudget,
        without="preemption does not spare pods that a budget protects",
    ),
)
STORAGE: Final = (
    Watched(catalogue.PERSISTENT_VOLUMES, PersistentVolume, Resource.PERSISTENT_VOLUME, _CLAIMLESS),
    Watched(
        catalogue.PERSISTENT_VOLUME_CLAIMS,
        PersistentVolumeClaim,
        Resource.PERSISTENT_VOLUME_CLAIM,
        _CLAIMLESS,
    ),
    Watched(
        catalogue.STORAGE_CLASSES,
        StorageClass,
        Resource.STORAGE_CLASS,
        "pods with unbound claims of a storage class wait",
    ),
    Watched(
        catalogue.CSI_NODES,
        CSINode,
        Resource.CSI_NODE,
        "limits of attached volumes are not kept",
        always=True,
    ),
    Watched(
        catalogue.CSI_DRIVERS,
        CSIDriver,
        Resource.CSI_DRIVER,
        "storage capacity is not looked at",
    ),
    Watched(
        catalogue.CSI_STORAGE_CAPACITIES,
        CSIStorageCapacity,
        Resource.CSI_STORAGE_CAPACITY,
        "nothing is provisioned by drivers that publish their capacity",
    ),
    Watched(
        catalogue.VOLUME_ATTACHMENTS,
        VolumeAttachment,
        Resource.VOLUME_ATTACHMENT,
        "volumes that are attached to a node without a pod there do not count for its limits",
    ),
)
DEVICES: Final = (
    Watched(catalogue.RESOURCE_CLAIMS, ResourceClaim, Resource.RESOURCE_CLAIM, _DEVICELESS, always=True),
    Watched(catalogue.RESOURCE_SLICES, ResourceSlice, Resource.RESOURCE_SLICE, _DEVICELESS, always=True),
    Watched(catalogue.DEVICE_CLASSES, DeviceClass, Resource.DEVICE_CLASS, _DEVICELESS, always=True),
)
DEVICE_TAINT_RULES: Final = Watched(
    catalogue.DEVICE_TAINT_RULES,
    DeviceTaintRule,
    Resource.RESOURCE_SLICE,
    "devices are not tainted by rules",
    always=True,
)
"""A rule changes the devices it selects, so its events count as events of slices."""
POD_GROUPS: Final = Watched(
    catalogue.POD_GROUPS, PodGroup, Resource.POD_GROUP, "pods of groups wait", always=True
)
COSCHEDULING_GROUPS: Final = Watched(
    coscheduling.POD_GROUPS,
    coscheduling.CoschedulingPodGroup,
    Resource.POD_GROUP,
    f"pods with the label {coscheduling.POD_GROUP_LABEL} wait",
    always=True,
)
COMPOSITE_POD_GROUPS: Final = Watched(
    catalogue.COMPOSITE_POD_GROUPS,
    CompositePodGroup,
    Resource.COMPOSITE_POD_GROUP,
    "pods of groups with a parent wait",
    always=True,
)
