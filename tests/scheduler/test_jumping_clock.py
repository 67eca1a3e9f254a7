"""A scheduler on a machine whose date jumps: what it waits for is not touched, what it writes follows."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from runtime.clock.jumping import YEAR, JumpingClock
from scheduler.live_scheduler import World
from stowplan.api.catalogue import EVENTS, PODS
from stowplan.api.meta import seconds_of
from stowplan.explain.layout import moment
from stowplan.runtime.clock import VirtualClock, run


def live(story: Callable[[World, JumpingClock], Awaitable[None]]) -> None:
    async def main(virtual: VirtualClock) -> None:
        clock = JumpingClock(virtual)
        world = World(clock)
        async with world.scheduler.running():
            await world.settle()
            await story(world, clock)

    run(main)


JUMPS = pytest.mark.parametrize("jump", [YEAR, -YEAR, 600.0, -600.0])


@JUMPS
def test_a_pod_in_backoff_is_tried_when_its_backoff_is_over(jump: float) -> None:
    async def story(world: World, clock: JumpingClock) -> None:
        await clock.jump_for_a_second(jump)
        await world.add_pod("p")
        world.add_node("n")
        await asyncio.sleep(0.5)
        assert world.node_of("p") == "", "the first backoff takes a second"
        clock.ahead = jump
        await asyncio.sleep(0.4)
        assert world.node_of("p") == "", "a jump of the date ends no backoff"
        clock.ahead = 0.0
        await asyncio.sleep(1.2)
        assert world.node_of("p") == "n"

    live(story)


@JUMPS
def test_written_times_follow_the_wall_clock_at_once(jump: float) -> None:
    async def story(world: World, clock: JumpingClock) -> None:
        world.add_node("n", cpu="40")
        for number, ahead in enumerate((0.0, jump, 0.0, -jump, 0.0)):
            clock.ahead = ahead
            date = clock.now()
            await world.add_pod(f"bound-{number}")
            await world.add_pod(f"waiting-{number}", cpu="100")
            await asyncio.sleep(1)
            events = world.store.list(EVENTS, world.namespace).items
            dates = [
                seconds_of(event["eventTime"])
                for event in events
                if event["regarding"]["name"] in (f"bound-{number}", f"waiting-{number}")
            ]
            assert len(dates) == 2
            assert all(date - 0.001 < one < date + 1 for one in dates)
            [condition] = world.store.get(PODS, world.namespace, f"waiting-{number}")["status"]["conditions"]
            assert date - 1 < seconds_of(condition["lastTransitionTime"]) <= date + 1
            world.delete_pod(f"waiting-{number}")

    live(story)


def test_what_is_shown_of_a_waiting_pod_is_a_date_of_now() -> None:
    async def story(world: World, clock: JumpingClock) -> None:
        world.add_node("n")
        await clock.jump_for_a_second(YEAR)
        clock.ahead = -3600.0
        date = clock.now()
        await world.add_pod("p", cpu="100")
        found = world.scheduler.explain("d/p")
        assert found is not None
        assert moment(found.state.until) == pytest.approx(date + 300, abs=1)
        assert moment(found.state.since) == pytest.approx(date, abs=1)
        assert found.attempt is not None
        assert moment(found.attempt.time) == pytest.approx(date, abs=1)

    live(story)
