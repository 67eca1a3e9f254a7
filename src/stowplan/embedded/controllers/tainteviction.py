"""The taint eviction controller: pods leave nodes with NoExecute taints they do not tolerate."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.node import Taint
from stowplan.api.pod import Toleration
from stowplan.api.requests import Json, PatchType
from stowplan.api.taints import NO_EXECUTE, tolerates
from stowplan.embedded.controllers.controller import Context, Controller
from stowplan.embedded.controllers.objects import is_active, key_of, name_of, node_of, spec_of, uid_of


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


class TaintEvictionController(Controller):
    """Deletes pods from nodes with NoExecute taints."""

    name: ClassVar[str] = "taint-eviction-controller"
    workers: ClassVar[int] = 4

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.nodes = self.informer(NODES)
        self.pods = self.informer(PODS)
        self._since: dict[str, float] = {}
        self.nodes.add_handler(self._node_changed)
        self.pods.add_handler(self._pod_changed)

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        before, now = (_no_execute_taints(one) if one is not None else [] for one in (old, new))
        node = new if new is not None else old
        if node is not None and before != now:
            for key in self.pods.on_node[name_of(node)]:
                self.queue.add(key)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            if old is not None:
                self._since.pop(uid_of(old), None)
            return
        node = self.nodes.get(node_of(new))
        if node is not None and _no_execute_taints(node):
            self.queue.add(key_of(new))

    async def sync(self, key: str) -> None:
        pod = self.pods.get(key)
        if pod is None or not is_active(pod):
            return
        node = self.nodes.get(node_of(pod))
        stays = None if node is None else min_toleration_seconds(_no_execute_taints(node), pod)
        if stays is None:
            self._since.pop(uid_of(pod), None)
            return
        left = self._since.setdefault(uid_of(pod), self.monotonic()) + stays - self.monotonic()
        if left > 0:
            self.queue.add_after(key, left)
            return
        await self._evict(pod)

    async def _evict(self, pod: Json) -> None:
        namespace, name = pod["metadata"]["namespace"], name_of(pod)
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": self.stamp(),
        }
        patch = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}
        await self.client.patch(PODS, namespace, name, patch, PatchType.STRATEGIC, subresource="status")
        await self.record_event(pod, "TaintManagerEviction", f"Marking for deletion Pod {namespace}/{name}")
        await self.delete(PODS, pod)


def _no_execute_taints(node: Json) -> list[Json]:
    return [taint for taint in spec_of(node).get("taints") or () if taint.get("effect") == NO_EXECUTE]
