"""Schedules of CronJobs: five fields or a descriptor such as `@hourly`, in a time zone.

Whatever kube-apiserver takes is taken here, and means the same. All times are seconds since the epoch.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from stowplan.gocompat.caching import LONGEST
from stowplan.gocompat.durations import SECOND, Duration, DurationError
from stowplan.gocompat.quoting import quote

YEARS: Final = 5
"""A time that does not come within this number of years counts as never."""


class ScheduleError(ValueError):
    """A schedule that cannot be read, or a time zone that is not known."""


class Schedule(Protocol):
    def next(self, after: float) -> float | None:
        """The next time after one, None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Every:
    """Interval in seconds."""

    seconds: int

    def next(self, after: float) -> float:
        return math.floor(after) + self.seconds


@dataclass(frozen=True, slots=True)
class CronField:
    """Which values of a field fit; `any` if the field says that it does not matter."""

    values: frozenset[int]
    any: bool = False

    def __contains__(self, value: int) -> bool:
        return value in self.values


@dataclass(frozen=True, slots=True)
class Cron:
    """Minutes at which all fields fit, by the clocks of a zone.

    When clocks are set back, times in the hour that comes twice come twice; when they are set forward, times
    in the hour that is left out do not come.
    """

    minute: CronField
    hour: CronField
    day: CronField
    month: CronField
    weekday: CronField
    zone: tzinfo = UTC

    def next(self, after: float) -> float | None:
        moment = math.floor(after) + 1
        limit = self._at(moment).year + YEARS
        while True:
            local = self._at(moment)
            if local.year > limit:
                return None
            if local.month not in self.month:
                ahead = local.replace(day=28) + timedelta(days=4)
                moment = self._midnight(ahead.replace(day=1))
            elif not self._fits_day(local):
                moment = self._midnight(local + timedelta(days=1))
            elif local.hour not in self.hour:
                moment += 3600 - local.minute * 60 - local.second
            elif local.minute not in self.minute or local.second:
                moment += 60 - local.second
            else:
                return float(moment)

    def _at(self, moment: int) -> datetime:
        return datetime.fromtimestamp(moment, self.zone)

    def _midnight(self, day: datetime) -> int:
        return int(datetime(day.year, day.month, day.day, tzinfo=self.zone).timestamp())

    def _fits_day(self, local: datetime) -> bool:
        """A day of the month and a weekday: both, if one does not matter; else one of them is enough."""
        fits = local.day in self.day, local.isoweekday() % 7 in self.weekday
        return all(fits) if self.day.any or self.weekday.any else any(fits)


@dataclass(frozen=True, slots=True)
class Bounds:
    least: int
    most: int
    names: Mapping[str, int]


def _named(words: str, first: int) -> Mapping[str, int]:
    return {word: number for number, word in enumerate(words.split(), first)}


MINUTES: Final = Bounds(0, 59, {})
HOURS: Final = Bounds(0, 23, {})
DAYS: Final = Bounds(1, 31, {})
MONTHS: Final = Bounds(1, 12, _named("jan feb mar apr may jun jul aug sep oct nov dec", 1))
WEEKDAYS: Final = Bounds(0, 6, _named("sun mon tue wed thu fri sat", 0))
_FIELDS: Final = (MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS)
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MAX_DIGITS: Final = 18
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def parse_schedule(text: str, time_zone: str | None = None) -> Schedule:
    """A schedule, whose own `TZ=` or `CRON_TZ=` counts before the zone. Raises `ScheduleError`."""
    # Long ones are not kept: a schedule may have a megabyte.
    return (_kept_schedule if len(text) <= LONGEST else _schedule)(text, time_zone)


def _schedule(text: str, time_zone: str | None) -> Schedule:
    if not text:
        raise ScheduleError("empty spec string")
    zone: tzinfo = UTC if time_zone is None else load_zone(time_zone)
    if text.startswith(("TZ=", "CRON_TZ=")):
        named, space, rest = text.partition(" ")
        if not space:
            raise ScheduleError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        zone = _location(named.partition("=")[2])
        text = rest.strip()
    if text.startswith("@"):
        return _descriptor(text, zone)
    return _cron(text.split(), zone)


_kept_schedule: Final = lru_cache(maxsize=1024)(_schedule)


def load_zone(name: str) -> tzinfo:
    """A time zone by its name in the IANA database. Raises `ScheduleError`."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        raise ScheduleError(f"unknown time zone {name}") from None


def _location(name: str) -> tzinfo:
    try:
        return load_zone(name)
    except ScheduleError as error:
        raise ScheduleError(f"provided bad location {name}: {error}") from None


def _descriptor(text: str, zone: tzinfo) -> Schedule:
    if text in _DESCRIPTORS:
        return _cron(_DESCRIPTORS[text].split(), zone)
    if text.startswith("@every "):
        try:
            every = Duration.parse(text.removeprefix("@every "))
        except DurationError as error:
            raise ScheduleError(f"failed to parse duration {text}: {error}") from None
        return Every(max(every.nanoseconds // SECOND, 1))
    raise ScheduleError(f"unrecognized descriptor: {text}")


def _cron(fields: list[str], zone: tzinfo) -> Cron:
    if len(fields) != len(_FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minute, hour, day, month, weekday = map(_field, fields, _FIELDS)
    return Cron(minute, hour, day, month, weekday, zone)


def _field(text: str, bounds: Bounds) -> CronField:
    parts = [_range(part, bounds) for part in dict.fromkeys(filter(None, text.split(",")))]
    return CronField(frozenset().union(*(part.values for part in parts)), any(part.any for part in parts))


def _range(text: str, bounds: Bounds) -> CronField:
    """`*`, `4`, `4-8`, and each of them with a step: `/2`."""
    span, *steps = text.split("/")
    ends = span.split("-")
    star = ends[0] in ("*", "?")
    if star:
        first, last = bounds.least, bounds.most
    elif len(ends) > 2:
        raise ScheduleError(f"too many hyphens: {text}")
    else:
        first = _number(ends[0], bounds)
        last = _number(ends[-1], bounds)
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {text}")
    step = _integer(steps[0]) if steps else 1
    if steps and len(ends) == 1:
        last = bounds.most
    _check_range(text, first, last, step, bounds)
    return CronField(frozenset(range(first, last + 1, step)), star and step == 1)


def _check_range(text: str, first: int, last: int, step: int, bounds: Bounds) -> None:
    if first < bounds.least:
        raise ScheduleError(f"beginning of range ({first}) below minimum ({bounds.least}): {text}")
    if last > bounds.most:
        raise ScheduleError(f"end of range ({last}) above maximum ({bounds.most}): {text}")
    if first > last:
        raise ScheduleError(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")


def _number(text: str, bounds: Bounds) -> int:
    return bounds.names[text.lower()] if text.lower() in bounds.names else _integer(text)


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text) or len(text) > MAX_DIGITS:
        why = "value out of range" if _INTEGER.fullmatch(text) else "invalid syntax"
        raise ScheduleError(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: {why}")
    if int(text) < 0:
        raise ScheduleError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
