"""One scheduler from its first look at the cluster to its end, without a process around it."""

import asyncio
import random

from stowplan.clock import VirtualClock, run
from stowplan.embedded.client import InProcessClient
from stowplan.embedded.store import Store
from stowplan.logs import Journal
from stowplan.run.life import Life
from stowplan.scheduler import Scheduler, Settings


class Mute(InProcessClient):
    """A server that never answers a list."""

    async def list(self, *about: object, **more: object) -> object:  # type: ignore[override]
        await asyncio.Event().wait()
        return None


def test_whoever_waits_for_a_cluster_to_be_known_is_told_when_the_life_is_over() -> None:
    async def story(clock: VirtualClock) -> None:
        client = Mute(Store(clock, random.Random(1)))
        life = Life(Scheduler(client, Settings.of(), clock=clock, rng=random.Random(1)), Journal())
        life.begin()
        waiting = asyncio.create_task(life.synced())
        await asyncio.sleep(5)
        assert not waiting.done()
        await life.end()
        async with asyncio.timeout(1):
            await waiting
        assert not life.is_synced

    run(story)
