"""The queue of keys: once at a time, later if asked, later and later after failures."""

import asyncio
from collections.abc import Awaitable, Callable

from hypothesis import given
from hypothesis import strategies as st

from stowplan.localcluster.controllerruntime.workqueue import WorkQueue
from stowplan.runtime.clock import VirtualClock, run


def play(story: Callable[[WorkQueue, VirtualClock], Awaitable[None]]) -> None:
    async def begin(clock: VirtualClock) -> None:
        await story(WorkQueue(first_retry=1.0, longest_retry=5.0), clock)

    run(begin, start=0.0)


async def taken(queue: WorkQueue) -> str | None:
    """The next key, None if there is none right now."""
    try:
        async with asyncio.timeout(0.001):
            return await queue.get()
    except TimeoutError:
        return None


def test_a_key_waits_once_however_often_it_is_added() -> None:
    async def story(queue: WorkQueue, clock: VirtualClock) -> None:
        for key in ("a", "b", "a"):
            queue.add(key)
        assert len(queue) == 2
        assert [await taken(queue), await taken(queue), await taken(queue)] == ["a", "b", None]

    play(story)


def test_a_key_that_is_added_while_it_is_worked_on_comes_again_afterwards() -> None:
    async def story(queue: WorkQueue, clock: VirtualClock) -> None:
        queue.add("a")
        await queue.get()
        queue.add("a")
        assert await taken(queue) is None
        queue.done("a")
        assert await taken(queue) == "a"
        queue.done("a")
        assert await taken(queue) is None

    play(story)


def test_of_several_times_the_earliest_counts() -> None:
    async def story(queue: WorkQueue, clock: VirtualClock) -> None:
        queue.add_after("a", 5)
        queue.add_after("a", 2)
        queue.add_after("a", 9)
        assert await queue.get() == "a"
        assert clock.now() == 2
        queue.done("a")
        await asyncio.sleep(20)
        assert await taken(queue) is None

    play(story)


def test_pauses_double_up_to_the_longest_until_all_is_well_again() -> None:
    async def story(queue: WorkQueue, clock: VirtualClock) -> None:
        pauses: list[float] = []
        for _ in range(5):
            began = clock.now()
            queue.retry("a")
            await queue.get()
            pauses.append(clock.now() - began)
            queue.done("a")
        queue.forget("a")
        began = clock.now()
        queue.retry("a")
        await queue.get()
        assert [*pauses, clock.now() - began] == [1, 2, 4, 5, 5, 1]

    play(story)


def test_a_key_that_rests_is_not_worked_on_but_not_forgotten() -> None:
    async def story(queue: WorkQueue, clock: VirtualClock) -> None:
        queue.add("a")
        await queue.get()
        queue.rest("a", 3.0)
        queue.add("a")
        queue.done("a")
        assert await queue.get() == "a"
        assert clock.now() == 3

    play(story)


def test_news_of_a_key_that_keeps_failing_do_not_keep_everybody_busy() -> None:
    async def story(queue: WorkQueue, clock: VirtualClock) -> None:
        times: list[float] = []
        queue.add("a")
        for _ in range(5):
            await queue.get()
            times.append(clock.now())
            queue.retry("a")
            queue.add("a")
            queue.done("a")
        assert times == [0, 1, 2, 3, 4]

    play(story)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from((0.0, 0.5, 1.0, 3.0))), max_size=30),
    st.integers(1, 3),
)
def test_every_key_is_worked_on_after_it_was_last_added_and_never_twice_at_once(
    adds: list[tuple[str, float]], workers: int
) -> None:
    async def begin(clock: VirtualClock) -> None:
        queue = WorkQueue()
        busy: set[str] = set()
        worked: dict[str, float] = {}

        async def work() -> None:
            while True:
                key = await queue.get()
                assert key not in busy
                busy.add(key)
                began = clock.now()
                await asyncio.sleep(0.25)
                busy.discard(key)
                worked[key] = began
                queue.done(key)

        tasks = [asyncio.create_task(work()) for _ in range(workers)]
        due: dict[str, float] = {}
        for key, delay in adds:
            queue.add_after(key, delay)
            due[key] = max(due.get(key, 0.0), clock.now())
            await asyncio.sleep(0.125)
        await asyncio.sleep(30)
        for key, added in due.items():
            assert worked[key] >= added
        assert len(queue) == 0
        for task in tasks:
            task.cancel()
        assert not any(task.done() and not task.cancelled() and task.exception() for task in tasks)

    run(begin, start=0.0)
