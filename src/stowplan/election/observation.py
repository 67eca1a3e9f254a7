"""What a candidate knows: the record last seen and since when, and until when its own word counts."""

import asyncio
import math
from dataclasses import dataclass
from typing import Final

from stowplan.clock import Clock
from stowplan.election.record import Record


def steady() -> float:
    """The loop's time. It goes on evenly when the date of the machine is corrected."""
    return asyncio.get_running_loop().time()


_NOTHING: Final = Record()


@dataclass(frozen=True, slots=True)
class Observation:
    """A record and when it was seen first, by our own time: dates that others write are not trusted.

    `raw` is its text as read, None if we wrote it ourselves.
    """

    record: Record = _NOTHING
    raw: str | None = None
    at: float = float("-inf")

    def is_valid(self, now: float) -> bool:
        """Whether the record was still new enough at this time for its holder to lead."""
        return self.at + self.record.seconds > now

    def expires_in(self, now: float) -> float:
        return self.at + self.record.seconds - now


class Tenure:
    """For how long a successful write lets us lead: from when it was made, not from when it was answered.

    Some candidates compare records by their whole seconds and see only the first of several writes in one
    second, so it counts from the beginning of that second. Nobody takes over before it has ended. A machine
    that slept shows on the clock though not in the loop's time: what ends first counts.
    """

    __slots__ = ("_clock", "_end_date", "end")

    def __init__(self, clock: Clock, record: Record) -> None:
        now = clock.now()
        since = math.floor(now if record.renewed is None else record.renewed)
        self._clock = clock
        self._end_date = since + record.seconds
        self.end = steady() - (now - since) + record.seconds
        """When it is over, by the loop's time."""

    @property
    def is_valid(self) -> bool:
        return steady() < self.end and self._clock.now() < self._end_date
