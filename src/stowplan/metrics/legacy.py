"""The names metrics had from 1.9 to 1.18, for dashboards of that time, beside those of today.

Nobody counts for them. They get the values that today's histograms get, in bundles, when those sort theirs;
who does not want them pays nothing. `schedule_attempts_total`, `scheduling_algorithm_duration_seconds`,
`pod_scheduling_attempts`, `permit_wait_duration_seconds`, `pending_pods` and others never changed their
names; some of them have a label more today.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client.core import Metric

from stowplan.framework.gates import FeatureGates
from stowplan.metrics.accumulators import UNLABELLED, Labels, Take
from stowplan.metrics.description import Description
from stowplan.metrics.families import Families
from stowplan.metrics.legacycatalogue import (
    BINDING,
    LEGACY,
    OPERATIONS,
    PREDICATES,
    PREEMPTION,
    PRIORITIES,
    SUMMARIES,
)
from stowplan.metrics.quantiles import Quantiles

_ALGORITHM: Final = "scheduling_algorithm_"
_POINTS: Final = {
    "Filter": (PREDICATES, f"{_ALGORITHM}{PREDICATES}_seconds", f"{_ALGORITHM}{PREDICATES}"),
    "Score": (PRIORITIES, f"{_ALGORITHM}{PRIORITIES}_seconds", f"{_ALGORITHM}{PRIORITIES}"),
    "PostFilter": (PREEMPTION, f"{_ALGORITHM}{PREEMPTION}_seconds", f"{_ALGORITHM}{PREEMPTION}"),
    "Bind": (BINDING, "binding_duration_seconds", "binding_latency_microseconds"),
}
"""Extension points: the operation each one is, and its histograms in seconds and in microseconds."""

_VOLUMES: Final = {"Filter": "predicate", "Reserve": "assume", "PreBind": "bind"}
"""What VolumeBinding does at extension points, in the words of that time."""

_FED: Final = (
    "scheduling_attempt_duration_seconds",
    "scheduling_algorithm_duration_seconds",
    "framework_extension_point_duration_seconds",
    "plugin_execution_duration_seconds",
    "preemption_victims",
    "pod_scheduling_sli_duration_seconds",
)
"""Today's histograms whose values are wanted."""


class LegacyMetrics:
    """Shows today's figures under old names, too; the registry asks it as it asks `Families`."""

    def __init__(self, today: Families, gates: FeatureGates, timer: Callable[[], float]) -> None:
        self._today = today
        self._families = Families(gates, LEGACY)
        self._operations = {operation: Quantiles(timer) for operation in OPERATIONS}
        self._listen()
        goroutines, sizes = today.read_gauge("goroutines"), today.read_gauge("cache_size")
        self._families.read_gauge("scheduler_goroutines").read_series_from(goroutines.current)
        self._families.read_gauge("scheduler_cache_size").read_series_from(sizes.current)

    @property
    def shown(self) -> list[Description]:
        return [*self._families.shown, *SUMMARIES]

    def describe(self) -> Iterator[Metric]:
        yield from self._families.describe()
        for summary in SUMMARIES:
            yield Metric(summary.full_name, summary.text, "summary")

    def collect(self) -> Iterator[Metric]:
        self._settle()
        yield from self._families.collect()
        for summary in SUMMARIES:
            metric = self._filled(summary)
            if metric.samples:
                yield metric

    def reset(self) -> None:
        """Let what has labels start anew; to be called before the figures of today start anew."""
        self._settle()
        self._families.reset()
        for operation in OPERATIONS:
            self._operations[operation].reset()

    def _listen(self) -> None:
        """Ask for the values of today's histograms."""
        today = self._today
        seconds, microseconds = self._seconds, self._microseconds
        whole = _both(
            seconds("e2e_scheduling_duration_seconds"), microseconds("e2e_scheduling_latency_microseconds")
        )
        today.histogram("scheduling_attempt_duration_seconds").pass_on(
            lambda labels: whole if labels[0] == "scheduled" else None
        )
        today.distribution("scheduling_algorithm_duration_seconds").pass_on(
            microseconds("scheduling_algorithm_latency_microseconds")
        )
        points = {point: self._operation(*names) for point, names in _POINTS.items()}
        today.histogram("framework_extension_point_duration_seconds").pass_on(
            lambda labels: points.get(labels[0])
        )
        today.histogram("plugin_execution_duration_seconds").pass_on(self._volume_stage)
        today.distribution("preemption_victims").pass_on(seconds("pod_preemption_victims"))
        waited = seconds("pod_scheduling_duration_seconds")
        today.histogram("pod_scheduling_sli_duration_seconds").pass_on(lambda labels: waited)

    def _seconds(self, name: str) -> Take:
        return self._families.distribution(name).take

    def _microseconds(self, name: str) -> Take:
        take = self._families.distribution(name).take
        return lambda values: take([float(int(value * 1e6)) for value in values])

    def _operation(self, operation: str, seconds: str, microseconds: str) -> Take:
        """Everybody who wants to know how long an operation takes."""
        histograms = _both(self._seconds(seconds), self._microseconds(microseconds))
        return _both(histograms, self._operations[operation].take)

    def _volume_stage(self, labels: Labels) -> Take | None:
        plugin, point, _ = labels
        stage = _VOLUMES.get(point) if plugin == "VolumeBinding" else None
        if stage is None:
            return None
        series = self._families.histogram("volume_scheduling_duration_seconds")
        return lambda values: series[stage,].take(values)

    def _settle(self) -> None:
        """Have all values that are still put aside, and copy what is only counted."""
        self._today.settle()
        for name in _FED:
            for series in list(self._today.histogram(name).values()):
                series.settle()
        attempts = self._today.counter("preemption_attempts_total")[UNLABELLED]
        self._families.counter("total_preemption_attempts")[UNLABELLED] = attempts

    def _filled(self, summary: Description) -> Metric:
        name = summary.full_name
        metric = Metric(name, summary.text, "summary")
        for operation in sorted(OPERATIONS):
            found = self._operations[operation]
            if not found.count:
                continue
            labels = {"operation": operation}
            for share, value in found.shown():
                metric.add_sample(name, {**labels, "quantile": str(share)}, value)
            metric.add_sample(f"{name}_sum", labels, found.total)
            metric.add_sample(f"{name}_count", labels, found.count)
        return metric


def _both(first: Take, second: Take) -> Take:
    def take(values: Sequence[float]) -> None:
        first(values)
        second(values)

    return take
