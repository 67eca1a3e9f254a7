"""Running the scheduler of a run, and starting it anew."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from stowplan.chaos.bindings import Bindings
from stowplan.chaos.claimuse import ClaimUse
from stowplan.chaos.extenders import ChaosExtender
from stowplan.chaos.moods import NAME, moods_of
from stowplan.chaos.oversight import Overseer
from stowplan.chaos.plan import Plan
from stowplan.chaos.server import Line
from stowplan.chaos.world import World
from stowplan.config import LoadedConfig, load
from stowplan.config.types import API_VERSION, KIND
from stowplan.logs import Journal
from stowplan.scheduler import Scheduler, Settings


class Host:
    """One scheduler at a time, with everything around it that fails."""

    def __init__(self, world: World) -> None:
        self._world = world
        claims = ClaimUse(world, lambda: self.scheduler.context.cache.table) if world.plan.storage else None
        self._bindings = Bindings(world, claims)
        self._settings = Settings.of(_config(world.plan), (moods_of(world),))
        self._number = 0
        self._task: asyncio.Task[None] | None = None
        self.scheduler: Scheduler
        self.overseer: Overseer
        self._line: Line

    def start(self) -> None:
        self._number += 1
        number, world = self._number, self._world
        self._line = Line(world, self._bindings, number, world.rng(f"line {number}"))
        extenders = [
            ChaosExtender(plan, world, self._bindings, number, world.rng(f"{plan.name} {number}"))
            for plan in sorted(world.plan.extenders, key=lambda plan: plan.ignorable)
        ]
        self.scheduler = Scheduler(
            self._line,
            self._settings,
            clock=world.clock,
            rng=Random(f"scheduler {number} {world.plan.seed}"),
            extenders=extenders,
            journal=Journal(lambda level, text, values: world.note(f"log {text} {_shown(values)}")),
        )
        self.overseer = Overseer(self.scheduler, number, world, self._bindings)
        self._task = asyncio.create_task(self.scheduler.run(), name="the scheduler")

    async def stop(self) -> None:
        """End the scheduler as a signal would. If it has ended by itself, something is wrong."""
        task, self._task = self._task, None
        assert task is not None
        self._world.counts["faults"] += self._line.struck
        if task.done():
            self._world.broken("the scheduler survives", _ending(task))
            return
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def restart(self) -> None:
        self._world.counts["restarts"] += 1
        await self.stop()
        self.start()

    def hang_up(self) -> None:
        self._line.reception.hang_up()

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()


def _ending(task: "asyncio.Task[None]") -> str:
    failure = None if task.cancelled() else task.exception()
    return "it ended" if failure is None else f"{type(failure).__name__}: {failure}"


def _shown(values: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _config(plan: Plan) -> LoadedConfig:
    profiles = [
        {"schedulerName": name, **(_moody() if name in plan.moody else {}), **_patience(plan)}
        for name in plan.profiles
    ]
    config = {"apiVersion": API_VERSION, "kind": KIND, "profiles": profiles}
    return load(msgspec.json.encode(config))


def _patience(plan: Plan) -> dict[str, Any]:
    """How long a profile waits for volumes."""
    if plan.storage is None:
        return {}
    args = {"bindTimeoutSeconds": plan.storage.bind_timeout}
    return {"pluginConfig": [{"name": "VolumeBinding", "args": args}]}


def _moody() -> dict[str, Any]:
    """A profile with the plugin of moods at all its points, ahead of the plugin that really binds."""
    bind = {"disabled": [{"name": "*"}], "enabled": [{"name": NAME}, {"name": "DefaultBinder"}]}
    return {"plugins": {"multiPoint": {"enabled": [{"name": NAME}]}, "bind": bind}}
