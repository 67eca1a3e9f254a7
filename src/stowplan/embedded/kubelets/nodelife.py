"""The nodes themselves: they register, renew their leases, and may fall silent, ail, recover or vanish."""

from dataclasses import dataclass, field
from typing import ClassVar

from stowplan.api.catalogue import CSI_NODES, LEASES, NODES, Resource
from stowplan.api.requests import Json, PatchType
from stowplan.api.status import ApiError
from stowplan.api.timestamps import micro_timestamp
from stowplan.embedded.controllers.controller import Context, Controller
from stowplan.embedded.controllers.objects import name_of
from stowplan.embedded.kubelets.nodes import (
    LEASE_NAMESPACE,
    conditions,
    csi_node,
    lease,
    node_object,
    unoffered,
)
from stowplan.embedded.kubelets.settings import KubeletSettings
from stowplan.embedded.kubelets.shapes import NamedNode


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


class NodeLife(Controller):
    """Keeps all nodes' objects, leases and statuses up to date."""

    name: ClassVar[str] = "kubelet-nodes"
    workers: ClassVar[int] = 8

    def __init__(self, context: Context, settings: KubeletSettings, nodes: list[NamedNode]) -> None:
        super().__init__(context)
        self.settings = settings
        self.states: dict[str, NodeState] = {node.name: NodeState(node) for node in nodes}
        self.nodes = self.informer(NODES)
        self.nodes.listen(self._told)

    def start(self) -> None:
        """Look at every node once; from then on each is looked at when it is due."""
        for name in self.states:
            self.queue.add(name)

    def is_up(self, name: str) -> bool:
        state = self.states.get(name)
        return state is not None and not (state.silent or state.vanished)

    def _told(self, old: Json | None, new: Json | None) -> None:
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
        told: Json = {"status": {"conditions": conditions(state.unwell, state.well_since, now)}}
        changed = {} if state.node is None else unoffered(node, state.node)
        if changed:
            told["status"]["allocatable"] = changed
        answer = await self.client.patch(
            NODES, "", name_of(node), told, PatchType.STRATEGIC, subresource="status"
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
