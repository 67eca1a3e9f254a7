"""Points in time as the API writes them: RFC 3339 in UTC, whole seconds or microseconds."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import floor
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp(seconds: float) -> str:
    """A time in whole seconds, such as `2026-11-15T19:41:23Z` (rounded down)."""
    return f"{_of_second(floor(seconds))}Z"


@lru_cache(maxsize=64)
def _of_second(second: int) -> str:
    """A second without its time zone, to be gone on from."""
    return f"{_EPOCH + timedelta(seconds=second):%Y-%m-%dT%H:%M:%S}"


def micro_timestamp(seconds: float) -> str:
    """A time in microseconds, such as `2026-11-15T19:41:23.466883Z`: events and leases have these."""
    second, fraction = divmod(round(seconds * 1e6), 1_000_000)
    return f"{_of_second(second)}.{str(fraction).zfill(6)}Z"


def next_nanosecond(time: float, last: int) -> int:
    """A date in nanoseconds for the name of an event, another one than the last.

    Events of one moment are numbered on from it. A wall clock that was set back further is followed.
    """
    nanosecond = int(time * 1e9)
    return last + 1 if 0 <= last - nanosecond < 1_000_000_000 else nanosecond


def seconds_of(text: str) -> float:
    """The time written as `text`, in seconds since the epoch. Raises ValueError naming the text."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError(f"expected an RFC 3339 time, got {text!r}")
    return (time - _EPOCH).total_seconds()
