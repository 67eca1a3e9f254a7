"""Agenda of a run: callbacks by time, and pods as they arrive."""

import asyncio
import math
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, Final

from stowplan.simulate.scenario.model import DAY, Burst, Lifetime, Rate

_EPSILON: Final = 1e-6


class Agenda:
    """Callbacks by second of the run; those of the same second in the order in which they were entered.

    One timer of the event loop serves all: a day has hundreds of thousands of entries.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._order = count()
        self._earlier = asyncio.Event()
        self._waits_for = math.inf
        self._began = asyncio.get_running_loop().time()

    @property
    def second(self) -> float:
        """Seconds since the run began."""
        return asyncio.get_running_loop().time() - self._began

    def at(self, second: float, do: Callable[..., object], *arguments: Any) -> None:
        heappush(self._entries, (second, next(self._order), do, arguments))
        if second < self._waits_for:
            self._earlier.set()

    def after(self, seconds: float, do: Callable[..., object], *arguments: Any) -> None:
        self.at(self.second + seconds, do, *arguments)

    async def run(self, until: float) -> None:
        """Do what is due, second by second, up to a time."""
        entries = self._entries
        while True:
            now = self.second
            while entries and entries[0][0] <= now + _EPSILON and entries[0][0] < until:
                _, _, do, arguments = heappop(entries)
                do(*arguments)
            if now >= until:
                return
            self._waits_for = min(entries[0][0] if entries else until, until)
            self._earlier.clear()
            try:
                async with asyncio.timeout(self._waits_for - now):
                    await self._earlier.wait()
            except TimeoutError:
                pass
            self._waits_for = -math.inf


def arrivals(spec: Rate | Burst, rng: Random) -> Iterator[float]:
    """The seconds at which pods arrive, one for each, in order."""
    if isinstance(spec, Burst):
        second = spec.at
        while second < spec.until:
            for _ in range(spec.count):
                yield second
            if not spec.every:
                return
            second += spec.every
        return
    most = spec.per_second * (1 + spec.amplitude)
    second = spec.start
    while True:
        second += rng.expovariate(most)
        if second >= spec.until:
            return
        if spec.amplitude:
            swing = math.cos(2 * math.pi * (second - spec.peak) / DAY)
            if rng.random() * most > spec.per_second * (1 + spec.amplitude * swing):
                continue
        yield second


def drawn(lifetime: Lifetime, rng: Random) -> float | None:
    """Duration of a pod, None for ever."""
    if lifetime.kind == "forever":
        return None
    if lifetime.kind == "fixed":
        return lifetime.first
    if lifetime.kind == "exponential":
        return rng.expovariate(1 / lifetime.first)
    if lifetime.kind == "lognormal":
        return lifetime.first * math.exp(lifetime.second * rng.gauss(0, 1))
    return rng.uniform(lifetime.first, lifetime.second)
