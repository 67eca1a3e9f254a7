"""A scheduler instance without a process around it."""

import asyncio
import random

from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.runtime.logs import Logger
from stowplan.scheduler import Scheduler, Settings
from stowplan.server.instance import SchedulerInstance


class Mute(InProcessClient):
    """A server that never answers a list."""

    async def list(self, *about: object, **more: object) -> object:  # type: ignore[override]
        await asyncio.Event().wait()
        return None


def test_waiting_for_the_caches_ends_when_the_instance_is_stopped() -> None:
    async def story(clock: VirtualClock) -> None:
        client = Mute(Store(clock, random.Random(1)))
        instance = SchedulerInstance(
            Scheduler(client, Settings.of(), clock=clock, rng=random.Random(1)), Logger()
        )
        instance.start()
        waiting = asyncio.create_task(instance.wait_synced())
        await asyncio.sleep(5)
        assert not waiting.done()
        await instance.stop()
        async with asyncio.timeout(1):
            await waiting
        assert not instance.is_synced

    run(story)
