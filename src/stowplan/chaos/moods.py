"""A plugin of moods: it rejects, fails, dawdles and lets pods wait, as the weather has it."""

import asyncio
from typing import Any, ClassVar

from stowplan.chaos.world import World
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Handle, Plugin, Wait
from stowplan.framework.status import SKIP, Status, error, unschedulable

NAME = "Moods"
LONGEST = 6.0
"""Seconds that anything takes at most, but for a wait at Permit, which may take twice as long."""


class Moods(Plugin):
    """Takes part in everything between the choice of a node and its binding. `held` are its reservations."""

    name = NAME
    world: ClassVar[World]

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._rng = handle.rng
        self.held: dict[str, str] = {}

    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        self.held[pod.uid] = node
        return self._refusal("reserve") if self._strikes(0.2) else None

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        self.held.pop(pod.uid, None)
        if self._strikes(0.1):
            raise RuntimeError("unreserve is in a bad mood")

    def permit(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | Wait | None:
        if not self._strikes(0.6):
            return None
        if self._rng.random() < 0.2:
            return self._refusal("permit")
        seconds = self._rng.random() * LONGEST
        asyncio.get_running_loop().call_later(seconds, self._end_wait, pod.uid, self._rng.random())
        return Wait(self._rng.random() * 2 * LONGEST)

    def _end_wait(self, uid: str, fate: float) -> None:
        """A wait ends well or badly, or its time runs out."""
        waiting = self.handle.scheduler.waiting.get(uid)
        if waiting is None:
            return
        if fate < 0.6:
            waiting.allow(self.name)
        elif fate < 0.8:
            waiting.reject(self.name, "changed its mind")

    def pre_bind_pre_flight(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        if self._strikes(0.05):
            return error("pre-flight is in a bad mood")
        return None if self._strikes(0.6) else SKIP

    async def pre_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        await asyncio.sleep(self._rng.random() * LONGEST)
        return self._refusal("pre-bind") if self._strikes(0.4) else None

    async def bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        if self._strikes(0.3):
            await asyncio.sleep(self._rng.random() * LONGEST)
        return error("bind is in a bad mood") if self._strikes(0.2) else SKIP

    async def post_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        self.held.pop(pod.uid, None)
        if self._strikes(0.2):
            raise RuntimeError("post-bind is in a bad mood")

    def _strikes(self, share: float) -> bool:
        likely = self.world.weather.plugins * share
        return likely > 0 and self._rng.random() < likely

    def _refusal(self, where: str) -> Status:
        self.world.counts["plugin refusals"] += 1
        kind = self._rng.randrange(3)
        if kind == 0:
            raise RuntimeError(f"{where} is in a bad mood")
        return error(f"{where} fails") if kind == 1 else unschedulable(f"{where} rejects")


def moods_of(world: World) -> type[Moods]:
    """The plugin for one run."""
    return type(NAME, (Moods,), {"name": NAME, "world": world})
