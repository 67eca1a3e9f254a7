"""The metrics of scheduling cycles and plugins, counted from the hooks."""

from collections.abc import Callable, Iterable

from stowplan.scheduler.cycle.assignment import Assignment
from stowplan.scheduler.cycle.failure_handler import Failure
from stowplan.scheduler.cycle.instrument import Instrument
from stowplan.scheduler.cycle.profile import Profile
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.interface import ExtensionPoint, PostFilterResult
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.metrics import ERROR, UNSCHEDULABLE_RESULT, CallCounter, SchedulerMetrics
from stowplan.scheduler.metrics.buffers import BUFFER_SIZE
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.table.podinfo import PodInfo

_COUNTED = (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE)


class MetricsInstrument(Instrument):
    """Counts what happens in scheduling cycles. The metrics themselves follow the queue."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._uncounted = 0

    # Plugins

    def evaluation_begins(self) -> bool:
        self._uncounted += 1
        if self._uncounted >= BUFFER_SIZE:
            self._uncounted = 0
            self._metrics.flush()
        return self._metrics.sampled()

    def plugin_called(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self._metrics.plugin(plugin, point, status, seconds)

    def point_timer(self, profile: str, point: str, status: str) -> Callable[[float], None]:
        return self._metrics.taker(point, status, profile)

    def call_counter(self, profile: str, point: str, plugins: tuple[str, ...]) -> CallCounter:
        return self._metrics.evaluations(profile, [(plugin, point) for plugin in plugins])

    # Pods

    def search_ended(self, seconds: float) -> None:
        self._metrics.algorithm(seconds)

    def post_filter_begins(self, profile: Profile) -> None:
        if profile.preemption is not None:
            self._metrics.preemption_attempted()

    def post_filter_ended(
        self, profile: Profile, cycle: Cycle, pod: PodInfo, result: PostFilterResult, seconds: float
    ) -> None:
        label = result.status.code.label
        self._metrics.point("PostFilter", label, profile.name, seconds)
        if self._metrics.preempting.shown and profile.preemption is not None:
            self._metrics.preempting.evaluated("pod", label, seconds)

    def failed(self, queued: QueuedPod, failure: Failure, seconds: float) -> None:
        self._metrics.attempt(UNSCHEDULABLE_RESULT if failure.rejected else ERROR, queued.profile, seconds)

    def bound(self, assignment: Assignment, note: str, seconds: float, waited: float | None) -> None:
        queued = assignment.queued
        self._metrics.bound(assignment.profile.name, seconds, queued.attempts, waited, queued.flushed)

    def unexpected(self, source: str) -> None:
        self._metrics.unexpected(source)

    # Groups

    def group_searched(self, seconds: float) -> None:
        self._metrics.pod_groups.algorithm(seconds)

    def group_post_filter_ended(self, profile: str, status: Status, seconds: float) -> None:
        self._metrics.point("PodGroupPostFilter", status.code.label, profile, seconds)

    def group_attempted(self, outcome: str, profile: str, seconds: float) -> None:
        self._metrics.pod_groups.attempt(outcome, profile, seconds)

    def placements_generated(self, profile: str, count: int) -> None:
        self._metrics.pod_groups.placements(profile, count)

    def placement_evaluated(self, profile: str, feasible: bool, seconds: float) -> None:
        self._metrics.pod_groups.placement("feasible" if feasible else "infeasible", profile, seconds)


def show_all(metrics: SchedulerMetrics, frameworks: Iterable[Framework]) -> None:
    """Show every plugin that will be counted, if only as 0."""
    for framework in frameworks:
        for point in _COUNTED:
            label = f"{point.value[0].upper()}{point.value[1:]}"
            pairs = [(plugin.name, label) for plugin in framework.at(point)]
            metrics.evaluations(framework.profile.scheduler_name, pairs)
