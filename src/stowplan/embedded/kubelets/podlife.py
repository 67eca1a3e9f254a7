"""Pods on the nodes: they start, run, end and go."""

from collections.abc import Callable
from typing import ClassVar

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.requests import DeleteOptions, Json, PatchType, Selection
from stowplan.embedded.controllers.controller import Context, Controller
from stowplan.embedded.controllers.objects import (
    is_deleting,
    key_of,
    name_of,
    node_of,
    phase_of,
    spec_of,
    uid_of,
)
from stowplan.embedded.kubelets.addresses import Addresses
from stowplan.embedded.kubelets.pods import Action, Memory, ended, host_of, next_step, restarted, started
from stowplan.embedded.kubelets.settings import KubeletSettings

BOUND = Selection.parse(fields="spec.nodeName!=")


class PodLife(Controller):
    """Deals with every pod on a node that is ours and up; `is_up` says which are."""

    name: ClassVar[str] = "kubelet"
    workers: ClassVar[int] = 8

    def __init__(self, context: Context, settings: KubeletSettings, is_up: Callable[[str], bool]) -> None:
        super().__init__(context)
        self.settings = settings
        self._is_up = is_up
        self._memories: dict[str, Memory] = {}
        self._addresses = Addresses()
        self.pods = context.informers.of(PODS, BOUND)
        self.nodes = self.informer(NODES)
        self.pods.listen(self._told)

    def wake(self, node: str) -> None:
        """A node is up again: look at all its pods."""
        for key in self.pods.on_node[node]:
            self.queue.add(key)

    def _told(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            if old is not None:
                self._forget(key_of(old), node_of(old))
            return
        key = key_of(new)
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid_of(new):
            jitter = self.context.rng.random() * self.settings.start_jitter
            memory = self._memories[key] = Memory(uid_of(new), self.monotonic(), jitter)
        if is_deleting(new) and memory.ending is None:
            memory.ending = self.monotonic()
        if phase_of(new) == "Running" and memory.running is None:
            memory.running = self.monotonic()
        if next_step(new, memory, self.settings) is not None:
            self.queue.add(key)

    def _forget(self, key: str, node: str) -> None:
        self._memories.pop(key, None)
        self._addresses.release(node, key)
        self.queue.forget(key)

    async def sync(self, key: str) -> None:
        pod, memory = self.pods.get(key), self._memories.get(key)
        if pod is None or memory is None or not self._is_up(node_of(pod)):
            return
        step = next_step(pod, memory, self.settings)
        if step is None:
            return
        left = step.at - self.monotonic()
        if left > 0:
            self.queue.add_after(key, left)
        else:
            await self._do(step.action, pod, memory)

    async def _do(self, action: Action, pod: Json, memory: Memory) -> None:
        now = self.now()
        if action is Action.START:
            await self._write(pod, self._started(pod, now))
        elif action is Action.SUCCEED:
            await self._write(pod, ended(pod, "Succeeded", now, 0))
        elif action is Action.FAIL:
            await self._write(pod, ended(pod, "Failed", now, 1))
        elif action is Action.RESTART:
            await self._write(pod, restarted(pod, now))
            memory.running = self.monotonic()
            self.queue.add(key_of(pod))
        elif action is Action.STOP:
            await self._write(pod, ended(pod, "Failed", now, 143))
        else:
            await self.delete(PODS, pod, DeleteOptions(grace_period_seconds=0))

    def _started(self, pod: Json, now: float) -> Json:
        name = node_of(pod)
        node = self.nodes.get(name)
        host = name if node is None else host_of(node)
        if spec_of(pod).get("hostNetwork"):
            return started(pod, host, host, now)
        return started(pod, host, self._addresses.of(name, key_of(pod)), now)

    async def _write(self, pod: Json, status: Json) -> None:
        """Write a status for exactly this pod; conditions of others stay."""
        patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
        namespace = pod["metadata"].get("namespace", "")
        answer = await self.client.patch(
            PODS, namespace, name_of(pod), patch, PatchType.STRATEGIC, subresource="status"
        )
        self.note(PODS, answer)
