"""What a candidate knows: the record last seen and since when, and until when its own word counts."""

import math
from dataclasses import dataclass
from typing import Final

from stowplan.clock import Clock
from stowplan.election.record import Record

_NOTHING: Final = Record()


@dataclass(frozen=True, slots=True)
class Observation:
    """A record and when it was seen first, by our monotonic time: dates that others write are not trusted.

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
    second, so it counts from the beginning of that second; a write that repeats the second of the one before,
    as after the wall clock was set back, extends nothing. Nobody takes over before it has ended.

    Only monotonic time counts: no correction of the wall clock moves it, and it goes on while the machine is
    suspended. Validity can be asked for from any thread.
    """

    __slots__ = ("_clock", "_second", "_since", "end")

    def __init__(self, clock: Clock, record: Record, began: float, before: "Tenure | None" = None) -> None:
        date = 0.0 if record.renewed is None else record.renewed
        self._clock = clock
        self._second = math.floor(date)
        self._since = began - (date - self._second)
        if before is not None and before._second == self._second and before.end > began:
            self._since = min(self._since, before._since)
        self.end: float = self._since + record.seconds
        """When it is over, by the clock's monotonic time."""

    @property
    def is_valid(self) -> bool:
        return self._clock.monotonic() < self.end
