"""Counters, gauges and histograms that cost next to nothing while scheduling.

There is one thread, so there are no locks. Children are found by the tuple of their label values, in the
order in which the labels are declared. Whoever counts keeps the dict of children and writes to it directly;
it stays the same dict for ever, also when it is emptied.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, Generic, TypeVar

import numpy as np
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric

from stowplan.metrics.description import Description
from stowplan.metrics.figures import number_text

Labels = tuple[str, ...]
Values = defaultdict[Labels, int]
Value = TypeVar("Value")

Take = Callable[[Sequence[float]], None]
"""Somebody who wants to have values, too, in bundles."""

UNLABELLED: Labels = ()

_UNSORTED: Final = 512
"""How many values of a series wait to be sorted into buckets."""


class Distribution:
    """One series of a histogram: how many values fell into each bucket, and their sum.

    Values are put aside, and sorted into buckets some hundreds at a time or when somebody asks. Then others
    may get them, too.
    """

    __slots__ = ("_also", "_bounds", "_counts", "_total", "_unsorted")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = np.array(bounds, dtype=np.float64)
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0
        self._unsorted: list[float] = []
        self._also: Take | None = None

    def pass_on(self, also: Take | None) -> None:
        """Let somebody have all values of this series, some time after they were observed."""
        self._also = also

    def observe(self, value: float) -> None:
        """Count a value; one that equals a bound belongs to the bucket the bound closes."""
        unsorted = self._unsorted
        unsorted.append(value)
        if len(unsorted) >= _UNSORTED:
            self.settle()

    def take(self, values: Sequence[float]) -> None:
        """Count many values at once."""
        self.settle()
        self._sort(values)

    @property
    def counts(self) -> list[int]:
        """How many values fell into each bucket; the last one has no bound."""
        self.settle()
        return self._counts

    @property
    def total(self) -> float:
        self.settle()
        return self._total

    def settle(self) -> None:
        """Sort what was put aside into buckets."""
        if self._unsorted:
            values, self._unsorted = self._unsorted, []
            self._sort(values)

    def _sort(self, values: Sequence[float]) -> None:
        self._total = sum(values, self._total)
        places = self._bounds.searchsorted(values)
        found = np.bincount(places, minlength=len(self._counts))
        self._counts = [before + more for before, more in zip(self._counts, found.tolist(), strict=True)]
        if self._also is not None:
            self._also(values)


class Distributions(dict[Labels, Distribution]):
    """The series of a histogram; one that is asked for comes into being."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        super().__init__()
        self._bounds = bounds
        self._also: Callable[[Labels], Take | None] | None = None

    def __missing__(self, labels: Labels) -> Distribution:
        made = self[labels] = Distribution(self._bounds)
        if self._also is not None:
            made.pass_on(self._also(labels))
        return made

    def pass_on(self, also: Callable[[Labels], Take | None]) -> None:
        """Say who shall have the values of a series, too, by its labels."""
        self._also = also
        for labels, series in self.items():
            series.pass_on(also(labels))


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

    def empty(self) -> Metric:
        described = self.description
        return Metric(described.full_name, described.text, "counter")

    def filled(self) -> Metric:
        family = self.empty()
        described = self.description
        for labels, value in self._sorted(self.values):
            named = dict(zip(described.labels, labels, strict=True))
            family.add_sample(described.full_name, named, value)
        return family

    def reset(self) -> None:
        if self.description.labels:
            self.values.clear()


class Gauge(Family[float]):
    """How many there are of something now: counted up and down, or read from whoever knows."""

    def __init__(self, description: Description) -> None:
        super().__init__(description)
        self.values: Values = defaultdict(int)
        self._read: Callable[[], Mapping[Labels, float]] | None = None

    def read_from(self, source: Callable[[], Mapping[str, int]]) -> None:
        """Ask for the values, by the value of the only label, whenever somebody wants to see them."""
        self._read = lambda: {(label,): value for label, value in source().items()}

    def read_series_from(self, source: Callable[[], Mapping[Labels, float]]) -> None:
        """Ask for all series, by their label values, whenever somebody wants to see them."""
        self._read = source

    def empty(self) -> GaugeMetricFamily:
        described = self.description
        return GaugeMetricFamily(described.full_name, described.text, labels=described.labels)

    def current(self) -> Mapping[Labels, float]:
        """All series as they are now."""
        return self.values if self._read is None else self._read()

    def filled(self) -> GaugeMetricFamily:
        family = self.empty()
        for labels, value in self._sorted(self.current()):
            family.add_metric(labels, value)
        return family

    def reset(self) -> None:
        """What is there stays there: forgetting it now would show less than nothing when it goes."""


class Histogram(Family[Distribution]):
    """Distributions of values over fixed buckets. Without labels there is one from the beginning."""

    def __init__(self, description: Description) -> None:
        super().__init__(description)
        self.series = Distributions(description.bounds)
        self._les = [*(number_text(bound) for bound in description.bounds), "+Inf"]
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
