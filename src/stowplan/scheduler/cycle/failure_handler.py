"""The failure handler: a pod that could not be scheduled or bound is requeued, nominated and reported."""

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from typing import Final

from msgspec.structs import replace

from stowplan.api.pod import Pod
from stowplan.api.quantity import QuantityError
from stowplan.runtime.logs import Logger, Ref
from stowplan.scheduler.cycle.context import CycleContext
from stowplan.scheduler.events import SCHEDULER_ERROR, UNSCHEDULABLE, WARNING
from stowplan.scheduler.framework.decision import NO_NODES, fit_error_text
from stowplan.scheduler.framework.evaluation import Rejectors
from stowplan.scheduler.framework.events import SCHEDULE_ATTEMPT_FAILURE
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.sub_queues import MOVED, QUEUES, AlreadyQueuedError, Strategy

_NOBODY: Final = Rejectors()

UNHANDLED: Final = "UnhandledError"
"""Logger of errors that only the log reports."""

UPDATING: Final = "Updating pod condition and nominated node name"
OVERRIDING: Final = 1
"""How kube-scheduler writes that a nomination is meant to replace the one before."""

_HINTS: Final = {Strategy.SKIP: 0, Strategy.AFTER_BACKOFF: 1, Strategy.IMMEDIATELY: 2}
"""How it writes what becomes of a pod that failed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pod could not be scheduled or bound.

    `rejected`: the pod does not fit, as opposed to something having gone wrong. `nominated_node` is the node
    it is nominated to from now on, "" to clear the nomination, None to leave it as it is. `announced` is the
    node that was written to its status in this cycle, whether or not the informer has seen it yet.
    """

    message: str
    rejected: bool
    rejectors: Rejectors = _NOBODY
    nominated_node: str | None = ""
    announced: str = ""
    by_group: bool = False
    """The pod's group found no place; whether the pod itself would fit is another matter."""
    retry: bool = False
    """A request that would have helped the pod failed: it is tried again after its backoff.

    No event would wake it, as nothing was changed."""


def failed_on_node(status: Status) -> Failure:
    """The failure of a pod that a Reserve or Permit plugin rejected or failed for."""
    if not status.code.is_rejection:
        return Failure(status.message, rejected=False)
    pending = frozenset((status.plugin,)) if status.code is Code.PENDING else frozenset()
    counts = dict.fromkeys(status.reasons, 1)
    return Failure(fit_error_text(1, counts), True, Rejectors(frozenset((status.plugin,)), pending))


def failed_late(status: Status) -> Failure:
    """The failure of a pod in PreBind or Bind.

    No cluster event is known to help; so it is retried as after an error, also if the plugin calls it a
    rejection.
    """
    return Failure(status.message, rejected=status.code.is_rejection)


class FailureHandler:
    """Requeues failed pods and reports why, in this order: queue, nomination, event, status.

    `report` has a pod's status written: the pod, the reason and the message of its condition, and the
    nominated node if that changes.
    """

    def __init__(
        self,
        context: CycleContext,
        report: Callable[[Pod, str, str, str | None], None],
        *,
        resizes: bool = False,
    ) -> None:
        self._context = context
        self._report = report
        self._resizes = resizes
        """True if running pods whose resize is deferred come here: they are requeued without further
        handling."""

    def handle(self, queued: QueuedPod, failure: Failure, began: float) -> None:
        context = self._context
        if context.hooks.failed is not None:
            context.hooks.failed(queued, failure, context.timer() - began)
        told = context.costs.hold_back(queued)
        if told:
            failure = dataclass_replace(failure, message=f"{failure.message} {told}")
        self._log(queued, failure)
        is_resize = self._resizes and queued.pod.template.resize_deferred
        pod = self._requeue(queued, failure, is_resize=is_resize)
        if pod is None or is_resize:
            return
        context.queue.nominator.add(queued.pod, failure.nominated_node)
        context.event(pod, type=WARNING, reason="FailedScheduling", action="Scheduling", note=failure.message)
        reason = UNSCHEDULABLE if failure.rejected else SCHEDULER_ERROR
        if failure.announced and context.find(queued.key) is not None:
            pod = replace(pod, status=replace(pod.status, nominated_node_name=failure.announced))
        # Written last: the event that the write causes must find the pod in the queue, and nominated.
        self._report(pod, reason, failure.message, failure.nominated_node)
        context.wake()

    def _requeue(self, queued: QueuedPod, failure: Failure, *, is_resize: bool) -> Pod | None:
        """Put the pod back as it is now, if it still wants a node. None if another has its name by now."""
        context, queue = self._context, self._context.queue
        known = context.find(queued.key)
        assigned = known is not None and bool(known.spec.node_name) and not is_resize
        if known is None or assigned or known.metadata.uid != queued.uid:
            _log_absence(context.logger, queued, known)
            queue.done(queued.uid)
            return queued.pod.pod if known is None or assigned else None
        rejectors = _NOBODY if failure.retry else failure.rejectors
        by = rejectors.unschedulable, rejectors.pending
        try:
            strategy = queue.add_unschedulable_if_not_present(queued, *by, known)
        except AlreadyQueuedError as error:
            context.logger.error("Error occurred", err=error, logger=UNHANDLED)
        except QuantityError as error:
            context.cache.skip(f"pod {queued.key}: {error}")
            queue.add_unschedulable_if_not_present(queued, *by)
        else:
            if context.logger.enabled(3):
                self._log_requeue(queued, strategy)
        return known

    def _log(self, queued: QueuedPod, failure: Failure) -> None:
        logger = self._context.logger
        pod, message = Ref(queued.key), failure.message
        if message == NO_NODES:
            logger.info(2, "Unable to schedule pod; no nodes are registered to the cluster; waiting", pod=pod)
        elif failure.by_group:
            logger.info(2, "Unable to schedule pod belonging to a pod group; waiting", pod=pod, err=message)
        elif failure.rejectors is not _NOBODY:
            logger.info(2, "Unable to schedule pod; no fit; waiting", pod=pod, err=message)
        else:
            logger.error("Error scheduling pod; retrying", pod=pod, err=message, logger=UNHANDLED)

    def _log_requeue(self, queued: QueuedPod, strategy: Strategy) -> None:
        queue = self._context.queue
        told = {
            "event": SCHEDULE_ATTEMPT_FAILURE,
            "queue": QUEUES.get(queue.place_of(queued.key) or "", ""),
            "schedulingCycle": queue.cycle,
            "hint": _HINTS[strategy],
            "unschedulable plugins": {plugin: {} for plugin in sorted(queued.rejectors)},
        }
        self._context.logger.info(3, MOVED, pod=Ref(queued.key), **told)


def _log_absence(logger: Logger, queued: QueuedPod, known: Pod | None) -> None:
    """Say why a pod that failed does not come back."""
    pod = Ref(queued.key)
    if known is None:
        missing = f'pod "{queued.pod.name}" not found'
        logger.info(0, "Pod doesn't exist in informer cache", pod=pod, err=missing)
    elif known.spec.node_name:
        logger.info(
            0,
            "Pod has been assigned to node. Abort adding it back to queue.",
            pod=pod,
            node=known.spec.node_name,
        )
    else:
        logger.info(
            2,
            "Pod was recreated while handling scheduling failure. Skip requeueing and status updates.",
            pod=pod,
            oldUID=queued.uid,
            newUID=known.metadata.uid,
        )
