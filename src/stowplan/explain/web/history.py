"""The last quarter of an hour: pods placed, how long it took, what came into each lane and left it.

The scheduler counts anyway; every few seconds the differences are noted. That is all it costs while nobody
looks, and there is a past to see for whoever comes.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from itertools import islice, takewhile
from typing import Final, NamedTuple

from stowplan.api.meta import timestamp
from stowplan.explain.document.queue import HistoryColumns, PluginShare
from stowplan.scheduler import Scheduler
from stowplan.scheduler.metrics import CycleTotals

EVERY: Final = 5.0
"""Seconds between two samples."""
KEPT: Final = 180
"""How many are kept."""
RATE_OVER: Final = 12
"""Over how many of them the rates of lanes are taken: a minute."""
MOST_LATENCIES: Final = 2000
"""Of how many of the latest decisions percentiles are taken at most."""


class Interval(NamedTuple):
    """Changes between two samples. Lanes and plugins without any are left out."""

    end: float
    seconds: float
    bound: int
    unschedulable: int
    errors: int
    p50: float | None
    p99: float | None
    incoming: Mapping[str, int]
    outgoing: Mapping[str, int]
    plugins: Mapping[tuple[str, str], float]


class _Baseline(NamedTuple):
    scheduler: Scheduler
    time: float
    totals: CycleTotals
    lanes: Mapping[str, int]


class History:
    """Samples of a scheduler, the current one if it is replaced."""

    def __init__(
        self, scheduler: Callable[[], Scheduler | None], lanes: Callable[[], Mapping[str, int]]
    ) -> None:
        self._scheduler = scheduler
        self._lanes = lanes
        self._baseline: _Baseline | None = None
        self.intervals: deque[Interval] = deque(maxlen=KEPT)

    def sample(self) -> None:
        """Note what has happened since the last sample."""
        scheduler = self._scheduler()
        if scheduler is None:
            self._baseline = None
            return
        now = _Baseline(
            scheduler, scheduler.context.clock.now(), scheduler.context.metrics.totals(), dict(self._lanes())
        )
        before, self._baseline = self._baseline, now
        if before is not None and before.scheduler is scheduler and now.time > before.time:
            self.intervals.append(_between(before, now))

    # What is told

    def document(self) -> HistoryColumns:
        """Rates and latencies by column, oldest first."""
        shown = list(self.intervals)
        return HistoryColumns(
            every=EVERY,
            times=tuple(timestamp(one.end) for one in shown),
            bound=tuple(round(one.bound / one.seconds, 2) for one in shown),
            unschedulable=tuple(round(one.unschedulable / one.seconds, 2) for one in shown),
            errors=tuple(round(one.errors / one.seconds, 2) for one in shown),
            p50=tuple(one.p50 for one in shown),
            p99=tuple(one.p99 for one in shown),
        )

    def plugins(self) -> list[PluginShare]:
        """Plugins by extension point with their share of the time that all took in timed cycles."""
        seconds: Counter[tuple[str, str]] = Counter()
        for one in self.intervals:
            seconds.update(one.plugins)
        whole = seconds.total()
        return [
            PluginShare(plugin, point, round(taken / whole, 4))
            for (plugin, point), taken in seconds.most_common()
        ]

    def rates(self) -> dict[str, tuple[float, float]]:
        """Pods a second into each lane and out of it, over the last minute; empty before there are any."""
        latest = list(islice(reversed(self.intervals), RATE_OVER))
        seconds = sum(one.seconds for one in latest)
        if not seconds:
            return {}
        incoming: Counter[str] = Counter()
        outgoing: Counter[str] = Counter()
        for one in latest:
            incoming.update(one.incoming)
            outgoing.update(one.outgoing)
        return {
            lane: (round(incoming[lane] / seconds, 3), round(outgoing[lane] / seconds, 3))
            for lane in self._lanes()
        }


def _between(before: _Baseline, now: _Baseline) -> Interval:
    p50, p99 = _latencies(now.scheduler, before.time)
    was, has = before.totals, now.totals
    incoming, outgoing = _moves(before, now)
    return Interval(
        end=now.time,
        seconds=now.time - before.time,
        bound=_more(was.bound, has.bound),
        unschedulable=_more(was.unschedulable, has.unschedulable),
        errors=_more(was.errors, has.errors),
        p50=p50,
        p99=p99,
        incoming=incoming,
        outgoing=outgoing,
        plugins={
            key: taken - was.plugins.get(key, 0.0)
            for key, taken in has.plugins.items()
            if taken > was.plugins.get(key, 0.0)
        },
    )


def _more(was: int, has: int) -> int:
    """How much a counter has grown; a smaller value than before was counted after a reset."""
    return has - was if has >= was else has


def _moves(before: _Baseline, now: _Baseline) -> tuple[dict[str, int], dict[str, int]]:
    """Pods into and out of each lane: what is counted, and what follows from how full it was and is.

    The parts of the queue count who comes, but for members of groups that are not there yet. Who waits at
    Permit is counted at the end of the wait, and who is being bound when bound.
    """
    was, has = before.totals, now.totals
    grown = {lane: now.lanes[lane] - before.lanes.get(lane, 0) for lane in now.lanes}
    incoming = {
        lane: max(_more(was.incoming.get(lane, 0), count), grown.get(lane, 0))
        for lane, count in has.incoming.items()
    }
    outgoing = {lane: max(count - grown.get(lane, 0), 0) for lane, count in incoming.items()}
    for lane, left in (
        ("permit", _more(was.permit_waits, has.permit_waits)),
        ("binding", _more(was.bound, has.bound)),
    ):
        outgoing[lane] = left
        incoming[lane] = max(left + grown.get(lane, 0), 0)
    return _without_zeros(incoming), _without_zeros(outgoing)


def _without_zeros(counts: Mapping[str, int]) -> dict[str, int]:
    return {lane: count for lane, count in counts.items() if count}


def _latencies(scheduler: Scheduler, since: float) -> tuple[float | None, float | None]:
    recent = takewhile(lambda made: made.time >= since, scheduler.context.decisions.latest())
    return percentiles([made.seconds for made in islice(recent, MOST_LATENCIES) if made.seconds is not None])


def percentiles(seconds: list[float]) -> tuple[float | None, float | None]:
    """The median and the 99th percentile."""
    if not seconds:
        return None, None
    seconds.sort()
    count = len(seconds)
    return round(seconds[count // 2], 6), round(seconds[min(count * 99 // 100, count - 1)], 6)
