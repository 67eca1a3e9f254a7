"""The cache of review results: TTL, size, and fetches shared by concurrent requests."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from server.serving.secureports import Clock
from stowplan.server.serving.reviews import ReviewCache


def answering(*values: int | Exception) -> tuple[Callable[[], Awaitable[int]], list[int | Exception]]:
    left = list(values)

    async def ask() -> int:
        await asyncio.sleep(0)
        value = left.pop(0)
        if isinstance(value, Exception):
            raise value
        return value

    return ask, left


def test_the_least_recently_used_answer_goes_first() -> None:
    async def run() -> None:
        known: ReviewCache[int] = ReviewCache(Clock(), 2)
        ask, left = answering(1, 2, 3, 4)
        for key in (b"a", b"b", b"a", b"c", b"a", b"b"):
            await known.get(key, ask, lambda _: 10)
        assert (left, len(known)) == ([], 2)

    asyncio.run(run())


def test_an_answer_is_kept_until_its_time_is_over() -> None:
    async def run() -> list[int]:
        clock = Clock()
        known: ReviewCache[int] = ReviewCache(clock, 9)
        ask, _ = answering(5, 1, 2)
        got = []
        for passed in (0.0, 4.9, 0.2, 0.9, 0.2):
            clock.time += passed
            got.append(await known.get(b"k", ask, float))
        return got

    assert asyncio.run(run()) == [5, 5, 1, 1, 2]


def test_a_failure_is_told_to_all_who_wait_and_not_remembered() -> None:
    async def run() -> None:
        known: ReviewCache[int] = ReviewCache(Clock(), 9)
        ask, _ = answering(ValueError("no"), 7)
        told = await asyncio.gather(*(known.get(b"k", ask, float) for _ in range(3)), return_exceptions=True)
        assert [type(one) for one in told] == [ValueError] * 3
        assert await known.get(b"k", ask, float) == 7

    asyncio.run(run())


def test_who_stops_waiting_does_not_spoil_it_for_the_others() -> None:
    async def run() -> None:
        known: ReviewCache[int] = ReviewCache(Clock(), 9)
        ask, _ = answering(7)
        first, second = (asyncio.create_task(known.get(b"k", ask, float)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == 7
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(run())
