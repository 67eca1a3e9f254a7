"""The clock interface, and the clock on the wall."""

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Tells the time; it never goes backwards."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...


class RealClock:
    """The machine's time, made to never go backwards.

    It runs at the pace of the monotonic clock. When the wall clock turns out to be ahead (a suspended
    laptop, a corrected clock) it catches up; when the wall clock is set back it goes on at its own pace.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._offset = wall() - steady()

    def now(self) -> float:
        steady, wall = self._steady(), self._wall()
        if wall - steady > self._offset:
            self._offset = wall - steady
        return steady + self._offset
