"""Work in a forked copy of the process: with all of its memory, bounded, and with bytes as its only result.

A fork holds the event loop while page tables are copied: 10 ms of CPU for a scheduler with 5,000 nodes and
50,000 pods. Encoding these objects for a worker process takes 90 ms, in which the cluster would change.
"""

import asyncio
import gc
import os
import resource
import signal
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

_CHUNK: Final = 1 << 16
_LOOK_EVERY: Final = 0.2
"""Seconds between two checks of whether the caller still waits."""
_NICE: Final = 10
_ADJUST: Final = Path("/proc/self/oom_score_adj")
_SIZE: Final = Path("/proc/self/statm")
_SLACK: Final = 64 << 20
_MEMORY: Final = Path("/proc/meminfo")
_GROUP: Final = Path("/sys/fs/cgroup")
_OUT_OF_MEMORY: Final = b"\x00memory"
_FAILED: Final = b"\x00failed"


class Bounds(NamedTuple):
    """Bounds of a copy: seconds, also of CPU; bytes of memory besides the process's; bytes of the answer."""

    seconds: float = 10.0
    memory: int = 1 << 30
    answer: int = 64 << 20


class ForkedWorkError(Exception):
    """The copy gave no answer; the message may have several lines."""


class OutOfTimeError(ForkedWorkError):
    """It was ended at its deadline."""


class OutOfMemoryError(ForkedWorkError):
    """It needed more memory than it may have, or answered at too great a length."""


class AbandonedError(ForkedWorkError):
    """Nobody waits for the answer any more."""


async def run_forked(
    work: Callable[[], bytes], bounds: Bounds, abandoned: Callable[[], bool] = lambda: False
) -> bytes:
    """Result of a function that runs in a forked copy of the process.

    The copy is killed at its deadline, when the caller is cancelled, and as soon as `abandoned`. It shares no
    open file with the process, runs at a lower priority, and goes first if the machine is out of memory.
    Raises ForkedWorkError.
    """
    needed, room = _resident() + _SLACK, room_for_memory()
    if room is not None and room < needed:
        # A container that runs out of memory may be ended as a whole, and the scheduler with it.
        raise OutOfMemoryError(f"a copy may need {needed >> 20} MiB, and {room >> 20} MiB are left")
    reading, writing = os.pipe()
    try:
        pid = _fork(work, writing, bounds)
    except OSError as error:
        os.close(reading)
        raise OutOfMemoryError(f"the process cannot be copied: {error.strerror}") from None
    finally:
        os.close(writing)
    try:
        answer = await _read(reading, bounds, abandoned)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        code = await _ended(pid)
    if answer == _OUT_OF_MEMORY:
        raise OutOfMemoryError(f"expected to need at most {bounds.memory >> 20} MiB")
    if answer.startswith(_FAILED):
        raise ForkedWorkError(answer.removeprefix(_FAILED).decode())
    if not answer:
        if os.WIFSIGNALED(code) and os.WTERMSIG(code) == signal.SIGXCPU:
            raise OutOfTimeError("out of time")
        raise ForkedWorkError(f"no answer, status {code}")
    return answer


async def _read(reading: int, bounds: Bounds, abandoned: Callable[[], bool]) -> bytes:
    """Everything that the copy writes until it ends."""
    loop = asyncio.get_running_loop()
    os.set_blocking(reading, False)
    parts: list[bytes] = []
    done = asyncio.Event()
    size = 0

    def readable() -> None:
        nonlocal size
        with suppress(BlockingIOError):
            part = os.read(reading, _CHUNK)
            parts.append(part)
            size += len(part)
            if not part or size > bounds.answer:
                done.set()

    deadline = loop.time() + bounds.seconds
    loop.add_reader(reading, readable)
    try:
        while not done.is_set():
            left = deadline - loop.time()
            if left <= 0:
                raise OutOfTimeError("out of time")
            if abandoned():
                raise AbandonedError("abandoned")
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), min(_LOOK_EVERY, left))
    finally:
        loop.remove_reader(reading)
    if size > bounds.answer:
        raise OutOfMemoryError(f"the answer is longer than {bounds.answer >> 20} MiB")
    return b"".join(parts)


async def _ended(pid: int) -> int:
    """The exit status of the copy, which ends just now; freeing its memory takes a moment."""
    while True:
        found, code = os.waitpid(pid, os.WNOHANG)
        if found:
            return code
        await asyncio.sleep(0.001)


def room_for_memory(machine: Path = _MEMORY, group: Path = _GROUP) -> int | None:
    """Bytes that the machine and the container have left; None if that is not known.

    What a group holds of files is given back when it is needed.
    """
    found = []
    with suppress(OSError, KeyError, ValueError):
        lines = dict(line.split(":", 1) for line in machine.read_text().splitlines())
        found.append(int(lines["MemAvailable"].split()[0]) << 10)
    with suppress(OSError, KeyError, ValueError):
        most, used = (group.joinpath(f"memory.{name}").read_text() for name in ("max", "current"))
        stat = dict(line.split() for line in group.joinpath("memory.stat").read_text().splitlines())
        found.append(int(most) - int(used) + int(stat["inactive_file"]))
    return min(found, default=None)


def _resident() -> int:
    """Bytes of the process that are in memory: a copy may come to write to all of them."""
    return int(_SIZE.read_text().split()[1]) * resource.getpagesize() if _SIZE.exists() else 0


def _fork(work: Callable[[], bytes], writing: int, bounds: Bounds) -> int:
    with warnings.catch_warnings():
        # Python warns of threads, whose locks the copy could wait for: it runs nothing that they lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        _run(work, writing, bounds)
    return pid


def _run(work: Callable[[], bytes], writing: int, bounds: Bounds) -> NoReturn:
    """The life of the copy. Nothing of the process may run in it: no finalizer, handler or event loop."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_DFL)
        answer = os.dup2(writing, 3) if writing != 3 else writing
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        # The process's objects are not looked at: that would copy every page they are on.
        gc.freeze()
        _bound(bounds)
        try:
            found = work()
        except MemoryError:
            found = _OUT_OF_MEMORY
        except BaseException:  # noqa: BLE001 - the copy must not go on as if it were the process
            found = _FAILED + traceback.format_exc().encode(errors="replace")
        view = memoryview(found)
        while view:
            view = view[os.write(answer, view) :]
        code = 0
    finally:
        os._exit(code)


def _bound(bounds: Bounds) -> None:
    seconds = int(bounds.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(_NICE)
    if _SIZE.exists():
        pages = int(_SIZE.read_text().split()[0])
        most = pages * resource.getpagesize() + bounds.memory
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
    # A file of the kernel: RLIMIT_FSIZE does not count for it.
    with suppress(OSError):
        _ADJUST.write_text("1000")
