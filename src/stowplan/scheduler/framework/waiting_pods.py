"""Pods that wait at Permit: their node is chosen and held, but plugins want something to happen first."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

from stowplan.gocompat.durations import SECOND, Duration
from stowplan.scheduler.framework.status import SUCCESS, Status, error, unschedulable
from stowplan.scheduler.table.podinfo import PodInfo

LONGEST_WAIT: Final = 15 * 60.0
"""Seconds no plugin can make a pod wait longer than."""


class WaitingPod:
    """A pod and the plugins that still hold it. The last to allow it releases it; one rejection ends it."""

    def __init__(self, pod: PodInfo, node: str, waits: Mapping[str, float]) -> None:
        self.pod = pod
        self.node = node
        loop = asyncio.get_running_loop()
        self._verdict: asyncio.Future[Status] = loop.create_future()
        self._timers = {
            plugin: loop.call_later(min(seconds, LONGEST_WAIT), self._give_up, plugin, seconds)
            for plugin, seconds in waits.items()
        }

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins it waits for."""
        return list(self._timers)

    def allow(self, plugin: str) -> None:
        """A plugin has no objection any more."""
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._end(SUCCESS)

    def reject(self, plugin: str, message: str) -> None:
        """A plugin turns the pod away."""
        self._end(unschedulable(message).by(plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """The pod has to make room for another. False if its fate was sealed already."""
        return self._end(error(message).by(plugin))

    async def verdict(self) -> Status:
        """Wait for the end: success, a rejection, or an error for a pod that was preempted."""
        return await asyncio.shield(self._verdict)

    def stop(self) -> None:
        """Nobody waits for the verdict any more."""
        self._cancel_timers()

    def _give_up(self, plugin: str, seconds: float) -> None:
        waited = Duration(round(min(seconds, LONGEST_WAIT) * SECOND))
        self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    def _end(self, status: Status) -> bool:
        if self._verdict.done():
            return False
        self._cancel_timers()
        self._verdict.set_result(status)
        return True

    def _cancel_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()


class WaitingPods:
    """All pods that wait, of all profiles, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def add(self, waiting: WaitingPod) -> None:
        self._pods[waiting.pod.uid] = waiting

    def remove(self, uid: str) -> None:
        waiting = self._pods.pop(uid, None)
        if waiting is not None:
            waiting.stop()
