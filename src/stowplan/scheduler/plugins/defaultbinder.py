"""Binds a pod by telling the API server."""

from random import Random
from typing import Any

from stowplan.api.meta import ObjectMeta
from stowplan.api.storage import ObjectReference
from stowplan.api.writes import Binding
from stowplan.client.retry import had_no_effect, retried
from stowplan.runtime.logs import Ref
from stowplan.scheduler.framework import Cycle, Handle, Plugin, PodInfo


class DefaultBinder(Plugin):
    """Writes the Binding of a pod. It carries the pod's uid, so no other of that name is bound.

    Since 1.37 a binding is sent again that the server refused because it was not well, or that did not reach
    it. One whose answer was lost is not: it may have been made. How long it waits before that draws no random
    numbers of the profile, which decisions depend on.
    """

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._tries = handle.behaviour.calls.bind_tries
        self._is_dispatched = handle.gates["SchedulerAsyncAPICalls"]

    async def bind(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        meta = pod.pod.metadata
        metadata = ObjectMeta(namespace=meta.namespace, name=meta.name, uid=meta.uid)
        target = ObjectReference(kind="Node", name=node)
        binding = Binding(metadata=metadata, target=target)
        if self._is_dispatched:
            await self.handle.scheduler.dispatch_binding(pod.pod, lambda: self._dispatched(binding, node))
            return
        scheduler = self.handle.scheduler
        if scheduler.logger.level >= 3:
            scheduler.logger.info(
                3,
                "Attempting to bind pod to node",
                logger="Bind.DefaultBinder",
                pod=Ref(pod.key),
                node=Ref(node),
            )
        await self._send(binding)

    async def _dispatched(self, binding: Binding, node: str) -> None:
        """As the queue of API calls sends it."""
        key = f"{binding.namespace}/{binding.name}"
        self.handle.scheduler.logger.info(3, "Attempting to bind pod to node", pod=Ref(key), node=node)
        await self._send(binding)

    async def _send(self, binding: Binding) -> None:
        client = self.handle.scheduler.client
        if self._tries == 1:
            await client.bind(binding)
        else:
            await retried(lambda: client.bind(binding), had_no_effect, lambda: _jitter(binding), self._tries)


def _jitter(binding: Binding) -> float:
    """A number of the pod's own, so that retries take nothing from the random numbers of decisions."""
    return Random(binding.metadata.uid).random()
