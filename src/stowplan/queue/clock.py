"""Time comes from outside, so that a simulation runs as fast as it can and a test needs no patience."""

from math import inf, nextafter
from typing import Final, Protocol

_SECOND: Final = 1_000_000_000


class Clock(Protocol):
    """Tells the time; it never goes backwards."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...


def nanoseconds(seconds: float) -> int:
    """A point in time in whole nanoseconds."""
    return round(seconds * _SECOND)


def first_second(time: int) -> float:
    """The earliest time in seconds that is not before a time in nanoseconds."""
    seconds = time / _SECOND
    while nanoseconds(seconds) < time:
        seconds = nextafter(seconds, inf)
    return seconds
