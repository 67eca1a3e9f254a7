"""Log lines of the scheduling cycle. Callers have checked that the verbosity shows them."""

from datetime import datetime
from typing import Any, Final

import numpy as np

from stowplan.client import Reflector
from stowplan.runtime.logs import Logger, Ref
from stowplan.scheduler.context import Context
from stowplan.scheduler.cycle.instrument import Instrument
from stowplan.scheduler.cycle.profile import Profile
from stowplan.scheduler.cycle.schedule_result import ScheduleResult
from stowplan.scheduler.cycle.scheduling_cycle import NodeFinder
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.interface import PREEMPTION_PREFIX, ExtensionPoint, PostFilterResult
from stowplan.scheduler.framework.protocols import RejectionLogger
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.table.podinfo import PodInfo

SLOW: Final = 0.1
"""Seconds after which the search for a node is logged separately."""


class CycleLog(Instrument):
    """Logs results of searches, node by node, and the slow ones. Levels below 2 cost one comparison."""

    def __init__(self, context: Context, finder: NodeFinder) -> None:
        self._context = context
        self._finder = finder
        self._logger = context.logger

    def searched(self, profile: Profile, queued: QueuedPod, result: ScheduleResult, began: float) -> None:
        logger, context = self._logger, self._context
        if logger.level < 2:
            return
        pod, took = queued.pod, context.timer() - began
        if took >= SLOW:
            filtered = max(self._finder.filtered_at - began, 0.0)
            log_slow_cycle(logger, pod, context.clock.now(), took, filtered, context.queue.cycle)
        if logger.level >= 4:
            log_result(logger, result, pod)

    def post_filter_ended(
        self, profile: Profile, cycle: Cycle, pod: PodInfo, result: PostFilterResult, seconds: float
    ) -> None:
        if profile.preemption is not None and self._logger.enabled(2):
            log_preemption(self._logger, profile.preemption_name, cycle, pod, result)


def log_result(logger: Logger, result: ScheduleResult, pod: PodInfo) -> None:
    """Log the results of filters and scores, node by node (levels 4, 5 and 10)."""
    outright = result.evaluation.rejected_outright
    if outright is not None:
        status = outright.message
        logger.info(5, "Status after running PreFilter plugins for pod", pod=Ref(pod.key), status=status)
        return
    _log_rejections(logger, result.evaluation, pod)
    if logger.enabled(10) and result.evaluation.scored:
        _log_scores(logger, result, pod)


def _log_rejections(logger: Logger, evaluation: Evaluation, pod: PodInfo) -> None:
    table = evaluation.cycle.table
    first = evaluation.pod_class.filters.first
    for column in evaluation.filters():
        plugin = column.plugin
        if column.codes is None or not isinstance(plugin, RejectionLogger):
            continue
        component = f"FilterWithNominatedPods.Filter.{plugin.name}"
        for row in np.flatnonzero(first == column.index).tolist():
            node = table.nodes[row]
            if node is not None:
                plugin.log_rejection(logger, component, pod, node)


def _log_scores(logger: Logger, result: ScheduleResult, pod: PodInfo) -> None:
    rows = result.evaluation.feasible_rows
    names = [result.evaluation.cycle.table.name_of(row) for row in rows.tolist()]
    about = Ref(pod.key)
    for plugin, scores in result.scores(rows).items():
        for node, score in zip(names, scores, strict=True):
            logger.info(10, "Plugin scored node for pod", pod=about, plugin=plugin, node=node, score=score)
    for node, score in zip(names, result.all_totals(rows), strict=True):
        logger.info(10, "Calculated node's final score for pod", pod=about, node=node, score=score)


def log_preemption(logger: Logger, plugin: str, cycle: Cycle, pod: PodInfo, result: PostFilterResult) -> None:
    """Log the result of preemption."""
    about, component = Ref(pod.key), f"PostFilter.{plugin}"
    node = result.nominated_node
    if result.status.is_success:
        if node:
            logger.info(
                2,
                "the target node for the preemption is determined",
                logger=component,
                pod=about,
                node=node,
            )
    elif node is not None:
        evaluation = cycle.evaluation
        if evaluation is not None and not len(evaluation.rows_rejected_with(Code.UNSCHEDULABLE)):
            logger.info(3, "Preemption will not help schedule pod on any node", logger=component, pod=about)
        logger.info(
            2,
            "No preemption candidate is found; preemption is not helpful for scheduling",
            logger=component,
            pod=about,
        )
    elif logger.enabled(5):
        for reason in result.status.reasons:
            if reason.startswith(PREEMPTION_PREFIX):
                why = reason.removeprefix(PREEMPTION_PREFIX)
                logger.info(5, "Pod is not eligible for preemption", logger=component, pod=about, reason=why)


def log_slow_cycle(
    logger: Logger, pod: PodInfo, ended: float, took: float, filtered: float, number: int
) -> None:
    """Log the steps of a slow cycle: `took` seconds in all until `ended`, `filtered` of them for the filters.

    A step is logged if it took more than its share, or at higher verbosity. `number` marks the lines.
    """
    began = ended - took
    head = f"Trace[{number}]:"
    steps = [("Computing predicates done", filtered, began + filtered)]
    if took > filtered:
        steps.append(("Prioritizing done", took - filtered, ended))
    shown = [step for step in steps if step[1] >= SLOW / 3 or logger.enabled(4)]
    first = (
        f'{head} "Scheduling" namespace:{pod.namespace},name:{pod.name} '
        f"({_moment(began, '%d-%b-%Y %H:%M:%S')}) (total time: {int(took * 1000)}ms):"
    )
    lines = [
        first,
        *(f'{head} ---"{what}" {int(span * 1000)}ms ({_moment(at, "%H:%M:%S")})' for what, span, at in shown),
        f"{head} [{took * 1000:.6f}ms] [{took * 1000:.6f}ms] END",
    ]
    logger.plain(0, "\n".join(lines))


def _moment(seconds: float, form: str) -> str:
    moment = datetime.fromtimestamp(seconds)
    return f"{moment.strftime(form)}.{moment.microsecond // 1000:03}"


def log_plugins(logger: Logger, framework: Framework) -> None:
    """Which plugins a profile works with, by extension point."""
    points = {
        f"{point.value[0].upper()}{point.value[1:]}": {
            "Enabled": [
                {"Name": use.name, "Weight": use.weight if point.is_weighted else 0}
                for use in framework.profile.plugins.get(point, ())
            ],
            "Disabled": None,
        }
        for point in _POINTS
    }
    logger.info(2, "the scheduler starts to work with those plugins", Plugins=points)


_POINTS: Final = (
    ExtensionPoint.PRE_ENQUEUE,
    ExtensionPoint.QUEUE_SORT,
    ExtensionPoint.PRE_FILTER,
    ExtensionPoint.FILTER,
    ExtensionPoint.POST_FILTER,
    ExtensionPoint.PRE_SCORE,
    ExtensionPoint.SCORE,
    ExtensionPoint.RESERVE,
    ExtensionPoint.PERMIT,
    ExtensionPoint.PRE_BIND,
    ExtensionPoint.BIND,
    ExtensionPoint.POST_BIND,
    ExtensionPoint.PLACEMENT_GENERATE,
    ExtensionPoint.PLACEMENT_SCORE,
)
"""In the order in which a pod passes them."""


def reflector_values(reflector: Reflector[Any]) -> dict[str, object]:
    """Fields of log lines about a reflector."""
    resource = reflector.resource
    return {
        "type": f"*{resource.version}.{resource.kind or resource.plural}",
        "reflector": resource.qualified,
    }
