"""The node lifecycle controller: nodes that stop reporting are marked, tainted and slowly evicted.

Which taints a node should have for its conditions, and how fast the nodes of a zone may lose their pods.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from stowplan.api.catalogue import LEASES, NODES, PODS
from stowplan.api.requests import Json, PatchType
from stowplan.api.rules.taints import NO_EXECUTE, NO_SCHEDULE
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.objects.fields import (
    condition_of,
    is_finished,
    is_ready,
    labels_of,
    name_of,
    spec_of,
    uid_of,
)

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_BY_CONDITION: Final = (
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
)
_SCHEDULING_KEYS: Final = frozenset((*(key for _, _, key in _BY_CONDITION), UNSCHEDULABLE))
_EVICTION_KEYS: Final = frozenset((NOT_READY, UNREACHABLE))
ZONE: Final = "topology.kubernetes.io/zone"

LARGE_ZONE: Final = 50
"""A zone with more nodes still loses some when most of it is down; a smaller one loses none."""

UNHEALTHY_THRESHOLD: Final = 0.55
EVICTION_RATE: Final = 0.1
SECONDARY_EVICTION_RATE: Final = 0.01


def is_ready_node(node: Json) -> bool:
    return (condition_of(node, "Ready") or {}).get("status") == "True"


def eviction_taint(node: Json) -> str:
    """The taint that makes pods leave, "" if the node is well or has not said anything yet."""
    status = (condition_of(node, "Ready") or {}).get("status")
    return {"False": NOT_READY, "Unknown": UNREACHABLE}.get(str(status), "")


def taints_for(node: Json, stamp: str, *, evict: bool) -> list[Json] | None:
    """The taints a node should have, None if it has them. `evict`: pods may be made to leave it now.

    Taints of others stay. One that makes pods leave goes at once when its cause is gone.
    """
    held: Sequence[Json] = spec_of(node).get("taints") or ()
    for_scheduling = [
        key for kind, value, key in _BY_CONDITION if (condition_of(node, kind) or {}).get("status") == value
    ]
    if spec_of(node).get("unschedulable"):
        for_scheduling.append(UNSCHEDULABLE)
    leaving = eviction_taint(node)
    has_leaving = any((one.get("key"), one.get("effect")) == (leaving, NO_EXECUTE) for one in held)
    wanted = [(key, NO_SCHEDULE) for key in for_scheduling]
    if leaving and (evict or has_leaving):
        wanted.append((leaving, NO_EXECUTE))
    kept = [one for one in held if not _is_ours(one) or (one.get("key"), one.get("effect")) in wanted]
    there = {(one.get("key"), one.get("effect")) for one in kept}
    added = [
        {"key": key, "effect": effect, "timeAdded": stamp}
        for key, effect in wanted
        if (key, effect) not in there
    ]
    return [*kept, *added] if added or len(kept) != len(held) else None


def _is_ours(taint: Json) -> bool:
    key, effect = taint.get("key"), taint.get("effect")
    if effect == NO_SCHEDULE:
        return key in _SCHEDULING_KEYS
    return effect == NO_EXECUTE and key in _EVICTION_KEYS


def zone_of(node: Json) -> str:
    return labels_of(node).get(ZONE, "")


class ZoneHealth:
    """Number of ready and other nodes of each zone, counted as nodes change."""

    def __init__(self, nodes: Iterable[Json] = ()) -> None:
        self._ready: Counter[str] = Counter()
        self._not_ready: Counter[str] = Counter()
        for node in nodes:
            self.node_changed(None, node)

    def node_changed(self, old: Json | None, new: Json | None) -> None:
        for node, change in ((old, -1), (new, 1)):
            if node is not None:
                counts = self._ready if is_ready_node(node) else self._not_ready
                zone = zone_of(node)
                counts[zone] += change
                if not counts[zone]:
                    del counts[zone]

    def eviction_rate(self, zone: str) -> float:
        """Number of nodes of a zone that may lose their pods per second.

        If all nodes are down the fault is likely to be ours. If most of a zone is, eviction is slow or stops.
        """
        ready, not_ready = self._ready[zone], self._not_ready[zone]
        if not self._ready:
            return 0.0
        if not ready:
            return EVICTION_RATE
        if not_ready > 2 and not_ready / (not_ready + ready) >= UNHEALTHY_THRESHOLD:
            return SECONDARY_EVICTION_RATE if not_ready + ready > LARGE_ZONE else 0.0
        return EVICTION_RATE


MAX_REGISTERED: Final = 1000
"""Maximum number of nodes that are reported in one round."""

LEASE_NAMESPACE: Final = "kube-node-lease"
_REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """Seconds: how often nodes are looked at, and how long one may be silent, also at its beginning."""

    period: float = 5.0
    grace: float = 50.0
    startup_grace: float = 60.0


class NodeLifecycleController(Controller):
    """Watches over nodes: their leases, their conditions, and the taints that follow."""

    name: ClassVar[str] = "node-controller"

    def __init__(self, context: ControllerContext, settings: LifecycleSettings | None = None) -> None:
        super().__init__(context)
        self.settings = LifecycleSettings() if settings is None else settings
        self.nodes = self.informer(NODES)
        self.leases = self.informer(LEASES)
        self.pods = self.informer(PODS)
        self._zones = ZoneHealth()
        self._heard: dict[str, float] = {}
        self._registered: dict[str, Json] = {}
        self._to_mark: set[str] = set()
        self._allowances: dict[str, float] = {}
        self.nodes.add_handler(self._node_changed)
        self.leases.add_handler(self._lease_changed)

    def tasks(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._watch(),)

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        self._zones.node_changed(old, new)
        if new is None:
            if old is not None:
                self._heard.pop(name_of(old), None)
                self._to_mark.discard(name_of(old))
            return
        if old is None or _heartbeat(old) != _heartbeat(new):
            self._heard[name_of(new)] = self.monotonic()
        if old is None or _taint_causes(old) != _taint_causes(new):
            self.queue.add(name_of(new))

    def _lease_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None and new["metadata"].get("namespace") == LEASE_NAMESPACE:
            self._heard[name_of(new)] = self.monotonic()

    async def _watch(self) -> None:
        """Look at all nodes again and again."""
        while True:
            await asyncio.sleep(self.settings.period)
            await self._register()
            now = self.monotonic()
            for name, node in self.nodes.objects.items():
                if now - self._heard.setdefault(name, now) > self._grace(node):
                    self.queue.add(name)

    async def _register(self) -> None:
        """Tell of nodes that have come and gone, not of thousands at once."""
        there = self.nodes.objects
        gone = [name for name in self._registered if name not in there]
        new = [name for name in there if name not in self._registered][:MAX_REGISTERED]
        for name in gone:
            text = f"Node {name} event: Removing Node {name} from Controller"
            await self.record_event(self._registered.pop(name), "RemovingNode", text)
        for name in new:
            metadata = {"name": name, "uid": uid_of(there[name])}
            self._registered[name] = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
            text = f"Node {name} event: Registered Node {name} in Controller"
            await self.record_event(self._registered[name], "RegisteredNode", text)

    def _grace(self, node: Json) -> float:
        """Seconds without a heartbeat after which the state of a node is unknown."""
        return self.settings.grace if condition_of(node, "Ready") else self.settings.startup_grace

    async def sync(self, key: str) -> None:
        node = self.nodes.get(key)
        if node is None:
            return
        silent = self.monotonic() - self._heard.setdefault(key, self.monotonic()) > self._grace(node)
        status = (condition_of(node, "Ready") or {}).get("status")
        if silent and status != "Unknown":
            node = await self._give_up(node)
            if status == "True":
                self._to_mark.add(key)
                text = f"Node {key} status is now: NodeNotReady"
                await self.record_event(node, "NodeNotReady", text)
        if key in self._to_mark:
            if not is_ready_node(node):
                await self._mark_pods(node)
            self._to_mark.discard(key)
        await self._taint(key, node)

    async def _give_up(self, node: Json) -> Json:
        """Set the conditions of a silent node to Unknown."""
        stamp = self.stamp()
        conditions: list[Json] = []
        for kind in _REPORTED:
            condition = condition_of(node, kind)
            reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
            if condition is None:
                reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
            new = {"type": kind, "status": "Unknown", "reason": reason, "message": message}
            never = {"lastHeartbeatTime": node["metadata"].get("creationTimestamp", stamp)}
            conditions.append({**(condition or never), **new, "lastTransitionTime": stamp})
        patch = {"status": {"conditions": conditions}}
        written = await self.client.patch(
            NODES, "", name_of(node), patch, PatchType.STRATEGIC, subresource="status"
        )
        return {"apiVersion": NODES.api_version, "kind": NODES.kind, **self.note(NODES, written)}

    async def _mark_pods(self, node: Json) -> None:
        """Pods of a node that fell silent are not ready either, once."""
        changed = (condition_of(node, "Ready") or {}).get("lastTransitionTime", "")
        for pod in list(self.pods.on_node[name_of(node)].values()):
            ready = condition_of(pod, "Ready") or {}
            if is_finished(pod) or not is_ready(pod) or ready.get("lastTransitionTime", "") > changed:
                continue
            condition = {"type": "Ready", "status": "False", "lastTransitionTime": self.stamp()}
            patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}}
            namespace, name = pod["metadata"]["namespace"], name_of(pod)
            written = await self.client.patch(
                PODS, namespace, name, patch, PatchType.STRATEGIC, subresource="status"
            )
            self.note(PODS, written)
            await self.record_event(pod, "NodeNotReady", "Node is not ready", WARNING)

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
        rate = self._zones.eviction_rate(zone)
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


def _taint_causes(node: Json) -> object:
    """Relevant parts of a node for its taints."""
    states = [(condition_of(node, kind) or {}).get("status") for kind in (*_REPORTED, "NetworkUnavailable")]
    return states, spec_of(node).get("unschedulable"), spec_of(node).get("taints")
