"""The taint eviction controller: pods leave nodes with NoExecute taints they do not tolerate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.node import Taint
from stowplan.api.pod import Toleration
from stowplan.api.requests import Json, PatchType
from stowplan.api.rules.taints import NO_EXECUTE, tolerates
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.objects.fields import key_of, name_of, node_of, spec_of, split_key, uid_of


def min_toleration_seconds(taints: Sequence[Json], pod: Json) -> float | None:
    """Seconds that a pod may stay on a node with these taints, None if it may stay for good."""
    driving = [msgspec.convert(taint, Taint) for taint in taints if taint.get("effect") == NO_EXECUTE]
    if not driving:
        return None
    tolerations = msgspec.convert(spec_of(pod).get("tolerations") or (), tuple[Toleration, ...])
    limits: list[float] = []
    for taint in driving:
        suited = [one for one in tolerations if tolerates(one, taint)]
        if not suited:
            return 0.0
        limits += [
            max(float(one.toleration_seconds), 0.0) for one in suited if one.toleration_seconds is not None
        ]
    return min(limits, default=None)


@dataclass(slots=True)
class NodeTaintEviction:
    """A pod that is to leave its node: when, and whether it was told to."""

    due: float
    done: bool = False


class TaintEvictionController(Controller):
    """Deletes pods from nodes with NoExecute taints."""

    name: ClassVar[str] = "taint-eviction-controller"
    workers: ClassVar[int] = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.nodes = self.informer(NODES)
        self.pods = self.informer(PODS)
        self._evictions: dict[str, NodeTaintEviction] = {}
        self.nodes.add_handler(self._node_changed)
        self.pods.add_handler(self._pod_changed)

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        before, now = (_no_execute_taints(one) if one is not None else [] for one in (old, new))
        node = new if new is not None else old
        if node is not None and before != now:
            for key in self.pods.on_node[name_of(node)]:
                self.queue.add(key)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        pod = new if new is not None else old
        assert pod is not None
        if new is None:
            if key_of(pod) in self._evictions:
                self.queue.add(key_of(pod))
            return
        if old is not None and _stay(old) == _stay(new):
            return
        node = self.nodes.get(node_of(new))
        if node is not None and _no_execute_taints(node):
            self.queue.add(key_of(new))

    async def sync(self, key: str) -> None:
        pod = self.pods.get(key)
        if pod is None:
            await self._cancel(key)
            return
        node = self.nodes.get(node_of(pod))
        if node is None:
            return
        stays = min_toleration_seconds(_no_execute_taints(node), pod)
        if stays is None:
            await self._cancel(key)
            return
        known, now = self._evictions.get(key), self.monotonic()
        if known is not None and known.due > now and stays == 0:
            await self._cancel(key)
            known = None
        if known is None:
            known = self._evictions[key] = NodeTaintEviction(now + stays)
        if known.done:
            return
        if known.due > now:
            self.queue.add_after(key, known.due - now)
            return
        await self._evict(pod)
        known.done = True

    async def _cancel(self, key: str) -> None:
        """Forget an eviction. The event is also sent if it has happened, since that is the case when a pod is
        gone, too."""
        if self._evictions.pop(key, None) is None:
            return
        namespace, name = split_key(key)
        about = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}}
        await self.record_event(about, "TaintManagerEviction", f"Cancelling deletion of Pod {key}")

    async def _evict(self, pod: Json) -> None:
        namespace, name = pod["metadata"]["namespace"], name_of(pod)
        await self.record_event(pod, "TaintManagerEviction", f"Marking for deletion Pod {namespace}/{name}")
        condition = {
            "type": "DisruptionTarget",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": self.stamp(),
        }
        patch = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}
        await self.client.patch(PODS, namespace, name, patch, PatchType.STRATEGIC, subresource="status")
        await self.delete(PODS, pod)


def _no_execute_taints(node: Json) -> list[Json]:
    return [taint for taint in spec_of(node).get("taints") or () if taint.get("effect") == NO_EXECUTE]


def _stay(pod: Json) -> object:
    """Relevant parts of a pod for its stay."""
    return node_of(pod), spec_of(pod).get("tolerations")
