"""The metrics one scheduled pod touches, made of the classes of prometheus_client, for comparison.

Series are kept by their label values, so that none is looked up twice: what is left are their locks.
"""

from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from stowplan.framework.status import Status
from stowplan.metrics.catalogue import COUNTERS, GAUGES, HISTOGRAMS, MetricDescription
from stowplan.metrics.scheduling import PRE_ENQUEUE, SAMPLED_SHARE
from stowplan.queue.queued import QueuedPod

Kind = TypeVar("Kind", Counter, Gauge, Histogram)


class Series(dict[tuple[str, ...], Kind], Generic[Kind]):
    """The series of one family; one that is asked for comes into being."""

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
    """Makes families of the catalogue in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._described = {described.name: described for described in (*COUNTERS, *GAUGES, *HISTOGRAMS)}

    def counter(self, name: str) -> Series[Counter]:
        found = self._described[name]
        return Series(Counter(found.full_name, found.text, found.labels, registry=self.registry))

    def gauge(self, name: str) -> Series[Gauge]:
        found = self._described[name]
        return Series(Gauge(found.full_name, found.text, found.labels, registry=self.registry))

    def histogram(self, name: str) -> Series[Histogram]:
        found: MetricDescription = self._described[name]
        return Series(
            Histogram(found.full_name, found.text, found.labels, registry=self.registry, buckets=found.bounds)
        )
