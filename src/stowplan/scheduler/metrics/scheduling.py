"""The metrics of a scheduler: its queue, scheduling and binding cycles, preemption and plugins."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.scheduler.framework.events import Answer, ClusterEvent
from stowplan.scheduler.framework.interface import DeviceMetrics
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.metrics.buffers import (
    SCHEDULED,
    BoundPods,
    BufferedHistogram,
    CallCounter,
    Evaluations,
)
from stowplan.scheduler.metrics.descriptions import MetricDescription
from stowplan.scheduler.metrics.exposition import exposition
from stowplan.scheduler.metrics.families import UNLABELLED, Families, Labels
from stowplan.scheduler.metrics.legacy import LegacyMetrics
from stowplan.scheduler.queue.instrument import (
    ACTIVE,
    BACKOFF,
    GATED,
    INCOMPLETE,
    PENDING,
    POD,
    POD_GROUP,
    UNSCHEDULABLE,
    QueueInstrument,
)
from stowplan.scheduler.queue.queued_group import QueuedGroup
from stowplan.scheduler.queue.queued_pod import QueuedPod

SAMPLED_SHARE: Final = 0.1
"""The share of scheduling cycles and PreEnqueue runs in which every plugin is timed."""

PRE_ENQUEUE: Final = "PreEnqueue"

UNSCHEDULABLE_RESULT: Final = "unschedulable"
ERROR: Final = "error"
"""Results of scheduling attempts without a bound pod."""

BINDING: Final = "binding"
PRIORITIZING_EXTENDER: Final = "prioritizing_extender"
"""Values of the label `operation`."""

_QUEUES: Final = (ACTIVE, BACKOFF, UNSCHEDULABLE, GATED)
_CACHED: Final = ("nodes", "pods", "assumed_pods")

SUCCESS: Final = "success"
FAILURE: Final = "failure"


class CycleTotals(NamedTuple):
    """Counts since the start or the last reset, for views of the running scheduler.

    `incoming` is by sub-queue; unlike in the metric gated pods are separate, and a waiting member of a group
    does not count again whenever another one joins. `plugins` has the seconds by plugin and extension point
    in the cycles in which every plugin is timed.
    """

    bound: int
    unschedulable: int
    errors: int
    permit_waits: int
    incoming: Mapping[str, int]
    plugins: Mapping[tuple[str, str], float]


class QueueMetrics(QueueInstrument):
    """The metrics of the scheduling queue.

    A run of PreEnqueue plugins always has the status Success, as in kube-scheduler.
    """

    def __init__(self, families: Families, timer: Callable[[], float], rng: Random) -> None:
        self._timer = timer
        self._random = rng.random
        self._incoming = families.counter("queue_incoming_pods_total")
        self._entities = families.counter("queue_incoming_entities_total")
        families.before_collect(self._count_entities)
        self._group_pods: Counter[tuple[str, str]] = Counter()
        self._groups: Counter[tuple[str, str]] = Counter()
        self._gated = 0
        self._again: Counter[str] = Counter()
        """Members of groups that were counted though they had been there: others joined their group."""
        self._rejected = families.gauge("unschedulable_pods")
        self._in_flight = families.read_gauge("inflight_events")
        self._hints = families.histogram("queueing_hint_execution_duration_seconds")
        self._narrowed = families.counter("pre_queueing_hint_evaluations_total")
        self.points = families.histogram("framework_extension_point_duration_seconds")
        self._plugins = families.histogram("plugin_execution_duration_seconds")
        self._asked_at = self._plugin_asked_at = self._hint_asked_at = 0.0
        self._event: ClusterEvent | None = None
        self._event_label = ""

    def sampled(self) -> bool:
        """Decides at random to time every plugin in this cycle."""
        return self._random() < SAMPLED_SHARE

    def incoming(self, queued: QueuedPod, queue: str, event: str) -> None:
        self._incoming[queue, event] += 1
        if queued.gating_plugin:
            self._gated += 1

    def incoming_many(self, count: int, queue: str, event: str) -> None:
        self._incoming[queue, event] += count

    def incoming_group(self, group: QueuedGroup, queue: str, event: str, is_new: bool, new_pods: int) -> None:
        self._incoming[queue, event] += group.size
        self._group_pods[queue, event] += group.size
        self._groups[queue, event] += is_new
        if group.gating_plugin:
            self._gated += group.size
        self._again[GATED if group.gating_plugin else queue] += group.size - new_pods

    def stayed_gated(self, event: str, count: int) -> None:
        self._incoming[UNSCHEDULABLE, event] += count
        self._gated += count

    def _count_entities(self) -> None:
        """Count every pod without a group as an entity."""
        for (queue, event), count in self._incoming.items():
            members = self._group_pods.get((queue, event), 0)
            if count > members:
                self._entities[queue, event, POD] = count - members
        for (queue, event), count in self._groups.items():
            self._entities[queue, event, POD_GROUP] = count

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        self._rejected[plugin, profile] += change

    def in_flight(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._in_flight.read_from(counts)

    def before_hint(self, plugin: str, event: ClusterEvent) -> None:
        self._hint_asked_at = self._timer()

    def after_hint(self, plugin: str, event: ClusterEvent, answer: Answer) -> None:
        seconds = self._timer() - self._hint_asked_at
        if event is not self._event:
            self._event = event
            self._event_label = event.label
        self._hints[plugin, self._event_label, answer.label].observe(seconds)

    def same_hint(self, plugin: str, event: ClusterEvent, answer: Answer, count: int) -> None:
        if count:
            self._hints[plugin, event.label, answer.label].repeat(0.0, count)

    def narrowed(self, plugin: str, to_some: bool) -> None:
        self._narrowed[plugin, "narrowed" if to_some else "all_pods"] += 1

    def before_pre_enqueue(self, queued: QueuedPod) -> bool:
        self._asked_at = self._timer()
        return self._random() < SAMPLED_SHARE

    def before_plugin(self, plugin: str) -> None:
        self._plugin_asked_at = self._timer()

    def after_plugin(self, plugin: str, status: Status) -> None:
        seconds = self._timer() - self._plugin_asked_at
        self._plugins[plugin, PRE_ENQUEUE, status.code.label].observe(seconds)

    def pre_enqueue_ran(self, profile: str, count: int) -> None:
        seconds = (self._timer() - self._asked_at) / count
        self.points[PRE_ENQUEUE, "Success", profile].repeat(seconds, count)

    def after_pre_enqueue(self, queued: QueuedPod) -> None:
        seconds = self._timer() - self._asked_at
        self.points[PRE_ENQUEUE, "Success", queued.profile].observe(seconds)


class SchedulerMetrics(QueueMetrics):
    """All metrics of one scheduler.

    `timer` gives seconds and times what the queue does; all other durations come from the callers. `rng`
    samples runs of PreEnqueue plugins. Collectors may be added to `registry`. With `legacy` everything is
    exposed under the names of 1.9 to 1.18 as well.
    """

    def __init__(
        self, timer: Callable[[], float], gates: FeatureGates, rng: Random, *, legacy: bool = False
    ) -> None:
        families = Families(gates)
        super().__init__(families, timer, rng)
        self.registry = CollectorRegistry()
        self.registry.register(families)
        self._families = families
        of_members = (INCOMPLETE, PENDING) if gates.behaviour.queueing.group_entities else ()
        self._member_queues = dict.fromkeys(of_members, 0)
        self.batches = BatchMetrics(families)
        self.devices = DeviceCounts(families)
        self.volumes = VolumeMetrics(families)
        self.async_calls = AsyncCallMetrics(families)
        self.pod_groups = PodGroupMetrics(families)
        self.preempting = PreemptingMetrics(families, shown=gates["GenericWorkload"])
        self._attempts = families.counter("schedule_attempts_total")
        self._unexpected = families.counter("unexpected_errors_total")
        self._slow = families.counter("slow_attempts_total")
        self._attempt_seconds = families.histogram("scheduling_attempt_duration_seconds")
        searches = BufferedHistogram(families.histogram("scheduling_algorithm_duration_seconds"))
        self.algorithm = searches.into(UNLABELLED)
        """Observes the duration of the scheduling algorithm; buffered like `taker`."""
        self.handling = families.histogram("event_handling_duration_seconds")
        """The series of `event_handled`, for hot code."""
        self._processing = families.histogram("informer_processing_latency_seconds")
        self._preemptions = families.counter("preemption_attempts_total")
        self._victims = families.distribution("preemption_victims")
        self._preemption_runs = families.counter("preemption_goroutines_execution_total")
        self._preemption_seconds = families.histogram("preemption_goroutines_duration_seconds")
        bound = BoundPods(families)
        self.bound = bound.put
        self._took = BufferedHistogram(self.points)
        self._permit_waits = families.histogram("permit_wait_duration_seconds")
        self.at_work = families.gauge("goroutines")
        """The series of `goroutines`, for hot code."""
        self._evaluated = families.counter("plugin_evaluation_total")
        self._evaluations = Evaluations(self._evaluated)
        self._buffers = (searches, self._took)
        for buffer in (bound, *self._buffers, self._evaluations):
            families.before_collect(buffer.flush)
        nothing = dict.fromkeys(_QUEUES, 0)
        self.watch_queue(lambda: nothing, lambda: {(queue, POD): 0 for queue in _QUEUES})
        self.watch_cache(lambda: dict.fromkeys(_CACHED, 0))
        self._legacy = LegacyMetrics(families, gates, timer) if legacy else None
        if self._legacy is not None:
            self.registry.register(self._legacy)

    def watch_queue(
        self, counts: Callable[[], Mapping[str, int]], entities: Callable[[], Mapping[Labels, int]]
    ) -> None:
        """Read pending pods from a callback, by queue, and entities from another, by queue and type."""
        members = self._member_queues
        self._families.read_gauge("pending_pods").read_from(lambda: {**members, **counts()})
        self._families.read_gauge("queued_entities").read_series_from(entities)

    def watch_informers(self, versions: Callable[[], Mapping[Labels, str]]) -> None:
        """Read resource versions of informers from a callback, by group, version and resource."""

        def series(number: Callable[[str], int]) -> Mapping[Labels, int]:
            return {(_INFORMERS, *labels): number(seen) for labels, seen in versions().items()}

        for labels in versions():
            self._processing[_INFORMERS, *labels].flush()
        stores = self._families.read_gauge("informer_store_resource_version")
        stores.read_series_from(lambda: series(_low_digits))
        self._families.read_gauge("informer_queued_items").read_series_from(lambda: series(lambda seen: 0))

    def watch_unreadable(self, counts: Callable[[], Mapping[Labels, int]]) -> None:
        """Read from a callback how many objects of each resource cannot be read."""
        self._families.read_gauge("unreadable_objects").read_series_from(counts)

    def processing(self, *labels: str) -> Callable[[float], None] | None:
        """Observes how long changes take that an informer hears of, given group, version and resource.

        None in releases that do not measure it.
        """
        if not self._families.shows("informer_processing_latency_seconds"):
            return None
        series, key = self._processing, (_INFORMERS, *labels)
        return lambda seconds: series[key].observe(seconds)

    def watch_cache(self, sizes: Callable[[], Mapping[str, int]]) -> None:
        """Read the cache size from a callback: `nodes`, `pods` and `assumed_pods`."""
        self._families.read_gauge("cache_size").read_from(sizes)

    def watch_costs(self, seconds: Callable[[], Mapping[Labels, float]]) -> None:
        """Read from a callback what the cycles of the most costly owners took, by namespace and owner."""
        self._families.read_gauge("costly_owner_cycle_seconds").read_series_from(seconds)

    def slow_attempt(self, profile: str) -> None:
        """An attempt took long."""
        self._slow[profile,] += 1

    def unexpected(self, source: str) -> None:
        """An unexpected exception was caught."""
        self._unexpected[source,] += 1

    def problem(self, message: str) -> None:
        self.unexpected("queue")

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """A scheduling attempt ended `unschedulable` or with an `error`; `bound` counts the others."""
        labels = (result, profile)
        self._attempts[labels] += 1
        self._attempt_seconds[labels].observe(seconds)

    def event_handled(self, label: str, seconds: float) -> None:
        """A cluster event was handled; `label` is the event's."""
        self.handling[label,].observe(seconds)

    def preemption_attempted(self) -> None:
        """Preemption was attempted."""
        self._preemptions[UNLABELLED] += 1

    def preempted(self, victims: int) -> None:
        """Preemption selected this number of victims."""
        self._victims.observe(victims)

    def preemption_executed(self, result: str, seconds: float) -> None:
        """The victims of a preemption were deleted, or could not be: `success` or `error`."""
        labels = (result,)
        self._preemption_runs[labels] += 1
        self._preemption_seconds[labels].observe(seconds)

    def point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of an extension point were run; `status` is a code's label."""
        self.points[point, status, profile].observe(seconds)

    def taker(self, point: str, status: str, profile: str) -> Callable[[float], None]:
        """The function that observes what `point` would, buffered, for hot code.

        The caller flushes it every `buffers.BUFFER_SIZE` pods.
        """
        return self._took.into((point, status, profile))

    def flush(self) -> None:
        """Count what was buffered in scheduling cycles."""
        for buffer in self._buffers:
            buffer.flush()

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """A plugin was run at an extension point of a sampled cycle."""
        self._plugins[plugin, point, status].observe(seconds)

    def evaluated(self, plugin: str, point: str, profile: str, times: int = 1) -> None:
        """A plugin was run at PreFilter, Filter, PreScore or Score and did not skip."""
        self._evaluated[plugin, point, profile] += times

    def evaluations(self, profile: str, pairs: Iterable[tuple[str, str]]) -> CallCounter:
        """A counter for a group of (plugin, extension point) that are always run together.

        Each exists from now on, if only as 0, as in kube-scheduler.
        """
        return self._evaluations.counter(profile, pairs)

    def permit_waited(self, result: str, seconds: float) -> None:
        """A pod waited at Permit; the result is a code's label."""
        self._permit_waits[result,].observe(seconds)

    def goroutines(self, operation: str, change: int) -> None:
        """The number of tasks of an operation, such as `binding`, changed."""
        self.at_work[operation,] += change

    @property
    def shown(self) -> list[MetricDescription]:
        """The families that are enabled."""
        return self._families.shown if self._legacy is None else self._families.shown + self._legacy.shown

    def totals(self) -> CycleTotals:
        """The sums that are shown to people."""
        self._families.flush()
        results: Counter[str] = Counter()
        for (result, *_), count in self._attempts.items():
            results[result] += int(count)
        incoming: Counter[str] = Counter(dict.fromkeys(_QUEUES, 0))
        for (queue, _), count in self._incoming.items():
            incoming[queue] += int(count)
        incoming[GATED] = self._gated
        incoming[UNSCHEDULABLE] = max(incoming[UNSCHEDULABLE] - self._gated, 0)
        incoming.subtract(self._again)
        plugins: defaultdict[tuple[str, str], float] = defaultdict(float)
        for (plugin, point, _), taken in self._plugins.items():
            plugins[plugin, point] += taken.total
        return CycleTotals(
            bound=results[SCHEDULED],
            unschedulable=results[UNSCHEDULABLE_RESULT],
            errors=results[ERROR],
            permit_waits=sum(sum(waits.counts) for waits in self._permit_waits.values()),
            incoming=incoming,
            plugins=plugins,
        )

    def text(self) -> bytes:
        """All metrics in the text format."""
        return exposition([self.registry])

    def reset(self) -> None:
        """Reset metrics with labels, except for gauges, as kube-scheduler does."""
        if self._legacy is not None:
            self._legacy.reset()
        self._families.reset()
        self._group_pods.clear()
        self._groups.clear()
        self._gated = 0
        self._again.clear()


_INFORMERS: Final = "kube-scheduler"


def _low_digits(resource_version: str) -> int:
    return int(resource_version[-15:]) if resource_version.isdecimal() else 0


# Metrics of optional features


class BatchMetrics:
    """Opportunistic batching: reuse of the last pod's node ranking."""

    def __init__(self, families: Families) -> None:
        self._attempts = families.counter("batch_attempts_total")
        self._flushes = families.counter("batch_cache_flushed_total")
        self._rescored = families.counter("batch_rescore_attempts_total")
        self._rescore_seconds = families.histogram("batch_rescore_duration_seconds")
        self._asked = families.histogram("get_node_hint_duration_seconds")
        self._stored = families.histogram("store_schedule_results_duration_seconds")
        self._families = families

    def attempted(self, profile: str, result: str, times: int = 1) -> None:
        """The result of a batched attempt: `no_hint`, `hint_used` or `hint_not_used`."""
        self._attempts[profile, result] += times

    def flushed(self, profile: str, reason: str, times: int = 1) -> None:
        """The batch could not be used because of `pod_skipped`, `expired`, ..."""
        self._flushes[profile, reason] += times

    def rescored(self, profile: str, seconds: float) -> None:
        """The last node of a batch was scored again (since 1.37)."""
        self._rescored[profile,] += 1
        self._rescore_seconds[profile,].observe(seconds)

    def asked(self, hinted: bool, profile: str, seconds: float, times: int = 1) -> None:
        """A node hint was looked up."""
        self._asked["hint" if hinted else "no_hint", profile].take([seconds] * times)

    def stored(self, profile: str, seconds: float, times: int = 1) -> None:
        """The results of an attempt were stored."""
        self._stored[profile,].take([seconds] * times)

    def of(self, profile: str) -> "BatchCounts":
        """Counts of a profile."""
        counts = BatchCounts(self, profile)
        self._families.before_collect(counts.flush)
        return counts


class BatchCounts:
    """The batches of one profile. Pods that can never be in one are only counted, and looked at when metrics
    are read: for them neither looking for a hint nor storing takes any time.
    """

    __slots__ = ("_counted", "_metrics", "_profile", "_single", "_unbatchable", "no_hint")

    def __init__(self, metrics: BatchMetrics, profile: str) -> None:
        self._metrics = metrics
        self._profile = profile
        self.no_hint = 0
        """Pods without a hint since the last flush, for hot code."""
        self._counted = 0
        self._unbatchable = 0
        self._single = 0

    def take_unbatchable(self, feasible: int) -> None:
        """A pod that can never be in a batch got a node; `feasible` is the number it had to choose from."""
        if feasible == 1:
            self._single += 1
        else:
            self._unbatchable += 1

    def asked(self, hinted: bool, seconds: float) -> None:
        """A node hint was looked for."""
        self._counted += not hinted
        self._metrics.asked(hinted, self._profile, seconds)

    def hinted(self, used: bool) -> None:
        """The pod got its hint, or another node."""
        self._metrics.attempted(self._profile, "hint_used" if used else "hint_not_used")

    def flushed(self, reason: str) -> None:
        """The batch could not be used: `pod_skipped`, `expired`, ..."""
        self._metrics.flushed(self._profile, reason)

    def rescored(self, seconds: float) -> None:
        """The last node of a batch was scored again (since 1.37)."""
        self._metrics.rescored(self._profile, seconds)

    def stored(self, seconds: float) -> None:
        """The results of an attempt were stored."""
        self._metrics.stored(self._profile, seconds)

    def flush(self) -> None:
        """Add what was only counted to the series."""
        metrics, profile = self._metrics, self._profile
        if not self.no_hint:
            return
        metrics.attempted(profile, "no_hint", self.no_hint)
        if untimed := self.no_hint - self._counted:
            metrics.asked(False, profile, 0.0, untimed)
        for reason, count in (("empty_list", self._single), ("pod_not_batchable", self._unbatchable)):
            if count:
                metrics.flushed(profile, reason, count)
                metrics.stored(profile, 0.0, count)
        self.no_hint = self._counted = self._single = self._unbatchable = 0


_OWNED_BY_POD: Final = ("false", "", "Pod")
"""Labels of a claim since 1.37: no admin access, group and kind of its owner."""


class DeviceCounts(DeviceMetrics):
    """Dynamic resource allocation."""

    def __init__(self, families: Families) -> None:
        self._created = families.counter("resourceclaim_creates_total")
        by_owner = len(families.labels("resourceclaim_creates_total")) > 1
        self._owner: tuple[str, ...] = _OWNED_BY_POD if by_owner else ()
        self._allocations = families.counter("dra_bindingconditions_allocations_total")
        self._waits = families.histogram("dra_bindingconditions_wait_duration_seconds")

    def claim_created(self, created: bool) -> None:
        """The creation of a ResourceClaim succeeded or failed."""
        self._created[SUCCESS if created else FAILURE, *self._owner] += 1

    def waited(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """Waiting for binding conditions ended: `success`, `failure`, `timeout` or `error`."""
        self._waits[profile, driver, status].observe(seconds)

    def allocated(self, profile: str, driver: str, status: str) -> None:
        """A device with binding conditions was allocated."""
        self._allocations[profile, driver, status] += 1


class VolumeMetrics:
    """Volume binding."""

    def __init__(self, families: Families) -> None:
        self._failures = families.counter("volume_scheduling_stage_error_total")

    def failed(self, operation: str) -> None:
        """A stage failed: `predicate`, `assume` or `bind`."""
        self._failures[operation,] += 1


class AsyncCallMetrics:
    """Asynchronous API calls."""

    def __init__(self, families: Families) -> None:
        self._calls = families.counter("async_api_call_execution_total")
        self._seconds = families.histogram("async_api_call_execution_duration_seconds")
        self._pending = families.gauge("pending_async_api_calls")

    def executed(self, call_type: str, result: str, seconds: float) -> None:
        """A call (`pod_status_patch`, `pod_binding`) ended: `success` or `error`."""
        labels = (call_type, result)
        self._calls[labels] += 1
        self._seconds[labels].observe(seconds)

    def pending(self, call_type: str, change: int) -> None:
        """The number of pending calls changed."""
        self._pending[call_type,] += change


class PodGroupMetrics:
    """Pod groups."""

    def __init__(self, families: Families) -> None:
        self._attempts = families.counter("podgroup_schedule_attempts_total")
        self._attempt_seconds = families.histogram("podgroup_scheduling_attempt_duration_seconds")
        self._algorithm = families.distribution("podgroup_scheduling_algorithm_duration_seconds")
        self._generated = families.counter("generated_placements_total")
        self._evaluated = families.counter("placement_evaluations_total")
        self._evaluation_seconds = families.histogram("placement_evaluation_duration_seconds")

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """An attempt ended: `scheduled`, `unschedulable`, `waiting_on_preemption` or `error`."""
        labels = (result, profile)
        self._attempts[labels] += 1
        self._attempt_seconds[labels].observe(seconds)

    @property
    def attempts(self) -> int:
        """Number of attempts, whatever their result."""
        return sum(sum(series.counts) for series in self._attempt_seconds.values())

    @property
    def mean_seconds(self) -> float:
        """How long an attempt took on average."""
        return sum(series.total for series in self._attempt_seconds.values()) / max(self.attempts, 1)

    def algorithm(self, seconds: float) -> None:
        """The scheduling algorithm ran for a group."""
        self._algorithm.observe(seconds)

    def placements(self, profile: str, count: int) -> None:
        """`count` placements of a group were generated."""
        self._generated[profile,] += count

    def placement(self, result: str, profile: str, seconds: float) -> None:
        """A group was tried in a placement: `feasible` or `infeasible`."""
        labels = (result, profile)
        self._evaluated[labels] += 1
        self._evaluation_seconds[labels].observe(seconds)


class PreemptingMetrics:
    """Preemption by pods and by groups; `preemptor` is `pod`, `podgroup` or `compositepodgroup`.

    `shown`: the families are enabled.
    """

    def __init__(self, families: Families, *, shown: bool) -> None:
        self.shown = shown
        self._attempts = families.counter("workload_preemption_attempts_total")
        self._victims = families.distribution("workload_preemption_victims")
        self._disruptions = families.histogram("preemption_workload_disruptions")
        self._violations = families.counter("preemption_pdb_violations_total")
        self._evaluations = families.histogram("preemption_evaluation_duration_seconds")
        self._executions = families.histogram("preemption_execution_duration_seconds")

    def attempted_by_group(self, result: str) -> None:
        """A group tried to preempt; `result` is a code's label."""
        self._attempts[result,] += 1

    def evaluated(self, preemptor: str, result: str, seconds: float) -> None:
        """A search for victims ended; `result` is a code's label."""
        self._evaluations[preemptor, result].observe(seconds)

    def selected_by_group(self, victims: int) -> None:
        """A group selected this number of pods to evict."""
        self._victims.observe(victims)

    def disrupted(self, preemptor: str, units: int, violations: int) -> None:
        """Groups, or single pods of one, were disrupted, and pods violated a budget."""
        if units:
            self._disruptions[preemptor,].observe(units)
        if violations:
            self._violations[preemptor,] += violations

    def executed(self, preemptor: str, result: str, seconds: float) -> None:
        """The victims were deleted, or could not be: `success` or `error`."""
        self._executions[preemptor, result].observe(seconds)
