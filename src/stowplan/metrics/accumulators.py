"""Counters, gauges and histograms that cost next to nothing while scheduling.

There is one thread, so there are no locks. Children are found by the tuple of their label values, in the
order in which the labels are declared. Whoever counts keeps the dict of children and writes to it directly;
it stays the same dict for ever, also when it is emptied.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from stowplan.metrics.description import Description

Labels = tuple[str, ...]
Values = defaultdict[Labels, int]
Value = TypeVar("Value")

UNLABELLED: Labels = ()


class Distribution:
    """One series of a histogram: how many values fell into each bucket, and their sum."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value; one that equals a bound belongs to the bucket the bound closes."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class Distributions(dict[Labels, Distribution]):
    """The series of a histogram; one that is asked for comes into being."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        super().__init__()
        self._bounds = bounds

    def __missing__(self, labels: Labels) -> Distribution:
        made = self[labels] = Distribution(self._bounds)
        return made


class Family(ABC, Generic[Value]):
    """All series of one name."""

    def __init__(self, description: Description) -> None:
        self.description = description
        self._order = sorted(range(len(description.labels)), key=description.labels.__getitem__)

    @abstractmethod
    def empty(self) -> Metric:
        """The family as Prometheus knows it, without any series."""

    @abstractmethod
    def filled(self) -> Metric:
        """The family with all its series."""

    @abstractmethod
    def reset(self) -> None:
        """Start anew, as far as starting anew makes sense."""

    def _sorted(self, series: Mapping[Labels, Value]) -> Iterator[tuple[Labels, Value]]:
        """Series by their label values, the labels taken in alphabetical order."""
        order = self._order
        return iter(sorted(series.items(), key=lambda item: [item[0][place] for place in order]))


class Counter(Family[int]):
    """Counts that only grow. Without labels there is one series from the beginning."""

    def __init__(self, description: Description) -> None:
        super().__init__(description)
        self.values: Values = defaultdict(int)
        if not description.labels:
            self.values[UNLABELLED] = 0

    def empty(self) -> CounterMetricFamily:
        described = self.description
        return CounterMetricFamily(described.full_name, described.text, labels=described.labels)

    def filled(self) -> CounterMetricFamily:
        family = self.empty()
        for labels, value in self._sorted(self.values):
            family.add_metric(labels, value)
        return family

    def reset(self) -> None:
        if self.description.labels:
            self.values.clear()


class Gauge(Family[int]):
    """How many there are of something now: counted up and down, or read from whoever knows."""

    def __init__(self, description: Description) -> None:
        super().__init__(description)
        self.values: Values = defaultdict(int)
        self._read: Callable[[], Mapping[str, int]] | None = None

    def read_from(self, source: Callable[[], Mapping[str, int]]) -> None:
        """Ask for the values, by the value of the only label, whenever somebody wants to see them."""
        self._read = source

    def empty(self) -> GaugeMetricFamily:
        described = self.description
        return GaugeMetricFamily(described.full_name, described.text, labels=described.labels)

    def filled(self) -> GaugeMetricFamily:
        values: Mapping[Labels, int] = self.values
        if self._read is not None:
            values = {(label,): value for label, value in self._read().items()}
        family = self.empty()
        for labels, value in self._sorted(values):
            family.add_metric(labels, value)
        return family

    def reset(self) -> None:
        """What is there stays there: forgetting it now would show less than nothing when it goes."""


class Histogram(Family[Distribution]):
    """Distributions of values over fixed buckets. Without labels there is one from the beginning."""

    def __init__(self, description: Description) -> None:
        super().__init__(description)
        self.series = Distributions(description.bounds)
        self._les = [*(bound_text(bound) for bound in description.bounds), "+Inf"]
        if not description.labels:
            self.series[UNLABELLED] = Distribution(description.bounds)

    def empty(self) -> HistogramMetricFamily:
        described = self.description
        return HistogramMetricFamily(described.full_name, described.text, labels=described.labels)

    def filled(self) -> HistogramMetricFamily:
        family = self.empty()
        for labels, found in self._sorted(self.series):
            cumulated = list(zip(self._les, accumulate(found.counts), strict=True))
            family.add_metric(labels, cumulated, found.total)
        return family

    def reset(self) -> None:
        if self.description.labels:
            self.series.clear()


def bound_text(bound: float) -> str:
    """A bucket's bound as the value of the label `le`: the shortest form, whole numbers without a point."""
    return repr(float(bound)).removesuffix(".0")
