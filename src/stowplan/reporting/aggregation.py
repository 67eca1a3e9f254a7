"""Which events are the same again, and what of that has to be written.

The first event of its kind is written, the second makes a series of it, further ones are only counted. What
happened once is forgotten after a while, a series after it has been quiet for as long. No waiting and no
I/O here.
"""

from collections import OrderedDict
from typing import Final

from stowplan.reporting.event import Event, Key, Series

QUIET: Final = 360.0
"""Seconds after which what happened before counts as over."""

KEPT: Final = 20_000
"""How many events of one reason are remembered at most, and how many series there are at most."""


class Aggregation:
    """The events of the last minutes, by what makes them the same.

    Events of one reason push out only each other: thousands of bindings per second must not make a pod's
    last failure forgotten. Beyond `kept` the oldest are forgotten, a series without its last count.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._once: dict[str, _Recent] = {}
        self._series: OrderedDict[Key, Series] = OrderedDict()

    def __len__(self) -> int:
        """How many events and series are remembered."""
        return len(self._series) + sum(map(len, self._once.values()))

    @property
    def series(self) -> list[Series]:
        """The series in progress; the one that has been quiet longest comes first."""
        return list(self._series.values())

    def observe(self, event: Event) -> Event | Series | None:
        """What to write of an event: itself, the series it begins, or nothing."""
        key = event.key
        series = self._series.get(key) if self._series else None
        if series is not None:
            series.count += 1
            series.last, series.observed = event.time, event.observed
            self._series.move_to_end(key)
            return None
        recent = self._once.get(key.reason)
        if recent is None:
            recent = self._once[key.reason] = _Recent(self._kept)
        first = recent.take_or_put(key, event)
        return (
            event if first is None else self._begin_series(key, Series(first, 2, event.time, event.observed))
        )

    def end_quiet(self, now: float) -> list[Series]:
        """Forget what is over, and give back the series among it: their last counts have to be written."""
        oldest = now - QUIET
        for reason, recent in list(self._once.items()):
            recent.forget_before(oldest)
            if not len(recent):
                del self._once[reason]
        over = [series for series in self._series.values() if series.observed < oldest]
        for series in over:
            del self._series[series.event.key]
        return over

    def resume(self, series: Series) -> None:
        """A series whose end could not be written goes on, unless there is a new one by now."""
        self._series.setdefault(series.event.key, series)

    def _begin_series(self, key: Key, series: Series) -> Series:
        self._series[key] = series
        if len(self._series) > self._kept:
            self._series.popitem(last=False)
        return series.snapshot()


class _Recent:
    """Events by key. When half of what may be kept has come since the last time, what is older goes."""

    def __init__(self, kept: int) -> None:
        self._half = max(kept // 2, 1)
        self._young: dict[Key, Event] = {}
        self._old: dict[Key, Event] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def take_or_put(self, key: Key, event: Event) -> Event | None:
        """Take out the event with a key; where there is none, this one is it from now on."""
        if key in self._young:
            return self._young.pop(key)
        if key in self._old:
            return self._old.pop(key)
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[key] = event
        return None

    def forget_before(self, oldest: float) -> None:
        self._young = {key: event for key, event in self._young.items() if event.observed >= oldest}
        self._old = {key: event for key, event in self._old.items() if event.observed >= oldest}
