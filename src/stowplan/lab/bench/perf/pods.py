"""The pods of a workload as they are scheduled: how many, where, and when."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from time import perf_counter
from typing import Final

from stowplan.api.pod import Pod
from stowplan.lab.bench.servers.http import BenchError

STALL_TIMEOUT: Final = 60.0
"""Seconds without any change of a pod after which nothing more is expected."""
_LOOK_EVERY: Final = 0.02

Selector = Mapping[str, str]


class ScheduledTimes(list[float]):
    """Times at which pods of some namespaces and labels got a node."""

    def __init__(self, namespaces: Collection[str], selector: Selector) -> None:
        super().__init__()
        self.namespaces = frozenset(namespaces)
        self.selector = selector
        self.began = perf_counter()

    def takes(self, pod: Pod) -> bool:
        return pod.metadata.namespace in self.namespaces and _matches(pod, self.selector)


class PodTracker:
    """Told of every change of a pod by the informer of the scheduler, as upstream's benchmarks are."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._scheduled: Counter[str] = Counter()
        self._changed = asyncio.Event()
        self.collecting: ScheduledTimes | None = None
        self.on_scheduled: Callable[[Pod], None] | None = None

    def added(self, new: Pod, /) -> None:
        self._pods[new.key] = new
        if new.spec.node_name:
            self._got_node(new)
        self._changed.set()

    def updated(self, old: Pod, new: Pod, /) -> None:
        self._pods[new.key] = new
        if new.spec.node_name and not old.spec.node_name:
            self._got_node(new)
        self._changed.set()

    def deleted(self, last: Pod, /) -> None:
        gone = self._pods.pop(last.key)
        if gone.spec.node_name:
            self._scheduled[gone.metadata.namespace] -= 1
        self._changed.set()

    def _got_node(self, pod: Pod) -> None:
        self._scheduled[pod.metadata.namespace] += 1
        if self.collecting is not None and self.collecting.takes(pod):
            self.collecting.append(perf_counter())
        if self.on_scheduled is not None:
            self.on_scheduled(pod)

    def within(self, namespace: str, selector: Selector) -> list[Pod]:
        """The pods of a namespace with these labels."""
        return [
            pod
            for pod in self._pods.values()
            if pod.metadata.namespace == namespace and _matches(pod, selector)
        ]

    async def wait_scheduled(self, namespace: str, selector: Selector, wanted: int) -> None:
        """Wait until `wanted` pods of a namespace have a node. Raises BenchError if nothing changes."""

        def count() -> int:
            if not selector:
                return self._scheduled[namespace]
            return sum(1 for pod in self.within(namespace, selector) if pod.spec.node_name)

        await self._wait(count, wanted, f"pods in namespace {namespace} to get nodes")

    async def wait_attempted(self, namespace: str, selector: Selector, wanted: int) -> None:
        """Wait until `wanted` pods of a namespace were tried, or are gated."""

        def count() -> int:
            return sum(1 for pod in self.within(namespace, selector) if _is_attempted(pod))

        await self._wait(count, wanted, f"pods in namespace {namespace} to be tried")

    async def wait_known(self, namespace: str, wanted: int) -> None:
        """Wait until `wanted` pods of a namespace are known here."""
        await self._wait(lambda: len(self.within(namespace, {})), wanted, f"pods in namespace {namespace}")

    def _waiting_why(self) -> str:
        """Scheduler's message about one of the waiting pods."""
        for pod in self._pods.values():
            for condition in () if pod.spec.node_name else pod.status.conditions:
                if condition.type == "PodScheduled" and condition.message:
                    return f"; {pod.key}: {condition.message}"
        return ""

    async def _wait(self, count: Callable[[], int], wanted: int, what: str) -> None:
        while (found := count()) < wanted:
            self._changed.clear()
            try:
                async with asyncio.timeout(STALL_TIMEOUT):
                    await self._changed.wait()
            except TimeoutError:
                raise BenchError(
                    f"waited for {wanted:,} {what}: {found:,} did{self._waiting_why()}"
                ) from None
            await asyncio.sleep(_LOOK_EVERY)


def _matches(pod: Pod, selector: Selector) -> bool:
    return not selector or selector.items() <= pod.metadata.labels.items()


def _is_attempted(pod: Pod) -> bool:
    return bool(pod.spec.node_name) or any(
        condition.type == "PodScheduled" for condition in pod.status.conditions
    )
