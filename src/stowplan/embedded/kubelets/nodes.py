"""Node objects as a kubelet writes them: what it registers, and what it reports of itself."""

from collections.abc import Mapping
from typing import Final

from stowplan.api.catalogue import NODES
from stowplan.api.meta import micro_timestamp, timestamp
from stowplan.api.requests import Json
from stowplan.embedded.kubelets.shapes import NamedNode

LEASE_NAMESPACE: Final = "kube-node-lease"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"

_HEALTHY: Final[Mapping[str, tuple[str, str, str]]] = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}
_UNWELL: Final[Mapping[str, tuple[str, str, str]]] = {
    "MemoryPressure": ("True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    "DiskPressure": ("True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
    "PIDPressure": ("True", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    "Ready": ("False", "KubeletNotReady", "container runtime is down"),
}
CONDITIONS: Final = tuple(_HEALTHY)


def conditions(unwell: Mapping[str, float], since: float, now: float) -> list[Json]:
    """What a node reports: `unwell` says since when what is wrong, `since` since when the rest is well."""
    return [
        _condition(kind, _UNWELL[kind], unwell[kind], now)
        if kind in unwell
        else _condition(kind, _HEALTHY[kind], since, now)
        for kind in CONDITIONS
    ]


def _condition(kind: str, said: tuple[str, str, str], since: float, now: float) -> Json:
    status, reason, message = said
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": timestamp(now),
        "lastTransitionTime": timestamp(since),
    }


def unoffered(node: Json, own: NamedNode) -> Json:
    """The change that makes a node offer what was added to its capacity, and no longer what was taken away.

    Empty if there is nothing to change. Amounts that its shape names, or that stand on both sides, stay.
    """
    status = node.get("status") or {}
    capacity: Json = status.get("capacity") or {}
    offered: Json = status.get("allocatable") or {}
    gone = [name for name in offered if name not in capacity and name not in own.shape.allocatable]
    added = {name: amount for name, amount in capacity.items() if name not in offered}
    return {**added, **dict.fromkeys(gone)}


def address(number: int) -> str:
    """The address of a node, from 10.128.0.1 on."""
    n = number + 1
    return f"10.{128 + (n >> 16)}.{n >> 8 & 255}.{n & 255}"


def pod_address(number: int, slot: int) -> str:
    """The address of a pod on a node: nodes have 256 addresses each, and share when there are very many."""
    n = number % 32768
    return f"10.{n >> 8}.{n & 255}.{slot % 253 + 2}"


def node_object(node: NamedNode, version: str, now: float) -> Json:
    """The node as it registers."""
    shape = node.shape
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        HOSTNAME: node.name,
    }
    if shape.zones:
        labels[ZONE] = shape.zones[node.within % len(shape.zones)]
    if shape.region:
        labels[REGION] = shape.region
    spec: Json = {"podCIDR": f"{pod_address(node.number, 0).rpartition('.')[0]}.0/24"}
    if shape.taints:
        spec["taints"] = [_taint(taint.key, taint.value, taint.effect) for taint in shape.taints]
    return {
        "metadata": {
            "name": node.name,
            "labels": {**labels, **shape.labels},
            "annotations": dict(shape.annotations),
        },
        "spec": spec,
        "status": {
            "capacity": shape.capacity,
            "allocatable": {
                **shape.capacity,
                **{name: str(amount) for name, amount in shape.allocatable.items()},
            },
            "conditions": conditions({}, now, now),
            "addresses": [
                {"type": "InternalIP", "address": address(node.number)},
                {"type": "Hostname", "address": node.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": _info(node, version),
            "images": [{"names": list(one.names), "sizeBytes": one.size_bytes} for one in shape.images],
        },
    }


def _taint(key: str, value: str, effect: str) -> Json:
    taint = {"key": key, "effect": effect}
    return {**taint, "value": value} if value else taint


def _info(node: NamedNode, version: str) -> Json:
    return {
        "architecture": "amd64",
        "bootID": f"boot-{node.number}",
        "containerRuntimeVersion": "pretend://1.0.0",
        "kernelVersion": "6.12.0",
        "kubeProxyVersion": version,
        "kubeletVersion": version,
        "machineID": f"machine-{node.number}",
        "operatingSystem": "linux",
        "osImage": "Pretend Linux",
        "systemUUID": f"system-{node.number}",
    }


def csi_node(node: NamedNode, owner: Json) -> Json | None:
    """What CSI drivers say about the node, None if it has none."""
    if not node.shape.csi:
        return None
    drivers: list[Json] = []
    for driver in node.shape.csi:
        one: Json = {
            "name": driver.name,
            "nodeID": node.name,
            "topologyKeys": list(driver.topology_keys) or None,
        }
        if driver.limit is not None:
            one["allocatable"] = {"count": driver.limit}
        drivers.append(one)
    return {
        "metadata": {"name": node.name, "ownerReferences": [_owned_by(owner)]},
        "spec": {"drivers": drivers},
    }


def lease(owner: Json, seconds: int, now: float) -> Json:
    """A node's lease, renewed now."""
    name = owner["metadata"]["name"]
    return {
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [_owned_by(owner)]},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": seconds,
            "renewTime": micro_timestamp(now),
        },
    }


def _owned_by(node: Json) -> Json:
    metadata = node["metadata"]
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
