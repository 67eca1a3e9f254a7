"""How long a pod waits after a failed attempt: twice as long each time, up to a limit.

All times are whole nanoseconds, durations as well as points in time since the epoch.
"""

from dataclasses import dataclass
from math import inf, nextafter
from typing import Final

SECOND: Final = 1_000_000_000
ORDERING_WINDOW: Final = SECOND
"""Backoffs end at whole seconds, so that pods whose backoff ends together are ordered by priority."""


def nanoseconds(seconds: float) -> int:
    """A point in time in whole nanoseconds."""
    return round(seconds * SECOND)


def first_second(time: int) -> float:
    """The earliest time in seconds that is not before a time in nanoseconds."""
    seconds = time / SECOND
    while nanoseconds(seconds) < time:
        seconds = nextafter(seconds, inf)
    return seconds


@dataclass(frozen=True, slots=True)
class Backoff:
    """The backoff of failed pods. A maximum of 0 switches it off; with a window of 1 it ends at any time."""

    initial: int = SECOND
    maximum: int = 10 * SECOND
    window: int = ORDERING_WINDOW

    def duration(self, failures: int) -> int:
        """How long to wait after so many failed attempts in a row."""
        if failures <= 0:
            return 0
        doublings = failures - 1
        return self.maximum if self.initial > self.maximum >> doublings else self.initial << doublings

    def expiration(self, timestamp: int, unschedulable: int, errors: int = 0) -> int | None:
        """When the backoff of a pod that failed at `timestamp` ends, None if it has none.

        Counted are the errors in a row if the last attempt ended with one, else the attempts that found
        no node.
        """
        failures = errors if errors > 0 else unschedulable
        if self.maximum == 0 or failures == 0:
            return None
        return self.aligned(timestamp + self.duration(failures))

    def aligned(self, time: int) -> int:
        """The beginning of the window a point in time is in."""
        return time - time % self.window
