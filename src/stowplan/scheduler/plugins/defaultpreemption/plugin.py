"""DefaultPreemption: is the pod eligible to preempt, on which nodes would it help, and which is the best?"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from stowplan.api.fielderrors import Path, aggregate, invalid
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.scheduler.framework import (
    SUCCESS,
    Action,
    ClusterEvent,
    Code,
    Contract,
    Cycle,
    EventRegistration,
    Handle,
    Hint,
    Plugin,
    PodInfo,
    PostFilterResult,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from stowplan.scheduler.framework.advanced import (
    Evaluation,
    FeatureGates,
    GroupCycle,
    GroupSteps,
    PodGroupInfo,
    RuledOut,
    RuledOutNode,
    ScheduleGroup,
    Steps,
    Victims,
    pod_resources,
)
from stowplan.scheduler.framework.decision import fit_error_text
from stowplan.scheduler.framework.held_pods import HeldPods, is_going
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.defaultpreemption.batch import FEW, SortedPodsByRow, batch_dry_run
from stowplan.scheduler.plugins.defaultpreemption.cache import RowResultsCache
from stowplan.scheduler.plugins.defaultpreemption.candidates import (
    REASON_NO_VICTIMS,
    Candidates,
    NodeVictims,
    VictimsByNode,
    VictimsOf,
    candidates_of,
    compare,
)
from stowplan.scheduler.plugins.defaultpreemption.choice import choice_of
from stowplan.scheduler.plugins.defaultpreemption.dryrun import DryRun
from stowplan.scheduler.plugins.defaultpreemption.group import GroupSearch, KnownFailures
from stowplan.scheduler.plugins.defaultpreemption.importance import was_preempted
from stowplan.scheduler.plugins.defaultpreemption.units import PodsOfRows, Units
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.table import ClusterTable

PREFIX = "preemption: "
REASON_NOT_HELPFUL = "Preemption is not helpful for scheduling"
REASON_NO_CANDIDATE = "no candidate node for preemption"
REASON_UNDER_WAY = "waiting for the preemption for this pod to be finished"
REASON_GROUP_UNDER_WAY = "waiting for the preemption for this pod group to be finished"
REASON_BY_GROUP = "not eligible due to workload aware preemption enabled"
REASON_NEVER = "not eligible due to preemptionPolicy=Never."
REASON_TERMINATING = "not eligible due to a terminating pod on the nominated node."

_NEVER = "Never"


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    """Number of nodes a preemption tries: the larger of a share of all nodes and a fixed number."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        percentage_path = path.child("minCandidateNodesPercentage")
        absolute_path = path.child("minCandidateNodesAbsolute")
        errors: list[str] = []
        if not 0 <= percentage <= 100:
            errors.append(invalid(percentage_path, percentage, "not in valid range [0, 100]"))
        if absolute < 0:
            errors.append(invalid(absolute_path, absolute, "not in valid range [0, inf)"))
        if percentage == 0 and absolute == 0:
            also = "cannot be zero at the same time as "
            errors.append(invalid(percentage_path, percentage, also + "minCandidateNodesAbsolute"))
            errors.append(invalid(absolute_path, absolute, also + "minCandidateNodesPercentage"))
        return errors


class DefaultPreemption(Plugin[DefaultPreemptionArgs]):
    """Finds the node where evicting the least important pods makes room; the scheduler evicts them.

    `under_way` has the uids of preemptors (pods, and topmost groups) whose victims are still being deleted:
    they stay out of the queue until that is done. The value is the last victim once it is the only one left,
    and then the preemptor waits for that one only, until it is seen terminating. `one_by_one` turns off the
    fast path: every node is tried on its own, which is slow and must give the same results. So must every
    number of `few` rows that are not worth arrays.
    """

    contract = Contract(needs=("poddisruptionbudgets",), pre_enqueue_by_group=True)

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._groups_preempt = handle.gates["WorkloadAwarePreemption"]
        self._sorted_pods = SortedPodsByRow(handle.table)
        self._results = RowResultsCache(handle.table)
        self._pods_of_rows = PodsOfRows(handle.table)
        self._known_failures = KnownFailures(handle.table)
        self.under_way: dict[str, Pod | None] = {}
        self._held = HeldPods()
        self._awaited: dict[str, tuple[str, Callable[[], None]]] = {}
        """Only for preemptors that wait for their last victim: its key, and the callback for its deletion."""
        self.one_by_one = False
        self.few = FEW
        self._keeps_search = False
        self._search: Search | None = None

    def events(self) -> Sequence[EventRegistration]:
        """Pod deletions, so that preemptors kept out of the queue are checked again when a victim is gone.

        The hint never queues a pod: the scheduler does that once all victims are deleted.
        """
        if not self.handle.gates["SchedulerAsyncPreemption"]:
            return ()
        deletion = ClusterEvent(pod_resources(self.handle.behaviour).of_assigned, Action.DELETE)
        return (EventRegistration(deletion, self._after_pod_deletion, by_template=True, ignores_labels=True),)

    @staticmethod
    def _after_pod_deletion(pod: PodInfo, old: Pod, new: None) -> Hint:
        return Hint.SKIP

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if not self.under_way:
            return None
        groups = self.handle.table.groups
        if groups.key_of(pod.pod) is None:
            return unresolvable(REASON_UNDER_WAY) if self._is_under_way(pod.uid) else None
        root = groups.root_of(pod.pod)
        group = None if root is None else groups.object(root)
        if group is None or not self._is_under_way(group.metadata.uid):
            return None
        return unresolvable(REASON_GROUP_UNDER_WAY)

    def always_enqueues(self, pod: PodInfo) -> bool:
        return self.handle.table.groups.key_of(pod.pod) is None

    def _is_under_way(self, preemptor: str) -> bool:
        """True if at least one victim of a preemptor is still being deleted."""
        if preemptor not in self.under_way:
            return False
        last = self.under_way[preemptor]
        return last is None or not self._is_going(last.key)

    def held_pods(self) -> HeldPods:
        return self._held

    def _is_going(self, victim: str) -> bool:
        """True if a victim is seen terminating or gone already, ahead of the response to its deletion."""
        services = self.handle.services
        return services is not None and is_going(services.pod(victim))

    def preemption_started(self, preemptor: Object) -> None:
        uid = preemptor.metadata.uid
        self._await_no_more(uid)
        self.under_way[uid] = None
        self._held.hold(uid)

    def preemption_waits_for(self, preemptor: Object, victim: Pod) -> None:
        uid = preemptor.metadata.uid
        if uid not in self.under_way:
            return
        self.under_way[uid] = victim
        self._await_no_more(uid)
        if self._is_going(victim.key):
            self._held.let_go(uid)
        elif self.handle.services is not None:
            let_go = partial(self._held.let_go, uid)
            self._awaited[uid] = (victim.key, let_go)
            self.handle.services.deletions.add(victim.key, let_go)

    def preemption_ended(self, preemptor: Object) -> None:
        uid = preemptor.metadata.uid
        self.under_way.pop(uid, None)
        self._await_no_more(uid)
        self._held.let_go(uid)

    def _await_no_more(self, preemptor: str) -> None:
        """Nothing that waited for the last victim of a preemptor needs an event for its deletion."""
        awaited, services = self._awaited.pop(preemptor, None), self.handle.services
        if awaited is not None and services is not None:
            services.deletions.remove(*awaited)

    def post_filter(self, cycle: Cycle, pod: PodInfo) -> Steps:
        evaluation = cycle.evaluation
        if evaluation is None:
            raise LookupError("expected the evaluation of an attempt that found no node")
        self._search = None
        if self._groups_preempt and pod.spec.scheduling_group is not None:
            return PostFilterResult(_rejected(REASON_BY_GROUP))
        units = Units(cycle.table) if cycle.table.groups else None
        why_not = ineligibility(evaluation, pod, units)
        if why_not is not None:
            return PostFilterResult(_rejected(why_not))
        rows = evaluation.rows_rejected_with(Code.UNSCHEDULABLE)
        if not len(rows):
            if self._keeps_search:
                self._search = Search(evaluation, rows)
            return _not_helpful(cycle.table, {}, 0)
        return (yield from self._dry_run(evaluation, rows, units))

    def pod_group_post_filter(
        self, cycle: GroupCycle, group: PodGroupInfo, schedule: ScheduleGroup
    ) -> GroupSteps:
        search = GroupSearch(cycle, group, self.handle, self._pods_of_rows)
        return search.run(schedule, self._known_failures)

    def _dry_run(self, evaluation: Evaluation, rows: Rows, units: Units | None) -> Steps:
        """Try the rows where removing pods might help, and choose among the candidates."""
        table = evaluation.cycle.table
        batch = None
        if not self.one_by_one:
            batch = batch_dry_run(evaluation, self._sorted_pods, self._results, self.few)
        if batch is not None and units is not None:
            batch.leave_out((yield from self._pods_of_rows.with_members()))
        start = self.handle.rng.randrange(len(rows))
        known = None if batch is None else self._known_results(evaluation)
        if known is not None and evaluation.cycle.pod.priority in known:
            return known[evaluation.cycle.pod.priority]
        with evaluation.simulations() as simulations:
            pods_of_rows = None if self.one_by_one else self._pods_of_rows
            wanted = self.candidates_wanted(len(rows))
            dry_run = DryRun(simulations, wanted, batch, units, pods_of_rows, self.few)
            candidates = yield from dry_run.run(np.concatenate((rows[start:], rows[:start])))
        if self._keeps_search:
            self._search = Search(evaluation, rows, dry_run, len(candidates))
        if len(candidates):
            return self.chosen(table, candidates, dry_run.victims, evaluation.cycle.pod.priority, units)
        if dry_run.errors:
            return PostFilterResult(error(PREFIX + aggregate(dry_run.errors)))
        result = _not_helpful(table, dry_run.reasons, dry_run.explained)
        if known is not None and dry_run.by_batch_alone:
            known[evaluation.cycle.pod.priority] = result
        return result

    def drop_stale(self) -> None:
        self._sorted_pods.refresh()
        self._results.drop_stale()

    def _known_results(self, evaluation: Evaluation) -> dict[int, PostFilterResult] | None:
        """Results of searches without a candidate for pods of the class, by priority; they hold while no pod,
        node or budget changes. None: for this attempt nothing can be kept."""
        special = evaluation.nominations or evaluation.overruled or evaluation.pod_class.unsigned
        if special or self._keeps_search:
            return None
        table = evaluation.cycle.table
        basis = (
            evaluation.pod_class.filters.rejections_version,
            table.usage_log.position,
            table.node_log.position,
            table.budgets.version,
            table.budgets.allowances_version,
        )
        kept: tuple[object, dict[int, PostFilterResult]] | None = evaluation.cycle.memo(self)
        if kept is None or kept[0] != basis:
            kept = (basis, {})
            evaluation.cycle.remember(self, kept)
        return kept[1]

    def candidates_wanted(self, nodes: int) -> int:
        """Number of candidates that are enough in a cluster of `nodes` nodes."""
        args: DefaultPreemptionArgs = self.args
        share = nodes * args.min_candidate_nodes_percentage // 100
        return min(nodes, max(share, args.min_candidate_nodes_absolute))

    def among_candidates(self, victims: Mapping[str, Victims]) -> PostFilterResult:
        """The best of some nodes, given the victims on each."""
        table = self.handle.table
        found: list[tuple[int, int, NodeVictims]] = []
        for turn, (name, victims_there) in enumerate(victims.items()):
            row = table.row_of(name)
            uids = [pod.metadata.uid for pod in victims_there.pods]
            pods = [table.pods[uid] for uid in uids if uid in table.pods]
            if row is not None and pods:
                found.append((turn, row, NodeVictims(pods, victims_there.violations)))
        by_row = {row: node.victims for _, row, node in found}
        return self.chosen(table, candidates_of(found), lambda rows: [by_row[row] for row in rows])

    def chosen(
        self,
        table: ClusterTable,
        candidates: Candidates,
        victims_of: VictimsOf,
        below: int | None = None,
        units: Units | None = None,
    ) -> PostFilterResult:
        """The best candidate; one of the best at random if there are several."""
        compared = compare(candidates)
        best = compared.best
        if not len(best):
            return PostFilterResult(_rejected(REASON_NO_CANDIDATE))
        nth = self.handle.rng.randrange(len(best))
        rows = candidates.rows[best].tolist()
        names = table.names
        ties = tuple([names[row] for row in rows])
        (victims,) = victims_of([rows[nth]])
        return PostFilterResult(
            self._found(ties[nth], len(victims)),
            ties[nth],
            tuple(info.pod for info in victims),
            VictimsByNode(table.nodes, candidates, victims_of),
            ties,
            choice=choice_of(table, candidates, victims_of, compared, best.item(nth), below, units),
        )

    def _found(self, node: str, victims: int) -> Status:
        if not self.handle.behaviour.preempting.success_text:
            return SUCCESS
        text = f"{PREFIX}found a potential placement for pod on node {node}, preempting {victims} victims"
        return Status(Code.SUCCESS, (text,))

    def not_candidates(self) -> Sequence[RuledOut]:
        """The nodes that the last search found to be no candidates, by reason."""
        return () if self._search is None else self._search.not_candidates()

    @property
    def keeps_search(self) -> bool:
        return self._keeps_search

    @keeps_search.setter
    def keeps_search(self, keeps: bool) -> None:
        self._keeps_search = keeps
        self._search = None


def _rejected(reason: str) -> Status:
    return unschedulable(PREFIX + reason)


def _not_helpful(table: ClusterTable, reasons: Mapping[str, int], explained: int) -> PostFilterResult:
    """No candidate: the pod's nomination is cleared. `explained` nodes have reasons of their own."""
    counts = Counter(reasons)
    if explained < table.node_count:
        counts[REASON_NOT_HELPFUL] += table.node_count - explained
    return PostFilterResult(_rejected(fit_error_text(table.node_count, counts)), "")


def ineligibility(evaluation: Evaluation, pod: PodInfo, units: Units | None = None) -> str | None:
    """Why a pod is not eligible to preempt others; None: it is.

    One with a nominated node waits until the victims there are gone, unless that node has become unresolvable
    in the meantime.
    """
    if pod.spec.preemption_policy == _NEVER:
        return REASON_NEVER
    nominated = pod.pod.status.nominated_node_name
    table = evaluation.cycle.table
    row = table.row_of(nominated) if nominated else None
    if row is None or evaluation.status(row).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return None
    terminating = any(
        (info.priority if units is None else units.priority_of(info)) < pod.priority
        and was_preempted(info.pod)
        for info in table.pods_on[row].values()
    )
    return REASON_TERMINATING if terminating else None


EXAMPLES: Final = 3


@dataclass(slots=True)
class Search:
    """A search that is over: the rows that could be tried, and how many turned out to be candidates.

    Where there was nothing to try there was no dry run.
    """

    evaluation: Evaluation
    rows: Rows
    dry_run: DryRun | None = None
    candidates: int = 0

    def not_candidates(self) -> list[RuledOut]:
        """All nodes but the candidates, by reason, largest group first; while the table does not change."""
        failed = [] if self.dry_run is None else self.dry_run.not_candidates()
        by_reason: dict[str, list[Rows]] = {}
        for status, rows in (*self._not_tried(), *failed):
            by_reason.setdefault(self._reason(status), []).append(rows)
        found = [self._ruled_out(reason, np.concatenate(rows)) for reason, rows in by_reason.items()]
        found.sort(key=lambda one: -one.nodes)
        left = len(self.rows) - self.candidates - sum(len(rows) for _, rows in failed)
        if left:
            found.append(RuledOut(f"not looked at: {self.candidates} candidates were enough", left))
        return found

    def _not_tried(self) -> Iterator[tuple[Status, Rows]]:
        """Nodes that are rejected for something that does not depend on their pods."""
        for status, rows in self.evaluation.rejections().items():
            hopeless = rows[~np.isin(rows, self.rows)]
            if len(hopeless):
                yield status, hopeless

    def _ruled_out(self, reason: str, rows: Rows) -> RuledOut:
        name_of = self.evaluation.cycle.table.name_of
        examples = tuple(RuledOutNode(name_of(row)) for row in np.sort(rows)[:EXAMPLES].tolist())
        return RuledOut(reason, len(rows), examples)

    def _reason(self, status: Status) -> str:
        if REASON_NO_VICTIMS in status.reasons:
            return f"no pod of lower priority than {self.evaluation.cycle.pod.priority}"
        reasons = ", ".join(status.reasons) or status.code.label
        if status.code is Code.ERROR:
            return reasons
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return f"evicting pods would not help: {reasons}"
        return f"even without their pods of lower priority: {reasons}"
