"""What is measured for every pod, put aside in plain lists and counted by the hundred.

Nearly all of it comes under the same few labels, so finding the series and asking whether it is time to sort
would be most of the work. Here whoever measures only appends; the series get the values when enough pods have
come by, and before anybody looks.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Final

from stowplan.metrics.accumulators import UNLABELLED, Distributions, Labels
from stowplan.metrics.families import Families

ENOUGH: Final = 512
"""After so many pods what was put aside is counted."""

SCHEDULED: Final = "scheduled"
"""The result of an attempt that ended with a bound pod."""

MOST_ATTEMPTS: Final = 15
_ATTEMPTS: Final = (*((str(number),) for number in range(MOST_ATTEMPTS)), (f"{MOST_ATTEMPTS}+",))
"""Label values for the number of attempts; from a limit on it is always the same."""


class Gathering:
    """Lists of values for the series of one histogram.

    The lists have no bound of their own: who measures has them settled every `ENOUGH` pods.
    """

    def __init__(self, series: Distributions) -> None:
        self._series = series
        self._lists: dict[Labels, list[float]] = {}

    def into(self, labels: Labels) -> Callable[[float], None]:
        """Who takes the values of a series, for ever; it comes into being with its first value."""
        return self._lists.setdefault(labels, []).append

    def settle(self) -> None:
        """Count what was put aside."""
        for labels, values in self._lists.items():
            if values:
                self._series[labels].take(values)
                values.clear()


class BoundPods:
    """Pods that were bound, a row each by profile: everything that is counted of them when all is done."""

    def __init__(self, families: Families) -> None:
        self._attempts = families.counter("schedule_attempts_total")
        self._attempt_seconds = families.histogram("scheduling_attempt_duration_seconds")
        self._needed_attempts = families.distribution("pod_scheduling_attempts")
        self._sli = families.histogram("pod_scheduling_sli_duration_seconds")
        self._after_flush = families.counter("pod_scheduled_after_flush_total")
        self._rows: defaultdict[str, list[tuple[float, int, float | None, bool]]] = defaultdict(list)

    def put(self, profile: str, seconds: float, attempts: int, waited: float | None, flushed: bool) -> None:
        """An attempt ended with a bound pod, after so many seconds.

        It took so many attempts, and the pod `waited` since it first became ready, unless that is not known.
        """
        rows = self._rows[profile]
        rows.append((seconds, attempts, waited, flushed))
        if len(rows) >= ENOUGH:
            self.settle()

    def settle(self) -> None:
        """Count what was put aside."""
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
                self._sli[_ATTEMPTS[min(number, MOST_ATTEMPTS)]].take(known)
