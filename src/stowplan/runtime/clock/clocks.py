"""The clock interface, and the machine's clocks."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol


class Clock(Protocol):
    """Tells the time in two ways: the date to write down, and seconds to measure with."""

    def now(self) -> float:
        """The wall clock in seconds since the epoch, for what is written and shown.

        It follows every correction of the machine's clock at once, so it may jump both ways: never compare
        two of these to see how much time has passed.
        """
        ...

    def monotonic(self) -> float:
        """Seconds that pass evenly, for durations, deadlines, backoffs, rate limits and order.

        It reads like a date near the start of the process, and never jumps.
        """
        ...


def as_date(clock: Clock, moment: float) -> float:
    """The date of a moment of `clock.monotonic()`, as the wall clock stands now."""
    return clock.now() + (moment - clock.monotonic())


_uptime: Final = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""Time since boot, with the time the machine was suspended where the system tells it."""


class RealClock:
    """The machine's time. Its monotonic time continues while the machine is suspended, so that timeouts of
    some seconds have expired when the machine wakes up later."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = _uptime) -> None:
        self._wall = wall
        self._steady = steady
        self._offset = wall() - steady()

    def now(self) -> float:
        return self._wall()

    def monotonic(self) -> float:
        return self._steady() + self._offset
