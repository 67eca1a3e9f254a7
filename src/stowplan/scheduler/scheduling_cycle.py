"""The scheduling cycle: one pod at a time, from the queue to a node that it is assumed on.

PreFilter, Filter, (PostFilter,) PreScore, Score, the choice of a node, assume, Reserve, Permit; then the
binding cycle takes over. A pod that gets no node goes to the failure handler.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from stowplan.api.node import Node
from stowplan.gocompat.quoting import quote
from stowplan.runtime.logs import Logger, Ref
from stowplan.scheduler import empty_node_scores
from stowplan.scheduler.binding_cycle import Assignment, BindingCycle
from stowplan.scheduler.cache import CacheCorruptedError
from stowplan.scheduler.context import Context, Profile, TimeSlice, describe
from stowplan.scheduler.cycle_log import SLOW, log_preemption, log_result, log_slow_cycle
from stowplan.scheduler.decisions import PodRecord, PreemptionRecord
from stowplan.scheduler.events import WARNING
from stowplan.scheduler.extenders import Extender, ExtenderError
from stowplan.scheduler.extenders.rounds import ExtenderScores, filter_round, prioritize_round
from stowplan.scheduler.failure_handler import UNHANDLED, Failure, FailureHandler, failed_on_node
from stowplan.scheduler.framework.budget import Budget, LongSearchError
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.decision import NO_NODES, DecisionRecord, fit_error
from stowplan.scheduler.framework.evaluation import Evaluation, Rejectors, rejectors_of
from stowplan.scheduler.framework.events import EXTENDER
from stowplan.scheduler.framework.extension_points import carry_out_writes, post_filter_steps
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.framework.nominations import NO_NOMINATIONS, NominatedRows, Nominations
from stowplan.scheduler.framework.pod_groups.placement import PlacementCycle, Waited
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import SUCCESS, Code, PluginError, Status, error, unresolvable
from stowplan.scheduler.framework.waiting_pods import WaitingPod
from stowplan.scheduler.long_searches import LongSearches, PutAsideError
from stowplan.scheduler.node_sampler import NodeSampler
from stowplan.scheduler.preemption import Preemption, post_filter_with_extenders
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.sub_queues import AlreadyQueuedError
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import IntColumn
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.turns import before_writing

TOP = 5
"""How many of the best nodes are kept with their scores."""

_IGNORED = "Skipping extender as it returned error and has ignorable flag set"
_NO_SCORE = "Failed to run extender's priority function. No score given by this extender."


@dataclass(slots=True)
class ScheduleResult:
    """What the search for a node came to: the row, None if no node can take the pod.

    `ties` is how many rows were as good. Where extenders had a say, `extender_scores` is what they added,
    `shifts` how far plugins' scores moved because nodes came back empty, and `totals` the totals of the
    feasible rows with all of that.
    """

    evaluation: Evaluation
    row: int | None = None
    ties: int = 0
    extender_scores: Sequence[ExtenderScores] = ()
    shifts: empty_node_scores.Difference | None = None
    totals: IntColumn | None = None
    extenders_rejected: bool = False

    def best_rows(self) -> Rows:
        """Every row as good as the chosen one."""
        if self.totals is None:
            return self.evaluation.best_rows()
        best: Rows = self.evaluation.feasible_rows[self.totals == self.totals.max()]
        return best

    def scores(self, rows: Rows) -> dict[str, list[int]]:
        """What each plugin gave all the feasible rows, times its weight."""
        scores = self.evaluation.scores(rows)
        for plugin, shifts in (self.shifts or {}).items():
            scores[plugin] = [score + shift for score, shift in zip(scores[plugin], shifts, strict=True)]
        return scores

    def all_totals(self, rows: Rows) -> list[int]:
        """The totals of all the feasible rows."""
        totals = self.evaluation.totals()[rows] if self.totals is None else self.totals
        listed: list[int] = totals.tolist()
        return listed


class NodeFinder:
    """The search for a node: Filter, Score and the choice among the best, with extenders where there are any.

    `filtered_at` is when the filters of the last search were done, by `timer`, for the log.
    """

    def __init__(
        self,
        sampler: NodeSampler,
        extenders: Sequence[Extender],
        rng: Random,
        logger: Logger,
        timer: Callable[[], float] | None = None,
    ) -> None:
        self._sampler = sampler
        self._extenders = extenders
        self.rng = rng
        self._logger = logger
        self._timer = timer
        self.filtered_at = 0.0
        self.choose: Callable[[Evaluation], tuple[int, int]] | None = None
        """Which of the best nodes a pod gets, and how many there are, if that is not left to chance."""
        self.in_slices: tuple[Budget, TimeSlice] | None = None
        """The budget of the group that is being placed, where its long searches are done in slices."""

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
        return ScheduleResult(evaluation, *evaluation.choose(self.rng.randrange))

    def find_for_group(
        self,
        framework: Framework,
        pod: PodInfo,
        nominations: Nominations,
        nominated_row: int | None,
        placement: PlacementCycle,
    ) -> Waited[ScheduleResult]:
        """The same for a member of a group, in slices where there are any.

        All searches of the group share one budget, while the table stays as it is: what a member finds
        depends on what the others hold.
        """
        budget, time_slice = self.in_slices or (None, None)
        while True:
            try:
                return self.find(framework, pod, nominations, nominated_row, placement, budget)
            except LongSearchError as search:
                for step in search.work:
                    if time_slice is not None:
                        yield time_slice.take(step)

    async def find_with_extenders(
        self,
        framework: Framework,
        pod: PodInfo,
        nominations: Nominations = NO_NOMINATIONS,
        nominated_row: int | None = None,
        placement: PlacementCycle | None = None,
        budget: Budget | None = None,
    ) -> ScheduleResult:
        """The same with extenders. The table must not change meanwhile. Raises ExtenderError, too."""
        evaluation = framework.run_filters(pod, nominations, nominated_row, placement, budget)
        if evaluation.only_row is not None and not await self._nominated_passes(evaluation):
            framework.consider_others(evaluation, evaluation.only_row)
        rejected = False
        fresh: Mapping[str, Node] = {}
        if evaluation.only_row is None and evaluation.feasible_count:
            self._sample(framework, evaluation)
            rejected, fresh = await self._filter_by_extenders(evaluation)
        self._note_filtered()
        framework.run_scores(evaluation)
        if evaluation.scored:
            result = await self._prioritize_by_extenders(evaluation, fresh)
        elif evaluation.feasible_count:
            result = ScheduleResult(evaluation, *evaluation.choose(self.rng.randrange))
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

    # Extenders

    async def _nominated_passes(self, evaluation: Evaluation) -> bool:
        """Do extenders accept the pod's nominated node? An error counts as no."""
        row = evaluation.only_row
        assert row is not None
        try:
            left = await filter_round(self._extenders, evaluation.cycle.pod.pod, _nodes(evaluation, [row]))
        except ExtenderError as failure:
            self._logger.error("Evaluation failed on nominated node", err=failure)
            return False
        return bool(left.kept)

    async def _filter_by_extenders(self, evaluation: Evaluation) -> tuple[bool, Mapping[str, Node]]:
        """Leave out what extenders reject. Returns whether there was any, and the nodes that came back."""
        table = evaluation.cycle.table
        rows = evaluation.feasible_rows.tolist()
        left_out = unresolvable() if evaluation.pre_filtering.node_names is None else evaluation.left_out
        left = await filter_round(
            self._extenders, evaluation.cycle.pod.pod, _nodes(evaluation, rows), left_out
        )
        for name, cause in left.ignored:
            self._logger.info(0, _IGNORED, pod=Ref(evaluation.cycle.pod.key), extender=name, err=cause)
        verdicts = {table.row_of(name): verdict for name, verdict in left.verdicts.items()}
        known = {row: verdict for row, verdict in verdicts.items() if row is not None}
        evaluation.leave_out(np.array(list(known), dtype=np.intp), known)
        return len(left.kept) != len(rows), left.fresh

    async def _prioritize_by_extenders(
        self, evaluation: Evaluation, fresh: Mapping[str, Node]
    ) -> ScheduleResult:
        """Add the scores of extenders, and choose."""
        rows = evaluation.feasible_rows
        nodes = _nodes(evaluation, rows.tolist())
        asked = await prioritize_round(self._extenders, evaluation.cycle.pod.pod, nodes)
        for name, cause in asked.ignored:
            self._logger.info(5, _NO_SCORE, error=cause, pod=Ref(evaluation.cycle.pod.key), extender=name)
        shifts = empty_node_scores.differences(evaluation, rows, fresh) if fresh else {}
        totals = evaluation.totals()[rows] + empty_node_scores.total(shifts, len(rows))
        for given in asked.scores:
            totals += np.array([given.scores.get(node.name, 0) for node in nodes], dtype=np.int64)
        best: Rows = rows[totals == totals.max()]
        row = int(best[self.rng.randrange(len(best)) if len(best) > 1 else 0])
        evaluation.check_choice(row)
        return ScheduleResult(evaluation, row, len(best), asked.scores, shifts, totals)


class SchedulingCycle:
    """Schedules pods, one after the other."""

    def __init__(
        self,
        context: Context,
        finder: NodeFinder,
        preemption: Preemption,
        failures: FailureHandler,
        binding: BindingCycle,
    ) -> None:
        self._context = context
        self._finder = finder
        self._preemption = preemption
        self._failures = failures
        self._binding = binding
        self.searches = LongSearches(context, self.put_back)
        self._nominated = NominatedRows()
        self._nominated_at = -1
        """The topology version of the table for which rows are nominated."""

    async def schedule_one(self, queued: QueuedPod) -> None:
        """Schedule one pod that was popped from the queue.

        It lets others run only while it waits for extenders, or searches long for devices or for victims of
        preemption. An exception that nobody expected is the pod's error, not the scheduler's end.
        """
        began = self._context.timer()
        try:
            failure = await self._schedule(queued, began)
        except PutAsideError:
            if self._context.turns is not None:
                self._context.turns.put_aside()
            return
        except asyncio.CancelledError:
            self.put_back(queued)
            raise
        except CacheCorruptedError:
            raise
        except Exception as cause:  # noqa: BLE001 - it is this pod's error, and nobody else's
            failure = self.failed_unexpectedly(queued, cause)
        if failure is not None:
            if self._context.turns is not None:
                self._context.turns.failed(failure)
            self._failures.handle(queued, failure, began)

    async def _schedule(self, queued: QueuedPod, began: float) -> Failure | None:
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
        if context.extenders:
            with context.freeze.hold():
                return await self._place(profile, queued, began)
        return await self._place(profile, queued, began)

    def skip(self, queued: QueuedPod) -> None:
        """Pods that are being deleted, and pods that are assumed on a node, are not scheduled."""
        context, pod = self._context, queued.pod.pod
        if queued.pod.dying:
            note = f"skip schedule deleting pod: {pod.key}"
            context.event(pod, type=WARNING, reason="FailedScheduling", action="Scheduling", note=note)
            context.logger.info(3, "Skip schedule deleting pod", pod=Ref(pod.key))
        context.queue.done(queued.uid)

    async def _place(self, profile: Profile, queued: QueuedPod, began: float) -> Failure | None:
        """Find a node for the pod and assume it there; returns why that was not possible."""
        context = self._context
        paused = context.slice.paused
        if not context.cache.table.node_count:
            context.metrics.algorithm(context.timer() - began)
            self.record(queued, None, "unschedulable", NO_NODES)
            return Failure(NO_NODES, rejected=True)
        budget = self.searches.budget(queued.uid, began)
        try:
            result = await self._find_node(profile.framework, queued, budget)
            if profile.batch is not None:
                profile.batch.note(queued.pod, result.evaluation, result.row, context.queue.cycle)
            if context.logger.level >= 2:
                self._log(queued.pod, result, began)
            if result.row is None:
                return await self._post_filter(profile, queued, result)
        except (PluginError, ExtenderError) as failure:
            context.logger.error("Error selecting node for pod", pod=Ref(queued.key), err=failure)
            self.record(queued, None, "error", str(failure))
            return Failure(str(failure), rejected=False)
        finally:
            took = context.timer() - began
            worked = took - context.slice.paused + paused
            if self.searches.aside and queued.uid in self.searches.aside:
                # The attempt is not over: it counts once, with all of its time, when it ends.
                budget.worked += worked
            else:
                context.metrics.algorithm(took + budget.worked)
                context.costs.spent(queued, worked + budget.worked)
        self._note_choice(profile, queued, result, result.row)
        evaluation = result.evaluation
        return self.commit(profile, queued, evaluation.cycle, result.row, evaluation.feasible_count, began)

    # Filter and Score

    async def _find_node(self, framework: Framework, queued: QueuedPod, budget: Budget) -> ScheduleResult:
        """Find a node. Raises PluginError, ExtenderError, and PutAsideError if the search takes long."""
        searches, with_extenders = self.searches, bool(self._context.extenders)
        while True:
            pod = queued.pod
            nominated = pod.pod.status.nominated_node_name
            row = self._nominated_row(pod, nominated) if nominated else None
            try:
                if with_extenders:
                    nominations = self.nominations()
                    return await self._finder.find_with_extenders(
                        framework, pod, nominations, row, budget=budget
                    )
                return self._finder.find(framework, pod, self.nominations(), row, budget=budget)
            except LongSearchError as search:
                await searches.work(queued, budget, search.work)

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

    def _log(self, pod: PodInfo, result: ScheduleResult, began: float) -> None:
        context = self._context
        took = context.timer() - began
        if took >= SLOW:
            filtered = max(self._finder.filtered_at - began, 0.0)
            log_slow_cycle(context.logger, pod, context.clock.now(), took, filtered, context.queue.cycle)
        if context.logger.level >= 4:
            log_result(context.logger, result, pod)

    # No node: PostFilter

    async def _post_filter(self, profile: Profile, queued: QueuedPod, result: ScheduleResult) -> Failure:
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
        found = await self._run_post_filters(profile, evaluation.cycle, queued.pod)
        message = fit_error(evaluation, found.status.message)
        self.record(queued, decision, "unschedulable", message, _preempting(found, decision.nodes))
        if found.status.is_success and found.nominated_node:
            await self._preemption.prepare_for_pod(queued.pod.pod, found)
        return Failure(message, True, rejectors, found.nominated_node, retry=found.write_failed)

    async def _run_post_filters(self, profile: Profile, cycle: Cycle, pod: PodInfo) -> PostFilterResult:
        context = self._context
        began = context.timer()
        if profile.preemption is not None:
            context.metrics.preemption_attempted()
        try:
            with context.freeze.hold():
                found = await self._search_victims(profile, cycle, pod)
                await before_writing(context.turns, found.writes)
                result = await carry_out_writes(found)
        except PluginError as failure:
            result = PostFilterResult(error(str(failure)))
        if profile.preemption is not None and context.logger.enabled(2):
            log_preemption(context.logger, profile.preemption_name, cycle, pod, result)
        message = "Status after running PostFilter plugins for pod"
        status = result.status.message
        if result.status.code is Code.ERROR:
            context.logger.error(message, pod=Ref(pod.key), status=status, logger=UNHANDLED)
        else:
            context.logger.info(5, message, pod=Ref(pod.key), status=status)
        label, took = result.status.code.label, context.timer() - began
        context.metrics.point("PostFilter", label, profile.name, took)
        if context.metrics.preempting.shown and profile.preemption is not None:
            context.metrics.preempting.evaluated("pod", label, took)
        return result

    async def _search_victims(self, profile: Profile, cycle: Cycle, pod: PodInfo) -> PostFilterResult:
        """Run PostFilter plugins; a long search lets others run between its steps."""
        context = self._context
        if context.extenders:
            return await post_filter_with_extenders(
                profile.post_filters, cycle, pod, context.extenders, context.slice
            )
        steps = post_filter_steps(profile.post_filters, cycle, pod)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: PostFilterResult = end.value
                return result
            await context.slice.pause_if_over()

    # A node: assume, Reserve, Permit

    def _note_choice(self, profile: Profile, queued: QueuedPod, result: ScheduleResult, row: int) -> None:
        """Keep why the pod gets its node, for explanations and annotations."""
        context, evaluation = self._context, result.evaluation
        if context.decisions.wanted:
            node = context.cache.table.name_of(row)
            self.record(
                queued, DecisionRecord(evaluation, row, result.ties, TOP), "binding", f"binding to {node}"
            )
        if context.results is not None:
            context.results.note(profile.framework, evaluation, row)

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
        if context.observer is not None:
            context.observer.assuming(pod, node)
        if context.turns is not None:
            context.turns.chosen(node)
        try:
            context.cache.assume(pod, node)
        except ValueError as failure:
            context.decisions.update(queued.uid, "error", str(failure))
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
        self._binding.start(
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
        context.decisions.update(queued.uid, outcome, failure.message)
        return failure

    def _activate(self, cycle: Cycle) -> None:
        """Requeue pods that a plugin asked for while it dealt with this one."""
        pods, cycle.pods_to_activate = cycle.pods_to_activate, []
        self._context.queue.activate(pods)

    # What goes wrong

    def failed_unexpectedly(self, queued: QueuedPod, cause: Exception) -> Failure:
        """The failure of a pod whose scheduling cycle raised what nobody expected."""
        context = self._context
        pod = Ref(queued.key)
        context.unexpected("Scheduling cycle failed", cause, source="scheduling_cycle", pod=pod)
        context.waiting.remove(queued.uid)
        context.cache.forget(queued.uid)
        message = describe(cause)
        self.record(queued, None, "error", message)
        return Failure(message, rejected=False)

    def put_back(self, queued: QueuedPod) -> None:
        """The scheduler stops in the middle of a cycle: the pod is scheduled again when it goes on."""
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
        context = self._context
        context.decisions.put(
            PodRecord(
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


def _nodes(evaluation: Evaluation, rows: Sequence[int]) -> list[Node]:
    nodes = evaluation.cycle.table.nodes
    return [node for node in (nodes[row] for row in rows) if node is not None]


def _preempting(result: PostFilterResult, nodes: int) -> PreemptionRecord | None:
    return PreemptionRecord.of(result, nodes) if result.nominated_node or result.status.message else None
