"""A scheduler that stops: work in progress ends or is undone, and no pod is left half placed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scheduler.live_scheduler import World
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler.binding_cycle import WORKERS, Unbound
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.interface import Plugin, Wait
from stowplan.scheduler.table.podinfo import PodInfo

GRACE = 3.0
NOBODY = Unbound([], [])


class Holding(Plugin):
    """Has pods wait at Permit, and keeps a list of what it holds."""

    held: list[str] = []  # noqa: RUF012 - emptied by every test

    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        self.held.append(pod.name)

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        self.held.remove(pod.name)

    def permit(self, cycle: Cycle, pod: PodInfo, node: str) -> Wait | None:
        return Wait(600) if "holds" in pod.labels else None


class SlowlyPrepared(Plugin):
    """Takes as long to prepare a pod as its label says."""

    async def pre_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        await asyncio.sleep(float(pod.labels.get("prepare", "0")))


@pytest.fixture(autouse=True)
def _nothing_held() -> None:
    Holding.held.clear()


def end(
    story: Callable[[World], Awaitable[None]], *, grace: float = GRACE, **options: Any
) -> tuple[World, Unbound, float]:
    """Let a scheduler run, then end it. Returns the world, the unbound pods, and the duration."""

    async def life(clock: VirtualClock) -> tuple[World, Unbound, float]:
        world = World(clock, **{"plugins": [Holding, SlowlyPrepared], **options})
        world.add_node("n", "100")
        async with world.scheduler.watching() as scheduler:
            await scheduler.informers.synced()
            scheduler.begin_scheduling()
            await story(world)
            began = world.now
            undone = await scheduler.end_scheduling(grace)
            took = world.now - began
            world.put_pod("too-late")
            await world.settle(5)
        return world, undone, took

    return run(life)


def test_bindings_under_way_are_finished() -> None:
    async def story(world: World) -> None:
        await world.add_pod("p", metadata={"labels": {"prepare": "2"}})
        assert world.node_of("p") == ""

    world, undone, took = end(story)
    assert (world.node_of("p"), undone) == ("n", NOBODY)
    assert took == pytest.approx(2, abs=0.01)
    assert world.notes("p") == ["Successfully assigned d/p to n"]


def test_bindings_that_take_too_long_are_undone() -> None:
    async def story(world: World) -> None:
        await world.add_pod("p", metadata={"labels": {"prepare": "60"}})

    world, undone, took = end(story)
    assert (world.node_of("p"), undone.given_up, Holding.held) == ("", ["d/p"], [])
    assert took == pytest.approx(GRACE, abs=0.01)
    assert not world.condition("p")
    assert not world.scheduler.context.cache.sizes()["assumed_pods"]


def test_nobody_waits_for_pods_that_wait_at_permit() -> None:
    async def story(world: World) -> None:
        await world.add_pod("p", metadata={"labels": {"holds": ""}})

    world, undone, took = end(story)
    assert (world.node_of("p"), undone.given_up, Holding.held) == ("", ["d/p"], [])
    assert took < 0.01
    assert not world.events("p")


def test_a_bind_that_is_never_answered_does_not_hold_up_the_end() -> None:
    async def story(world: World) -> None:
        await world.add_pod("p")

    _, undone, took = end(story, latency=100)
    assert took == pytest.approx(GRACE, abs=0.01)
    assert undone.given_up == ["d/p"]


def test_no_pod_is_begun_after_the_end() -> None:
    async def story(world: World) -> None:
        await world.add_pod("p")

    world, undone, _ = end(story)
    assert (world.node_of("p"), world.node_of("too-late"), undone) == ("n", "", NOBODY)
    assert world.place_of("too-late") == "active"


def test_whoever_may_not_schedule_leaves_pods_in_the_queue() -> None:
    async def life(clock: VirtualClock) -> None:
        allowed = [True]
        world = World(clock, may_schedule=lambda: allowed[0])
        world.add_node("n")
        async with world.scheduler.running():
            await world.add_pod("before")
            allowed[0] = False
            await world.add_pod("meanwhile")
            await world.settle(5)
            assert (world.node_of("before"), world.node_of("meanwhile")) == ("n", "")
            allowed[0] = True
            await world.settle(1)
            assert world.node_of("meanwhile") == "n"

    run(life)


def test_pods_that_were_given_up_are_never_bound_later() -> None:
    """As in a reload in the middle of a burst: hundreds of bindings wait for their turn."""
    pods = 3 * WORKERS

    async def story(world: World) -> None:
        world.add_node("m", "100")
        world.add_node("o", "100")
        for number in range(pods):
            world.put_pod(f"p{number}", cpu="100m")
        await world.settle(0.1)

    world, undone, took = end(story, grace=0.5, plugins=[], latency=2.0)
    assert took == pytest.approx(0.5, abs=0.01)
    assert len(undone.unknown) == WORKERS
    assert len(undone.given_up) == pods - WORKERS
    assert [key for key in undone.given_up if world.node_of(key.removeprefix("d/"))] == []
    context = world.scheduler.context
    assert (context.cache.sizes()["assumed_pods"], len(context.queue.in_flight)) == (0, 0)
    assert world.problems == []


def test_a_scheduler_that_was_ended_can_begin_again() -> None:
    async def life(clock: VirtualClock) -> None:
        world = World(clock, plugins=[Holding, SlowlyPrepared])
        world.add_node("n", "100")
        async with world.scheduler.watching() as scheduler:
            await scheduler.synced()
            scheduler.begin_scheduling()
            await world.add_pod("slow", metadata={"labels": {"prepare": "2"}})
            undone = await scheduler.end_scheduling(0)
            assert undone.given_up == ["d/slow"]
            await world.add_pod("meanwhile")
            await world.settle(5)
            assert (world.node_of("slow"), world.node_of("meanwhile")) == ("", "")
            scheduler.begin_scheduling()
            await world.settle(10)
            assert (world.node_of("slow"), world.node_of("meanwhile")) == ("n", "n")
            assert sorted(Holding.held) == ["meanwhile", "slow"]

    run(life)


def test_leadership_is_asked_for_before_each_binding() -> None:
    """A pod whose node was chosen by a leader is not bound by one that may not lead any more."""

    async def life(clock: VirtualClock) -> None:
        leading = [True]
        world = World(clock, plugins=[SlowlyPrepared], may_schedule=lambda: leading[0])
        world.add_node("n")
        async with world.scheduler.running():
            await world.add_pod("p", metadata={"labels": {"prepare": "2"}})
            leading[0] = False
            await world.settle(10)
            assert world.node_of("p") == ""
            assert world.events("p") == []
            assert world.scheduler.context.cache.assumed == {}
            leading[0] = True
            await world.settle(20)
            assert world.node_of("p") == "n"

    run(life)


def test_leadership_is_asked_for_before_each_scheduling_cycle() -> None:
    async def life(clock: VirtualClock) -> None:
        world = World(clock, plugins=[Holding], may_schedule=lambda: len(world.scheduler.waiting) < 3)
        world.add_node("n", "100")
        async with world.scheduler.running():
            for number in range(6):
                world.put_pod(f"p{number}", metadata={"labels": {"holds": ""}})
            await world.settle(5)
            assert len(world.scheduler.waiting) == 3

    run(life)
