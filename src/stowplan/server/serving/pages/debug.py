"""The debugging pages: Python profiles at the paths of Go's (/debug/pprof/), and /debug/flags/v."""

import asyncio
import gc
import html
import resource
import sys
import threading
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from math import isfinite
from types import FrameType
from typing import Final, NamedTuple

from aiohttp import web

from stowplan.gocompat.quoting import quote
from stowplan.runtime.logs import Logger
from stowplan.server.serving.filters import Page, Pages
from stowplan.server.serving.responses import response

DEFAULT_SECONDS: Final = 30.0
MAX_SECONDS: Final = 600.0
_PREFIX: Final = "/debug/pprof/"
_MAX_HEAP_LINES: Final = 200
_UNTRACED: Final = (
    "Allocations are not traced. Start the process with PYTHONTRACEMALLOC=1 in its environment to see here "
    "which lines hold how much memory; it makes everything slower.\n"
)
_ONE_AT_A_TIME: Final = "Could not enable CPU profiling: cpu profiling already in use\n"

SAMPLE_INTERVAL: Final = 0.01
"""Seconds between two samples."""

_IDLE_FRAMES: Final = frozenset(
    {("select", "selectors.py"), ("wait", "threading.py"), ("_worker", "thread.py")}
)
"""Innermost frames of idle threads."""

Task = asyncio.Task[object]

_PLAIN: Final = "text/plain"
_MAX_VERBOSITY: Final = 2**32 - 1
_FLAGS_INDEX: Final = """<html>
<head>
<title>/debug/flags/</title>
</head>
<body>
/debug/flags/<br>
<br>
flags:<br>
<table>
<tr>v<br>
</table>
<br>
full flags configurable<br>
</body>
</html>
"""


# /debug/pprof


class _Profile(NamedTuple):
    """A profile below the index."""

    description: str
    text: Callable[[web.Request], Awaitable[str]]


def profiling_pages() -> Pages:
    """The index and the profiles."""
    profiles = _profiles()
    index = _profile_index(profiles)

    async def below(request: web.Request) -> web.StreamResponse:
        name = request.path.removeprefix(_PREFIX)
        if not name:
            return response(index, "text/html; charset=utf-8")
        profile = profiles.get(name)
        if profile is None:
            return response("Unknown profile\n", status=404, headers={"X-Go-Pprof": "1"})
        try:
            return response(await profile.text(request))
        except _BusyError:
            return response(_ONE_AT_A_TIME, status=500, headers={"X-Go-Pprof": "1"})

    return {_PREFIX.rstrip("/"): _to_index, _PREFIX: below}


async def _to_index(request: web.Request) -> web.StreamResponse:
    found = f'<a href="{_PREFIX}">Found</a>.\n\n'
    return response(
        found, "text/html; charset=utf-8", status=302, sniffed=True, headers={"Location": _PREFIX}
    )


def _profiles() -> dict[str, _Profile]:
    memory = _Profile("Which lines hold how much memory, if allocations are traced.", _heap)
    return {
        "allocs": memory,
        "block": _Profile("How many tasks wait at which place.", _block),
        "goroutine": _Profile("The stacks of all threads and tasks.", _goroutine),
        "heap": memory,
        "mutex": _Profile("As block: there are no locks, only tasks that wait.", _block),
        "profile": _Profile(
            "Where time is spent, for `seconds` (30): stacks and how often each was seen, for flame graphs.",
            _CpuProfile().text,
        ),
        "threadcreate": _Profile("The stacks of all threads and tasks.", _goroutine),
    }


def _profile_index(profiles: dict[str, _Profile]) -> str:
    rows = "".join(
        f"<tr><td><a href='{name}?debug=1'>{name}</a></td><td>{html.escape(profile.description)}</td></tr>\n"
        for name, profile in profiles.items()
    )
    title = f"<title>{_PREFIX}</title>"
    return f"<html>\n<head>\n{title}\n</head>\n<body>\n{_PREFIX}\n<table>\n{rows}</table>\n</body>\n</html>\n"


async def _goroutine(request: web.Request) -> str:
    return all_stacks()


async def _block(request: web.Request) -> str:
    return await_locations()


async def _heap(request: web.Request) -> str:
    """Allocations by line, or the totals without tracemalloc."""
    if "gc" in request.query:
        gc.collect()
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    known = f"largest resident size {largest} KiB, {sys.getallocatedblocks()} blocks allocated by Python\n"
    if not tracemalloc.is_tracing():
        return known + _UNTRACED
    taken = await asyncio.to_thread(lambda: tracemalloc.take_snapshot().statistics("lineno"))
    return known + "".join(f"{line}\n" for line in taken[:_MAX_HEAP_LINES])


class _BusyError(Exception):
    """A CPU profile is in progress."""


class _CpuProfile:
    """Takes CPU profiles, one at a time."""

    def __init__(self) -> None:
        self._busy = False

    async def text(self, request: web.Request) -> str:
        if self._busy:
            raise _BusyError
        self._busy = True
        stop = threading.Event()
        try:
            return await asyncio.to_thread(cpu_profile, _seconds(request.query.get("seconds", "")), stop)
        finally:
            stop.set()
            self._busy = False


def _seconds(text: str) -> float:
    """The duration of a profile; the default if it makes no sense."""
    try:
        seconds = float(text)
    except ValueError:
        return DEFAULT_SECONDS
    return min(seconds, MAX_SECONDS) if isfinite(seconds) and seconds > 0 else DEFAULT_SECONDS


# CPU profile


def cpu_profile(seconds: float, stop: threading.Event) -> str:
    """Sampled stacks with their counts, one a line, outermost first: `main;schedule;bind 42`.

    This is the input of flame graph tools. Runs in a separate thread, so it also sees what blocks the event
    loop; ends early when `stop` is set.
    """
    seen: Counter[str] = Counter()
    own = threading.get_ident()
    for _ in range(max(1, round(seconds / SAMPLE_INTERVAL))):
        for ident, frame in sys._current_frames().items():
            if ident != own and not _is_idle(frame):
                seen[";".join(reversed(list(_qualified_names(frame))))] += 1
        if stop.wait(SAMPLE_INTERVAL):
            break
    return "".join(f"{stack} {count}\n" for stack, count in seen.most_common())


def _is_idle(frame: FrameType) -> bool:
    code = frame.f_code
    return (code.co_name, code.co_filename.rpartition("/")[2]) in _IDLE_FRAMES


def _qualified_names(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        code = frame.f_code
        yield f"{frame.f_globals.get('__name__', '?')}.{code.co_qualname}"
        frame = frame.f_back


# Stacks of threads and tasks


def all_stacks() -> str:
    """The stacks of all threads, then of all tasks."""
    return "\n".join([*_threads(), *_tasks()])


def await_locations() -> str:
    """The number of tasks awaiting at each line: with one thread and no locks, the contention profile."""
    locations = Counter(_await_location(task) for task in asyncio.all_tasks())
    return "".join(f"{count} {location}\n" for location, count in locations.most_common())


def _threads() -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        stack = "".join(traceback.format_stack(frame))
        yield f"thread {ident} [{names.get(ident, 'unknown')}]:\n{stack}"


def _tasks() -> Iterator[str]:
    for task in sorted(asyncio.all_tasks(), key=lambda one: one.get_name()):
        frames = _frames(task)
        stack = "".join(line for frame in frames for line in traceback.format_stack(frame, limit=1))
        yield f"task [{task.get_name()}]:\n{stack}"


def _frames(task: Task) -> list[FrameType]:
    """The frames of a task's coroutines, the innermost last."""
    frames: list[FrameType] = []
    awaited: object = task.get_coro()
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if frame is None:
            break
        frames.append(frame)
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    return frames


def _await_location(task: Task) -> str:
    frames = _frames(task)
    if not frames:
        return "(done)"
    code = frames[-1].f_code
    return f"{code.co_filename}:{frames[-1].f_lineno} {code.co_qualname}"


# /debug/flags


def verbosity_pages(logger: Logger) -> Pages:
    """`PUT /debug/flags/v` sets the log verbosity; the index lists it."""
    return {
        "/debug/flags": _flags_index,
        "/debug/flags/": _flags_index,
        "/debug/flags/v": _verbosity_page(logger),
    }


async def _flags_index(request: web.Request) -> web.StreamResponse:
    return response(_FLAGS_INDEX, "text/html; charset=utf-8", sniffed=True)


def _verbosity_page(logger: Logger) -> Page:
    async def page(request: web.Request) -> web.StreamResponse:
        if request.method != "PUT":
            return response("unsupported http method\n", _PLAIN, status=406)
        given = (await request.read()).decode(errors="replace")
        problem = _parse_problem(given)
        if problem:
            text = f"strconv.ParseUint: parsing {quote(given)}: {problem}\n"
            return response(text, _PLAIN, status=400)
        logger.set_verbosity(int(given))
        return response(f"successfully set klog.logging.verbosity to {given}\n", _PLAIN)

    return page


def _parse_problem(text: str) -> str:
    if not text.isascii() or not text.isdigit():
        return "invalid syntax"
    return "value out of range" if len(text) > len(str(_MAX_VERBOSITY)) or int(text) > _MAX_VERBOSITY else ""
