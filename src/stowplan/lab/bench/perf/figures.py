"""Figures of a workload, computed as upstream's benchmarks do, and compared with their thresholds.

Throughput is the number of pods that got a node per second, sampled every second; the first interval is left
out, and intervals without a pod count with the next one that has some. A scheduler that is done within a few
seconds would leave hardly a sample, so intervals are shortened to a tenth of the time it took. Durations are
percentiles of the scheduler's own histograms, in milliseconds.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from stowplan.lab.bench.perf.definitions import THROUGHPUT, MetricSelector

INTERVAL: Final = 1.0
"""Seconds between two samples of the throughput."""
_INTERVALS: Final = 10
"""Minimum number of intervals."""

HISTOGRAMS: Final = (
    "scheduler_scheduling_attempt_duration_seconds",
    "scheduler_framework_extension_point_duration_seconds",
    "scheduler_plugin_execution_duration_seconds",
    "scheduler_queueing_hint_execution_duration_seconds",
    "scheduler_event_handling_duration_seconds",
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    "scheduler_podgroup_scheduling_algorithm_duration_seconds",
)
"""Metrics collected for test cases that name none."""
_QUANTILES: Final = {"Perc50": 0.50, "Perc90": 0.90, "Perc95": 0.95, "Perc99": 0.99}

Series = Mapping[tuple[tuple[str, str], ...], "Buckets"]


@dataclass(frozen=True, slots=True)
class DataItem:
    """Some figures of one kind, in upstream's form."""

    labels: dict[str, str]
    data: dict[str, float]
    unit: str

    def matches(self, selector: MetricSelector) -> bool:
        return self.labels["Metric"] == selector.name and selector.labels.items() <= self.labels.items()


@dataclass(slots=True)
class Buckets:
    """One series of a histogram: cumulated counts by upper bound, and the sum."""

    counts: dict[float, float] = field(default_factory=dict)
    total: float = 0.0

    def since(self, before: "Buckets") -> "Buckets":
        counts = {bound: count - before.counts.get(bound, 0.0) for bound, count in self.counts.items()}
        return Buckets(counts, self.total - before.total)

    @property
    def count(self) -> float:
        return self.counts.get(inf, 0.0)

    def quantile(self, share: float) -> float:
        """A quantile, by linear interpolation within its bucket."""
        rank, lower, seen = share * self.count, 0.0, 0.0
        for bound, count in sorted(self.counts.items()):
            if count >= rank and count > seen:
                if bound == inf:
                    return lower
                return lower + (bound - lower) * (rank - seen) / (count - seen)
            lower, seen = bound, count
        return lower


def throughput(times: Sequence[float], began: float, name: str) -> list[DataItem]:
    """The figures for pods that got nodes at these times, in order; none for fewer than two."""
    samples = _samples(times, began)
    if not samples:
        return []
    samples.sort()
    data = {"Average": sum(samples) / len(samples)}
    data.update((bucket, samples[ceil(len(samples) * share) - 1]) for bucket, share in _QUANTILES.items())
    return [DataItem({"Name": name, "Metric": THROUGHPUT}, data, "pods/s")]


def _samples(times: Sequence[float], began: float) -> list[float]:
    if len(times) < 2 or times[-1] <= times[0]:
        return []
    interval = min(INTERVAL, (times[-1] - began) / _INTERVALS)
    samples: list[float] = []
    last_time, last_count, skipped, place = -1.0, 0, 0, 0
    for tick in range(1, ceil((times[-1] - began) / interval) + 1):
        now = began + tick * interval
        while place < len(times) and times[place] <= now:
            place += 1
        if place == 0:
            continue
        if last_time < 0:
            last_time, last_count = now, place
        elif place == last_count:
            skipped += 1
        else:
            samples += [(place - last_count) / (now - last_time)] * (skipped + 1)
            last_time, last_count, skipped = now, place, 0
    return samples


def histograms(text: str, names: Iterable[str]) -> Mapping[str, Series]:
    """The series of these histograms in a page of metrics."""
    wanted = set(names)
    found: dict[str, dict[tuple[tuple[str, str], ...], Buckets]] = {}
    for family in text_string_to_metric_families(text):
        if family.name not in wanted or family.type != "histogram":
            continue
        series: dict[tuple[tuple[str, str], ...], Buckets] = defaultdict(Buckets)
        for sample in family.samples:
            labels = tuple(sorted((key, value) for key, value in sample.labels.items() if key != "le"))
            if sample.name.endswith("_bucket"):
                series[labels].counts[float(sample.labels["le"])] = sample.value
            elif sample.name.endswith("_sum"):
                series[labels].total = sample.value
        found[family.name] = series
    return found


def durations(before: Mapping[str, Series], after: Mapping[str, Series], name: str) -> list[DataItem]:
    """Percentiles of what was observed in between, in milliseconds."""
    items = []
    for metric, series in after.items():
        for labels, buckets in series.items():
            new = buckets.since(before.get(metric, {}).get(labels, Buckets()))
            if not new.count:
                continue
            data = {bucket: new.quantile(share) * 1e3 for bucket, share in _QUANTILES.items()}
            data["Average"] = new.total / new.count * 1e3
            items.append(DataItem({"Name": name, "Metric": metric, **dict(labels)}, data, "ms"))
    return items


@dataclass(frozen=True, slots=True)
class PerfVerdict:
    """A figure with its threshold; without a threshold (0) it always holds."""

    value: float
    threshold: float
    expect_lower: bool

    @property
    def holds(self) -> bool:
        if not self.threshold:
            return True
        return self.value < self.threshold if self.expect_lower else self.value > self.threshold

    @property
    def times(self) -> float | None:
        """Factor by which it is better than the threshold."""
        if not self.threshold or not self.value:
            return None
        return self.threshold / self.value if self.expect_lower else self.value / self.threshold


def verdict(items: Iterable[DataItem], selector: MetricSelector, threshold: float) -> PerfVerdict | None:
    """The figure that a threshold is for; None if it was not measured. Of several the worst."""
    found = [item.data[selector.data_bucket] for item in items if item.matches(selector)]
    if not found:
        return None
    worst = max(found) if selector.expect_lower else min(found)
    return PerfVerdict(worst, threshold, selector.expect_lower)
