"""One availability object per API server and its clients; hours of outage in virtual time."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from stowplan.client.http.availability import (
    KEPT_WITHIN,
    LOOK_EVERY,
    PROBE_EVERY,
    QUIET,
    QUIET_AT_MOST,
    SPREAD,
    ProbeError,
    ServerAvailability,
)
from stowplan.runtime.clock import VirtualClock, run
from stowplan.runtime.logs import Logger

MINUTE = 60.0


class FakeConnections:
    """The connections of a client to a server that can go in different ways.

    `mood`: `well`, `refusing`, `silent` (nothing comes through), or `broken` (it answers with errors). A
    connection that was silent once stays dead.
    """

    def __init__(self) -> None:
        self.mood = "well"
        self.expects_answer = True
        self.only_watches = False
        self.last_heard: float | None = _now()
        self.is_kept_dead = False
        self.probes: list[tuple[float, str]] = []
        self.ended: list[tuple[float, float]] = []
        self.has_kept = False

    def kept_probe(self) -> Coroutine[Any, Any, None] | None:
        return self._probe("kept") if self.has_kept else None

    async def fresh_probe(self) -> None:
        await self._probe("fresh")
        self.has_kept, self.is_kept_dead = True, False

    def end_silent(self, since: float, until: float) -> None:
        self.ended.append((_now(), since))

    async def _probe(self, kind: str) -> None:
        self.probes.append((_now(), kind))
        await asyncio.sleep(0.001)
        if self.mood == "refusing":
            raise ProbeError("connection refused")
        if self.mood == "broken":
            raise ProbeError("/readyz answers with code 500")
        if self.mood == "silent" or (kind == "kept" and self.is_kept_dead):
            self.is_kept_dead = True
            await asyncio.Event().wait()


def _now() -> float:
    return asyncio.get_running_loop().time()


class World:
    def __init__(self) -> None:
        self.lines: list[tuple[float, str]] = []
        logger = Logger(lambda level, message, values: self.lines.append((_now(), message)))
        self.connections = FakeConnections()
        self.availability = ServerAvailability(random.Random(1), logger, "https://server")
        self.availability.add(self.connections)
        self.availability.begin_watching()

    async def wakes(self, count: int) -> list[float]:
        """Times at which `count` tasks in a long pause continue."""

        async def one() -> float:
            await self.availability.pause(24 * 60 * MINUTE)
            return _now()

        return list(await asyncio.gather(*(one() for _ in range(count))))


def live(story: Callable[[World], Awaitable[None]]) -> World:
    async def main(clock: VirtualClock) -> World:
        world = World()
        await story(world)
        world.availability.remove(world.connections)
        return world

    return run(main)


@pytest.mark.parametrize("mood", ["refusing", "silent", "broken"])
@pytest.mark.parametrize("seconds", [10.0, 40.0, 10 * MINUTE])
def test_after_an_outage_everybody_goes_on_within_two_seconds_and_not_all_at_once(
    seconds: float, mood: str
) -> None:
    async def story(world: World) -> None:
        await asyncio.sleep(5)
        world.connections.mood = mood
        waiting = asyncio.create_task(world.wakes(25))
        if mood != "silent":
            world.availability.suspect()
        await asyncio.sleep(seconds)
        world.connections.mood = "well"
        restored = _now()
        woken = [at - restored for at in await waiting]
        assert max(woken) < PROBE_EVERY * 1.2 + SPREAD + 0.1
        assert max(woken) - min(woken) > SPREAD / 2

    world = live(story)
    assert [message for _, message in world.lines] == [
        "API server is unreachable",
        "API server is reachable again",
    ]


def test_a_server_that_is_gone_is_asked_about_once_a_second() -> None:
    async def story(world: World) -> None:
        world.connections.mood = "refusing"
        world.availability.suspect()
        await asyncio.sleep(10 * MINUTE)
        assert 500 < len(world.connections.probes) < 750
        assert {kind for _, kind in world.connections.probes} == {"fresh"}

    live(story)


def test_connections_that_were_silent_through_an_outage_are_ended_after_it() -> None:
    async def story(world: World) -> None:
        await asyncio.sleep(5.2)
        world.connections.mood = "silent"
        vanished = _now()
        await asyncio.sleep(30)
        world.connections.mood = "well"
        await asyncio.sleep(3)
        ((at, since),) = world.connections.ended
        assert at - (vanished + 30) < PROBE_EVERY * 1.2 + SPREAD + 0.1
        assert vanished < since < vanished + QUIET + LOOK_EVERY + 0.1

    live(story)


def test_connections_that_died_without_an_outage_are_found_by_a_probe_and_ended() -> None:
    async def story(world: World) -> None:
        await asyncio.sleep(5)
        world.connections.is_kept_dead = True
        died = _now()
        await asyncio.sleep(3)
        ((at, since),) = world.connections.ended
        assert at - died < QUIET + LOOK_EVERY + KEPT_WITHIN + SPREAD + 0.1
        assert since >= died

    world = live(story)
    assert world.lines == []


def test_a_quiet_server_is_asked_once_a_second_over_one_connection() -> None:
    async def story(world: World) -> None:
        await asyncio.sleep(60)
        kinds = [kind for _, kind in world.connections.probes]
        assert kinds[0] == "fresh"
        assert set(kinds[1:]) == {"kept"}
        assert 30 < len(kinds) <= 60
        assert world.connections.ended == []

    live(story)


def test_a_server_that_is_heard_all_the_time_is_hardly_ever_asked() -> None:
    async def story(world: World) -> None:
        for _ in range(600):
            world.connections.last_heard = _now()
            await asyncio.sleep(0.1)
        assert len(world.connections.probes) <= 4

    live(story)


def test_nobody_is_asked_when_nothing_is_expected() -> None:
    async def story(world: World) -> None:
        world.connections.expects_answer = False
        await asyncio.sleep(60)
        assert world.connections.probes == []

    live(story)


def test_an_idle_server_with_watches_is_probed_less_and_less_often_down_to_every_five_seconds() -> None:
    async def story(world: World) -> None:
        world.connections.only_watches = True
        await asyncio.sleep(120)
        at = [moment for moment, _ in world.connections.probes]
        pauses = [later - earlier for earlier, later in pairwise(at[2:])]
        assert pauses == sorted(pauses)
        assert QUIET_AT_MOST - 0.1 < pauses[-1] < QUIET_AT_MOST + LOOK_EVERY + 0.1
        world.connections.last_heard = _now()
        await asyncio.sleep(QUIET_AT_MOST + LOOK_EVERY + QUIET)
        assert _now() - world.connections.probes[-2][0] < QUIET_AT_MOST

    live(story)


def test_a_request_that_begins_while_the_server_is_idle_brings_the_first_probe_after_a_second() -> None:
    async def story(world: World) -> None:
        world.connections.only_watches = True
        await asyncio.sleep(120)
        assert world.availability.is_dozing
        world.connections.only_watches = False
        world.availability.rouse()
        began = _now()
        await asyncio.sleep(QUIET + 2 * LOOK_EVERY)
        assert any(at >= began for at, _ in world.connections.probes)

    live(story)


def test_no_timer_runs_while_nothing_is_expected() -> None:
    async def story(world: World) -> None:
        world.connections.expects_answer = False
        await asyncio.sleep(60)
        assert world.availability._timer is None
        world.connections.expects_answer = True
        assert world.availability.is_dozing
        world.availability.rouse()
        await asyncio.sleep(QUIET + 2 * LOOK_EVERY)
        assert world.connections.probes

    live(story)


def test_a_slow_server_is_not_taken_for_one_whose_connections_died() -> None:
    async def story(world: World) -> None:
        await asyncio.sleep(5)
        probe = world.connections._probe

        async def slow(kind: str) -> None:
            await asyncio.sleep(1.2)
            await probe(kind)

        world.connections._probe = slow  # type: ignore[method-assign]
        await asyncio.sleep(60)
        assert world.connections.ended == []

    world = live(story)
    assert world.lines == []
