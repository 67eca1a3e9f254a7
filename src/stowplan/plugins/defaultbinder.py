"""Binds a pod by telling the API server."""

from stowplan.api.meta import ObjectMeta
from stowplan.api.storage import ObjectReference
from stowplan.api.writes import Binding
from stowplan.framework import Cycle, Plugin, PodInfo
from stowplan.logs import Ref


class DefaultBinder(Plugin):
    """Writes the Binding of a pod. It carries the pod's uid, so no other of that name is bound."""

    async def bind(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        meta = pod.pod.metadata
        metadata = ObjectMeta(namespace=meta.namespace, name=meta.name, uid=meta.uid)
        target = ObjectReference(kind="Node", name=node)
        scheduler = self.handle.scheduler
        if scheduler.logger.level >= 3:
            scheduler.logger.info(
                3,
                "Attempting to bind pod to node",
                logger="Bind.DefaultBinder",
                pod=Ref(pod.key),
                node=Ref(node),
            )
        await scheduler.client.bind(Binding(metadata=metadata, target=target))
