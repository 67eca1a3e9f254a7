"""Observations of every pod, buffered in plain lists and counted by the hundred.

Nearly all of them have the same few labels, so finding the series would be most of the work. Hot code only
appends; the series get the values when enough pods have been scheduled, and before metrics are read.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from stowplan.scheduler.metrics.families import UNLABELLED, Distributions, Families, Labels, Values

BUFFER_SIZE: Final = 512
"""Number of pods after which buffers are flushed."""

SCHEDULED: Final = "scheduled"
"""The result of a scheduling attempt whose pod was bound."""

MAX_ATTEMPTS_LABEL: Final = 15
_ATTEMPT_LABELS: Final = (
    *((str(number),) for number in range(MAX_ATTEMPTS_LABEL)),
    (f"{MAX_ATTEMPTS_LABEL}+",),
)
"""Label values for the number of attempts."""


class CallCounter:
    """How often a group of plugins was run together. Hot code increments `times` directly."""

    __slots__ = ("series", "times")

    def __init__(self, series: tuple[Labels, ...]) -> None:
        self.series = series
        self.times = 0

    def add(self, times: int = 1) -> None:
        self.times += times


class Evaluations:
    """Counters by profile and group of plugins.

    A pod is evaluated by some twenty plugins at four extension points, nearly always the same ones: one
    increment per group instead of twenty. `values` gets the counts before they are collected.
    """

    __slots__ = ("_counters", "_values")

    def __init__(self, values: Values) -> None:
        self._values = values
        self._counters: dict[tuple[str, tuple[tuple[str, str], ...]], CallCounter] = {}

    def counter(self, profile: str, pairs: Iterable[tuple[str, str]]) -> CallCounter:
        """The counter of a group of (plugin, extension point); its series exist from now on."""
        group = tuple(pairs)
        known = self._counters.get((profile, group))
        if known is None:
            known = CallCounter(tuple((plugin, point, profile) for plugin, point in group))
            self._counters[profile, group] = known
        return known

    def flush(self) -> None:
        """Add the counters to the series."""
        for counter in self._counters.values():
            times, counter.times = counter.times, 0
            for labels in counter.series:
                self._values[labels] += times


class BufferedHistogram:
    """Buffers for the series of one histogram.

    They are unbounded: the caller flushes them every `BUFFER_SIZE` pods.
    """

    def __init__(self, series: Distributions) -> None:
        self._series = series
        self._lists: dict[Labels, list[float]] = {}

    def into(self, labels: Labels) -> Callable[[float], None]:
        """The function that observes values of a series. The series exists once it has a value."""
        return self._lists.setdefault(labels, []).append

    def flush(self) -> None:
        """Move buffered values to the series."""
        for labels, values in self._lists.items():
            if values:
                self._series[labels].take(values)
                values.clear()


class BoundPods:
    """Bound pods, one row each by profile, with all that is counted at the end of a binding cycle."""

    def __init__(self, families: Families) -> None:
        self._attempts = families.counter("schedule_attempts_total")
        self._attempt_seconds = families.histogram("scheduling_attempt_duration_seconds")
        self._needed_attempts = families.distribution("pod_scheduling_attempts")
        self._sli = families.histogram("pod_scheduling_sli_duration_seconds")
        self._after_flush = families.counter("pod_scheduled_after_flush_total")
        self._rows: defaultdict[str, list[tuple[float, int, float | None, bool]]] = defaultdict(list)

    def put(self, profile: str, seconds: float, attempts: int, waited: float | None, flushed: bool) -> None:
        """A scheduling attempt ended with a bound pod after `seconds`.

        `attempts` are all attempts of the pod; it `waited` since it was first queued, if that is known.
        """
        rows = self._rows[profile]
        rows.append((seconds, attempts, waited, flushed))
        if len(rows) >= BUFFER_SIZE:
            self.flush()

    def flush(self) -> None:
        """Move buffered values to the series."""
        for profile, rows in self._rows.items():
            if not rows:
                continue
            seconds, attempts, waited, flushed = zip(*rows, strict=True)
            rows.clear()
            labels = (SCHEDULED, profile)
            self._attempts[labels] += len(seconds)
            self._attempt_seconds[labels].take(seconds)
            self._needed_attempts.take(attempts)
            self._after_flush[UNLABELLED] += sum(flushed)
            self._count_waits(attempts, waited)

    def _count_waits(self, attempts: tuple[int, ...], waited: tuple[float | None, ...]) -> None:
        for number in sorted(set(attempts)):
            known = [
                seconds
                for needed, seconds in zip(attempts, waited, strict=True)
                if needed == number and seconds is not None
            ]
            if known:
                self._sli[_ATTEMPT_LABELS[min(number, MAX_ATTEMPTS_LABEL)]].take(known)
