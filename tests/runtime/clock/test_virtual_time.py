"""Virtual time: it jumps instead of waiting, in the same way every time, and refuses what it cannot know."""

import asyncio
import math
import random
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.runtime.clock import DEFAULT_START, VirtualClock, VirtualTimeError, run
from waiting import within_cpu


def test_an_hour_of_thousands_of_sleepers_passes_in_a_moment() -> None:
    async def main(clock: VirtualClock) -> float:
        async def sleeper(number: int) -> None:
            for _ in range(3):
                await asyncio.sleep(1200 + number / 1000)

        await asyncio.gather(*(sleeper(number) for number in range(3000)))
        return clock.now()

    with within_cpu(10):
        assert run(main) == pytest.approx(DEFAULT_START + 3600 + 3 * 2.999, abs=0.001)


def test_a_run_is_the_same_every_time() -> None:
    async def main(clock: VirtualClock) -> list[tuple[int, float]]:
        rng = random.Random(7)
        seen: list[tuple[int, float]] = []

        async def wanderer(number: int) -> None:
            for _ in range(5):
                await asyncio.sleep(rng.random())
                seen.append((number, clock.now()))

        await asyncio.gather(*map(wanderer, range(50)))
        return seen

    assert run(main) == run(main)


def test_timers_of_one_moment_fire_in_the_order_they_were_set() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        loop = asyncio.get_running_loop()
        fired: list[int] = []
        for number in range(20):
            loop.call_later(5, fired.append, number)
        await asyncio.sleep(6)
        return fired

    assert run(main) == list(range(20))


def test_time_begins_where_it_is_told_to() -> None:
    async def main(clock: VirtualClock) -> tuple[float, float]:
        began = clock.now()
        await asyncio.sleep(90)
        return began, clock.now()

    assert run(main, start=1000) == (1000, 1090)


@given(
    start=st.floats(0, 2**32),
    pauses=st.lists(st.floats(0, 1e6) | st.floats(0, 1e-5), min_size=1, max_size=20),
)
def test_who_sleeps_until_a_deadline_wakes_when_it_is_reached(start: float, pauses: list[float]) -> None:
    async def main(clock: VirtualClock) -> None:
        for pause in pauses:
            deadline = clock.now() + pause
            await asyncio.sleep(deadline - clock.now())
            assert deadline <= clock.now() <= deadline + 2e-6

    run(main, start=start)


def test_a_timeout_is_kept_to_without_waiting_for_it() -> None:
    async def main(clock: VirtualClock) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.sleep(3600)
        return clock.now() - DEFAULT_START

    assert run(main) == 30


def test_tasks_that_wait_for_each_other_are_told_instead_of_hanging() -> None:
    async def main(clock: VirtualClock) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("patience")
        await asyncio.get_running_loop().create_future()

    with pytest.raises(VirtualTimeError, match=r"nothing will ever happen: .* 1 task\(s\) wait \(patience\)"):
        run(main)


def test_spinning_without_time_passing_is_told_instead_of_hanging() -> None:
    async def main(clock: VirtualClock) -> None:
        await asyncio.sleep(3)
        while True:
            await asyncio.sleep(0)

    with pytest.raises(VirtualTimeError, match=r"stuck at virtual second 3\.0"):
        run(main, patience=1000)


def test_tasks_left_over_are_cancelled_at_the_end() -> None:
    ended: list[str] = []

    async def straggler() -> None:
        try:
            await asyncio.sleep(math.pi * 1e6)
        finally:
            ended.append("cancelled")

    async def main(clock: VirtualClock) -> asyncio.Task[None]:
        task = asyncio.create_task(straggler())
        await asyncio.sleep(1)
        return task

    assert run(main).cancelled()
    assert ended == ["cancelled"]


async def _socket() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.setblocking(False)
        await asyncio.get_running_loop().sock_recv(left, 1)


async def _connection() -> None:
    await asyncio.open_connection("127.0.0.1", 9)


async def _thread() -> None:
    await asyncio.to_thread(time.monotonic)


async def _subprocess() -> None:
    await asyncio.create_subprocess_exec("true")


async def _shell() -> None:
    await asyncio.create_subprocess_shell("true")


async def _signal() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, int)


async def _infinity() -> None:
    await asyncio.sleep(math.inf)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (_socket, "waits for timers only: sockets"),
        (_connection, "waits for timers only: sockets"),
        (_thread, "nothing can run in an executor"),
        (_subprocess, "a subprocess would never end"),
        (_shell, "a subprocess would never end"),
        (_signal, "a signal would never be noticed"),
        (_infinity, "a timer cannot be set for second inf"),
    ],
)
def test_what_lives_in_real_time_is_refused(ask: Callable[[], Awaitable[None]], answer: str) -> None:
    async def main(clock: VirtualClock) -> None:
        await ask()

    with pytest.raises(VirtualTimeError, match=answer):
        run(main)


def test_another_thread_cannot_call_in() -> None:
    async def main(clock: VirtualClock) -> str:
        loop, said = asyncio.get_running_loop(), []

        def call_in() -> None:
            try:
                loop.call_soon_threadsafe(int)
            except VirtualTimeError as error:
                said.append(str(error))

        thread = threading.Thread(target=call_in)
        thread.start()
        thread.join()
        loop.call_soon_threadsafe(said.append, "own thread")
        await asyncio.sleep(0)
        return " / ".join(said)

    assert run(main) == "virtual time knows one thread: another one cannot call into its loop / own thread"


def test_years_pass_like_days() -> None:
    year = 366 * 86_400

    async def main(clock: VirtualClock) -> float:
        began = clock.now()
        for _ in range(20):
            await asyncio.sleep(year)
            await asyncio.sleep(0.1)
        return clock.now() - began

    assert run(main, patience=1000) == pytest.approx(20 * (year + 0.1))


def test_a_run_inside_a_running_loop_is_the_same_as_outside() -> None:
    """As in a cell of a notebook."""

    async def story(clock: VirtualClock) -> tuple[float, str]:
        began = clock.now()
        await asyncio.sleep(3600)
        return clock.now() - began, threading.current_thread().name

    async def cell() -> tuple[float, str]:
        return run(story)

    assert asyncio.run(cell()) == (3600.0, "virtual-time_0")
    assert run(story) == (3600.0, threading.main_thread().name)
