"""Cost of counting and timing one pod that is scheduled at the first attempt.

This covers everything that kube-scheduler measures for a pod without constraints under the default profile:
handlers of three events, PreEnqueue, the queue, a signature, ten extension points, thirteen plugins that
evaluate it, the attempt as a whole, and for every tenth pod the durations of single plugins. The same is done
with the classes of prometheus_client, whose series are kept by their label values so that none is looked up
twice.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from time import perf_counter
from typing import Final, Generic, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.lab.bench.engine.workloads import WORKLOADS
from stowplan.scheduler.framework.events import ASSIGNED_POD_ADD, Action, ClusterEvent, pod_resources
from stowplan.scheduler.framework.status import SUCCESS, Status
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.metrics.catalogue import COUNTERS, GAUGES, HISTOGRAMS
from stowplan.scheduler.metrics.descriptions import MetricDescription
from stowplan.scheduler.metrics.scheduling import PRE_ENQUEUE, SAMPLED_SHARE
from stowplan.scheduler.queue.instrument import ACTIVE, POD
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.table.table import ClusterTable

_ROUNDS: Final = 5
_NODES: Final = 100
_PROFILE: Final = "default-scheduler"
_OK: Final = "Success"
_SKIP: Final = "Skip"
_SECONDS: Final = 0.000_04
_PODS: Final = pod_resources(DEFAULT_GATES.behaviour)
_ADD: Final = _PODS.added.label
_DELETE: Final = ClusterEvent(_PODS.unscheduled, Action.DELETE).label
_ASSIGNED: Final = ASSIGNED_POD_ADD.label
_PRE_ENQUEUE: Final = ("SchedulingGates", "DefaultPreemption", "DynamicResources")
_SIGNING: Final = (
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
)
_BEFORE: Final = ("PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit")
_AFTER: Final = ("PreBind", "Bind", "PostBind")
_JUDGES: Final = {
    "PreFilter": ("NodeResourcesFit",),
    "Filter": ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeResourcesFit"),
    "PreScore": ("TaintToleration", "NodeResourcesFit", "NodeResourcesBalancedAllocation"),
    "Score": (
        "TaintToleration",
        "NodeResourcesFit",
        "DynamicResources",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
    ),
}
"""Plugins that judge such a pod; at Filter and Score once per node."""

_SKIPPING: Final = {
    "PreFilter": (
        "NodeAffinity",
        "NodePorts",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "NodeDeclaredFeatures",
    ),
    "PreScore": ("NodeAffinity", "PodTopologySpread", "InterPodAffinity", "VolumeBinding"),
    "PreBindPreFlight": ("VolumeBinding", "DynamicResources"),
}
_SINGLE: Final = {
    "ScoreExtensionNormalize": ("TaintToleration",),
    "Reserve": ("VolumeBinding", "DynamicResources"),
    "Bind": ("DefaultBinder",),
}
_TIMED: Final = tuple(
    (plugin, point, status)
    for status, by_point in ((_OK, _JUDGES), (_SKIP, _SKIPPING), (_OK, _SINGLE))
    for point, plugins in by_point.items()
    for plugin in plugins
)
_SAMPLE: Final = 10
Kind = TypeVar("Kind", Counter, Gauge, Histogram)


class MetricsSeries(dict[tuple[str, ...], Kind], Generic[Kind]):
    """The series of one family, created on first use."""

    def __init__(self, family: Kind) -> None:
        super().__init__()
        self.family: Kind = family

    def __missing__(self, labels: tuple[str, ...]) -> Kind:
        made: Kind = self.family.labels(*labels)
        self[labels] = made
        return made


class ClientBatches:
    """Reuse of outcomes."""

    def __init__(self, make: "Maker") -> None:
        self._attempts = make.counter("batch_attempts_total")
        self._flushes = make.counter("batch_cache_flushed_total")
        self._asked = make.histogram("get_node_hint_duration_seconds")
        self._stored = make.histogram("store_schedule_results_duration_seconds")

    def asked(self, hinted: bool, profile: str, seconds: float) -> None:
        self._asked["hint" if hinted else "no_hint", profile].observe(seconds)

    def attempted(self, profile: str, result: str) -> None:
        self._attempts[profile, result].inc()

    def stored(self, profile: str, seconds: float) -> None:
        self._stored[profile,].observe(seconds)

    def flushed(self, profile: str, reason: str) -> None:
        self._flushes[profile, reason].inc()


class ClientMetrics:
    """The methods of the scheduler's metrics that a scheduled pod needs."""

    def __init__(self, timer: Callable[[], float], rng: Random) -> None:
        make = Maker()
        self.registry = make.registry
        self.batches = ClientBatches(make)
        self._timer = timer
        self._random = rng.random
        self._events = make.histogram("event_handling_duration_seconds")
        self._incoming = make.counter("queue_incoming_pods_total")
        self._entities = make.counter("queue_incoming_entities_total")
        self._points = make.histogram("framework_extension_point_duration_seconds")
        self._plugins = make.histogram("plugin_execution_duration_seconds")
        self._evaluated = make.counter("plugin_evaluation_total")
        self._goroutines = make.gauge("goroutines")
        self._algorithm = make.histogram("scheduling_algorithm_duration_seconds").family
        self._attempts = make.counter("schedule_attempts_total")
        self._attempt_seconds = make.histogram("scheduling_attempt_duration_seconds")
        self._needed = make.histogram("pod_scheduling_attempts").family
        self._sli = make.histogram("pod_scheduling_sli_duration_seconds")
        self._after_flush = make.counter("pod_scheduled_after_flush_total").family
        self._asked_at = self._plugin_asked_at = 0.0

    def event_handled(self, label: str, seconds: float) -> None:
        self._events[label,].observe(seconds)

    def before_pre_enqueue(self, queued: QueuedPod) -> bool:
        self._asked_at = self._timer()
        return self._random() < SAMPLED_SHARE

    def before_plugin(self, plugin: str) -> None:
        self._plugin_asked_at = self._timer()

    def after_plugin(self, plugin: str, status: Status) -> None:
        seconds = self._timer() - self._plugin_asked_at
        self._plugins[plugin, PRE_ENQUEUE, status.code.label].observe(seconds)

    def after_pre_enqueue(self, queued: QueuedPod) -> None:
        seconds = self._timer() - self._asked_at
        self._points[PRE_ENQUEUE, "Success", queued.profile].observe(seconds)

    def incoming(self, queued: QueuedPod, queue: str, event: str) -> None:
        self._incoming[queue, event].inc()
        self._entities[queue, event, POD].inc()

    def point(self, point: str, status: str, profile: str, seconds: float) -> None:
        self._points[point, status, profile].observe(seconds)

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self._plugins[plugin, point, status].observe(seconds)

    def evaluated(self, plugin: str, point: str, profile: str, times: int) -> None:
        self._evaluated[plugin, point, profile].inc(times)

    def goroutines(self, operation: str, change: int) -> None:
        self._goroutines[operation,].inc(change)

    def algorithm(self, seconds: float) -> None:
        self._algorithm.observe(seconds)

    def bound(
        self, profile: str, seconds: float, attempts: int, waited: float | None, after_flush: bool
    ) -> None:
        labels = ("scheduled", profile)
        self._attempts[labels].inc()
        self._attempt_seconds[labels].observe(seconds)
        self._needed.observe(attempts)
        if waited is not None:
            self._sli[str(attempts),].observe(waited)
        if after_flush:
            self._after_flush.inc()


class Maker:
    """Makes families of the catalogue in a separate registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._described = {described.name: described for described in (*COUNTERS, *GAUGES, *HISTOGRAMS)}

    def counter(self, name: str) -> MetricsSeries[Counter]:
        found = self._described[name]
        return MetricsSeries(Counter(found.full_name, found.text, found.labels, registry=self.registry))

    def gauge(self, name: str) -> MetricsSeries[Gauge]:
        found = self._described[name]
        return MetricsSeries(Gauge(found.full_name, found.text, found.labels, registry=self.registry))

    def histogram(self, name: str) -> MetricsSeries[Histogram]:
        found: MetricDescription = self._described[name]
        return MetricsSeries(
            Histogram(found.full_name, found.text, found.labels, registry=self.registry, buckets=found.bounds)
        )


class MetricsBatching(Protocol):
    """Where the reuse of outcomes is counted."""

    def asked(self, hinted: bool, profile: str, seconds: float) -> None: ...
    def attempted(self, profile: str, result: str) -> None: ...
    def stored(self, profile: str, seconds: float) -> None: ...
    def flushed(self, profile: str, reason: str) -> None: ...


class PodMetrics(Protocol):
    """Measured interface: the scheduler's own metrics, or something like them."""

    @property
    def batches(self) -> MetricsBatching: ...
    def event_handled(self, label: str, seconds: float) -> None: ...
    def before_pre_enqueue(self, queued: QueuedPod) -> bool: ...
    def before_plugin(self, plugin: str) -> None: ...
    def after_plugin(self, plugin: str, status: Status) -> None: ...
    def after_pre_enqueue(self, queued: QueuedPod) -> None: ...
    def incoming(self, queued: QueuedPod, queue: str, event: str) -> None: ...
    def point(self, point: str, status: str, profile: str, seconds: float) -> None: ...
    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None: ...
    def goroutines(self, operation: str, change: int) -> None: ...
    def algorithm(self, seconds: float) -> None: ...
    def bound(
        self, profile: str, seconds: float, attempts: int, waited: float | None, after_flush: bool
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class MetricsFigures:
    """Measured figures: microseconds per pod, the best of some rounds."""

    us_per_pod: float
    us_per_pod_prometheus_client: float


def measure_metrics(pods: int) -> MetricsFigures:
    """Count and time pods with our metrics and with those of prometheus_client, in turn."""
    queued = QueuedPod(ClusterTable().info(WORKLOADS["basic"].pod(0)), 0.0)
    ours = SchedulerMetrics(perf_counter, DEFAULT_GATES, Random(0))
    theirs = ClientMetrics(perf_counter, Random(0))
    count_ours, count_theirs = stowplan_counter(ours), client_counter(theirs)
    our_times: list[float] = []
    their_times: list[float] = []
    for _ in range(_ROUNDS):
        our_times.append(_seconds(ours, count_ours, queued, pods))
        their_times.append(_seconds(theirs, count_theirs, queued, pods))
    return MetricsFigures(_micros(our_times, pods), _micros(their_times, pods))


def _micros(times: list[float], pods: int) -> float:
    return round(min(times) / pods * 1e6, 2)


def _seconds(metrics: PodMetrics, count: Callable[[], None], queued: QueuedPod, pods: int) -> float:
    gc.collect()
    started = perf_counter()
    for number in range(pods):
        record_pod(metrics, count, queued, number % _SAMPLE == 0)
    return perf_counter() - started


def record_pod(metrics: PodMetrics, count: Callable[[], None], queued: QueuedPod, sampled: bool) -> None:
    """Everything one pod touches; `count` counts the plugins that judge it."""
    metrics.event_handled(_ADD, _SECONDS)
    if metrics.before_pre_enqueue(queued):
        for plugin in _PRE_ENQUEUE:
            metrics.before_plugin(plugin)
            metrics.after_plugin(plugin, SUCCESS)
    metrics.after_pre_enqueue(queued)
    metrics.incoming(queued, ACTIVE, _ADD)
    _sign(metrics)
    for operation in ("Filter", "Score", "Score", "Score"):
        metrics.goroutines(operation, 16)
        metrics.goroutines(operation, -16)
    count()
    metrics.batches.stored(_PROFILE, _SECONDS)
    metrics.batches.flushed(_PROFILE, "pod_not_batchable")
    metrics.algorithm(_SECONDS)
    for point in _BEFORE:
        metrics.point(point, _OK, _PROFILE, _SECONDS)
    metrics.goroutines("binding", 1)
    metrics.point("PreBindPreFlight", _SKIP, _PROFILE, _SECONDS)
    for point in _AFTER:
        metrics.point(point, _OK, _PROFILE, _SECONDS)
    metrics.bound(_PROFILE, _SECONDS, 1, _SECONDS, False)
    metrics.goroutines("binding", -1)
    metrics.event_handled(_DELETE, _SECONDS)
    metrics.event_handled(_ASSIGNED, _SECONDS)
    if sampled:
        for plugin, point, status in _TIMED:
            metrics.plugin(plugin, point, status, _SECONDS)


def _sign(metrics: PodMetrics) -> None:
    """The signature, and the attempt to reuse the outcome of the pod before; no sample, but every time."""
    for plugin in _SIGNING:
        metrics.plugin(plugin, "Sign", _OK, _SECONDS)
    metrics.point("Sign", _OK, _PROFILE, _SECONDS)
    metrics.batches.asked(False, _PROFILE, _SECONDS)
    metrics.batches.attempted(_PROFILE, "no_hint")


def stowplan_counter(metrics: SchedulerMetrics) -> Callable[[], None]:
    """Counts the plugins that judge a pod as a scheduler does: a counter per extension point."""
    pre_filter, filters, pre_score, scores = (
        metrics.evaluations(_PROFILE, [(plugin, point) for plugin in plugins])
        for point, plugins in _JUDGES.items()
    )

    def count() -> None:
        pre_filter.times += 1
        filters.times += _NODES
        pre_score.times += 1
        scores.times += _NODES

    return count


def client_counter(metrics: ClientMetrics) -> Callable[[], None]:
    """Counts the plugins that judge a pod one by one, a point's nodes at once."""
    judges = [
        (plugin, point, _NODES if point in ("Filter", "Score") else 1)
        for point, plugins in _JUDGES.items()
        for plugin in plugins
    ]

    def count() -> None:
        for plugin, point, times in judges:
            metrics.evaluated(plugin, point, _PROFILE, times)

    return count
