"""The scheduling cycle: one pod at a time, from the queue to a node that it is assumed on.

PreFilter, Filter, (PostFilter,) PreScore, Score, the choice of a node, assume, Reserve, Permit; then the
binding cycle takes over. A pod that gets no node goes to the failure handler. Nothing here waits: a cycle
that has to is work in steps, and says for what (requests.py).
"""

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import TypeAlias

import msgspec

from stowplan.api.node import Node
from stowplan.gocompat.quoting import quote
from stowplan.runtime.logs import Logger, Ref
from stowplan.scheduler.cache import CacheCorruptedError
from stowplan.scheduler.cycle.assignment import Assignment
from stowplan.scheduler.cycle.context import CycleContext, describe
from stowplan.scheduler.cycle.extender_search import (
    filter_by_extenders,
    nominated_passes,
    prioritize_by_extenders,
)
from stowplan.scheduler.cycle.failure_handler import Failure, FailureHandler, failed_on_node
from stowplan.scheduler.cycle.long_searches import LongSearches, PutAsideError
from stowplan.scheduler.cycle.post_filter import post_filter
from stowplan.scheduler.cycle.profile import Profile
from stowplan.scheduler.cycle.requests import EvictForPod, LongSearch
from stowplan.scheduler.cycle.schedule_result import ScheduleResult
from stowplan.scheduler.decisions import PreemptionRecord
from stowplan.scheduler.events import WARNING
from stowplan.scheduler.extenders.requests import ExtenderError
from stowplan.scheduler.framework.budget import Budget, LongSearchError, Work
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.decision import NO_NODES, DecisionRecord, fit_error
from stowplan.scheduler.framework.evaluation import Evaluation, Rejectors, rejectors_of
from stowplan.scheduler.framework.events import EXTENDER
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.framework.nominations import NO_NOMINATIONS, NominatedRows, Nominations
from stowplan.scheduler.framework.pod_groups.placement import PlacementCycle, Waited
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import SUCCESS, Code, PluginError, Status
from stowplan.scheduler.framework.waiting_pods import WaitingPod
from stowplan.scheduler.node_sampler import NodeSampler
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.sub_queues import AlreadyQueuedError
from stowplan.scheduler.table.podinfo import PodInfo

TOP = 5
"""Number of best nodes that are kept with their scores."""

Ended: TypeAlias = "Failure | Waited[Failure | None] | None"
"""How a part of the cycle ends: with a node (None), a failure, or steps that are left to do."""


def choose_node(evaluation: Evaluation, pick: Callable[[int], int]) -> tuple[int, int]:
    """The chosen row and the number of rows with its total; `pick(n)` selects one of n equal rows, from 0.

    At least one row must be feasible. Raises ChoiceError.
    """
    pod_class = evaluation.pod_class
    if not evaluation.scored:
        row, ties = (
            (int(evaluation.feasible_rows[0]) if evaluation.only_row is None else evaluation.only_row),
            1,
        )
    else:
        ranking = pod_class.scores.ranking
        top, ties = ranking.best()
        row = ranking.pick(top, pick(ties) if ties > 1 else 0)
    if not evaluation.cycle.table.valid.item(row) or not pod_class.filters.feasible.item(row):
        evaluation.check_choice(row)
    return row, ties


class NodeFinder:
    """The search for a node: Filter, Score and the choice among the best, with extenders where there are any.

    `filtered_at` is when the filters of the last search were done, by `timer`, for the log.
    """

    def __init__(
        self,
        sampler: NodeSampler,
        rng: Random,
        logger: Logger,
        timer: Callable[[], float] | None = None,
    ) -> None:
        self._sampler = sampler
        self.rng = rng
        self._logger = logger
        self._timer = timer
        self.filtered_at = 0.0
        self.choose: Callable[[Evaluation], tuple[int, int]] | None = None
        """Which of the best nodes a pod gets, and how many there are, if that is not left to chance."""
        self.group_budget: Budget | None = None
        """The budget of the group that is being placed, where its long searches are done in steps."""
        self.gives_way: Callable[[], bool] | None = None
        """True if a group whose search takes long has to be put aside, because other pods wait for it."""

    def find(
        self,
        framework: Framework,
        pod: PodInfo,
        nominations: Nominations = NO_NOMINATIONS,
        nominated_row: int | None = None,
        placement: PlacementCycle | None = None,
        budget: Budget | None = None,
    ) -> ScheduleResult:
        """Filter and score nodes, and choose the best one; extenders are not asked.

        Raises PluginError, and LongSearchError if the `budget` allows for interruptions.
        """
        evaluation = framework.run_filters(pod, nominations, nominated_row, placement, budget)
        if framework.profile.percentage_of_nodes_to_score is not None:
            self._sample(framework, evaluation)
        if self._logger.level >= 2:
            self._note_filtered()
        framework.run_scores(evaluation)
        if not evaluation.feasible_count:
            return ScheduleResult(evaluation)
        if self.choose is not None:
            return ScheduleResult(evaluation, *self.choose(evaluation))
        return ScheduleResult(evaluation, *choose_node(evaluation, self.rng.randrange))

    def find_for_group(
        self,
        framework: Framework,
        pod: PodInfo,
        nominations: Nominations,
        nominated_row: int | None,
        placement: PlacementCycle,
    ) -> Waited[ScheduleResult]:
        """The same for a member of a group, in steps where it takes long.

        All searches of the group share one budget, while the table stays as it is: what a member finds
        depends on what the others hold. Raises PutAsideError if others wait too long for the table.
        """
        budget = self.group_budget
        while True:
            try:
                return self.find(framework, pod, nominations, nominated_row, placement, budget)
            except LongSearchError as search:
                work = search.work
            has_begun = False
            for step in work:
                # Not before it got further than the last time, when it was closed with a step to be done.
                if has_begun and self.gives_way is not None and self.gives_way():
                    work.close()
                    raise PutAsideError
                yield step
                has_begun = True

    def find_with_extenders(
        self,
        framework: Framework,
        pod: PodInfo,
        nominations: Nominations = NO_NOMINATIONS,
        nominated_row: int | None = None,
        placement: PlacementCycle | None = None,
        budget: Budget | None = None,
    ) -> Waited[ScheduleResult]:
        """The same with extenders. The table must not change meanwhile. Raises ExtenderError, too."""
        evaluation = framework.run_filters(pod, nominations, nominated_row, placement, budget)
        if evaluation.only_row is not None and not (yield from nominated_passes(evaluation, self._logger)):
            framework.consider_others(evaluation, evaluation.only_row)
        rejected = False
        fresh: Mapping[str, Node] = {}
        if evaluation.only_row is None and evaluation.feasible_count:
            self._sample(framework, evaluation)
            rejected, fresh = yield from filter_by_extenders(evaluation, self._logger)
        self._note_filtered()
        framework.run_scores(evaluation)
        if evaluation.scored:
            result = yield from prioritize_by_extenders(evaluation, fresh, self.rng, self._logger)
        elif evaluation.feasible_count:
            result = ScheduleResult(evaluation, *choose_node(evaluation, self.rng.randrange))
        else:
            result = ScheduleResult(evaluation)
        result.extenders_rejected = rejected
        return result

    def _sample(self, framework: Framework, evaluation: Evaluation) -> None:
        """Leave nodes out where the profile says that fewer are enough (percentageOfNodesToScore)."""
        percentage = framework.profile.percentage_of_nodes_to_score
        if percentage is not None and evaluation.only_row is None and evaluation.rejected_outright is None:
            self._sampler.narrow(evaluation, percentage)

    def _note_filtered(self) -> None:
        if self._timer is not None:
            self.filtered_at = self._timer()


class _Attempt(msgspec.Struct, eq=False, gc=False):
    """A pod that is tried. `paused` are the seconds that others had before (`TimeSlice.paused`)."""

    profile: Profile
    queued: QueuedPod
    budget: Budget
    began: float
    paused: float


class SchedulingCycle:
    """Schedules pods, one after the other. `bind` starts the binding cycle of a pod that has its node."""

    def __init__(
        self,
        context: CycleContext,
        finder: NodeFinder,
        failures: FailureHandler,
        bind: Callable[[Assignment], None],
    ) -> None:
        self._context = context
        self._hooks = context.hooks
        self._finder = finder
        self._failures = failures
        self._bind = bind
        self.searches = LongSearches(context, self.put_back)
        self._nominated = NominatedRows()
        self._nominated_at = -1
        """The topology version of the table for which rows are nominated."""

    def schedule_one(self, queued: QueuedPod) -> Waited[None] | None:
        """Schedule one popped pod.

        Returns None if the cycle is over, as most are. Where extenders are called, a search takes long, or
        preemption may make room, it returns the rest of the cycle in steps. An unexpected exception is the
        pod's error and does not end the scheduler.
        """
        began = self._context.timer()
        try:
            ended = self._schedule(queued, began)
        except CacheCorruptedError:
            raise
        except Exception as cause:  # noqa: BLE001 - an error of this pod alone
            ended = self.failed_unexpectedly(queued, cause)
        if ended is None:
            return None
        if not isinstance(ended, Failure):
            return self._go_on(queued, ended, began)
        self._failures.handle(queued, ended, began)
        return None

    def _go_on(self, queued: QueuedPod, rest: Waited[Failure | None], began: float) -> Waited[None]:
        """The rest of a cycle that could not be done at once."""
        try:
            failure = yield from rest
        except PutAsideError:
            if self._hooks.put_aside is not None:
                self._hooks.put_aside(queued)
            return
        except GeneratorExit:
            self.put_back(queued)
            raise
        except CacheCorruptedError:
            raise
        except Exception as cause:  # noqa: BLE001 - an error of this pod alone
            failure = self.failed_unexpectedly(queued, cause)
        if failure is not None:
            self._failures.handle(queued, failure, began)

    def _schedule(self, queued: QueuedPod, began: float) -> Ended:
        context = self._context
        profile = context.profiles.get(queued.profile)
        if profile is None:
            context.logger.error(f"profile not found for scheduler name {quote(queued.profile)}")
            context.queue.done(queued.uid)
            return None
        if context.logger.level >= 4:
            context.logger.info(4, "About to try and schedule pod", pod=Ref(queued.key))
        if queued.pod.dying or context.cache.is_assumed(queued.uid):
            self.skip(queued)
            return None
        if context.logger.level >= 3:
            context.logger.info(3, "Attempting to schedule pod", pod=Ref(queued.key))
        return self._place(profile, queued, began)

    def skip(self, queued: QueuedPod) -> None:
        """Pods that are being deleted, and pods that are assumed on a node, are not scheduled."""
        context, pod = self._context, queued.pod.pod
        if queued.pod.dying:
            note = f"skip schedule deleting pod: {pod.key}"
            context.event(pod, type=WARNING, reason="FailedScheduling", action="Scheduling", note=note)
            context.logger.info(3, "Skip schedule deleting pod", pod=Ref(pod.key))
        context.queue.done(queued.uid)

    def _place(self, profile: Profile, queued: QueuedPod, began: float) -> Ended:
        """Find a node for the pod and assume it there."""
        context = self._context
        if not context.cache.table.node_count:
            if self._hooks.search_ended is not None:
                self._hooks.search_ended(context.timer() - began)
            self.record(queued, None, "unschedulable", NO_NODES)
            return Failure(NO_NODES, rejected=True)
        budget = self.searches.budget(queued.uid, began)
        attempt = _Attempt(profile, queued, budget, began, context.slice.paused)
        if context.extenders:
            return self._place_with_extenders(attempt)
        try:
            result = self._find_node(attempt)
            if self._hooks.searched is not None:
                self._hooks.searched(profile, queued, result, began)
        except LongSearchError as search:
            return self._place_in_steps(attempt, self._search_on(attempt, search.work))
        except PluginError as failure:
            return self._search_failed(attempt, failure)
        except BaseException:
            self._count_time(attempt)
            raise
        if result.row is None:
            return self._place_in_steps(attempt, result)
        self._count_time(attempt)
        self._note_choice(profile, queued, result, result.row)
        evaluation = result.evaluation
        return self.commit(profile, queued, evaluation.cycle, result.row, evaluation.feasible_count, began)

    def _place_with_extenders(self, attempt: _Attempt) -> Waited[Failure | None]:
        """`_place` with extenders: the table must not change while they are called."""
        with self._context.freeze.hold():
            return (yield from self._place_in_steps(attempt, self._ask_for_node(attempt)))

    def _place_in_steps(
        self, attempt: _Attempt, search: Waited[ScheduleResult] | ScheduleResult
    ) -> Waited[Failure | None]:
        """The same where the search is not over, or found no node."""
        try:
            if isinstance(search, ScheduleResult):
                result = search
            else:
                result = yield from search
                if self._hooks.searched is not None:
                    self._hooks.searched(attempt.profile, attempt.queued, result, attempt.began)
            if result.row is None:
                return (yield from self._post_filter(attempt.profile, attempt.queued, result))
        except (PluginError, ExtenderError) as failure:
            self._log_search_failure(attempt, failure)
            return Failure(str(failure), rejected=False)
        finally:
            self._count_time(attempt)
        profile, queued, evaluation = attempt.profile, attempt.queued, result.evaluation
        self._note_choice(profile, queued, result, result.row)
        return self.commit(
            profile, queued, evaluation.cycle, result.row, evaluation.feasible_count, attempt.began
        )

    def _search_failed(self, attempt: _Attempt, failure: PluginError) -> Failure:
        self._log_search_failure(attempt, failure)
        self._count_time(attempt)
        return Failure(str(failure), rejected=False)

    def _log_search_failure(self, attempt: _Attempt, failure: PluginError | ExtenderError) -> None:
        queued = attempt.queued
        self._context.logger.error("Error selecting node for pod", pod=Ref(queued.key), err=failure)
        self.record(queued, None, "error", str(failure))

    def _count_time(self, attempt: _Attempt) -> None:
        """Add the time of the search to the pod's owner, before the pod may go back to the queue."""
        context, queued, budget = self._context, attempt.queued, attempt.budget
        now = context.timer()
        took = now - attempt.began
        worked = took - context.slice.paused + attempt.paused
        if self.searches.aside and queued.uid in self.searches.aside:
            # The attempt is not over: it counts once, with all of its time, when it ends.
            budget.worked += worked
        else:
            if self._hooks.search_ended is not None:
                self._hooks.search_ended(took + budget.worked)
            context.costs.spent(queued, worked, now, budget.worked)

    # Filter and Score

    def _find_node(self, attempt: _Attempt) -> ScheduleResult:
        """Find a node. Raises PluginError, and LongSearchError if the search takes long."""
        pod = attempt.queued.pod
        nominated = pod.pod.status.nominated_node_name
        row = self._nominated_row(pod, nominated) if nominated else None
        nominations = self.nominations()
        return self._finder.find(attempt.profile.framework, pod, nominations, row, budget=attempt.budget)

    def _search_on(self, attempt: _Attempt, work: Work) -> Waited[ScheduleResult]:
        """The same where it takes long. Raises PluginError, and PutAsideError if others wait too long."""
        while True:
            if not (yield LongSearch(work)):
                self.searches.put_aside_or_end(attempt.queued, attempt.budget, work)
            try:
                return self._find_node(attempt)
            except LongSearchError as search:
                work = search.work

    def _ask_for_node(self, attempt: _Attempt) -> Waited[ScheduleResult]:
        """Find a node with the help of extenders. Raises PluginError, ExtenderError and PutAsideError."""
        framework = attempt.profile.framework
        while True:
            pod = attempt.queued.pod
            nominated = pod.pod.status.nominated_node_name
            row = self._nominated_row(pod, nominated) if nominated else None
            try:
                return (
                    yield from self._finder.find_with_extenders(
                        framework, pod, self.nominations(), row, budget=attempt.budget
                    )
                )
            except LongSearchError as search:
                work = search.work
            if not (yield LongSearch(work)):
                self.searches.put_aside_or_end(attempt.queued, attempt.budget, work)

    def nominations(self) -> Nominations:
        """The nominated pods by row: those of the last cycle, made current where they changed."""
        nominator, table = self._context.queue.nominator, self._context.cache.table
        if not nominator.by_node:
            if self._nominated:
                # The last nominated pods are gone: nothing else would take them out of memory.
                self._nominated = self._nominated.replaced(dict.fromkeys(self._nominated, ()))
            return NO_NOMINATIONS
        changed: Collection[str] = nominator.take_changed()
        pods_by_row: dict[int, list[PodInfo]] = {}
        if self._nominated_at != table.topology_version:
            self._nominated_at = table.topology_version
            pods_by_row, changed = {row: [] for row in self._nominated}, nominator.by_node
        if changed or pods_by_row:
            for node in changed:
                row, pods = table.row_of(node), nominator.by_node.get(node)
                if row is not None:
                    pods_by_row[row] = list(pods.values()) if pods else []
            self._nominated = self._nominated.replaced(pods_by_row)
        return self._nominated

    def _nominated_row(self, pod: PodInfo, node: str) -> int | None:
        row = self._context.cache.table.row_of(node)
        if row is None:
            self._context.logger.error(
                "Evaluation failed on nominated node", pod=Ref(pod.key), node=node, err="the node is gone"
            )
        return row

    # No node: PostFilter

    def _post_filter(self, profile: Profile, queued: QueuedPod, result: ScheduleResult) -> Waited[Failure]:
        """See whether preemption can make room, and say why there is none."""
        evaluation = result.evaluation
        rejectors = rejectors_of(evaluation)
        if result.extenders_rejected:
            rejectors = Rejectors(rejectors.unschedulable | {EXTENDER}, rejectors.pending)
        decision = DecisionRecord(evaluation, None, 0, TOP)
        if not profile.post_filters:
            message = fit_error(evaluation)
            self.record(queued, decision, "unschedulable", message)
            return Failure(message, True, rejectors)
        found = yield from post_filter(self._context, profile, evaluation.cycle, queued.pod)
        message = fit_error(evaluation, found.status.message)
        self.record(queued, decision, "unschedulable", message, _preempting(found, decision.nodes))
        if found.status.is_success and found.nominated_node:
            yield EvictForPod(queued.pod.pod, found)
        return Failure(message, True, rejectors, found.nominated_node, retry=found.write_failed)

    # A node: assume, Reserve, Permit

    def _note_choice(self, profile: Profile, queued: QueuedPod, result: ScheduleResult, row: int) -> None:
        """Keep why the pod gets its node, for explanations and annotations."""
        hooks = self._hooks
        if hooks.decided is not None:
            record = DecisionRecord(result.evaluation, row, result.ties, TOP)
            node = self._context.cache.table.name_of(row)
            hooks.decided(queued, record, "binding", f"binding to {node}")
        if hooks.chosen is not None:
            hooks.chosen(profile, result, row)

    def commit(
        self, profile: Profile, queued: QueuedPod, cycle: Cycle, row: int, feasible: int, began: float
    ) -> Failure | None:
        """Carry out a decision: assume the pod on a row, run Reserve and Permit, and start its binding cycle.

        `cycle` is that of the evaluation, `feasible` the number of nodes that could take the pod.
        """
        context = self._context
        node = context.cache.table.name_of(row)
        for plugin in profile.framework.assuming:
            changed = plugin.assumed_pod(cycle, queued.pod, node)
            if changed is not None:
                queued.update(context.cache.table.info(changed))
        pod = queued.pod
        if self._hooks.assuming is not None:
            self._hooks.assuming(pod, node)
        try:
            context.cache.assume(pod, node)
        except ValueError as failure:
            self._went_on(queued.uid, "error", str(failure))
            return Failure(str(failure), rejected=False)
        context.queue.nominator.remove(pod.uid)
        try:
            return self._reserve_and_permit(profile, queued, cycle, node, feasible, began)
        except BaseException:
            profile.lifecycle.unreserve(cycle, pod, node)
            raise

    def _reserve_and_permit(
        self, profile: Profile, queued: QueuedPod, cycle: Cycle, node: str, feasible: int, began: float
    ) -> Failure | None:
        context, pod = self._context, queued.pod
        status, waits = profile.lifecycle.run_reserve_and_permit(cycle, pod, node)
        if status is not SUCCESS and not status.is_success and status.code is not Code.WAIT:
            return self._unreserve(profile, cycle, queued, node, status)
        if waits:
            context.waiting.add(WaitingPod(pod, node, waits))
        if cycle.pods_to_activate:
            self._activate(cycle)
        ready, pre_bind = profile.lifecycle.pre_flight(cycle, pod, node)
        self._bind(
            Assignment(
                profile,
                queued,
                cycle,
                node,
                began,
                feasible,
                context.cache.table.node_count,
                ready,
                pre_bind,
                bool(waits),
            )
        )
        return None

    def _unreserve(
        self, profile: Profile, cycle: Cycle, queued: QueuedPod, node: str, status: Status
    ) -> Failure:
        context = self._context
        for problem in profile.lifecycle.unreserve(cycle, queued.pod, node):
            context.logger.error(problem, pod=Ref(queued.key))
        context.cache.forget(queued.uid)
        failure = failed_on_node(status)
        outcome = "unschedulable" if failure.rejected else "error"
        self._went_on(queued.uid, outcome, failure.message)
        return failure

    def _activate(self, cycle: Cycle) -> None:
        """Requeue pods that a plugin asked for while it dealt with this one."""
        pods, cycle.pods_to_activate = cycle.pods_to_activate, []
        self._context.queue.activate(pods)

    # Errors

    def failed_unexpectedly(self, queued: QueuedPod, cause: Exception) -> Failure:
        """Failure of a pod whose scheduling cycle raised an unexpected exception."""
        context = self._context
        pod = Ref(queued.key)
        context.unexpected("Scheduling cycle failed", cause, source="scheduling_cycle", pod=pod)
        context.waiting.remove(queued.uid)
        context.cache.forget(queued.uid)
        message = describe(cause)
        self.record(queued, None, "error", message)
        return Failure(message, rejected=False)

    def put_back(self, queued: QueuedPod) -> None:
        """The scheduler stops in the middle of a cycle: the pod is scheduled again when it resumes."""
        context = self._context
        context.cache.forget(queued.uid)
        try:
            context.queue.add_unschedulable_if_not_present(queued)
        except AlreadyQueuedError as present:
            context.logger.info(4, "Pod is in the queue already", pod=Ref(queued.key), err=present)

    def record(
        self,
        queued: QueuedPod,
        record: DecisionRecord | None,
        outcome: str,
        message: str,
        preempting: PreemptionRecord | None = None,
    ) -> None:
        """Keep the decision so that it can be explained."""
        if self._hooks.decided is not None:
            self._hooks.decided(queued, record, outcome, message, preempting)

    def _went_on(self, uid: str, outcome: str, message: str) -> None:
        if self._hooks.attempt_went_on is not None:
            self._hooks.attempt_went_on(uid, outcome, message)


def _preempting(result: PostFilterResult, nodes: int) -> PreemptionRecord | None:
    return PreemptionRecord.of(result, nodes) if result.nominated_node or result.status.message else None
