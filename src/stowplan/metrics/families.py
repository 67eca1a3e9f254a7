"""All families of a catalogue, those that exist with the given feature gates shown to Prometheus."""

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client.core import Metric

from stowplan.framework.gates import FeatureGates
from stowplan.metrics.accumulators import (
    UNLABELLED,
    Counter,
    Distribution,
    Distributions,
    Family,
    Gauge,
    Histogram,
    Values,
)
from stowplan.metrics.catalogue import SCHEDULING
from stowplan.metrics.description import Catalogue, Description


class Families:
    """Every family by name. One whose gate is off is counted like the others but not shown."""

    def __init__(self, gates: FeatureGates, catalogue: Catalogue = SCHEDULING) -> None:
        self._counters = {described.name: Counter(described) for described in catalogue.counters}
        self._gauges = {described.name: Gauge(described) for described in catalogue.gauges}
        self._histograms = {described.name: Histogram(described) for described in catalogue.histograms}
        self._all: list[Family[Any]] = [
            *self._counters.values(),
            *self._gauges.values(),
            *self._histograms.values(),
        ]
        self._shown = [family for family in self._all if _exists(family.description, gates)]
        self._settle: list[Callable[[], None]] = []

    @property
    def shown(self) -> list[Description]:
        """What exists with the given gates."""
        return [family.description for family in self._shown]

    def counter(self, name: str) -> Values:
        return self._counters[name].values

    def gauge(self, name: str) -> Values:
        return self._gauges[name].values

    def read_gauge(self, name: str) -> Gauge:
        """A gauge that is to be read when it is shown."""
        return self._gauges[name]

    def histogram(self, name: str) -> Distributions:
        return self._histograms[name].series

    def distribution(self, name: str) -> Distribution:
        """The one series of a histogram without labels."""
        return self._histograms[name].series[UNLABELLED]

    def settle(self) -> None:
        """Have counted what others have put aside."""
        for settle in self._settle:
            settle()

    def before_showing(self, settle: Callable[[], None]) -> None:
        """Call a function before any figures are read or reset: it may have some put aside."""
        self._settle.append(settle)

    def describe(self) -> Iterator[Metric]:
        """What is shown, without any figures; the registry asks for this."""
        return (family.empty() for family in self._shown)

    def collect(self) -> Iterator[Metric]:
        """What is shown and has at least one series; the registry asks for this."""
        self.settle()
        return (metric for family in self._shown if (metric := family.filled()).samples)

    def reset(self) -> None:
        """Let everything with labels start anew; what has none goes on, and so do gauges."""
        self.settle()
        for family in self._all:
            family.reset()


def _exists(described: Description, gates: FeatureGates) -> bool:
    return described.gate is None or gates[described.gate]
