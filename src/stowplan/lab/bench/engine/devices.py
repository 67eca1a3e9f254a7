"""Workloads with devices: slices of the nodes, classes, claims of the pods, and what existing pods hold.

Every node has ten devices, as in the benchmarks of kube-scheduler. Existing pods hold five of them at most.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from stowplan.api.decode import decode
from stowplan.api.devices import (
    CLAIM_FINALIZER,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from stowplan.api.meta import Object
from stowplan.api.pod import Pod

Document = dict[str, Any]
T = TypeVar("T", bound=Object)

DRIVER: Final = "gpu.example.com"
DEVICES_PER_NODE: Final = 10
HELD_PER_NODE: Final = 5
"""Number of pods on each node that hold devices from the beginning."""
CLASS: Final = "gpu"
TEMPLATE: Final = "one-gpu"
RESOURCE: Final = "example.com/gpu"
SHARERS: Final = 10
"""Number of pods that use one claim in `dra-shared`, or one device in `dra-capacity`."""
ENTRY: Final = "gpu"
"""Name of the claim in pods."""

_API_VERSION: Final = "resource.k8s.io/v1"
_encode = msgspec.json.Encoder().encode

Devices = Callable[[str], list[Document]]
"""Makes the specs of the slices of a node, given its name."""


def claim_spec(**exactly: Any) -> Document:
    """A claim for one device, chosen by a selector."""
    expression = f'device.attributes["{DRIVER}"].model == "a100" && device.driver == "{DRIVER}"'
    asked = {
        "deviceClassName": CLASS,
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": expression}}],
        **exactly,
    }
    return {"devices": {"requests": [{"name": "device", "exactly": asked}]}}


def whole_devices(node: str) -> list[Document]:
    """Ten devices of which each is one pod's."""
    return [_slice(node, [_device(number) for number in range(DEVICES_PER_NODE)])]


def divisible_devices(node: str) -> list[Document]:
    """Ten devices that several claims can share by their memory."""
    devices = [
        _device(number, allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}})
        for number in range(DEVICES_PER_NODE)
    ]
    return [_slice(node, devices)]


def partitions(node: str) -> list[Document]:
    """Two devices, each of which can be given as a whole or as five partitions."""
    counters = [
        {"name": f"card-{card}", "counters": {"memory": {"value": "40Gi"}, "engines": {"value": "5"}}}
        for card in range(2)
    ]
    devices = []
    for card in range(2):
        for part, (memory, engines) in enumerate([("40Gi", "5"), *[("8Gi", "1")] * 5]):
            drawn = {"memory": {"value": memory}, "engines": {"value": engines}}
            consumed = [{"counterSet": f"card-{card}", "counters": drawn}]
            profile = {"profile": {"string": "part" if part else "whole"}}
            devices.append(_device(card * 6 + part, consumesCounters=consumed, more=profile))
    return [
        _slice(node, devices, slices=2),
        _slice(node, [], slices=2, sharedCounters=counters),
    ]


def _device(number: int, more: Document | None = None, **given: Any) -> Document:
    attributes = {"model": {"string": "a100"}, "numa": {"int": number // 5}, **(more or {})}
    return {"name": f"gpu-{number}", "attributes": attributes, **given}


def _slice(node: str, devices: list[Document], slices: int = 1, **given: Any) -> Document:
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": slices},
        **given,
    }
    return {**spec, "devices": devices} if devices else spec


def slices_of(node: str, devices: Devices) -> Iterator[ResourceSlice]:
    for number, spec in enumerate(devices(node)):
        yield _decoded("ResourceSlice", f"{node}-{number}", spec, ResourceSlice)


def device_class(resource: str | None = None) -> DeviceClass:
    """The class of all devices; pods can ask for them by an extended resource if one is given."""
    spec: Document = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    if resource is not None:
        spec["extendedResourceName"] = resource
    return _decoded("DeviceClass", CLASS, spec, DeviceClass)


def template(namespace: str, spec: Document) -> ResourceClaimTemplate:
    return _decoded("ResourceClaimTemplate", TEMPLATE, {"spec": spec}, ResourceClaimTemplate, namespace)


def claim(namespace: str, name: str, spec: Document, owner: Pod | None = None) -> ResourceClaim:
    """A claim without devices; that of a template belongs to its pod."""
    return _decoded("ResourceClaim", name, spec, ResourceClaim, namespace, **_owned(owner))


def held_claim(
    namespace: str,
    name: str,
    spec: Document,
    holder: Pod,
    device: str,
    owner: Pod | None = None,
    **result: Any,
) -> ResourceClaim:
    """A claim with a device of the node of the pod that uses it."""
    node = holder.spec.node_name
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    given = {"request": "device", "driver": DRIVER, "pool": node, "device": device, **result}
    status = {
        "allocation": {
            "devices": {"results": [given]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
        },
        "reservedFor": [{"resource": "pods", "name": holder.name, "uid": holder.metadata.uid}],
    }
    metadata = {"finalizers": [CLAIM_FINALIZER], **_owned(owner)}
    return _decoded("ResourceClaim", name, spec, ResourceClaim, namespace, status, **metadata)


def _owned(owner: Pod | None) -> Document:
    if owner is None:
        return {}
    reference = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": owner.name,
        "uid": owner.metadata.uid,
        "controller": True,
    }
    return {
        "ownerReferences": [reference],
        "annotations": {"resource.kubernetes.io/pod-claim-name": ENTRY},
    }


def _decoded(
    kind: str,
    name: str,
    spec: Document,
    cls: type[T],
    namespace: str = "",
    status: Document | None = None,
    **metadata: Any,
) -> T:
    document: Document = {
        "apiVersion": _API_VERSION,
        "kind": kind,
        "metadata": {
            "name": name,
            "uid": f"uid-{kind}-{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **metadata,
        },
        "spec": spec,
    }
    if namespace:
        document["metadata"]["namespace"] = namespace
    if status is not None:
        document["status"] = status
    return decode(_encode(document), cls)
