"""Simulated nodes: the objects a kubelet writes, and the controller that registers and reports them.

Nodes renew their leases, and may fall silent, become unhealthy, recover or be deleted.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar, Final

from stowplan.api.catalogue import CSI_NODES, LEASES, NODES, RESOURCE_SLICES, Resource
from stowplan.api.meta import micro_timestamp, timestamp
from stowplan.api.requests import Json, PatchType
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.kubelets.config import KubeletSettings, NamedNode, NodeShape
from stowplan.localcluster.kubelets.devices import slices_of
from stowplan.localcluster.kubelets.pretend import (
    CONDITIONS,
    FAIL,
    LONGEST,
    SILENT,
    NodeBehaviour,
    node_behaviour,
    unwell_in,
)
from stowplan.localcluster.objects.fields import annotations_of, condition_of, labels_of, name_of, uid_of

LEASE_NAMESPACE: Final = "kube-node-lease"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
MAX_RENEWALS: Final = 250
"""Default number of leases renewed per second, in clusters in which that is often enough."""

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


def conditions(unwell: Set[str], now: float, node: Json | None = None) -> list[Json]:
    """Conditions of a node, with some of them bad. An unchanged one stays, except for its heartbeat."""
    stamp = timestamp(now)
    found: list[Json] = []
    for kind in CONDITIONS:
        status, reason, message = (_UNWELL if kind in unwell else _HEALTHY)[kind]
        before = None if node is None else condition_of(node, kind)
        if before is not None and before.get("status") == status:
            found.append({**before, "lastHeartbeatTime": stamp})
            continue
        one = {"type": kind, "status": status, "reason": reason, "message": message}
        found.append({**one, "lastHeartbeatTime": stamp, "lastTransitionTime": stamp})
    return found


def unwell_conditions(node: Json) -> set[str]:
    """The conditions that a node says are bad."""
    statuses = {kind: (condition_of(node, kind) or {}).get("status") for kind in CONDITIONS}
    return {kind for kind, status in statuses.items() if status == _UNWELL[kind][0]}


def is_silent(node: Json) -> bool:
    """True if the node controller has found that a node does not report any more."""
    return (condition_of(node, "Ready") or {}).get("status") == "Unknown"


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
            "conditions": conditions(frozenset(), now),
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


def missing_parts(node: Json, registered: Json) -> tuple[Json, Json]:
    """The labels and the parts of the status that a node lacks of one that its kubelet registered."""
    labels = labels_of(node)
    status: Json = node.get("status") or {}
    added: Json = {}
    for part in ("capacity", "addresses", "nodeInfo", "daemonEndpoints"):
        if not any((status.get(part) or {}).values() if part == "nodeInfo" else status.get(part) or ()):
            added[part] = registered["status"][part]
    if not status.get("allocatable"):
        added["allocatable"] = status.get("capacity") or added["capacity"]
    return {key: value for key, value in registered["metadata"]["labels"].items() if key not in labels}, added


def csi_node(node: NamedNode, owner: Json) -> Json | None:
    """CSINode of the node, None without drivers."""
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
    """One node as its kubelet knows it. `node` is None for one that a user created.

    `silent` and `unwell` are the failures requested here, or found at the start. `behaviour` comes from its
    annotations and the rules, and `failure` is the current failure because of that.
    """

    node: NamedNode | None
    came: float = 0.0
    registered: bool = False
    complete: bool = False
    silent: bool = False
    vanished: bool = False
    unwell: set[str] = field(default_factory=set)
    behaviour: NodeBehaviour = field(default_factory=NodeBehaviour)
    failure: str = ""
    was_silent: bool = False
    next_lease: float = 0.0
    next_status: float = 0.0

    @property
    def is_silent(self) -> bool:
        return self.silent or self.failure == SILENT

    @property
    def bad_conditions(self) -> Set[str]:
        return self.unwell | unwell_in(self.failure)

    def recover(self) -> None:
        """Whatever was wrong is over; it reports as soon as it can."""
        self.silent = False
        self.unwell.clear()
        self.next_lease = self.next_status = 0.0


class NodeController(Controller):
    """Keeps all nodes' objects, leases and statuses up to date. `wake` is called for a node that is up
    again."""

    name: ClassVar[str] = "kubelet-nodes"
    workers: ClassVar[int] = 8

    def __init__(
        self,
        context: ControllerContext,
        settings: KubeletSettings,
        nodes: list[NamedNode],
        wake: Callable[[str], None],
    ) -> None:
        super().__init__(context)
        self.settings = settings
        self.has_begun = False
        """True if everything that existed at the start has been seen."""
        self.states: dict[str, NodeState] = {node.name: NodeState(node) for node in nodes}
        self._wake = wake
        self._numbers = count(len(nodes))
        self.nodes = self.informer(NODES)
        self.nodes.add_handler(self._on_change)

    def start(self) -> None:
        """Look at every node once; from then on each is looked at when it is due."""
        self.has_begun = True
        for name in self.states:
            self.queue.add(name)

    def is_up(self, name: str) -> bool:
        state = self.states.get(name)
        return state is not None and not (state.is_silent or state.vanished)

    # Changes of nodes by others

    def _on_change(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            self._has_gone(old)
            return
        name = name_of(new)
        if old is None:
            self._has_come(name, new)
        state = self.states.get(name)
        if state is None:
            return
        if old is None or annotations_of(old) != annotations_of(new) or labels_of(old) != labels_of(new):
            self._behave(name, state, old, new)
        if state.node is not None and unoffered(new, state.node):
            state.next_status = self.monotonic()
            self.queue.add(name)

    def _has_gone(self, node: Json | None) -> None:
        state = None if node is None else self.states.get(name_of(node))
        if state is not None and state.registered:
            state.vanished = True

    def _has_come(self, name: str, node: Json) -> None:
        """A node exists: one of ours, one that was there at the start, or one that a user has created."""
        state = self.states.get(name)
        if state is not None and state.vanished:
            state = NodeState(state.node, registered=True)
        elif state is None and self.settings.adopt:
            state = NodeState(None, registered=True)
        if state is None:
            return
        self.states[name] = state
        state.came = self.monotonic()
        if self.settings.as_found and not self.has_begun and condition_of(node, "Ready") is not None:
            state.complete, state.silent = True, is_silent(node)
            state.unwell = unwell_conditions(node)
            state.next_status = self._status_due()
            state.next_lease = self._lease_due(state)
        if state.registered:
            self.queue.add(name)

    def _behave(self, name: str, state: NodeState, old: Json | None, new: Json) -> None:
        """Do as the annotations say from now on. Taking a failure back also ends one that was found."""
        state.behaviour, problems = node_behaviour(new, self.settings.pretend, self._heartbeat())
        failed_before = old is not None and bool(annotations_of(old).get(FAIL))
        if old is not None and not state.behaviour.failure and (failed_before or FAIL in annotations_of(new)):
            state.recover()
        for problem in problems:
            self.context.report(f"node {name}: {problem.annotation}: {problem.message}")
        self.queue.add(name)

    def _heartbeat(self) -> float:
        """How often leases are renewed by default: of many nodes less often, but well before they end."""
        often, longest = self.settings.heartbeat, self.settings.lease_seconds / 2
        return max(often, min(len(self.states) / MAX_RENEWALS, longest))

    # Work of kubelets

    async def sync(self, key: str) -> None:
        state = self.states.get(key)
        if state is None:
            return
        if state.vanished:
            await self._vanish(key)
            return
        if not state.registered:
            await self._register(key, state)
        self._see_failure(key, state)
        node = self.nodes.get(key)
        if node is None or state.is_silent:
            return
        if not state.complete:
            await self._complete(node, state)
        now = self.monotonic()
        if now >= state.next_status:
            await self._report(node, state)
        if now >= state.next_lease:
            await self._renew(node)
            state.next_lease = now + state.behaviour.heartbeat
        self.queue.add_after(key, min(state.next_lease, state.next_status) - now)

    def _see_failure(self, name: str, state: NodeState) -> None:
        """Begin or end a failure that is due, and look again when the next one is."""
        age = self.monotonic() - state.came
        failure = state.behaviour.failure_at(age)
        if failure != state.failure:
            state.failure = failure
            state.next_lease = state.next_status = 0.0
        if state.was_silent and not state.is_silent:
            self._wake(name)
        state.was_silent = state.is_silent
        change = state.behaviour.next_change(age)
        if change < LONGEST:
            self.queue.add_after(name, change)

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
        await self._publish(node, state.node)
        await self.informer(NODES).reached(int(node["metadata"]["resourceVersion"]))
        state.registered = state.complete = True
        state.next_lease = self._lease_due(state)
        state.next_status = self._status_due()

    def _status_due(self) -> float:
        """When a node that has just reported, or need not, reports again: not all of them at once."""
        return self.monotonic() + self.settings.status_every * (0.5 + self.context.rng.random() / 2)

    def _lease_due(self, state: NodeState) -> float:
        return self.monotonic() + state.behaviour.heartbeat * self.context.rng.random()

    async def _create_once(self, resource: Resource, body: Json, namespace: str = "") -> Json:
        """Create an object, or take the one of that name that is there already."""
        try:
            return await self.create(resource, body, namespace)
        except ApiError as error:
            if not error.is_already_exists:
                raise
        return await self.client.get(resource, namespace, body["metadata"]["name"])

    async def _publish(self, node: Json, own: NamedNode) -> None:
        """Have drivers publish a node's devices. Slices of an earlier node of that name are replaced."""
        for slice in slices_of(node, own.shape.devices):
            found = await self._create_once(RESOURCE_SLICES, slice)
            owners = found["metadata"].get("ownerReferences") or ()
            if not any(owner.get("uid") == uid_of(node) for owner in owners):
                await self.delete(RESOURCE_SLICES, found)
                await self._create_once(RESOURCE_SLICES, slice)

    async def _complete(self, node: Json, state: NodeState) -> None:
        """Give a user-created node the missing fields that a kubelet sets when it registers."""
        name = name_of(node)
        own = state.node or NamedNode(name, next(self._numbers), 0, NodeShape())
        labels, status = missing_parts(node, node_object(own, self.settings.version, self.now()))
        if labels:
            self.note(
                NODES,
                await self.client.patch(NODES, "", name, {"metadata": {"labels": labels}}, PatchType.MERGE),
            )
        if status:
            patch = {"status": status}
            self.note(
                NODES, await self.client.patch(NODES, "", name, patch, PatchType.MERGE, subresource="status")
            )
        await self._publish(node, own)
        state.complete = True

    async def _report(self, node: Json, state: NodeState) -> None:
        patch: Json = {"status": {"conditions": conditions(state.bad_conditions, self.now(), node)}}
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
