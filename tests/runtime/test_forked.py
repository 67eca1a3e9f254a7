"""Work in a forked process: what it returns, its bounds, and what is left of it."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stowplan.runtime.forked import (
    AbandonedError,
    Bounds,
    ForkedWorkError,
    OutOfMemoryError,
    OutOfTimeError,
    room_for_memory,
    run_forked,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bounds are those of Linux")
QUICK = Bounds(seconds=60, memory=256 << 20)


def run(work: Callable[[], bytes], bounds: Bounds = QUICK) -> bytes:
    return asyncio.run(run_forked(work, bounds))


@pytest.fixture(autouse=True)
def _nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every process that was forked has ended and was waited for."""
    pids: list[int] = []
    fork = os.fork

    def noted() -> int:
        pids.append(fork())
        return pids[-1]

    monkeypatch.setattr(os, "fork", noted)
    yield
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def forever() -> bytes:
    while True:
        pass


def hungry() -> bytes:
    return bytes(1 << 30)


def fails() -> bytes:
    raise ValueError("no")


def exits() -> bytes:
    raise SystemExit(0)


def test_the_result_comes_back_however_long_it_is() -> None:
    assert run(lambda: b"x" * 3_000_000) == b"x" * 3_000_000


def test_memory_of_the_process_is_seen_and_stays_as_it_is() -> None:
    seen = [1, 2, 3]

    def work() -> bytes:
        seen.clear()
        return f"{os.getpid()} {len(seen)}".encode()

    pid, left = run(work).split()
    assert (int(pid) != os.getpid(), left, seen) == (True, b"0", [1, 2, 3])


@pytest.mark.parametrize(
    ("work", "bounds", "error"),
    [
        (forever, Bounds(seconds=0.2), OutOfTimeError),
        (hungry, QUICK, OutOfMemoryError),
        (lambda: b"x" * 2000, QUICK._replace(answer=1000), OutOfMemoryError),
        (fails, QUICK, ForkedWorkError),
        (exits, QUICK, ForkedWorkError),
        (lambda: b"", QUICK, ForkedWorkError),
    ],
    ids=["time", "memory", "answer", "exception", "exit", "nothing"],
)
def test_bounds_and_failures_are_errors(
    work: Callable[[], bytes], bounds: Bounds, error: type[ForkedWorkError]
) -> None:
    with pytest.raises(error):
        run(work, bounds)


def test_an_exception_comes_back_with_its_traceback() -> None:
    with pytest.raises(ForkedWorkError, match=r"in fails\n.*\nValueError: no\n"):
        run(fails)


def test_the_loop_runs_meanwhile_and_work_that_nobody_waits_for_is_ended() -> None:
    async def story() -> int:
        turns = 0
        task = asyncio.create_task(run_forked(forever, QUICK, lambda: turns > 20))
        while not task.done():
            turns += 1
            await asyncio.sleep(0.01)
        with pytest.raises(AbandonedError):
            await task
        return turns

    assert asyncio.run(story()) > 20


def test_work_of_a_cancelled_task_is_ended() -> None:
    async def story() -> None:
        task = asyncio.create_task(run_forked(forever, QUICK))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())


def test_no_copy_is_made_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(lambda: b"x") == b"x"
    monkeypatch.setattr("stowplan.runtime.forked.room_for_memory", lambda: 32 << 20)
    with pytest.raises(OutOfMemoryError, match=r"a copy may need \d+ MiB, and 32 MiB are left"):
        run(lambda: b"x")


def test_room_is_that_of_the_machine_or_of_the_container(tmp_path: Path) -> None:
    machine, group = tmp_path / "meminfo", tmp_path / "group"
    assert room_for_memory(machine, group) is None
    machine.write_text("MemTotal:       2000 kB\nMemAvailable:    1000 kB\n")
    assert room_for_memory(machine, group) == 1000 << 10
    group.mkdir()
    for name, text in (("max", "500000"), ("current", "400000"), ("stat", "anon 1\ninactive_file 50000")):
        group.joinpath(f"memory.{name}").write_text(f"{text}\n")
    assert room_for_memory(machine, group) == 150_000
    group.joinpath("memory.max").write_text("max\n")
    assert room_for_memory(machine, group) == 1000 << 10


def test_files_of_the_process_are_closed_and_none_can_be_written(tmp_path: Path) -> None:
    """Otherwise a connection that the process closes would stay open as long as the work runs."""
    target = tmp_path / "written"

    def work() -> bytes:
        files = ",".join(sorted(os.listdir("/proc/self/fd")))
        try:
            os.write(os.open(target, os.O_WRONLY | os.O_CREAT), b"x")
        except OSError:
            return files.encode()
        return b"written"

    with (tmp_path / "open").open("w"):
        found = run(work)
    assert found == b"0,1,2,3,4", "the pipe, and the listing itself"
    assert not target.read_text()
