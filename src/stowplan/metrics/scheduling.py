"""What is counted and timed while pods are scheduled: the one object that everybody tells."""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final

from prometheus_client import CollectorRegistry

from stowplan.framework.gates import FeatureGates
from stowplan.metrics.accumulators import UNLABELLED
from stowplan.metrics.description import Description
from stowplan.metrics.evaluations import Evaluations, Tally
from stowplan.metrics.exposition import exposition
from stowplan.metrics.families import Families
from stowplan.metrics.gathering import BoundPods, Gathering
from stowplan.metrics.legacy import LegacyMetrics
from stowplan.metrics.optional import (
    AsyncCallMetrics,
    BatchMetrics,
    DeviceMetrics,
    PodGroupMetrics,
    VolumeMetrics,
)
from stowplan.metrics.queueing import QueueMetrics
from stowplan.queue.instrument import ACTIVE, BACKOFF, GATED, UNSCHEDULABLE

UNSCHEDULABLE_RESULT: Final = "unschedulable"
ERROR: Final = "error"
"""Results of an attempt that did not end with a bound pod."""

BINDING: Final = "binding"
PRIORITIZING_EXTENDER: Final = "prioritizing_extender"
"""Operations that run beside the scheduling of pods and have no name of their own."""

_QUEUES: Final = (ACTIVE, BACKOFF, UNSCHEDULABLE, GATED)
_CACHED: Final = ("nodes", "pods", "assumed_pods")


class SchedulerMetrics(QueueMetrics):
    """All metrics of one scheduler, and an instrument for its queue.

    `timer` gives seconds; it is asked for what the queue does, all other durations come from the callers.
    `rng` decides which runs of PreEnqueue plugins are sampled. Others may add their collectors to `registry`.
    With `legacy` everything is shown under the names of 1.9 to 1.18, too.
    """

    def __init__(
        self, timer: Callable[[], float], gates: FeatureGates, rng: Random, *, legacy: bool = False
    ) -> None:
        families = Families(gates)
        super().__init__(families, timer, rng)
        self.registry = CollectorRegistry()
        self.registry.register(families)
        self._families = families
        self.batches = BatchMetrics(families)
        self.devices = DeviceMetrics(families)
        self.volumes = VolumeMetrics(families)
        self.async_calls = AsyncCallMetrics(families)
        self.pod_groups = PodGroupMetrics(families)
        self._attempts = families.counter("schedule_attempts_total")
        self._unexpected = families.counter("unexpected_errors_total")
        self._attempt_seconds = families.histogram("scheduling_attempt_duration_seconds")
        searches = Gathering(families.histogram("scheduling_algorithm_duration_seconds"))
        self.algorithm = searches.into(UNLABELLED)
        """A node was looked for, found or not, in so many seconds. Counted like what `taker` gives is."""
        self.handling = families.histogram("event_handling_duration_seconds")
        """What `event_handled` counts; for who does it with every pod."""
        self._preemptions = families.counter("preemption_attempts_total")
        self._victims = families.distribution("preemption_victims")
        self._preemption_runs = families.counter("preemption_goroutines_execution_total")
        self._preemption_seconds = families.histogram("preemption_goroutines_duration_seconds")
        bound = BoundPods(families)
        self.bound = bound.put
        self._took = Gathering(self.points)
        self._permit_waits = families.histogram("permit_wait_duration_seconds")
        self.at_work = families.gauge("goroutines")
        """What `goroutines` counts; for who does it with every pod."""
        self._evaluated = families.counter("plugin_evaluation_total")
        self._evaluations = Evaluations(self._evaluated)
        self._put_aside = (searches, self._took)
        for put_aside in (bound, *self._put_aside, self._evaluations):
            families.before_showing(put_aside.settle)
        self.watch_queue(lambda: dict.fromkeys(_QUEUES, 0))
        self.watch_cache(lambda: dict.fromkeys(_CACHED, 0))
        self._legacy = LegacyMetrics(families, gates, timer) if legacy else None
        if self._legacy is not None:
            self.registry.register(self._legacy)

    def watch_queue(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Whom to ask how many pods wait: `active`, `backoff`, `unschedulable` and `gated` ones."""
        self._families.read_gauge("pending_pods").read_from(counts)

    def watch_cache(self, sizes: Callable[[], Mapping[str, int]]) -> None:
        """Whom to ask how many `nodes`, `pods` and `assumed_pods` are known."""
        self._families.read_gauge("cache_size").read_from(sizes)

    def unexpected(self, source: str) -> None:
        """An exception that nobody expected was caught."""
        self._unexpected[source,] += 1

    def problem(self, message: str) -> None:
        self.unexpected("queue")

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """An attempt to place a pod is over: `unschedulable` or `error`; see `bound` for all others."""
        labels = (result, profile)
        self._attempts[labels] += 1
        self._attempt_seconds[labels].observe(seconds)

    def event_handled(self, label: str, seconds: float) -> None:
        """A change of the cluster was taken in; `label` is that of the event."""
        self.handling[label,].observe(seconds)

    def preemption_attempted(self) -> None:
        """A pod that fits nowhere asks whether others should make room."""
        self._preemptions[UNLABELLED] += 1

    def preempted(self, victims: int) -> None:
        """So many pods have to go."""
        self._victims.observe(victims)

    def preemption_executed(self, result: str, seconds: float) -> None:
        """The victims were told to go; kube-scheduler always says `success`, after no time."""
        labels = (result,)
        self._preemption_runs[labels] += 1
        self._preemption_seconds[labels].observe(seconds)

    def point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of an extension point were run: `PreFilter`, ...; the status is a code's label."""
        self.points[point, status, profile].observe(seconds)

    def taker(self, point: str, status: str, profile: str) -> Callable[[float], None]:
        """Who takes what `point` would, kept by those who go through extension points with every pod.

        They have it counted (`settle`) every `gathering.ENOUGH` pods.
        """
        return self._took.into((point, status, profile))

    def settle(self) -> None:
        """Count what was put aside while nodes were looked for."""
        for gathered in self._put_aside:
            gathered.settle()

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin was run at an extension point; to be told in the cycles that are sampled."""
        self._plugins[plugin, point, status].observe(seconds)

    def evaluated(self, plugin: str, point: str, profile: str, times: int = 1) -> None:
        """A plugin was asked at PreFilter, Filter, PreScore or Score and did not skip."""
        self._evaluated[plugin, point, profile] += times

    def evaluations(self, profile: str, pairs: Iterable[tuple[str, str]]) -> Tally:
        """A tally for a bundle of (plugin, extension point) that are always asked together.

        Each is shown from now on, if only as 0: kube-scheduler shows all plugins of its profiles at once.
        """
        return self._evaluations.tally(profile, pairs)

    def permit_waited(self, result: str, seconds: float) -> None:
        """A pod waited for a permission; the result is a code's label."""
        self._permit_waits[result,].observe(seconds)

    def goroutines(self, operation: str, change: int) -> None:
        """So many tasks more or fewer work on something, such as `binding`."""
        self.at_work[operation,] += change

    @property
    def shown(self) -> list[Description]:
        """The families there are."""
        return self._families.shown if self._legacy is None else self._families.shown + self._legacy.shown

    def text(self) -> bytes:
        """Everything in the registry in Prometheus's text format."""
        return exposition([self.registry])

    def reset(self) -> None:
        """Let figures with labels start anew.

        As in kube-scheduler those without labels go on. Gauges tell what is there now, so they go on, too.
        """
        if self._legacy is not None:
            self._legacy.reset()
        self._families.reset()
