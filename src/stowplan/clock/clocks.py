"""The clock interface, and the clock on the wall."""

import time
from collections.abc import Callable
from typing import Final, Protocol


class Clock(Protocol):
    """Tells the time; it never goes backwards."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...


LOOK_EVERY: Final = 0.05
"""Seconds for which the difference between the two clocks of a machine is taken to stay as it was."""


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
        self._look_again = 0.0

    def now(self) -> float:
        steady = self._steady()
        if steady >= self._look_again:
            self._look_again = steady + LOOK_EVERY
            self._offset = max(self._offset, self._wall() - steady)
        return steady + self._offset
