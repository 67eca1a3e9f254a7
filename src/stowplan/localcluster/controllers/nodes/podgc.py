"""Removal of pods without another owner: on deleted nodes, deleted before they were placed, long over."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, ClassVar, Final

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.requests import DeleteOptions, Json, PatchType
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.objects.fields import (
    created_at,
    is_deleting,
    is_finished,
    key_of,
    name_of,
    node_of,
    uid_of,
)

PERIOD: Final = 20.0
QUARANTINE: Final = 40.0
"""Seconds a node has to be gone before its pods are."""

KEPT: Final = 12_500
"""Number of finished pods that are kept."""

_NOW: Final = DeleteOptions(grace_period_seconds=0)


class PodGCController(Controller):
    """Looks through all pods now and then."""

    name: ClassVar[str] = "pod-garbage-collector"

    def __init__(self, context: ControllerContext, *, kept: int = KEPT) -> None:
        super().__init__(context)
        self.pods = self.informer(PODS)
        self.nodes = self.informer(NODES)
        self._kept = kept
        self._missing: dict[str, float] = {}

    def tasks(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._watch(),)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(PERIOD)
            gone = self._gone_nodes()
            for key in pods_to_remove(self.pods, gone, self._kept):
                self.queue.add(key)

    def _gone_nodes(self) -> set[str]:
        """Nodes that pods are on and that have been missing for a while."""
        named = {node_of(pod) for pod in self.pods} - {""}
        missing = sorted(name for name in named if name not in self.nodes.objects)
        self._missing = {name: self._missing.get(name, self.monotonic()) for name in missing}
        return {name for name, since in self._missing.items() if self.monotonic() - since >= QUARANTINE}

    async def sync(self, key: str) -> None:
        pod = self.pods.get(key)
        if pod is None:
            return
        if node_of(pod) and not is_finished(pod):
            if not await self._is_gone(node_of(pod)):
                return
            await self._mark(pod)
        await self.delete(PODS, pod, _NOW)

    async def _is_gone(self, node: str) -> bool:
        try:
            await self.client.get(NODES, "", node)
        except ApiError as error:
            if error.is_not_found:
                return True
            raise
        return False

    async def _mark(self, pod: Json) -> None:
        condition = {
            "type": "DisruptionTarget",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": self.stamp(),
        }
        patch = {
            "metadata": {"uid": uid_of(pod)},
            "status": {"phase": "Failed", "conditions": [condition]},
        }
        namespace = pod["metadata"]["namespace"]
        await self.client.patch(
            PODS, namespace, name_of(pod), patch, PatchType.STRATEGIC, subresource="status"
        )


def pods_to_remove(pods: Iterable[Json], gone: set[str], kept: int) -> list[str]:
    """The keys of pods that have to be removed."""
    found: list[str] = []
    finished: list[Json] = []
    for pod in pods:
        if node_of(pod) in gone or (is_deleting(pod) and not node_of(pod)):
            found.append(key_of(pod))
        elif is_finished(pod) and not is_deleting(pod):
            finished.append(pod)
    finished.sort(key=lambda pod: (created_at(pod), key_of(pod)))
    return found + [key_of(pod) for pod in finished[: max(len(finished) - kept, 0)]]
