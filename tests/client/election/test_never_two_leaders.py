"""Whatever is slow, lost, held up or killed: never two leaders at a time, and soon one again."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from client.election.candidates import Pauses, World, lead
from effort import examples
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.client.election import Elector
from stowplan.client.interface import Body
from stowplan.localcluster.client import InProcessClient
from stowplan.runtime.clock import VirtualClock, run
from stowplan.testing.faults import Faults, FaultyClient

LEASE, LONGEST_PAUSE, REQUEST = 15.0, 4.4, 5.0
TROUBLE = 120.0
"""Seconds for which things go wrong."""

COMPATIBLE = (
    ("leases", "endpointsleases", "configmapsleases"),
    ("endpoints", "endpointsleases"),
    ("configmaps", "configmapsleases"),
)
"""Kinds of locks that have a lock in common, pair by pair."""


class Skewed:
    def __init__(self, clock: VirtualClock, skew: float) -> None:
        self._clock = clock
        self._skew = skew

    def now(self) -> float:
        return self._clock.now() + self._skew

    def monotonic(self) -> float:
        return self._clock.monotonic()


class Distant(FaultyClient):
    """Requests that take a while there and back, and arrive although their caller has stopped waiting."""

    def __init__(self, world: World, faults: Faults, rng: random.Random, far: "Far") -> None:
        super().__init__(InProcessClient(world.store), faults, rng)
        self._chance = rng
        self._far = far
        self._under_way: set[asyncio.Task[Json]] = set()

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        return await self._sent(lambda: super(Distant, self).get(resource, namespace, name))

    async def create(self, resource: Resource, body: Body, *, namespace: str = "") -> Json:
        return await self._sent(lambda: super(Distant, self).create(resource, body, namespace=namespace))

    async def update(self, resource: Resource, body: Body, *, subresource: str = "") -> Json:
        return await self._sent(lambda: super(Distant, self).update(resource, body))

    async def _sent(self, request: Callable[[], Awaitable[Json]]) -> Json:
        async def travel() -> Json:
            await asyncio.sleep(self._time())
            answer = await request()
            await asyncio.sleep(self._time())
            return answer

        task = asyncio.create_task(travel())
        self._under_way.add(task)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    def _time(self) -> float:
        return self._chance.random() * self._far.seconds


class Far:
    """How long a request takes at most, one way."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Plan(NamedTuple):
    seed: int
    kinds: list[str]
    skews: list[float]
    starts: list[float]
    refused: float
    lost: float
    seconds: float
    pauses: list[tuple[int, float, float]]
    kills: list[tuple[int, float]]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    count = draw(st.integers(2, 4))
    who, when = st.integers(0, count - 1), st.floats(0, TROUBLE)
    many: dict[str, Any] = {"min_size": count, "max_size": count}
    return Plan(
        seed=draw(st.integers(0, 2**32)),
        kinds=draw(st.lists(st.sampled_from(draw(st.sampled_from(COMPATIBLE))), **many)),
        skews=draw(st.lists(st.floats(-1e6, 1e6), **many)),
        starts=draw(st.lists(st.floats(0, 30), **many)),
        refused=draw(st.sampled_from((0.0, 0.1, 0.5))),
        lost=draw(st.sampled_from((0.0, 0.1, 0.5))),
        seconds=draw(st.sampled_from((0.01, 0.5, 4.0))),
        pauses=draw(st.lists(st.tuples(who, when, st.floats(1, 40)), max_size=6)),
        kills=draw(st.lists(st.tuples(who, when), max_size=4)),
    )


class Process:
    """A process that takes part again and again, under a new name each time."""

    def __init__(self, make: Callable[[], Elector], start: float) -> None:
        self._make = make
        self.pauses = Pauses()
        self.elector: Elector | None = None
        self.task = asyncio.create_task(self._run(start))

    @property
    def is_leader(self) -> bool:
        return self.elector is not None and self.elector.is_leader

    def kill(self) -> None:
        self.task.cancel()
        self.elector = None
        self.task = asyncio.create_task(self._run(1))

    async def _run(self, pause: float) -> None:
        while True:
            await asyncio.sleep(pause)
            self.elector = self._make()
            await self.pauses(lead(self.elector))
            pause = 1.0


async def _watch_over(processes: list[Process], until: float) -> None:
    loop = asyncio.get_running_loop()
    while loop.time() < until:
        leading = [number for number, process in enumerate(processes) if process.is_leader]
        assert len(leading) <= 1, f"at {loop.time()} processes {leading} lead at the same time"
        await asyncio.sleep(0.05)


async def _live(clock: VirtualClock, plan: Plan) -> None:
    loop = asyncio.get_running_loop()
    world = World(clock)
    rng = random.Random(plan.seed)
    faults = Faults(refused=plan.refused, lost=plan.lost)
    far = Far(plan.seconds)

    def process(number: int) -> Process:
        def make() -> Elector:
            client = Distant(world, faults, random.Random(rng.random()), far)
            own = Skewed(clock, plan.skews[number])
            return world.elector(client, kind=plan.kinds[number], clock=own, events=None)

        return Process(make, plan.starts[number])

    processes = [process(number) for number in range(len(plan.kinds))]
    for who, when, seconds in plan.pauses:
        loop.call_at(when, _pause, processes[who], when + seconds)
    for who, when in plan.kills:
        loop.call_at(when, processes[who].kill)
    await _watch_over(processes, TROUBLE)
    faults.stop()
    far.seconds = 0.01
    well = max([TROUBLE + 2 * plan.seconds, *(when + seconds for _, when, seconds in plan.pauses)])
    nominated = well + REQUEST + LONGEST_PAUSE + LEASE + LONGEST_PAUSE
    await _watch_over(processes, nominated)
    assert any(process.is_leader for process in processes), "nobody leads though all is well"
    await _watch_over(processes, nominated + 30)


def _pause(process: Process, until: float) -> None:
    process.pauses.until = max(process.pauses.until, until)


HELD_UP = Plan(0, ["leases"] * 2, [0.0] * 2, [0.0, 9.0], 0.0, 0.0, 0.01, [(0, 20.0, 40.0)], [])


HALF_CREATED = Plan(
    6405,
    ["endpointsleases", "endpoints", "endpoints", "endpoints"],
    [0.0] * 4,
    [25.0, 0.0, 0.0, 0.0],
    0.5,
    0.5,
    4.0,
    [],
    [(1, 81.0)],
)
"""Of a pair one lock is created and the other one not, for longer than the first one holds."""


@settings(max_examples=examples(30))
@example(HELD_UP)
@example(HALF_CREATED)
@given(plans())
def test_there_are_never_two_leaders_and_soon_one_again(plan: Plan) -> None:
    async def main(clock: VirtualClock) -> None:
        await _live(clock, plan)

    run(main)


@settings(max_examples=examples(25))
@given(
    seed=st.integers(0, 2**32),
    at=st.floats(20, 40),
    standbys=st.integers(1, 3),
    kind=st.sampled_from(("leases", "endpoints", "configmapsleases")),
)
def test_after_a_leader_is_killed_another_leads_within_lease_duration_and_one_longest_pause(
    seed: int, at: float, standbys: int, kind: str
) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock)
        rng = random.Random(seed)
        first = world.elector(kind=kind, rng=random.Random(rng.random()))
        leading = world.start(lead(first))
        await asyncio.sleep(5)
        others: list[Any] = [
            world.elector(kind=kind, rng=random.Random(rng.random())) for _ in range(standbys)
        ]
        for other in others:
            world.start(lead(other))
        await asyncio.sleep(at - 5)
        leading.cancel()
        killed = clock.now()
        while not any(other.is_leader for other in others):
            await asyncio.sleep(0.05)
        assert LEASE - 2.1 <= clock.now() - killed <= LEASE + LONGEST_PAUSE + 0.2

    run(main)


def test_a_pause_holds_a_coroutine_up_together_with_its_timers() -> None:
    async def main(clock: VirtualClock) -> None:
        pauses = Pauses()
        pauses.until = 10.0

        async def work() -> float:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(3):
                    await asyncio.sleep(30)
            return asyncio.get_running_loop().time()

        async def held() -> float:
            return await pauses(work())

        assert await asyncio.create_task(held()) == 10.0

    run(main)
