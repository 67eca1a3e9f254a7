"""The scheduling cycle: one pod at a time, from the queue to a node that is held for it."""

from stowplan.cluster.podinfo import PodInfo
from stowplan.extenders import ExtenderError
from stowplan.framework.cycle import Cycle
from stowplan.framework.decision import Record
from stowplan.framework.errors import PluginError
from stowplan.framework.fiterror import NO_NODES, fit_error
from stowplan.framework.hintmap import EXTENDER
from stowplan.framework.postfilter import PostFilterResult, run_post_filters
from stowplan.framework.rejectors import Rejectors, rejectors_of
from stowplan.framework.status import SUCCESS, Code, Status, error
from stowplan.framework.trials import NO_NOMINATIONS, Nominations
from stowplan.framework.waiting import WaitingPod
from stowplan.gocompat.quoting import quote
from stowplan.logs import Ref
from stowplan.queue.queued import QueuedPod
from stowplan.reporting import WARNING
from stowplan.scheduler.algorithm import Algorithm, Found
from stowplan.scheduler.binding import BindingCycle, Chosen
from stowplan.scheduler.context import Context, Profile
from stowplan.scheduler.decisions import LastDecision, Preempting
from stowplan.scheduler.failure import UNHANDLED, Failure, FailureHandling, failed_on_node
from stowplan.scheduler.preemption import PLUGIN as PREEMPTION
from stowplan.scheduler.preemption import Preemption, post_filter_with_extenders
from stowplan.scheduler.telling import SLOW, tell_preemption, tell_search, tell_slow_search

TOP = 5
"""How many of the best nodes are kept with their scores."""


class SchedulingCycle:
    """Tries pods. A pod that gets a node goes on to its binding cycle, any other one to failure handling."""

    def __init__(
        self,
        context: Context,
        algorithm: Algorithm,
        preemption: Preemption,
        failures: FailureHandling,
        binding: BindingCycle,
    ) -> None:
        self._context = context
        self._algorithm = algorithm
        self._preemption = preemption
        self._failures = failures
        self._binding = binding

    async def run(self, queued: QueuedPod) -> None:
        """Try one pod that was taken from the queue. It waits only for extenders."""
        context = self._context
        profile = context.profiles.get(queued.profile)
        if profile is None:
            context.journal.problem(f"profile not found for scheduler name {quote(queued.profile)}")
            context.queue.done(queued.uid)
            return
        if context.journal.detail >= 4:
            context.journal.info(4, "About to try and schedule pod", pod=Ref(queued.key))
        if queued.pod.dying or context.cache.is_assumed(queued.uid):
            self._skip(queued)
            return
        if context.journal.detail >= 3:
            context.journal.info(3, "Attempting to schedule pod", pod=Ref(queued.key))
        began = context.timer()
        if context.extenders:
            with context.still.hold():
                failure = await self._attempt(profile, queued, began)
        else:
            failure = await self._attempt(profile, queued, began)
        if failure is not None:
            self._failures.handle(queued, failure, began)

    def _skip(self, queued: QueuedPod) -> None:
        """Pods that are going, and pods that are on their way to a node, are not tried."""
        context, pod = self._context, queued.pod.pod
        if queued.pod.dying:
            note = f"skip schedule deleting pod: {pod.key}"
            context.event(pod, type=WARNING, reason="FailedScheduling", action="Scheduling", note=note)
            context.journal.info(3, "Skip schedule deleting pod", pod=Ref(pod.key))
        context.queue.done(queued.uid)

    async def _attempt(self, profile: Profile, queued: QueuedPod, began: float) -> Failure | None:
        context = self._context
        if not context.cache.table.node_count:
            context.metrics.algorithm(context.timer() - began)
            self._keep(queued, None, "unschedulable", NO_NODES)
            return Failure(NO_NODES, rejected=True)
        try:
            pod, promised = queued.pod, queued.pod.pod.status.nominated_node_name
            row = self._row_promised(pod, promised) if promised else None
            if context.extenders:
                found = await self._algorithm.find_with_extenders(
                    profile.framework, pod, self._nominations(), row
                )
            else:
                found = self._algorithm.find(profile.framework, pod, self._nominations(), row)
            if context.journal.detail >= 2:
                self._tell(queued.pod, found, began)
            if found.row is None:
                return await self._without_node(profile, queued, found)
        except (PluginError, ExtenderError) as failure:
            context.journal.problem("Error selecting node for pod", pod=Ref(queued.key), err=failure)
            self._keep(queued, None, "error", str(failure))
            return Failure(str(failure), rejected=False)
        finally:
            context.metrics.algorithm(context.timer() - began)
        return self._take(profile, queued, found, found.row, began)

    # Looking for a node

    def _nominations(self) -> Nominations:
        by_node = self._context.queue.nominator.by_node
        if not by_node:
            return NO_NOMINATIONS
        row_of = self._context.cache.table.row_of
        by_row = ((row_of(node), list(pods.values())) for node, pods in by_node.items())
        return {row: pods for row, pods in by_row if row is not None}

    def _row_promised(self, pod: PodInfo, node: str) -> int | None:
        row = self._context.cache.table.row_of(node)
        if row is None:
            self._context.journal.problem(
                "Evaluation failed on nominated node", pod=Ref(pod.key), node=node, err="the node is gone"
            )
        return row

    def _tell(self, pod: PodInfo, found: Found, began: float) -> None:
        """Say what the search came to, and where the time went if it took long."""
        context = self._context
        took = context.timer() - began
        if took >= SLOW:
            filtered = max(self._algorithm.filtered_at - began, 0.0)
            number = context.queue.cycle
            tell_slow_search(context.journal, pod, context.clock.now(), took, filtered, number)
        if context.journal.detail >= 4:
            tell_search(context.journal, found, pod)

    # No node

    async def _without_node(self, profile: Profile, queued: QueuedPod, found: Found) -> Failure:
        """See whether room can be made, and say why there is none."""
        evaluation = found.evaluation
        rejectors = rejectors_of(evaluation)
        if found.extenders_rejected:
            rejectors = Rejectors(rejectors.unschedulable | {EXTENDER}, rejectors.pending)
        decision = Record(evaluation, None, 0, TOP)
        if not profile.post_filters:
            message = fit_error(evaluation)
            self._keep(queued, decision, "unschedulable", message)
            return Failure(message, True, rejectors)
        result = await self._post_filter(profile, evaluation.cycle, queued.pod)
        message = fit_error(evaluation, result.status.message)
        self._keep(queued, decision, "unschedulable", message, _preempting(result))
        if result.status.is_success and result.nominated_node:
            await self._preemption.make_room(queued.pod.pod, result.nominated_node, result.victims)
        return Failure(message, True, rejectors, result.nominated_node)

    async def _post_filter(self, profile: Profile, cycle: Cycle, pod: PodInfo) -> PostFilterResult:
        context = self._context
        began = context.timer()
        if PREEMPTION in profile.framework.plugins:
            context.metrics.preemption_attempted()
        try:
            if context.extenders:
                result = await post_filter_with_extenders(profile.post_filters, cycle, pod, context.extenders)
            else:
                result = run_post_filters(profile.post_filters, cycle, pod)
        except PluginError as failure:
            result = PostFilterResult(error(str(failure)))
        if PREEMPTION in profile.framework.plugins and context.journal.shows(2):
            tell_preemption(context.journal, cycle, pod, result)
        message = "Status after running PostFilter plugins for pod"
        told = result.status.message
        if result.status.code is Code.ERROR:
            context.journal.problem(message, pod=Ref(pod.key), status=told, logger=UNHANDLED)
        else:
            context.journal.info(5, message, pod=Ref(pod.key), status=told)
        label = result.status.code.label
        context.metrics.point("PostFilter", label, profile.name, context.timer() - began)
        return result

    # A node

    def _take(
        self, profile: Profile, queued: QueuedPod, found: Found, row: int, began: float
    ) -> Failure | None:
        """Hold the node for the pod, ask for leave, and send the pod on its way."""
        context = self._context
        node = context.cache.table.name_of(row)
        evaluation = found.evaluation
        if context.decisions.wanted:
            self._keep(queued, Record(evaluation, row, found.ties, TOP), "binding", f"binding to {node}")
        pod, cycle = queued.pod, evaluation.cycle
        try:
            context.cache.assume(pod, node)
        except ValueError as failure:
            return Failure(str(failure), rejected=False)
        context.queue.nominator.remove(pod.uid)
        status, waits = profile.lifecycle.hold(cycle, pod, node)
        if status is not SUCCESS and not status.is_success and status.code is not Code.WAIT:
            return self._take_back(profile, cycle, queued, node, status)
        if waits:
            context.waiting.add(WaitingPod(pod, node, waits))
        if cycle.pods_to_activate:
            self._activate(cycle)
        ready, busy = profile.lifecycle.pre_flight(cycle, pod, node)
        nodes = context.cache.table.node_count
        self._binding.begin(
            Chosen(
                profile,
                queued,
                cycle,
                node,
                began,
                evaluation.feasible_count,
                nodes,
                ready,
                busy,
                bool(waits),
            )
        )
        return None

    def _take_back(
        self, profile: Profile, cycle: Cycle, queued: QueuedPod, node: str, status: Status
    ) -> Failure:
        context = self._context
        for problem in profile.lifecycle.unreserve(cycle, queued.pod, node):
            context.journal.problem(problem, pod=Ref(queued.key))
        context.cache.forget(queued.uid)
        failure = failed_on_node(status)
        context.decisions.update(
            queued.uid, "unschedulable" if failure.rejected else "error", failure.message
        )
        return failure

    def _activate(self, cycle: Cycle) -> None:
        """Try pods again that a plugin asked for while it dealt with this one."""
        pods, cycle.pods_to_activate = cycle.pods_to_activate, []
        self._context.queue.activate(pods)

    def _keep(
        self,
        queued: QueuedPod,
        record: Record | None,
        outcome: str,
        message: str,
        preempting: Preempting | None = None,
    ) -> None:
        context = self._context
        context.decisions.put(
            LastDecision(
                queued.key,
                queued.uid,
                context.clock.now(),
                queued.attempts,
                record,
                outcome,
                message,
                preempting,
            )
        )


def _preempting(result: PostFilterResult) -> Preempting | None:
    if not result.nominated_node and not result.status.message:
        return None
    return Preempting(
        result.nominated_node or "",
        tuple(pod.key for pod in result.victims),
        len(result.candidates),
        result.status.message,
    )
