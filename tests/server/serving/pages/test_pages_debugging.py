"""Profiles, stacks, and how much is logged."""

import asyncio
import threading
import tracemalloc

import pytest

from server.serving.pages.pageports import World, answer_of, open_port


def busy_at_work(stop: threading.Event) -> None:
    while not stop.is_set():
        sum(range(1000))


def test_a_profile_shows_who_was_at_work() -> None:
    stop = threading.Event()
    worker = threading.Thread(target=busy_at_work, args=(stop,))
    worker.start()
    try:
        answer = answer_of(World(), "/debug/pprof/profile?seconds=0.3")
    finally:
        stop.set()
        worker.join()
    lines = [line.rpartition(" ") for line in answer.text.splitlines()]
    seen = {stack: int(count) for stack, _, count in lines}
    assert answer.code == 200
    assert sum(count for stack, count in seen.items() if "busy_at_work" in stack) >= 1
    assert all(stack.startswith("threading.Thread._bootstrap;") for stack in seen if "busy_at_work" in stack)


def test_one_profile_is_taken_at_a_time_and_ends_with_who_wanted_it() -> None:
    async def run() -> tuple[int, str, int]:
        async with open_port(World().pages()) as port:
            first = asyncio.ensure_future(port.ask("/debug/pprof/profile?seconds=600"))
            while "in cpu_profile" not in (await port.ask("/debug/pprof/goroutine")).text:
                await asyncio.sleep(0.02)
            second = await port.ask("/debug/pprof/profile?seconds=0.1")
            first.cancel()
            while (third := await port.ask("/debug/pprof/profile?seconds=0.05")).code != 200:
                await asyncio.sleep(0.02)
        return second.code, second.text, third.code

    code, text, third = asyncio.run(run())
    assert (code, text) == (500, "Could not enable CPU profiling: cpu profiling already in use\n")
    assert third == 200


@pytest.mark.parametrize("name", ["goroutine", "goroutine?debug=2", "threadcreate"])
def test_stacks_of_threads_and_tasks_are_shown(name: str) -> None:
    async def patience() -> None:
        await asyncio.sleep(60)

    async def run() -> str:
        async with open_port(World().pages()) as port:
            waiting = asyncio.create_task(patience(), name="one that waits")
            text = (await port.ask(f"/debug/pprof/{name}")).text
            waiting.cancel()
        return text

    text = asyncio.run(run())
    assert "[MainThread]:" in text
    assert "in patience" in text.partition("task [one that waits]:")[2].partition("task [")[0]


@pytest.mark.parametrize("name", ["block", "mutex"])
def test_contention_is_where_tasks_wait(name: str) -> None:
    async def patience() -> None:
        await asyncio.Event().wait()

    async def run() -> str:
        async with open_port(World().pages()) as port:
            waiting = [asyncio.create_task(patience()) for _ in range(7)]
            await asyncio.sleep(0)
            text = (await port.ask(f"/debug/pprof/{name}")).text
            for task in waiting:
                task.cancel()
        return text

    first = asyncio.run(run()).splitlines()[0]
    assert first.startswith("7 ")
    assert first.endswith(" Event.wait")


@pytest.mark.parametrize("name", ["heap", "allocs", "heap?gc=1"])
def test_memory_is_told_by_line_if_it_is_traced(name: str) -> None:
    assert "PYTHONTRACEMALLOC" in answer_of(World(), f"/debug/pprof/{name}").text
    tracemalloc.start()
    try:
        kept = [bytes(1000) for _ in range(3000)]
        text = answer_of(World(), f"/debug/pprof/{name}").text
    finally:
        tracemalloc.stop()
    assert len(kept) == 3000
    assert "test_pages_debugging.py" in text


def test_the_index_leads_to_profiles_that_exist() -> None:
    index = answer_of(World(), "/debug/pprof/").text
    names = [part.partition("?")[0] for part in index.split("href='")[1:]]
    assert names == ["allocs", "block", "goroutine", "heap", "mutex", "profile", "threadcreate"]


@pytest.mark.parametrize("name", ["trace", "symbol", "x/y", "goroutine/"])
def test_other_profiles_are_unknown(name: str) -> None:
    answer = answer_of(World(), f"/debug/pprof/{name}")
    assert (answer.code, answer.text) == (404, "Unknown profile\n")


def test_the_verbosity_can_be_changed() -> None:
    world = World()
    assert answer_of(world, "/debug/flags/v", "PUT", body=b"7").code == 200
    assert world.logger.enabled(7)
    assert not world.logger.enabled(8)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (b"", '"": invalid syntax'),
        (b"-1", '"-1": invalid syntax'),
        (b" 5", '" 5": invalid syntax'),
        (b"1_0", '"1_0": invalid syntax'),
        ("٣".encode(), '"٣": invalid syntax'),
        (b"4294967296", '"4294967296": value out of range'),
        (b"9" * 40, f'"{"9" * 40}": value out of range'),
    ],
)
def test_a_verbosity_that_is_no_number_is_refused(given: bytes, problem: str) -> None:
    world = World()
    answer = answer_of(world, "/debug/flags/v", "PUT", body=given)
    assert (answer.code, answer.text) == (400, f"strconv.ParseUint: parsing {problem}\n")
    assert world.logger.verbosity == 0
