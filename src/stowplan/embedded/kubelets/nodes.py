"""Simulated nodes: the objects a kubelet writes, and the controller that registers and reports them.

Nodes renew their leases, and may fall silent, become unhealthy, recover or be deleted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from stowplan.api.catalogue import CSI_NODES, LEASES, NODES, Resource
from stowplan.api.meta import micro_timestamp, timestamp
from stowplan.api.requests import Json, PatchType
from stowplan.api.status import ApiError
from stowplan.embedded.controllers.controller import Context, Controller
from stowplan.embedded.controllers.objects import name_of
from stowplan.embedded.kubelets.config import KubeletSettings, NamedNode

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


@dataclass(slots=True)
class NodeState:
    """One node as its kubelet knows it. `node` is None for one that somebody else created."""

    node: NamedNode | None
    registered: bool = False
    silent: bool = False
    vanished: bool = False
    well_since: float = 0.0
    unwell: dict[str, float] = field(default_factory=dict)
    next_lease: float = 0.0
    next_status: float = 0.0


class NodeController(Controller):
    """Keeps all nodes' objects, leases and statuses up to date."""

    name: ClassVar[str] = "kubelet-nodes"
    workers: ClassVar[int] = 8

    def __init__(self, context: Context, settings: KubeletSettings, nodes: list[NamedNode]) -> None:
        super().__init__(context)
        self.settings = settings
        self.states: dict[str, NodeState] = {node.name: NodeState(node) for node in nodes}
        self.nodes = self.informer(NODES)
        self.nodes.add_handler(self._on_change)

    def start(self) -> None:
        """Look at every node once; from then on each is looked at when it is due."""
        for name in self.states:
            self.queue.add(name)

    def is_up(self, name: str) -> bool:
        state = self.states.get(name)
        return state is not None and not (state.silent or state.vanished)

    def _on_change(self, old: Json | None, new: Json | None) -> None:
        if old is None and new is not None and self.settings.adopt and name_of(new) not in self.states:
            self.states[name_of(new)] = NodeState(None, registered=True, well_since=self.now())
            self.queue.add(name_of(new))
        elif new is None and old is not None:
            state = self.states.get(name_of(old))
            if state is not None and state.registered:
                state.vanished = True
        elif new is not None:
            self._see_capacity(new)

    def _see_capacity(self, node: Json) -> None:
        """Report at once if somebody added a resource to a node of ours, or took one away."""
        state = self.states.get(name_of(node))
        if state is not None and state.node is not None and unoffered(node, state.node):
            state.next_status = self.monotonic()
            self.queue.add(name_of(node))

    async def sync(self, key: str) -> None:
        state = self.states.get(key)
        if state is None or (state.silent and not state.vanished):
            return
        if state.vanished:
            await self._vanish(key)
            return
        if not state.registered:
            await self._register(key, state)
        node = self.nodes.get(key)
        if node is None:
            return
        now = self.monotonic()
        if now >= state.next_status:
            await self._report(node, state)
        if now >= state.next_lease:
            await self._renew(node)
            state.next_lease = now + self.settings.heartbeat
        self.queue.add_after(key, min(state.next_lease, state.next_status) - now)

    async def _vanish(self, name: str) -> None:
        node = self.nodes.get(name)
        if node is not None:
            await self.delete(NODES, node)

    async def _register(self, name: str, state: NodeState) -> None:
        assert state.node is not None
        now = self.now()
        node = self.nodes.get(name)
        if node is None:
            node = await self._create_once(NODES, node_object(state.node, self.settings.version, now))
        drivers = csi_node(state.node, node)
        if drivers is not None:
            await self._create_once(CSI_NODES, drivers)
        await self._create_once(LEASES, lease(node, self.settings.lease_seconds, now), LEASE_NAMESPACE)
        await self.informer(NODES).reached(int(node["metadata"]["resourceVersion"]))
        state.registered, state.well_since = True, now
        spread = self.context.rng.random()
        moment = self.monotonic()
        state.next_lease = moment + self.settings.heartbeat * spread
        state.next_status = moment + self.settings.status_every * (0.5 + spread / 2)

    async def _create_once(self, resource: Resource, body: Json, namespace: str = "") -> Json:
        """Create an object, or take the one of that name that is there already."""
        try:
            return await self.create(resource, body, namespace)
        except ApiError as error:
            if not error.is_already_exists:
                raise
        return await self.client.get(resource, namespace, body["metadata"]["name"])

    async def _report(self, node: Json, state: NodeState) -> None:
        now = self.now()
        patch: Json = {"status": {"conditions": conditions(state.unwell, state.well_since, now)}}
        changed = {} if state.node is None else unoffered(node, state.node)
        if changed:
            patch["status"]["allocatable"] = changed
        answer = await self.client.patch(
            NODES, "", name_of(node), patch, PatchType.STRATEGIC, subresource="status"
        )
        self.note(NODES, answer)
        state.next_status = self.monotonic() + self.settings.status_every

    async def _renew(self, node: Json) -> None:
        now = self.now()
        patch = {"spec": {"renewTime": micro_timestamp(now)}}
        try:
            await self.client.patch(LEASES, LEASE_NAMESPACE, name_of(node), patch, PatchType.MERGE)
        except ApiError as error:
            if not error.is_not_found:
                raise
            await self.client.create(
                LEASES, lease(node, self.settings.lease_seconds, now), namespace=LEASE_NAMESPACE
            )
