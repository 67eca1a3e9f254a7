"""Placing a group of pods: the node that every member would get, as one transaction on the table.

Members are placed one after the other as single pods are, each seeing the ones before it. With the feature
gate TopologyAwareWorkloadScheduling that is done in every placement that the group may have, and the best is
chosen; a composite group does it for its parts, one level after the other. The table is always left as it
was: the code that carries out the result puts the pods on their nodes.

Messages are kube-scheduler's.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Final

import numpy as np

from stowplan.scheduler.cycle.failure_handler import Failure, failed_on_node
from stowplan.scheduler.cycle.instrument import Hooks
from stowplan.scheduler.cycle.schedule_result import ScheduleResult
from stowplan.scheduler.cycle.scheduling_cycle import NodeFinder
from stowplan.scheduler.extenders.requests import ExtenderError
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.decision import NO_NODES, DecisionRecord, fit_error
from stowplan.scheduler.framework.evaluation import Rejectors, rejectors_of
from stowplan.scheduler.framework.events import EXTENDER
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.nominations import Nominations
from stowplan.scheduler.framework.pod_groups.extension_points import GroupPoints
from stowplan.scheduler.framework.pod_groups.placement import (
    GroupCycle,
    GroupTrial,
    Nested,
    Placement,
    PlacementCycle,
    PodGroupAssignments,
    PodGroupInfo,
    Progress,
    ProposedAssignment,
    Waited,
    unnested,
)
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Code, PluginError, Status
from stowplan.scheduler.pod_groups.estimate import Estimates
from stowplan.scheduler.pod_groups.result import (
    GroupOutcome,
    GroupResult,
    GroupStatus,
    Outcomes,
    PlacementTrial,
    PodResult,
    add_rejectors,
    members_of,
)
from stowplan.scheduler.table.podinfo import PodInfo

WHOLE_CLUSTER: Final = Placement()
MANY: Final = 32
"""Group size from which it is worth checking first if the members fit at all."""


class Transaction:
    """Pods that stand on rows for the time being."""

    def __init__(self, framework: Framework, lifecycle: Lifecycle) -> None:
        self._framework = framework
        self._table = framework.table
        self._lifecycle = lifecycle
        self._placed: list[tuple[Cycle | None, PodInfo, str]] = []
        self.problems: list[str] = []
        """Errors of plugins while reverting something."""

    def __len__(self) -> int:
        return len(self._placed)

    @property
    def uids(self) -> set[str]:
        """The pods that stand somewhere."""
        return {pod.uid for _, pod, _ in self._placed}

    def place(self, cycle: Cycle, pod: PodInfo, row: int) -> tuple[Status, PodInfo]:
        """Put a pod on a row and reserve what it needs; if that fails it is not there."""
        table, node = self._table, self._table.name_of(row)
        for plugin in self._framework.assuming:
            changed = plugin.assumed_pod(cycle, pod, node)
            if changed is not None:
                pod = table.info(changed)
        self._assume(pod, node)
        self._placed.append((cycle, pod, node))
        status = self._lifecycle.reserve(cycle, pod, node)
        if not status.is_success:
            self.rollback(len(self._placed) - 1)
        return status, pod

    def put(self, pod: PodInfo, row: int) -> None:
        """Put a pod on a row that needs nothing to be reserved."""
        node = self._table.name_of(row)
        self._assume(pod, node)
        self._placed.append((None, pod, node))

    def _assume(self, pod: PodInfo, node: str) -> None:
        self._table.imagined += 1
        self._table.assume(pod, node)

    def rollback(self, mark: int = 0) -> None:
        """Revert all placements after the first `mark` ones."""
        placed = self._placed
        while len(placed) > mark:
            cycle, pod, node = placed.pop()
            if cycle is not None:
                self.problems += self._lifecycle.unreserve(cycle, pod, node)
            self._table.imagined += 1
            self._table.forget(pod.uid).assumed = False


class GroupAlgorithm:
    """The search for a place for a group, for one profile.

    `placements`: whether placements are tried (gate TopologyAwareWorkloadScheduling). `nominations` gives the
    nominated pods by row. With `extenders` members are evaluated with their help. `records` says how many of
    the best nodes are kept for every member, 0: none are. With `estimates` placements that can be judged
    without placing members one by one are; it changes nothing about the result. With `merges_rejectors` a
    member of a group that fits in no placement is requeued by events for the plugins that rejected it in any
    of them, otherwise, as in kube-scheduler, only for those of the first.
    """

    def __init__(
        self,
        framework: Framework,
        lifecycle: Lifecycle,
        finder: NodeFinder,
        rng: Random,
        *,
        placements: bool,
        nominations: Callable[[], Nominations],
        timer: Callable[[], float],
        extenders: bool = False,
        records: int = 0,
        estimates: bool = True,
        merges_rejectors: bool = False,
        hooks: Hooks | None = None,
    ) -> None:
        self.framework = framework
        self._estimates = Estimates(framework, lifecycle) if estimates and not extenders else None
        self.points = GroupPoints(framework)
        self._table = framework.table
        self._lifecycle = lifecycle
        self._finder = finder
        self._rng = rng
        self._uses_placements = placements
        self._merges_rejectors = merges_rejectors
        self._nominations = nominations
        self._timer = timer
        self._extenders = extenders
        self._records = records
        self._hooks = hooks = Hooks() if hooks is None else hooks
        self._profile = framework.profile.scheduler_name
        self._scores_by_count = self.points.is_trusted and all(
            plugin.contract.scores_placements_by_count for plugin in self.points.scores
        )

    def run(self, root: PodGroupInfo, cycle: GroupCycle | None = None) -> Waited[GroupResult]:
        """Place a tree of groups, and leave the table as it was."""
        if self._hooks.group_trial_begins is not None:
            self._hooks.group_trial_begins(root)
        transaction = Transaction(self.framework, self._lifecycle)
        outcomes: Outcomes = {}
        cycle = GroupCycle(self._table, root) if cycle is None else cycle
        try:
            outcome = yield from unnested(self._group(root, cycle, WHOLE_CLUSTER, transaction, outcomes))
        finally:
            transaction.rollback()
        if outcome.status.is_success and not outcome.any_scheduled:
            outcome.status = GroupStatus.unschedulable()
        result = GroupResult(root, outcomes)
        if self._hooks.group_trial_ended is not None:
            self._hooks.group_trial_ended(result)
        return result

    def shape(self, root: PodGroupInfo) -> Hashable:
        """Everything besides nodes and their pods that a group's result depends on (`GroupCycle.shape`).

        Identical members that need nothing but room only count by their number.
        """
        estimates = self._estimates
        if estimates is None or not (self.points.goes_by_numbers and self.framework.reuses):
            return None
        if root.is_composite or root.running:
            return None
        members = estimates.common_class(root.pods, self._nominations())
        group = root.object
        return None if members is None else (members, len(root.pods), group.minimum, group.topology_key)

    def try_again(self, root: PodGroupInfo, shape: Hashable) -> Waited[GroupTrial]:
        """Place a group of this shape on the table as it is now.

        Where it finds no place and that goes by the shape, no random number is used up: who knows it already
        need not try, and everything after it comes out the same.
        """
        before = None if shape is None else self._finder.rng.getstate()
        result = yield from self.run(root)
        trial = result.trial()
        if before is None or trial.status.code is not Code.UNSCHEDULABLE or not self._goes_by_shape(root):
            return trial
        self._finder.rng.setstate(before)
        return trial._replace(by_shape=True)

    def _goes_by_shape(self, root: PodGroupInfo) -> bool:
        """True if every filter depends on the row alone, in the current state of the table."""
        cycle = PlacementCycle(GroupCycle(self._table, root), WHOLE_CLUSTER)
        estimates = self._estimates
        return estimates is not None and estimates.copies(cycle, root.pods, self._nominations()) is not None

    # One group: the placements it may have

    def _group(
        self,
        info: PodGroupInfo,
        cycle: GroupCycle,
        within: Placement,
        transaction: Transaction,
        outcomes: Outcomes,
    ) -> Nested[GroupOutcome]:
        """Place a group inside a placement. The members of a group that succeeds stay in the transaction."""
        if self._uses_placements or info.is_composite:
            outcome = yield from self._in_placements(info, cycle, within, transaction, outcomes)
        else:
            inner = PlacementCycle(cycle, within)
            outcome = yield from self._members(info, inner, transaction)
            self._tell(info, within, outcome)
        outcomes[info.key] = outcome
        return outcome

    def _in_placements(
        self,
        info: PodGroupInfo,
        cycle: GroupCycle,
        within: Placement,
        transaction: Transaction,
        outcomes: Outcomes,
    ) -> Nested[GroupOutcome]:
        placements = self.points.generate(cycle, info, within)
        if isinstance(placements, Status):
            return GroupOutcome(info, GroupStatus.of(placements))
        if not info.is_composite:
            if self._hooks.placements_generated is not None:
                self._hooks.placements_generated(self._profile, len(placements))
            if len(placements) > 1:
                known = yield from self._by_estimate(info, cycle, within, placements, transaction)
                if known is not None:
                    outcomes[info.key] = known
                    return known
        first: Outcomes | None = None
        rejectors: dict[str, frozenset[str]] = {}
        fitting: list[tuple[Placement, Outcomes]] = []
        trials: list[PlacementTrial] = []
        for placement in placements:
            # Of a chain of groups with one placement each, every outcome is noted once and not at all levels.
            found: Outcomes = outcomes if len(placements) == 1 else {}
            outcome = yield from self._in_placement(info, cycle, placement, transaction, found)
            if outcome.status.code is Code.ERROR:
                outcomes.update(found)
                return outcome
            trials.append(_trial(placement, placement.count(self._table), outcome))
            first = found if first is None else first
            if outcome.status.is_success:
                fitting.append((placement, found))
            elif self._merges_rejectors:
                add_rejectors(rejectors, found)
            if info.parent is None:
                yield None
        assert first is not None
        if not fitting:
            outcome = first[info.key]
            outcome.status = _none_available(len(placements), outcome.status)
            outcome.trials = trials
            for result in members_of(first):
                result.reject_also_for(rejectors.get(result.pod.uid, frozenset()))
            outcomes.update(first)
            return outcome
        best = self._best(info, cycle, fitting)
        if isinstance(best, GroupStatus):
            return GroupOutcome(info, best, trials=trials)
        problem = self._assume_again(info, best, transaction) if info.parent is not None else ""
        if problem:
            return GroupOutcome(info, GroupStatus.failed(f"failed to assume the subtree: {problem}"))
        best[info.key].trials = trials
        outcomes.update(best)
        return best[info.key]

    def _in_placement(
        self,
        info: PodGroupInfo,
        cycle: GroupCycle,
        placement: Placement,
        transaction: Transaction,
        found: Outcomes,
    ) -> Nested[GroupOutcome]:
        """Try a group in one placement, and take everything back."""
        mark, began = len(transaction), self._timer()
        inner = PlacementCycle(cycle, placement)
        try:
            if info.is_composite:
                outcome = yield from self._parts(info, inner, transaction, found)
            else:
                outcome = yield from self._members(info, inner, transaction)
        finally:
            transaction.rollback(mark)
        found[info.key] = outcome
        if not info.is_composite and outcome.status.code is not Code.ERROR:
            self._count_placement(outcome.status.is_success, self._timer() - began)
        self._tell(info, placement, outcome)
        return outcome

    def _tell(self, info: PodGroupInfo, placement: Placement, outcome: GroupOutcome) -> None:
        if not outcome.trials:
            outcome.trials = [_trial(placement, placement.count(self._table), outcome)]
        if self._hooks.group_tried is not None:
            self._hooks.group_tried(info, placement, outcome)

    def _best(
        self, info: PodGroupInfo, cycle: GroupCycle, fitting: Sequence[tuple[Placement, Outcomes]]
    ) -> Outcomes | GroupStatus:
        """The outcomes in the best of the placements that can take the group; an error of scoring."""
        if len(fitting) == 1:
            return fitting[0][1]
        proposed = [
            PodGroupAssignments(placement, _assignments(info, found), found[info.key].cycle)
            for placement, found in fitting
        ]
        chosen = self._choose(info, cycle, proposed)
        return chosen if isinstance(chosen, GroupStatus) else fitting[chosen][1]

    def _choose(
        self, info: PodGroupInfo, cycle: GroupCycle, proposed: Sequence[PodGroupAssignments]
    ) -> int | GroupStatus:
        """Which placement has the highest total; one of several by chance."""
        scores = self.points.score(cycle, info, proposed)
        if isinstance(scores, Status):
            return GroupStatus.of(scores)
        best = np.flatnonzero(scores.totals == scores.totals.max()).tolist()
        chosen: int = best[self._rng.randrange(len(best)) if len(best) > 1 else 0]
        if self._hooks.placements_scored is not None:
            self._hooks.placements_scored(info, proposed, scores, proposed[chosen].placement)
        return chosen

    def _assume_again(self, info: PodGroupInfo, outcomes: Outcomes, transaction: Transaction) -> str:
        """Put the members of a part on the nodes chosen for them, so that the parts after it see them."""
        mark = len(transaction)
        for outcome in _successful_leaves(info, outcomes):
            for result in outcome.pods:
                if result.row is None or result.cycle is None:
                    continue
                status, result.assumed = transaction.place(result.cycle, result.pod, result.row)
                if not status.is_success:
                    transaction.rollback(mark)
                    return failed_on_node(status).message
        return ""

    # Placements that need not be worked out

    def _by_estimate(
        self,
        info: PodGroupInfo,
        cycle: GroupCycle,
        within: Placement,
        placements: Sequence[Placement],
        transaction: Transaction,
    ) -> Waited[GroupOutcome | None]:
        """Try a PodGroup in placements if it can be told beforehand how far it gets in each; None if not.

        Only one placement is worked out then: the best, or the first if the group fits in none.
        """
        estimates = self._estimates
        if estimates is None or self._hooks.sees_details or not self._scores_by_count:
            return None
        began = self._timer()
        copies = estimates.copies(
            PlacementCycle(cycle, within), info.pods, self._nominations_now(transaction)
        )
        if copies is None:
            return None
        counts: list[int] = estimates.by_placement(copies, placements, len(info.pods)).tolist()
        verdicts = self._verdicts(info, PlacementCycle(cycle, within), set(counts))
        if any(verdict.code is Code.ERROR for verdict in verdicts.values()):
            return None
        trials = [
            PlacementTrial(placement.name, placement.count(self._table), count, verdicts[count])
            for placement, count in zip(placements, counts, strict=True)
        ]
        fitting = [place for place, count in enumerate(counts) if verdicts[count].is_success]
        chosen = self._best_estimate(info, cycle, placements, counts, fitting)
        if chosen is None:
            return None
        found: Outcomes = {}
        outcome = yield from self._in_placement(info, cycle, placements[chosen], transaction, found)
        if outcome.status.is_success != bool(fitting):
            return None
        trials[chosen] = _trial(placements[chosen], placements[chosen].count(self._table), outcome)
        outcome.trials = trials
        self._count_estimates(trials, chosen, self._timer() - began)
        if not fitting:
            outcome.status = _none_available(len(placements), outcome.status)
            if self._merges_rejectors:
                # All members are identical, and every filter goes by the row.
                anywhere = estimates.rejectors(PlacementCycle(cycle, within), info.pods[0])
                for result in outcome.pods:
                    result.reject_also_for(anywhere)
        elif info.parent is not None:
            problem = self._assume_again(info, found, transaction)
            if problem:
                return GroupOutcome(info, GroupStatus.failed(f"failed to assume the subtree: {problem}"))
        return outcome

    def _verdicts(self, info: PodGroupInfo, cycle: PlacementCycle, counts: set[int]) -> dict[int, Status]:
        """Verdicts of PlacementFeasible with `count` members placed and none left to try."""
        running = self._table.groups.scheduled_count(info.key)
        return {count: self._feasible(info, cycle, Progress(0, running + count)) for count in counts}

    def _best_estimate(
        self,
        info: PodGroupInfo,
        cycle: GroupCycle,
        placements: Sequence[Placement],
        counts: Sequence[int],
        fitting: Sequence[int],
    ) -> int | None:
        """The best placement by number, the first if the group fits in none; None if scoring fails."""
        if len(fitting) <= 1:
            return fitting[0] if fitting else 0
        members = [ProposedAssignment(pod, -1) for pod in info.pods]
        parts = {count: members[:count] for count in set(counts)}
        proposed = [PodGroupAssignments(placements[place], parts[counts[place]]) for place in fitting]
        best = self._choose(info, cycle, proposed)
        return None if isinstance(best, GroupStatus) else fitting[best]

    def _count_estimates(self, trials: Sequence[PlacementTrial], worked_out: int, seconds: float) -> None:
        """Placements that were judged by an estimate count as evaluated; the time is shared out."""
        for place, trial in enumerate(trials):
            if place != worked_out:
                self._count_placement(trial.status.is_success, seconds / len(trials))

    def _count_placement(self, feasible: bool, seconds: float) -> None:
        if self._hooks.placement_evaluated is not None:
            self._hooks.placement_evaluated(self._profile, feasible, seconds)

    # The parts of a composite group

    def _parts(
        self, info: PodGroupInfo, cycle: PlacementCycle, transaction: Transaction, found: Outcomes
    ) -> Nested[GroupOutcome]:
        mark = len(transaction)
        progress = Progress(len(info.children), 0)
        status = self._feasible(info, cycle, progress)
        any_scheduled = False
        for child in info.children:
            if status.code in (Code.UNSCHEDULABLE, Code.ERROR):
                break
            inner = GroupCycle(self._table, child, cycle)
            outcome: GroupOutcome = yield self._group(child, inner, cycle.placement, transaction, found)
            if outcome.status.code is Code.ERROR:
                transaction.rollback(mark)
                message = (
                    f"composite pod group evaluation failed due to child error: {outcome.status.as_error}"
                )
                return GroupOutcome(info, GroupStatus.failed(message), cycle=cycle)
            any_scheduled = any_scheduled or outcome.any_scheduled
            progress = Progress(
                progress.remaining - 1, progress.scheduled + (1 if outcome.status.is_success else 0)
            )
            status = self._feasible(info, cycle, progress)
        verdict = _verdict(status)
        if not verdict.is_success:
            transaction.rollback(mark)
            any_scheduled = False
        return GroupOutcome(info, verdict, any_scheduled=any_scheduled, cycle=cycle)

    # The members of a PodGroup

    def _members(
        self, info: PodGroupInfo, cycle: PlacementCycle, transaction: Transaction
    ) -> Waited[GroupOutcome]:
        """Place the members of a PodGroup one after the other. If too few fit, none is placed."""
        mark = len(transaction)
        outcome = GroupOutcome(info, GroupStatus.unschedulable(), cycle=cycle)
        if self._table.groups.group(info.key) is None:
            outcome.status = GroupStatus.failed(
                f"failed to get podGroup state for podGroup {info.object.key} to compute gang feasibility: "
                f"pod group state not found for pod group {info.key}"
            )
            return outcome
        progress = Progress(len(info.pods), self._table.groups.scheduled_count(info.key))
        status = self._feasible(info, cycle, progress)
        if status.code is Code.ERROR:
            outcome.status = GroupStatus.failed(f"failed to evaluate placement feasibility: {status.message}")
            return outcome
        if status.code is Code.UNSCHEDULABLE:
            outcome.status = GroupStatus.unschedulable(*status.reasons)
            return outcome
        outcome.status = GroupStatus.of(status)
        if len(info.pods) >= MANY:
            doomed = yield from self._doomed(info, cycle, transaction, progress)
            if doomed is not None:
                return doomed
        for pod in info.pods:
            result = yield from self._member(info, cycle, pod, transaction)
            outcome.pods.append(result)
            failure = result.failure
            if failure is not None and not failure.rejected:
                message = f"failed to schedule other pod from a pod group: {failure.message}"
                outcome.status = GroupStatus.failed(message)
                break
            progress = Progress(progress.remaining - 1, progress.scheduled + (failure is None))
            status = self._feasible(info, cycle, progress)
            if status.code is Code.ERROR:
                message = f"failed to evaluate placement feasibility: {status.message}"
                outcome.status = GroupStatus.failed(message)
                break
            outcome.status = GroupStatus.of(status)
            if status.code is Code.UNSCHEDULABLE:
                break
            outcome.any_scheduled = outcome.any_scheduled or failure is None
            yield None
        if outcome.status.code is Code.WAIT:
            outcome.status = GroupStatus.unschedulable(*outcome.status.reasons)
        if not outcome.status.is_success:
            transaction.rollback(mark)
            outcome.any_scheduled = False
        return outcome

    def _doomed(
        self, info: PodGroupInfo, cycle: PlacementCycle, transaction: Transaction, progress: Progress
    ) -> Waited[GroupOutcome | None]:
        """Outcome of a large group that is known not to fit; None if it may fit, or nothing is known.

        As many members as there is room for are put on rows at once; only the first of the rest is evaluated,
        and its result is used for the others.
        """
        estimates = self._estimates
        if estimates is None or self._hooks.sees_details or not self.points.is_trusted:
            return None
        copies = estimates.copies(cycle, info.pods, self._nominations_now(transaction))
        if copies is None:
            return None
        placed = int(estimates.by_placement(copies, [cycle.placement], len(info.pods))[0])
        if placed == len(info.pods) or self._verdicts(info, cycle, {placed})[placed].is_success:
            return None
        mark = len(transaction)
        outcome = GroupOutcome(info, GroupStatus.unschedulable(), cycle=cycle)
        rows = np.flatnonzero(copies)
        for pod, row in zip(info.pods, np.repeat(rows, copies[rows]).tolist(), strict=False):
            transaction.put(pod, row)
            outcome.pods.append(PodResult(pod, row=row, nodes=cycle.placement.count(self._table)))
        progress = Progress(progress.remaining - placed, progress.scheduled + placed)
        failed: PodResult | None = None
        for pod in info.pods[placed:]:
            if failed is None:
                failed = yield from self._member(info, cycle, pod, transaction)
                if failed.failure is None or not failed.failure.rejected:
                    transaction.rollback(mark)
                    return None
            outcome.pods.append(replace(failed, pod=pod))
            progress = Progress(progress.remaining - 1, progress.scheduled)
            status = self._feasible(info, cycle, progress)
            outcome.status = _verdict(status)
            if status.code is not Code.WAIT:
                break
        transaction.rollback(mark)
        return outcome

    def _feasible(self, info: PodGroupInfo, cycle: PlacementCycle, progress: Progress) -> Status:
        status = self.points.feasible(cycle, info, progress)
        if self._hooks.group_feasible is not None:
            self._hooks.group_feasible(info, progress, status)
        return status

    def _member(
        self, info: PodGroupInfo, cycle: PlacementCycle, pod: PodInfo, transaction: Transaction
    ) -> Waited[PodResult]:
        """Find a node for one member and put it there."""
        began = self._timer()
        nodes = cycle.placement.count(self._table)
        result = PodResult(pod, nodes=nodes)
        if not nodes:
            result.failure = Failure(NO_NODES, rejected=True)
            return result
        try:
            found = yield from self._find(cycle, pod, transaction)
        except (PluginError, ExtenderError) as failure:
            result.failure = Failure(str(failure), rejected=False)
        else:
            if self._hooks.member_evaluated is not None:
                self._hooks.member_evaluated(info, pod, found)
            self._take(result, found, transaction)
        result.seconds = self._timer() - began
        return result

    def _find(self, cycle: PlacementCycle, pod: PodInfo, transaction: Transaction) -> Waited[ScheduleResult]:
        row = self._nominated_row(cycle.placement, pod)
        nominations = self._nominations_now(transaction)
        if self._extenders:
            return (yield from self._finder.find_with_extenders(self.framework, pod, nominations, row, cycle))
        return (yield from self._finder.find_for_group(self.framework, pod, nominations, row, cycle))

    def _nominated_row(self, placement: Placement, pod: PodInfo) -> int | None:
        """The row that a member is nominated to, if it is part of the placement."""
        nominated = pod.pod.status.nominated_node_name
        row = self._table.row_of(nominated) if nominated else None
        mask = None if row is None else placement.mask(self._table)
        return None if mask is not None and not mask[row] else row

    def _nominations_now(self, transaction: Transaction) -> Nominations:
        """The nominated pods by row, without members that stand somewhere already."""
        nominations = self._nominations()
        if not nominations or not len(transaction):
            return nominations
        placed = transaction.uids
        if not any(pod.uid in placed for pods in nominations.values() for pod in pods):
            return nominations
        return {row: [pod for pod in pods if pod.uid not in placed] for row, pods in nominations.items()}

    def _take(self, result: PodResult, found: ScheduleResult, transaction: Transaction) -> None:
        """Note what was found for a member, and put it on its row."""
        evaluation = found.evaluation
        result.evaluation = evaluation
        result.cycle = cycle = evaluation.cycle
        result.feasible = evaluation.feasible_count
        if found.row is None:
            rejectors = rejectors_of(evaluation)
            if found.extenders_rejected:
                rejectors = Rejectors(rejectors.unschedulable | {EXTENDER}, rejectors.pending)
            result.failure = Failure(fit_error(evaluation), True, rejectors, None)
            if self._records:
                result.record = DecisionRecord(evaluation, None, 0, self._records)
            return
        if self._records:
            result.record = DecisionRecord(evaluation, found.row, found.ties, self._records)
        status, assumed = transaction.place(cycle, result.pod, found.row)
        if status.is_success:
            result.row, result.assumed = found.row, assumed
        else:
            result.failure = failed_on_node(status)


def _none_available(placements: int, first: GroupStatus) -> GroupStatus:
    """The status of a group that fits in none of its placements."""
    return GroupStatus.unschedulable(
        f"0/{placements} placements are available, first placement status: {first.as_error}"
    )


def _verdict(status: Status) -> GroupStatus:
    """Status for the last answer of PlacementFeasible when no member is left to try."""
    if status.code is Code.WAIT:
        return GroupStatus.unschedulable(*status.reasons)
    return GroupStatus.of(status)


def _trial(placement: Placement, nodes: int, outcome: GroupOutcome) -> PlacementTrial:
    placed = [result for result in outcome.pods if result.row is not None]
    stopped = next((result for result in outcome.pods if result.failure is not None), None)
    why = "" if stopped is None or stopped.failure is None else stopped.failure.message
    key = "" if stopped is None else stopped.pod.key
    return PlacementTrial(placement.name, nodes, len(placed), outcome.status.status(), key, why)


def _successful_leaves(info: PodGroupInfo, outcomes: Mapping[str, GroupOutcome]) -> list[GroupOutcome]:
    """The outcomes of the PodGroups below a group that succeeded, as did everything above them."""
    found: list[GroupOutcome] = []
    left = [info]
    while left:
        group = left.pop()
        outcome = outcomes.get(group.key)
        if outcome is None or not outcome.status.is_success:
            continue
        if group.is_composite:
            left.extend(reversed(group.children))
        else:
            found.append(outcome)
    return found


def _assignments(info: PodGroupInfo, outcomes: Mapping[str, GroupOutcome]) -> list[ProposedAssignment]:
    return [
        assignment for outcome in _successful_leaves(info, outcomes) for assignment in outcome.assignments
    ]
