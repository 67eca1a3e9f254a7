"""Counters, gauges and histograms that cost next to nothing while scheduling.

There is one thread, so there are no locks. A series is found by the tuple of its label values, in the order
in which the labels are declared. Hot code keeps the dict of series and writes to it directly; it stays the
same dict when metrics are reset.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Generic, TypeVar

import numpy as np
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import Release
from stowplan.scheduler.metrics.catalogue import SCHEDULING
from stowplan.scheduler.metrics.descriptions import MetricCatalogue, MetricDescription
from stowplan.scheduler.metrics.exposition import number_text
from stowplan.scheduler.metrics.native import NativeBuckets

Labels = tuple[str, ...]
Values = defaultdict[Labels, int]
Value = TypeVar("Value")

Sink = Callable[[Sequence[float]], None]
"""Gets the values of a series as well, in batches."""

UNLABELLED: Labels = ()

_BUFFER_SIZE: Final = 512
"""Values of a series that are buffered before they are sorted into buckets."""


class Distribution:
    """One series of a histogram: the count of each bucket, and the sum.

    Values are buffered and sorted into buckets some hundreds at a time, or when the series is read.
    """

    __slots__ = ("_bounds", "_buffer", "_counts", "_native", "_sink", "_total")

    def __init__(self, bounds: tuple[float, ...], *, native: bool = False) -> None:
        self._native = NativeBuckets() if native else None
        self._bounds = np.array(bounds, dtype=np.float64)
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0
        self._buffer: list[float] = []
        self._sink: Sink | None = None

    def forward_to(self, also: Sink | None) -> None:
        """Have a sink get all values of this series, with a delay."""
        self._sink = also

    def observe(self, value: float) -> None:
        """Observe a value; bucket bounds are inclusive."""
        buffer = self._buffer
        buffer.append(value)
        if len(buffer) >= _BUFFER_SIZE:
            self.flush()

    def take(self, values: Sequence[float]) -> None:
        """Observe many values."""
        self.flush()
        self._sort(values)

    def repeat(self, value: float, count: int) -> None:
        """Observe a value `count` times."""
        self._total += value * count
        self._counts[int(self._bounds.searchsorted(value))] += count
        if self._native is not None:
            self._native.repeat(value, count)
        if self._sink is not None:
            self._sink([value] * count)

    @property
    def counts(self) -> list[int]:
        """The count of each bucket, the last one without a bound."""
        self.flush()
        return self._counts

    @property
    def total(self) -> float:
        self.flush()
        return self._total

    @property
    def native(self) -> NativeBuckets | None:
        """The native buckets, if they are kept."""
        self.flush()
        return self._native

    def flush(self) -> None:
        """Sort buffered values into buckets."""
        if self._buffer:
            values, self._buffer = self._buffer, []
            self._sort(values)

    def _sort(self, values: Sequence[float]) -> None:
        self._total = sum(values, self._total)
        places = self._bounds.searchsorted(values)
        found = np.bincount(places, minlength=len(self._counts))
        self._counts = [before + more for before, more in zip(self._counts, found.tolist(), strict=True)]
        if self._native is not None:
            self._native.take(values)
        if self._sink is not None:
            self._sink(values)


class Distributions(dict[Labels, Distribution]):
    """The series of a histogram, created on first access."""

    def __init__(self, bounds: tuple[float, ...], *, native: bool = False) -> None:
        super().__init__()
        self._bounds = bounds
        self._native = native
        self._sink: Callable[[Labels], Sink | None] | None = None

    def __missing__(self, labels: Labels) -> Distribution:
        made = self[labels] = Distribution(self._bounds, native=self._native)
        if self._sink is not None:
            made.forward_to(self._sink(labels))
        return made

    def forward_to(self, also: Callable[[Labels], Sink | None]) -> None:
        """Set the sink of every series by its labels."""
        self._sink = also
        for labels, series in self.items():
            series.forward_to(also(labels))


class Family(ABC, Generic[Value]):
    """All series of a metric."""

    def __init__(self, description: MetricDescription) -> None:
        self.description = description
        self._order = sorted(range(len(description.labels)), key=description.labels.__getitem__)

    @abstractmethod
    def empty(self) -> Metric:
        """The Prometheus family without series."""

    @abstractmethod
    def filled(self) -> Metric:
        """The Prometheus family with all series."""

    @abstractmethod
    def reset(self) -> None:
        """Drop all series with labels, except for gauges."""

    def _sorted(self, series: Mapping[Labels, Value]) -> Iterator[tuple[Labels, Value]]:
        """Series sorted by label values, the labels in alphabetical order."""
        order = self._order
        return iter(sorted(series.items(), key=lambda item: [item[0][place] for place in order]))


class Counter(Family[int]):
    """A counter. Without labels its one series exists from the start."""

    def __init__(self, description: MetricDescription) -> None:
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
    """A gauge: set, or read from a callback when it is collected."""

    def __init__(self, description: MetricDescription) -> None:
        super().__init__(description)
        self.values: Values = defaultdict(int)
        self._read: Callable[[], Mapping[Labels, float]] | None = None

    def read_from(self, source: Callable[[], Mapping[str, int]]) -> None:
        """Read the values, by the value of the only label, when the gauge is collected."""
        self._read = lambda: {(label,): value for label, value in source().items()}

    def read_series_from(self, source: Callable[[], Mapping[Labels, float]]) -> None:
        """Read all series, by their label values, when the gauge is collected."""
        self._read = source

    def empty(self) -> GaugeMetricFamily:
        described = self.description
        return GaugeMetricFamily(described.full_name, described.text, labels=described.labels)

    def current(self) -> Mapping[Labels, float]:
        """The current series."""
        return self.values if self._read is None else self._read()

    def filled(self) -> GaugeMetricFamily:
        family = self.empty()
        for labels, value in self._sorted(self.current()):
            family.add_metric(labels, value)
        return family

    def reset(self) -> None:
        """Gauges are not reset: later decrements would make them negative."""


class _HistogramFamily(HistogramMetricFamily):
    """A histogram with the native buckets of its series, by their labels."""

    def __init__(self, described: MetricDescription) -> None:
        super().__init__(described.full_name, described.text, labels=described.labels)
        self.natives: dict[tuple[tuple[str, str], ...], NativeBuckets] = {}


class Histogram(Family[Distribution]):
    """A histogram. Without labels its one series exists from the start."""

    def __init__(self, description: MetricDescription, *, native: bool = False) -> None:
        super().__init__(description)
        self.series = Distributions(description.bounds, native=native)
        self._les = [*(number_text(bound) for bound in description.bounds), "+Inf"]
        if not description.labels:
            self.series[UNLABELLED] = Distribution(description.bounds, native=native)

    def empty(self) -> _HistogramFamily:
        return _HistogramFamily(self.description)

    def filled(self) -> _HistogramFamily:
        family = self.empty()
        for labels, found in self._sorted(self.series):
            cumulated = list(zip(self._les, accumulate(found.counts), strict=True))
            family.add_metric(labels, cumulated, found.total)
            if found.native is not None:
                family.natives[tuple(zip(self.description.labels, labels, strict=True))] = found.native
        return family

    def reset(self) -> None:
        if self.description.labels:
            self.series.clear()


class Families:
    """The families of a catalogue by name, as the release of the gates has them.

    Those whose feature gate is off, and those of other releases, can be counted in but are not collected.
    """

    def __init__(self, gates: FeatureGates, catalogue: MetricCatalogue = SCHEDULING) -> None:
        release, native = gates.release, gates["NativeHistograms"]
        self._counters = {one.name: Counter(one) for one in _by_name(catalogue.counters, release)}
        self._gauges = {one.name: Gauge(one) for one in _by_name(catalogue.gauges, release)}
        self._histograms = {
            one.name: Histogram(one, native=native) for one in _by_name(catalogue.histograms, release)
        }
        self._all: list[Family[Any]] = [
            *self._counters.values(),
            *self._gauges.values(),
            *self._histograms.values(),
        ]
        self._shown = [family for family in self._all if _is_enabled(family.description, gates)]
        self._flush: list[Callable[[], None]] = []

    @property
    def shown(self) -> list[MetricDescription]:
        """The families that are enabled."""
        return [family.description for family in self._shown]

    def shows(self, name: str) -> bool:
        """True if a family is enabled."""
        return any(described.name == name for described in self.shown)

    def labels(self, name: str) -> tuple[str, ...]:
        """The labels of a counter, which may differ between releases."""
        return self._counters[name].description.labels

    def counter(self, name: str) -> Values:
        return self._counters[name].values

    def gauge(self, name: str) -> Values:
        return self._gauges[name].values

    def read_gauge(self, name: str) -> Gauge:
        """A gauge that is read from a callback."""
        return self._gauges[name]

    def histogram(self, name: str) -> Distributions:
        return self._histograms[name].series

    def distribution(self, name: str) -> Distribution:
        """The one series of a histogram without labels."""
        return self._histograms[name].series[UNLABELLED]

    def flush(self) -> None:
        """Flush all buffers."""
        for flush in self._flush:
            flush()

    def before_collect(self, flush: Callable[[], None]) -> None:
        """Call a function that flushes a buffer before metrics are collected or reset."""
        self._flush.append(flush)

    def describe(self) -> Iterator[Metric]:
        """The enabled families without series, for the registry."""
        return (family.empty() for family in self._shown)

    def collect(self) -> Iterator[Metric]:
        """The enabled families with at least one series, for the registry."""
        self.flush()
        return (metric for family in self._shown if (metric := family.filled()).samples)

    def reset(self) -> None:
        """Reset families with labels, except for gauges."""
        self.flush()
        for family in self._all:
            family.reset()


def _by_name(catalogue: Iterable[MetricDescription], release: Release) -> Iterable[MetricDescription]:
    """One description of each name: that of the release, if it has the family."""
    found: dict[str, MetricDescription] = {}
    for described in catalogue:
        current = described.in_release(release)
        if current is not None or described.name not in found:
            found[described.name] = current or described
    return found.values()


def _is_enabled(described: MetricDescription, gates: FeatureGates) -> bool:
    if described.in_release(gates.release) is None:
        return False
    return described.gate is None or gates[described.gate]
