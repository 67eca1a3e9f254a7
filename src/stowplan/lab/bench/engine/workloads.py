"""The workloads that are measured: nodes, the pods already on them, the pods to place, and their storage.

Objects are made as JSON and decoded one by one, so that nothing is shared between two pods which would not be
shared between two pods of a watch.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import msgspec

from stowplan.api.decode import decode
from stowplan.api.devices import ResourceClaim
from stowplan.api.meta import Object, ObjectMeta
from stowplan.api.node import Node
from stowplan.api.pod import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    ResourceRequirements,
)
from stowplan.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeNodeAffinity,
)
from stowplan.config import LoadedConfig
from stowplan.lab.bench.engine import devices

Document = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
ZONES = ("zone1", "zone2", "zone3")
NAMESPACE = "bench"
GROUP_SIZE = 100
"""Pods of one anti-affinity group, each of which keeps away from the others."""

CSI_DRIVER = "disk.csi.example.com"
CSI_LIMIT = 39
"""Volumes that a node can have attached."""

ZONAL_CLASS = "zonal"
_SIZE = "10Gi"
_MODES = ("ReadWriteOnce",)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class WorkloadShape:
    """Properties that distinguish one kind of pod from another: its labels and constraints.

    With `own_claim` every pod has a volume, through a claim that has the pod's name. `device_claim` is the
    name of a claim for devices, "{pod}" in it the pod's name; with `templated` it is made from a template.
    `amounts` are requested in addition to CPU and memory.
    """

    labels: dict[str, str]
    spec: Document = field(default_factory=dict)
    own_claim: bool = False
    device_claim: str = ""
    templated: bool = False
    amounts: dict[str, str] = field(default_factory=dict)


Kind = Callable[[int, str], WorkloadShape]
"""Makes a shape, given the number of the pod (or of its node) and what is appended to its label's value."""


def basic(number: int, own: str) -> WorkloadShape:
    return WorkloadShape({"app": f"x{own}"})


def spread(number: int, own: str) -> WorkloadShape:
    labels = {"color": f"blue{own}"}
    constraint = {
        "topologyKey": ZONE,
        "maxSkew": 5,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    return WorkloadShape(labels, {"topologySpreadConstraints": [constraint]})


def anti_affinity(number: int, own: str) -> WorkloadShape:
    labels = {"group": f"g{number // GROUP_SIZE}{own}"}
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return WorkloadShape(labels, {"affinity": {"podAntiAffinity": required}})


def preferred_affinity(number: int, own: str) -> WorkloadShape:
    labels = {"color": f"red{own}"}
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    return WorkloadShape(labels, {"affinity": {"podAffinity": preferred}})


def node_affinity(number: int, own: str) -> WorkloadShape:
    zone = {"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [zone]}]
        }
    }
    return WorkloadShape({"app": f"x{own}"}, {"affinity": {"nodeAffinity": required}})


def too_large(number: int, own: str) -> WorkloadShape:
    """Asks for the whole CPU of a node, so one with a single pod on it cannot take it."""
    return WorkloadShape({"app": f"large{own}"}, amounts={"cpu": "32"})


def own_volume(number: int, own: str) -> WorkloadShape:
    return WorkloadShape({"app": f"x{own}"}, own_claim=True)


def own_device(number: int, own: str) -> WorkloadShape:
    return WorkloadShape({"app": f"x{own}"}, device_claim="{pod}")


def device_of_template(number: int, own: str) -> WorkloadShape:
    return WorkloadShape({"app": f"x{own}"}, device_claim="{pod}", templated=True)


def shared_claim(number: int, own: str) -> WorkloadShape:
    """Pods that run already, marked by `own`, do not share theirs with others."""
    name = f"shared{own}-{number}" if own else f"shared-{number // devices.SHARERS}"
    return WorkloadShape({"app": "x"}, device_claim=name)


def extended_resource(number: int, own: str) -> WorkloadShape:
    return WorkloadShape({"app": f"x{own}"}, amounts={devices.RESOURCE: "1"})


Objects = Callable[["BenchWorkload", int, int, int], Iterator[Object]]
"""Objects around the pods of a workload, given how many nodes, pods on each and pods to place there are."""


def bound_claims(
    workload: "BenchWorkload", nodes: int, existing_per_node: int, pods: int
) -> Iterator[Object]:
    """A limit of volumes for each node, and a bound claim for each pod that has one."""
    for number in range(nodes):
        yield csi_node(node_name(number))
    running = (pod for number in range(nodes) for pod in workload.existing(number, existing_per_node))
    for pod in chain(running, map(workload.pod, range(pods))):
        if pod.spec.volumes:
            yield from bound_claim(NAMESPACE, pod.name)


def waiting_claims(
    workload: "BenchWorkload", nodes: int, existing_per_node: int, pods: int
) -> Iterator[Object]:
    """As bound claims, but those of pods to place wait for a node; for each there is a volume in a zone."""
    yield from bound_claims(workload, nodes, existing_per_node, 0)
    yield waiting_class()
    for number in range(pods):
        yield waiting_claim(NAMESPACE, workload.pod(number).name)
        yield free_volume(f"free-{number}", ZONE, ZONES[number % len(ZONES)])


class DeviceObjects:
    """A class, slices with devices, and claims: those of pods that run already have a device each."""

    def __init__(
        self,
        make: devices.Devices,
        asked: Document,
        first_device: int = 0,
        resource: str | None = None,
        **result: Any,
    ) -> None:
        self._make = make
        self._asked = asked
        self._first = first_device
        self._resource = resource
        self._result = result

    def __call__(
        self, workload: "BenchWorkload", nodes: int, existing_per_node: int, pods: int
    ) -> Iterator[Object]:
        yield devices.device_class(self._resource)
        yield devices.template(NAMESPACE, self._asked)
        for number in range(nodes):
            yield from devices.slices_of(node_name(number), self._make)
            for slot, pod in enumerate(workload.existing(number, existing_per_node)):
                if slot < workload.existing_of_kind:
                    yield self._held(pod, slot)
        yield from self._unallocated(map(workload.pod, range(pods)))

    def _held(self, pod: Pod, slot: int) -> ResourceClaim:
        device = f"gpu-{self._first + slot}"
        name = claim_name(pod) or f"{pod.name}-extended-resources"
        owner = pod if name != claim_name(pod) or is_templated(pod) else None
        return devices.held_claim(NAMESPACE, name, self._asked, pod, device, owner, **self._result)

    def _unallocated(self, pods: Iterable[Pod]) -> Iterator[ResourceClaim]:
        made: set[str] = set()
        for pod in pods:
            name = claim_name(pod)
            if name and name not in made:
                made.add(name)
                yield devices.claim(NAMESPACE, name, self._asked, pod if is_templated(pod) else None)


def claim_name(pod: Pod) -> str:
    """The claim for devices of a pod, "" if it has none."""
    for asked in pod.spec.resource_claims:
        if asked.resource_claim_name is not None:
            return asked.resource_claim_name
    return next((one.resource_claim_name or "" for one in pod.status.resource_claim_statuses), "")


def is_templated(pod: Pod) -> bool:
    return any(asked.resource_claim_template_name is not None for asked in pod.spec.resource_claims)


@dataclass(frozen=True, slots=True)
class BenchWorkload:
    """Pods of some kinds in turn. With `every_pod_its_own` no two pods are made from one template.

    On every node the first `existing_of_kind` pods that run already are of these kinds.
    """

    kinds: tuple[Kind, ...]
    every_pod_its_own: bool = False
    around: Objects | None = None
    existing_of_kind: int = 1

    def objects(self, nodes: int, existing_per_node: int, pods: int) -> list[Object]:
        """Objects other than nodes and pods."""
        return [] if self.around is None else list(self.around(self, nodes, existing_per_node, pods))

    def pod(self, number: int, node_name: str = "") -> Pod:
        """The pod to place with this number (from 0), or the same as the API server sees it once bound."""
        own, milli_cpu = "", 100
        if self.every_pod_its_own:
            own, milli_cpu = f"-{number}", 100 + number % 900
        kind = self.kinds[number % len(self.kinds)]
        return make_pod(f"new-{number}", kind(number, own), milli_cpu, node_name)

    def node_labels(self, number: int) -> dict[str, str]:
        """Labels of a node in addition to the common ones."""
        return {}

    def unbindable(self, pods: int) -> int:
        """Number of the given pods that are never bound."""
        return 0

    @property
    def config(self) -> LoadedConfig | None:
        """Configuration of a scheduler of these pods; None: the default."""
        return None

    @property
    def together(self) -> int:
        """Number of pods that have to exist before any of them is scheduled."""
        return 1

    def existing(self, node: int, count: int) -> Iterator[Pod]:
        """The pods already on a node: the first ones of a kind of this workload, the others basic.

        Node affinity says nothing about pods that run already, so there the first is basic too.
        """
        for slot in range(count):
            kind: Kind = basic
            own = ""
            if slot < self.existing_of_kind:
                kind = self.kinds[node % len(self.kinds)]
                kind = basic if kind is node_affinity else kind
                own = f"-{node}" if self.every_pod_its_own else ""
                own = f"-old-{slot}" if kind is shared_claim else own
            yield make_pod(f"old-{node}-{slot}", kind(node, own), 100, node_name(node))


_FIVE: tuple[Kind, ...] = (basic, spread, anti_affinity, preferred_affinity, node_affinity)
_ONE: Final = devices.claim_spec()
_PART: Final = f'device.attributes["{devices.DRIVER}"].profile == "part"'


def _with_devices(kind: Kind, around: DeviceObjects) -> BenchWorkload:
    return BenchWorkload((kind,), around=around, existing_of_kind=devices.HELD_PER_NODE)


WORKLOADS: dict[str, BenchWorkload] = {
    "basic": BenchWorkload((basic,)),
    "spread": BenchWorkload((spread,)),
    "anti-affinity": BenchWorkload((anti_affinity,)),
    "preferred-affinity": BenchWorkload((preferred_affinity,)),
    "node-affinity": BenchWorkload((node_affinity,)),
    "volumes": BenchWorkload((own_volume,), around=waiting_claims),
    "mixed": BenchWorkload(_FIVE),
    "many-classes": BenchWorkload(_FIVE, every_pod_its_own=True),
    "csi-limits": BenchWorkload((own_volume,), around=bound_claims),
    "dra": _with_devices(own_device, DeviceObjects(devices.whole_devices, _ONE)),
    "dra-template": _with_devices(device_of_template, DeviceObjects(devices.whole_devices, _ONE)),
    "dra-shared": _with_devices(shared_claim, DeviceObjects(devices.whole_devices, _ONE)),
    "dra-capacity": _with_devices(
        own_device,
        DeviceObjects(
            devices.divisible_devices,
            devices.claim_spec(capacity={"requests": {"memory": "4Gi"}}),
            shareID="5f7b7d5e-0000-4000-8000-000000000000",
            consumedCapacity={"memory": "4Gi"},
        ),
    ),
    "dra-partitionable": _with_devices(
        own_device,
        DeviceObjects(
            devices.partitions, devices.claim_spec(selectors=[{"cel": {"expression": _PART}}]), first_device=1
        ),
    ),
    "dra-extended": _with_devices(
        extended_resource, DeviceObjects(devices.whole_devices, _ONE, resource=devices.RESOURCE)
    ),
}

ENGINE_WORKLOADS: Final = {**WORKLOADS, "nowhere": BenchWorkload((too_large,), existing_of_kind=0)}
"""The same, and pods that are never bound."""


def node_name(number: int) -> str:
    return f"node-{number}"


def node(number: int) -> Node:
    """A node of 32 CPU, 256Gi and 110 pods, in one of three zones."""
    name = node_name(number)
    room = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    document: Document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {HOSTNAME: name, ZONE: ZONES[number % len(ZONES)]},
        },
        "status": {"capacity": room, "allocatable": room},
    }
    return decode(_encode(document), Node)


def make_pod(name: str, shape: WorkloadShape, milli_cpu: int, on: str) -> Pod:
    """A pod with one container that requests what it is limited to, and one port that is no host port."""
    amounts = {"cpu": f"{milli_cpu}m", "memory": "500Mi", **shape.amounts}
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "resources": {"requests": amounts, "limits": amounts},
    }
    spec: Document = {"schedulerName": "default-scheduler", "containers": [container], **shape.spec}
    if shape.own_claim:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    status: Document = {"phase": "Running" if on else "Pending"}
    if shape.device_claim:
        _claim_device(shape, name, spec, status)
    if on:
        spec["nodeName"] = on
    document: Document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "labels": shape.labels},
        "spec": spec,
        "status": status,
    }
    return decode(_encode(document), Pod)


def _claim_device(shape: WorkloadShape, name: str, spec: Document, status: Document) -> None:
    """Refer to a claim for devices, by name or through a template."""
    claim, entry = shape.device_claim.format(pod=name), {"name": devices.ENTRY}
    if shape.templated:
        spec["resourceClaims"] = [{**entry, "resourceClaimTemplateName": devices.TEMPLATE}]
        status["resourceClaimStatuses"] = [{**entry, "resourceClaimName": claim}]
    else:
        spec["resourceClaims"] = [{**entry, "resourceClaimName": claim}]


def csi_node(name: str) -> CSINode:
    """CSINode of a node."""
    driver = {"name": CSI_DRIVER, "nodeID": name, "topologyKeys": [], "allocatable": {"count": CSI_LIMIT}}
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "uid": f"uid-csi-{name}"},
        "spec": {"drivers": [driver]},
    }
    return decode(_encode(document), CSINode)


def bound_claim(namespace: str, name: str) -> Iterator[Object]:
    """A claim and the volume it is bound to."""
    volume_name = f"pv-{name}"
    common: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}
    reference = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": f"uid-{name}"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name, "uid": f"uid-{volume_name}"},
        "spec": {
            **common,
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": CSI_DRIVER, "volumeHandle": volume_name},
            "claimRef": reference,
        },
        "status": {"phase": "Bound"},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"uid-{name}",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            **common,
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": volume_name,
        },
        "status": {"phase": "Bound"},
    }
    yield decode(_encode(volume), PersistentVolume)
    yield decode(_encode(claim), PersistentVolumeClaim)


def waiting_class() -> StorageClass:
    """The class of volumes that are there already and bound once a pod's node is known."""
    return StorageClass(
        metadata=_metadata(ZONAL_CLASS),
        provisioner="kubernetes.io/no-provisioner",
        volume_binding_mode="WaitForFirstConsumer",
    )


def waiting_claim(namespace: str, name: str) -> PersistentVolumeClaim:
    claim = PersistentVolumeClaim(
        metadata=_metadata(name, namespace),
        spec=PersistentVolumeClaimSpec(
            access_modes=_MODES,
            storage_class_name=ZONAL_CLASS,
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
            storage_class_name=ZONAL_CLASS,
            node_affinity=VolumeNodeAffinity(required=required),
        ),
        status=PersistentVolumeStatus(phase="Available"),
    )
    return decode(_encode(volume), PersistentVolume)


def _metadata(name: str, namespace: str = "") -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, uid=f"uid-{name}", resource_version="1")
