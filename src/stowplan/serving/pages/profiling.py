"""Profiles of the process, at the paths where Go programs have theirs: what Python has instead of each."""

import asyncio
import gc
import html
import resource
import sys
import threading
import tracemalloc
from collections.abc import Awaitable, Callable
from math import isfinite
from typing import Final, NamedTuple

from aiohttp import web

from stowplan.serving.pages.answers import answer
from stowplan.serving.pages.sampling import sampled_stacks
from stowplan.serving.pages.stacks import all_stacks, waiting_places
from stowplan.serving.routing import Pages

DEFAULT_SECONDS: Final = 30.0
MOST_SECONDS: Final = 600.0
_PREFIX: Final = "/debug/pprof/"
_MOST_PLACES: Final = 200
_UNTRACED: Final = (
    "Allocations are not traced. Start the process with PYTHONTRACEMALLOC=1 in its environment to see here "
    "which lines hold how much memory; it makes everything slower.\n"
)
_ONE_AT_A_TIME: Final = "Could not enable CPU profiling: cpu profiling already in use\n"


class _Profile(NamedTuple):
    """One page below the index."""

    description: str
    text: Callable[[web.Request], Awaitable[str]]


def profiling_pages() -> Pages:
    """The index and the profiles below it."""
    profiles = _profiles()
    index = _index(profiles)

    async def below(request: web.Request) -> web.StreamResponse:
        name = request.path.removeprefix(_PREFIX)
        if not name:
            return answer(index, "text/html; charset=utf-8")
        profile = profiles.get(name)
        if profile is None:
            return answer("Unknown profile\n", status=404, headers={"X-Go-Pprof": "1"})
        try:
            return answer(await profile.text(request))
        except _BusyError:
            return answer(_ONE_AT_A_TIME, status=500, headers={"X-Go-Pprof": "1"})

    return {_PREFIX.rstrip("/"): _to_index, _PREFIX: below}


async def _to_index(request: web.Request) -> web.StreamResponse:
    found = f'<a href="{_PREFIX}">Found</a>.\n\n'
    return answer(found, "text/html; charset=utf-8", status=302, sniffed=True, headers={"Location": _PREFIX})


def _profiles() -> dict[str, _Profile]:
    memory = _Profile("Which lines hold how much memory, if allocations are traced.", _memory)
    return {
        "allocs": memory,
        "block": _Profile("How many tasks wait at which place.", _waiting),
        "goroutine": _Profile("The stacks of all threads and tasks.", _stacks),
        "heap": memory,
        "mutex": _Profile("As block: there are no locks, only tasks that wait.", _waiting),
        "profile": _Profile(
            "Where time is spent, for `seconds` (30): stacks and how often each was seen, for flame graphs.",
            _CpuProfile().text,
        ),
        "threadcreate": _Profile("The stacks of all threads and tasks.", _stacks),
    }


def _index(profiles: dict[str, _Profile]) -> str:
    rows = "".join(
        f"<tr><td><a href='{name}?debug=1'>{name}</a></td><td>{html.escape(profile.description)}</td></tr>\n"
        for name, profile in profiles.items()
    )
    title = f"<title>{_PREFIX}</title>"
    return f"<html>\n<head>\n{title}\n</head>\n<body>\n{_PREFIX}\n<table>\n{rows}</table>\n</body>\n</html>\n"


async def _stacks(request: web.Request) -> str:
    return all_stacks()


async def _waiting(request: web.Request) -> str:
    return waiting_places()


async def _memory(request: web.Request) -> str:
    """The lines that hold most, or what is known without tracing."""
    if "gc" in request.query:
        gc.collect()
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    known = f"largest resident size {largest} KiB, {sys.getallocatedblocks()} blocks allocated by Python\n"
    if not tracemalloc.is_tracing():
        return known + _UNTRACED
    taken = await asyncio.to_thread(lambda: tracemalloc.take_snapshot().statistics("lineno"))
    return known + "".join(f"{line}\n" for line in taken[:_MOST_PLACES])


class _BusyError(Exception):
    """Somebody else is taking a profile."""


class _CpuProfile:
    """Takes profiles, one at a time."""

    def __init__(self) -> None:
        self._busy = False

    async def text(self, request: web.Request) -> str:
        if self._busy:
            raise _BusyError
        self._busy = True
        stop = threading.Event()
        try:
            return await asyncio.to_thread(sampled_stacks, _seconds(request.query.get("seconds", "")), stop)
        finally:
            stop.set()
            self._busy = False


def _seconds(text: str) -> float:
    """For how long to look; what makes no sense is taken for the default."""
    try:
        seconds = float(text)
    except ValueError:
        return DEFAULT_SECONDS
    return min(seconds, MOST_SECONDS) if isfinite(seconds) and seconds > 0 else DEFAULT_SECONDS
