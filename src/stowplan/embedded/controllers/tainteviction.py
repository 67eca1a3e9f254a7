"""Pods leave nodes whose taints they do not tolerate, at once or when their time there is over."""

from typing import ClassVar

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.requests import Json, PatchType
from stowplan.api.taints import NO_EXECUTE
from stowplan.embedded.controllers.controller import Context, Controller
from stowplan.embedded.controllers.nodetaints import leaving_in
from stowplan.embedded.controllers.objects import is_active, key_of, name_of, node_of, spec_of, uid_of


class TaintEviction(Controller):
    """Deletes pods from nodes with NoExecute taints."""

    name: ClassVar[str] = "taint-eviction-controller"
    workers: ClassVar[int] = 4

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.nodes = self.informer(NODES)
        self.pods = self.informer(PODS)
        self._since: dict[str, float] = {}
        self.nodes.listen(self._node_changed)
        self.pods.listen(self._pod_changed)

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        before, now = (_driving(one) if one is not None else [] for one in (old, new))
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
        if node is not None and _driving(node):
            self.queue.add(key_of(new))

    async def sync(self, key: str) -> None:
        pod = self.pods.get(key)
        if pod is None or not is_active(pod):
            return
        node = self.nodes.get(node_of(pod))
        stays = None if node is None else leaving_in(_driving(node), pod)
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
        told = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": self.stamp(),
        }
        patch = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [told]}}
        await self.client.patch(PODS, namespace, name, patch, PatchType.STRATEGIC, subresource="status")
        await self.tell(pod, "TaintManagerEviction", f"Marking for deletion Pod {namespace}/{name}")
        await self.delete(PODS, pod)


def _driving(node: Json) -> list[Json]:
    return [taint for taint in spec_of(node).get("taints") or () if taint.get("effect") == NO_EXECUTE]
