"""Those who bind claims and make volumes in a run: slow, refused and refusing as the weather has it."""

import asyncio
from contextlib import suppress
from random import Random

from stowplan.chaos.plan import Weather
from stowplan.chaos.world import World
from stowplan.embedded.client import InProcessClient
from stowplan.embedded.controllers.controller import Context, ControllerManager
from stowplan.embedded.controllers.manager import volume_controllers
from stowplan.embedded.controllers.provisioner import Behaviour, ProvisionerSettings
from stowplan.testing.faults import Faults, FaultyClient


class Whims(ProvisionerSettings):
    """A provisioner that fails by chance; half of the time it wants another node then."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self._rng = rng
        self.weather = Weather(0.0, 0.0)

    def of(self, class_name: str) -> Behaviour:
        unmade = self.weather.unmade
        if unmade <= 0 or self._rng.random() >= unmade:
            return Behaviour(delay=self.weather.making)
        return Behaviour(self.weather.making, "no space left", reschedule=self._rng.random() < 0.5)


class Controllers:
    """The volume controllers of a run. They go on while schedulers come and go."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._faults = Faults()
        self._whims = Whims(world.rng("provisioner"))
        client = FaultyClient(
            InProcessClient(world.store, buffer=world.plan.buffer),
            self._faults,
            world.rng("controllers' line"),
        )
        context = Context.of(client, world.clock, world.rng("controllers"), self._note)
        self._crew = ControllerManager(context, volume_controllers(context, self._whims))
        self._task: asyncio.Task[None] | None = None
        world.followers.append(self._follow)

    def start(self) -> None:
        self._task = asyncio.create_task(self._crew.run(), name="the controllers")

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    def _follow(self, weather: Weather) -> None:
        self._whims.weather = weather
        faults = self._faults
        faults.refused, faults.lost = weather.refused / 2, weather.lost / 2
        faults.cut, faults.forgotten = weather.cut, weather.forgotten
        faults.lifetime, faults.delay = weather.lifetime, weather.controllers

    def _note(self, text: str) -> None:
        self._world.note(f"controllers: {text}")
