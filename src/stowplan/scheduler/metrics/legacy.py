"""Metrics of kube-scheduler 1.9 to 1.18 that have another name today, or none.

They get the values of the current histograms when those flush their buffers; without --show-legacy-metrics
they cost nothing. `schedule_attempts_total`, `scheduling_algorithm_duration_seconds`,
`pod_scheduling_attempts`, `permit_wait_duration_seconds`, `pending_pods` and others kept their names.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, repeat
from math import ceil, exp, floor, log, nan
from typing import Final

from prometheus_client.core import Metric

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.scheduler.metrics.descriptions import MetricCatalogue, MetricDescription, Stability, exponential
from stowplan.scheduler.metrics.families import UNLABELLED, Families, Labels, Sink

PREDICATES: Final = "predicate_evaluation"
PRIORITIES: Final = "priority_evaluation"
PREEMPTION: Final = "preemption_evaluation"
LEGACY_BINDING: Final = "binding"
"""Values of the label `operation`."""

OPERATIONS: Final = (PREDICATES, PRIORITIES, PREEMPTION, LEGACY_BINDING)

_SECONDS: Final = exponential(0.001, 2, 15)
_MICROSECONDS: Final = exponential(1000, 2, 15)
_VICTIMS: Final = tuple(accumulate(repeat(5.0, 10)))

_WHOLE: Final = "placing a pod, from the first look for a node to its binding,"
_SEARCH: Final = "looking for a node"
_FILTERING: Final = "finding the nodes that fit"
_SCORING: Final = "scoring the nodes that fit"
_PREEMPTING: Final = "seeing whether others should make room"
_BINDING: Final = "the binding"

QUANTILES: Final = (0.5, 0.9, 0.99)
"""The quantiles of a summary."""

MAX_AGE: Final = 5 * 3600.0
"""Seconds after which a value is dropped from the quantiles."""

_SECTIONS: Final = 5
_STEP: Final = log(1.02)
"""Logarithmic width of the buckets: a quantile is off by 1 % at most."""

_ALGORITHM: Final = "scheduling_algorithm_"
_POINTS: Final = {
    "Filter": (PREDICATES, f"{_ALGORITHM}{PREDICATES}_seconds", f"{_ALGORITHM}{PREDICATES}"),
    "Score": (PRIORITIES, f"{_ALGORITHM}{PRIORITIES}_seconds", f"{_ALGORITHM}{PRIORITIES}"),
    "PostFilter": (PREEMPTION, f"{_ALGORITHM}{PREEMPTION}_seconds", f"{_ALGORITHM}{PREEMPTION}"),
    "Bind": (LEGACY_BINDING, "binding_duration_seconds", "binding_latency_microseconds"),
}
"""Extension points: the operation, and its histograms in seconds and in microseconds."""

_VOLUMES: Final = {"Filter": "predicate", "Reserve": "assume", "PreBind": "bind"}
"""The stages of VolumeBinding by extension point."""

_FORWARDED: Final = (
    "scheduling_attempt_duration_seconds",
    "scheduling_algorithm_duration_seconds",
    "framework_extension_point_duration_seconds",
    "plugin_execution_duration_seconds",
    "preemption_victims",
    "pod_scheduling_sli_duration_seconds",
)
"""The current histograms whose values are forwarded."""


def _description(
    name: str, help: str, labels: tuple[str, ...] = (), bounds: tuple[float, ...] = ()
) -> MetricDescription:
    return MetricDescription(name, labels, Stability.ALPHA, help, bounds=bounds)


def _seconds(name: str, what: str) -> MetricDescription:
    return _description(name, f"How long {what} took, in seconds.", bounds=_SECONDS)


def _microseconds(name: str, what: str) -> MetricDescription:
    help = f"(Deprecated since 1.14.0) How long {what} took, in microseconds."
    return _description(name, help, bounds=_MICROSECONDS)


LEGACY: Final = MetricCatalogue(
    counters=(_description("total_preemption_attempts", "How often it was tried to make room for a pod."),),
    gauges=(
        _description("scheduler_goroutines", "Tasks running now, apart from scheduling.", ("work",)),
        _description("scheduler_cache_size", "Nodes, pods and assumed pods held in memory.", ("type",)),
    ),
    histograms=(
        _seconds("e2e_scheduling_duration_seconds", _WHOLE),
        _microseconds("e2e_scheduling_latency_microseconds", _WHOLE),
        _microseconds("scheduling_algorithm_latency_microseconds", _SEARCH),
        _seconds("scheduling_algorithm_predicate_evaluation_seconds", _FILTERING),
        _microseconds("scheduling_algorithm_predicate_evaluation", _FILTERING),
        _seconds("scheduling_algorithm_priority_evaluation_seconds", _SCORING),
        _microseconds("scheduling_algorithm_priority_evaluation", _SCORING),
        _seconds("scheduling_algorithm_preemption_evaluation_seconds", _PREEMPTING),
        _microseconds("scheduling_algorithm_preemption_evaluation", _PREEMPTING),
        _seconds("binding_duration_seconds", _BINDING),
        _microseconds("binding_latency_microseconds", _BINDING),
        _description("pod_preemption_victims", "Pods that had to go for another one.", bounds=_VICTIMS),
        _description(
            "pod_scheduling_duration_seconds",
            "From the moment a pod was first ready to be tried until it was bound, in seconds.",
            bounds=_SECONDS,
        ),
        _description(
            "volume_scheduling_duration_seconds",
            "How long a stage took with volumes: finding (predicate), reserving (assume) or binding (bind) "
            "them, in seconds. A sample.",
            ("operation",),
            _MICROSECONDS,
        ),
    ),
)

SUMMARIES: Final = (
    _description("scheduling_duration_seconds", "How long parts of scheduling took.", ("operation",)),
    _description(
        "scheduling_latency_seconds",
        "(Deprecated since 1.14.0) How long parts of scheduling took.",
        ("operation",),
    ),
)
"""Summaries."""


class Quantiles:
    """Count and sum of all values, and quantiles of those younger than MAX_AGE.

    Old values are dropped an hour's worth at a time. `timer` gives seconds.
    """

    def __init__(self, timer: Callable[[], float]) -> None:
        self.count = 0
        self.total = 0.0
        self._timer = timer
        self._sections: list[Counter[int]] = [Counter() for _ in range(_SECTIONS)]
        self._section_began = timer()

    def take(self, values: Sequence[float]) -> None:
        """Observe many values, as if all of them were new."""
        self._age()
        self.count += len(values)
        self.total += sum(values)
        self._sections[-1].update(map(_class, values))

    def shown(self) -> Iterator[tuple[float, float]]:
        """Each quantile with its value, if there are values."""
        self._age()
        classes = sum(self._sections, Counter())
        for share in QUANTILES:
            yield share, _at(classes, share)

    def reset(self) -> None:
        """Drop everything."""
        self.count, self.total = 0, 0.0
        self._sections = [Counter() for _ in range(_SECTIONS)]

    def _age(self) -> None:
        width = MAX_AGE / _SECTIONS
        passed = floor((self._timer() - self._section_began) / width)
        if passed > 0:
            fresh: list[Counter[int]] = [Counter() for _ in range(min(passed, _SECTIONS))]
            self._sections = [*self._sections, *fresh][-_SECTIONS:]
            self._section_began += passed * width


def _class(value: float) -> int:
    """The bucket of a value; values below a nanosecond share one."""
    return round(log(max(value, 1e-9)) / _STEP)


def _at(classes: Counter[int], share: float) -> float:
    wanted = ceil(classes.total() * share)
    for place in sorted(classes):
        wanted -= classes[place]
        if wanted <= 0:
            return exp(place * _STEP)
    return nan


class LegacyMetrics:
    """A collector that exposes current metrics under their old names as well."""

    def __init__(self, current: Families, gates: FeatureGates, timer: Callable[[], float]) -> None:
        self._current = current
        self._families = Families(gates, LEGACY)
        self._operations = {operation: Quantiles(timer) for operation in OPERATIONS}
        self._subscribe()
        goroutines, sizes = current.read_gauge("goroutines"), current.read_gauge("cache_size")
        self._families.read_gauge("scheduler_goroutines").read_series_from(goroutines.current)
        self._families.read_gauge("scheduler_cache_size").read_series_from(sizes.current)

    @property
    def shown(self) -> list[MetricDescription]:
        return [*self._families.shown, *SUMMARIES]

    def describe(self) -> Iterator[Metric]:
        yield from self._families.describe()
        for summary in SUMMARIES:
            yield Metric(summary.full_name, summary.text, "summary")

    def collect(self) -> Iterator[Metric]:
        self._flush()
        yield from self._families.collect()
        for summary in SUMMARIES:
            metric = self._filled(summary)
            if metric.samples:
                yield metric

    def reset(self) -> None:
        """Reset families with labels; must be called before the current families are reset."""
        self._flush()
        self._families.reset()
        for operation in OPERATIONS:
            self._operations[operation].reset()

    def _subscribe(self) -> None:
        """Forward the values of the current histograms."""
        current = self._current
        seconds, microseconds = self._seconds, self._microseconds
        whole = _tee(
            seconds("e2e_scheduling_duration_seconds"), microseconds("e2e_scheduling_latency_microseconds")
        )
        current.histogram("scheduling_attempt_duration_seconds").forward_to(
            lambda labels: whole if labels[0] == "scheduled" else None
        )
        current.distribution("scheduling_algorithm_duration_seconds").forward_to(
            microseconds("scheduling_algorithm_latency_microseconds")
        )
        points = {point: self._operation(*names) for point, names in _POINTS.items()}
        current.histogram("framework_extension_point_duration_seconds").forward_to(
            lambda labels: points.get(labels[0])
        )
        current.histogram("plugin_execution_duration_seconds").forward_to(self._volume_stage)
        current.distribution("preemption_victims").forward_to(seconds("pod_preemption_victims"))
        waited = seconds("pod_scheduling_duration_seconds")
        current.histogram("pod_scheduling_sli_duration_seconds").forward_to(lambda labels: waited)

    def _seconds(self, name: str) -> Sink:
        return self._families.distribution(name).take

    def _microseconds(self, name: str) -> Sink:
        take = self._families.distribution(name).take
        return lambda values: take([float(int(value * 1e6)) for value in values])

    def _operation(self, operation: str, seconds: str, microseconds: str) -> Sink:
        """The sink for the durations of an operation."""
        histograms = _tee(self._seconds(seconds), self._microseconds(microseconds))
        return _tee(histograms, self._operations[operation].take)

    def _volume_stage(self, labels: Labels) -> Sink | None:
        plugin, point, _ = labels
        stage = _VOLUMES.get(point) if plugin == "VolumeBinding" else None
        if stage is None:
            return None
        series = self._families.histogram("volume_scheduling_duration_seconds")
        return lambda values: series[stage,].take(values)

    def _flush(self) -> None:
        """Flush buffered values, and copy counters."""
        self._current.flush()
        for name in _FORWARDED:
            for series in list(self._current.histogram(name).values()):
                series.flush()
        attempts = self._current.counter("preemption_attempts_total")[UNLABELLED]
        self._families.counter("total_preemption_attempts")[UNLABELLED] = attempts

    def _filled(self, summary: MetricDescription) -> Metric:
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


def _tee(first: Sink, second: Sink) -> Sink:
    def take(values: Sequence[float]) -> None:
        first(values)
        second(values)

    return take
