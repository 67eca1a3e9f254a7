"""Nodes that stop to answer are found out, tainted, and lose their pods; those that recover are welcome."""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from stowplan.api.catalogue import LEASES, NODES, PODS
from stowplan.api.requests import Json, PatchType
from stowplan.embedded.controllers.controller import Context, Controller
from stowplan.embedded.controllers.events import WARNING
from stowplan.embedded.controllers.nodetaints import (
    eviction_rate,
    eviction_taint,
    is_ready_node,
    taints_for,
    zone_of,
)
from stowplan.embedded.controllers.objects import condition_of, is_finished, is_ready, name_of, spec_of

LEASE_NAMESPACE: Final = "kube-node-lease"
_REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """Seconds: how often nodes are looked at, and how long one may be silent."""

    period: float = 5.0
    grace: float = 50.0


class NodeLifecycle(Controller):
    """Watches over nodes: their leases, their conditions, and the taints that follow."""

    name: ClassVar[str] = "node-controller"

    def __init__(self, context: Context, settings: LifecycleSettings | None = None) -> None:
        super().__init__(context)
        self.settings = LifecycleSettings() if settings is None else settings
        self.nodes = self.informer(NODES)
        self.leases = self.informer(LEASES)
        self.pods = self.informer(PODS)
        self._heard: dict[str, float] = {}
        self._allowances: dict[str, float] = {}
        self.nodes.listen(self._node_changed)
        self.leases.listen(self._lease_changed)

    def tasks(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._watch(),)

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            if old is not None:
                self._heard.pop(name_of(old), None)
            return
        if old is None or _heartbeat(old) != _heartbeat(new):
            self._heard[name_of(new)] = self.monotonic()
        if old is None or _seen(old) != _seen(new):
            self.queue.add(name_of(new))

    def _lease_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None and new["metadata"].get("namespace") == LEASE_NAMESPACE:
            self._heard[name_of(new)] = self.monotonic()

    async def _watch(self) -> None:
        """Look at all nodes again and again."""
        while True:
            await asyncio.sleep(self.settings.period)
            latest = self.monotonic() - self.settings.grace
            for name in self.nodes.objects:
                if self._heard.setdefault(name, self.monotonic()) < latest:
                    self.queue.add(name)

    async def sync(self, key: str) -> None:
        node = self.nodes.get(key)
        if node is None:
            return
        silent = self.monotonic() - self._heard.setdefault(key, self.monotonic()) > self.settings.grace
        status = (condition_of(node, "Ready") or {}).get("status")
        if silent and status != "Unknown":
            node = await self._give_up(node)
        if not is_ready_node(node) and condition_of(node, "Ready") is not None:
            await self._mark_pods(node)
        await self._taint(key, node)

    async def _give_up(self, node: Json) -> Json:
        """Say of a silent node that nobody knows how it is."""
        stamp = self.stamp()
        conditions: list[Json] = []
        for kind in _REPORTED:
            told = condition_of(node, kind)
            reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
            if told is None:
                reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
            new = {"type": kind, "status": "Unknown", "reason": reason, "message": message}
            conditions.append({**(told or {"lastHeartbeatTime": stamp}), **new, "lastTransitionTime": stamp})
        patch = {"status": {"conditions": conditions}}
        written = await self.client.patch(
            NODES, "", name_of(node), patch, PatchType.STRATEGIC, subresource="status"
        )
        await self.tell(node, "NodeNotReady", f"Node {name_of(node)} status is now: NodeNotReady")
        return self.note(NODES, written)

    async def _mark_pods(self, node: Json) -> None:
        """Pods of a node that is not ready are not ready either, once."""
        changed = (condition_of(node, "Ready") or {}).get("lastTransitionTime", "")
        for pod in list(self.pods.on_node[name_of(node)].values()):
            ready = condition_of(pod, "Ready") or {}
            if is_finished(pod) or not is_ready(pod) or ready.get("lastTransitionTime", "") > changed:
                continue
            told = {"type": "Ready", "status": "False", "lastTransitionTime": self.stamp()}
            patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [told]}}
            namespace, name = pod["metadata"]["namespace"], name_of(pod)
            written = await self.client.patch(
                PODS, namespace, name, patch, PatchType.STRATEGIC, subresource="status"
            )
            self.note(PODS, written)
            await self.tell(pod, "NodeNotReady", "Node is not ready", WARNING)

    async def _taint(self, key: str, node: Json) -> None:
        evict = False
        if eviction_taint(node) and not _is_evicting(node):
            pause = self._pause(zone_of(node))
            evict = pause == 0
            if not evict:
                self.queue.add_after(key, pause)
        wanted = taints_for(node, self.stamp(), evict=evict)
        if wanted is not None:
            await self.change(NODES, node, {"spec": {"taints": wanted or None}})

    def _pause(self, zone: str) -> float:
        """Seconds until the next node of a zone may lose its pods; 0 is now, and takes that chance."""
        rate = eviction_rate(self.nodes, zone)
        if rate <= 0:
            return self.settings.period
        left = self._allowances.get(zone, 0.0) - self.monotonic()
        if left > 0:
            return left
        self._allowances[zone] = self.monotonic() + 1 / rate
        return 0.0


def _is_evicting(node: Json) -> bool:
    key = eviction_taint(node)
    held = spec_of(node).get("taints") or ()
    return any((one.get("key"), one.get("effect")) == (key, "NoExecute") for one in held)


def _heartbeat(node: Json) -> object:
    ready = condition_of(node, "Ready") or {}
    if ready.get("status") == "Unknown":
        return None
    return ready.get("lastHeartbeatTime"), ready.get("status")


def _seen(node: Json) -> object:
    """What of a node decides about its taints."""
    states = [(condition_of(node, kind) or {}).get("status") for kind in (*_REPORTED, "NetworkUnavailable")]
    return states, spec_of(node).get("unschedulable"), spec_of(node).get("taints")
