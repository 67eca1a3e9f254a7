"""One run: a plan carried out in virtual time, from the first node to the last comparison."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stowplan.chaos.controllers import Controllers
from stowplan.chaos.findings import Finding
from stowplan.chaos.host import Host
from stowplan.chaos.kubelet import Kubelets
from stowplan.chaos.ownership import Ownership
from stowplan.chaos.plan import Action, Plan, Weather
from stowplan.chaos.reckoning import Reckoning
from stowplan.chaos.users import Users
from stowplan.chaos.world import World
from stowplan.clock import VirtualClock, VirtualTimeError
from stowplan.clock import run as run_virtual

SETTLED: Final = 75.0
"""Seconds in which pods find their nodes once the scheduler has heard of everything."""

QUIET: Final = 480.0
"""Seconds after which all of them have: long enough to be tried again without an event."""

PATIENCE: Final = 200_000
"""Turns of the loop without time passing before a run is taken for stuck."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run: what is broken, what happened, and a digest of every write in order."""

    seed: int
    findings: Sequence[Finding]
    counts: Mapping[str, int]
    digest: str
    diary: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        return not self.findings


def execute(plan: Plan, *, keep_diary: bool = False) -> Outcome:
    """Carry out a plan. What the scheduler does wrong is in the outcome."""

    async def main(clock: VirtualClock) -> Outcome:
        return await _Run(plan, clock, keep_diary).run()

    try:
        return run_virtual(main, patience=PATIENCE)
    except VirtualTimeError as stuck:
        return Outcome(plan.seed, [Finding("the scheduler comes to rest", str(stuck), plan.ends)], {}, "")


class _Run:
    def __init__(self, plan: Plan, clock: VirtualClock, keep_diary: bool) -> None:
        self._plan = plan
        self._world = World(plan, clock, keep_diary=keep_diary)
        self._users = Users(self._world)
        Kubelets(self._world)
        self._host = Host(self._world)
        self._controllers = Controllers(self._world) if plan.storage is not None else None
        self._ownership = Ownership(self._world) if plan.storage is not None else None

    async def run(self) -> Outcome:
        world = self._world
        for action in self._plan.actions:
            if action.at <= 0 and action.what in self._users.can_do:
                self._users.do(action)
        if self._controllers is not None:
            self._controllers.start()
        self._host.start()
        await self._live([action for action in self._plan.actions if action.at > 0])
        world.change_weather()
        self._users.release_all()
        await self._settle()
        await self._until(self._plan.ends + QUIET)
        if self._host.alive:
            Reckoning(world, self._host.scheduler).check()
        if self._ownership is not None:
            self._ownership.check_at_rest()
        await self._host.stop()
        if self._controllers is not None:
            await self._controllers.stop()
        self._check_tasks()
        lines = world.diary.lines or ()
        return Outcome(self._plan.seed, world.findings.found, dict(world.counts), world.diary.digest(), lines)

    async def _live(self, actions: Sequence[Action]) -> None:
        """Actions and changes of the weather, each at its time."""
        timeline: list[tuple[float, Action | Weather]] = [(action.at, action) for action in actions]
        timeline += [(weather.begins, weather) for weather in self._plan.weather]
        for at, what in sorted(timeline, key=lambda entry: entry[0]):
            await self._until(at)
            if isinstance(what, Weather):
                self._world.change_weather(what)
            else:
                await self._act(what)
        await self._until(self._plan.ends)

    async def _settle(self) -> None:
        """Let the scheduler catch up. What helps a pod has made it be tried again by then."""
        await asyncio.sleep(SETTLED)
        while self._host.alive and self._world.second < self._plan.ends + QUIET / 2:
            if Reckoning(self._world, self._host.scheduler).has_heard_all():
                await asyncio.sleep(SETTLED)
                Reckoning(self._world, self._host.scheduler).check_woken()
                return
            await asyncio.sleep(SETTLED / 5)

    async def _act(self, action: Action) -> None:
        if action.what == "restart":
            await self._host.restart()
        elif action.what == "hang-up":
            self._host.hang_up()
        else:
            self._users.do(action)

    async def _until(self, second: float) -> None:
        await asyncio.sleep(max(0.0, second - self._world.second))

    def _check_tasks(self) -> None:
        """With the scheduler, everything it started has ended."""
        left = sorted(task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task())
        if left:
            self._world.broken("no task is left over", f"after the scheduler's end: {left}")
