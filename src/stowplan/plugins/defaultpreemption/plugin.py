"""The plugin: may the pod preempt, where would it help, and which node is it to be?"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from stowplan.api.fielderrors import aggregate
from stowplan.api.pod import Pod
from stowplan.cluster.changes import Rows
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.decision import fit_error_text
from stowplan.framework.evaluation import Evaluation
from stowplan.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource
from stowplan.framework.interface import Handle, Plugin, PostFilterResult, Steps, Victims
from stowplan.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from stowplan.plugins.args import DefaultPreemptionArgs
from stowplan.plugins.defaultpreemption.candidates import (
    Candidates,
    VictimsByNode,
    VictimsOf,
    from_sacrifices,
)
from stowplan.plugins.defaultpreemption.choice import equally_good
from stowplan.plugins.defaultpreemption.dryrun import DryRun
from stowplan.plugins.defaultpreemption.eligibility import objection
from stowplan.plugins.defaultpreemption.lineups import Lineups
from stowplan.plugins.defaultpreemption.manyrows import judging_many
from stowplan.plugins.defaultpreemption.prospects import KeptProspects
from stowplan.plugins.defaultpreemption.reprieve import Sacrifice

PREFIX = "preemption: "
REASON_NOT_HELPFUL = "Preemption is not helpful for scheduling"
REASON_NO_CANDIDATE = "no candidate node for preemption"
REASON_UNDER_WAY = "waiting for the preemption for this pod to be finished"
REASON_BY_GROUP = "not eligible due to workload aware preemption enabled"


class DefaultPreemption(Plugin):
    """Finds the node where the least harm makes room for a pod; it decides, and makes nobody go.

    `under_way` has the uids of pods whose victims the host is still telling to go: until that is done they
    stay out of the queue. Its value is the last victim once only that one is left, and then the pod need not
    wait longer than that one takes. With `one_by_one` every node is tried on its own, which is slow and must
    come to the same.
    """

    args_type = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._groups_preempt = handle.gates["WorkloadAwarePreemption"]
        self._lineups = Lineups(handle.table)
        self._prospects = KeptProspects(handle.table)
        self.under_way: dict[str, Pod | None] = {}
        self.one_by_one = False

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if pod.uid not in self.under_way:
            return None
        last = self.under_way[pod.uid]
        return None if last is not None and self._is_going(last) else unresolvable(REASON_UNDER_WAY)

    def preemption_started(self, preemptor: Pod) -> None:
        self.under_way[preemptor.metadata.uid] = None

    def preemption_waits_for(self, preemptor: Pod, victim: Pod) -> None:
        if preemptor.metadata.uid in self.under_way:
            self.under_way[preemptor.metadata.uid] = victim

    def preemption_ended(self, preemptor: Pod) -> None:
        self.under_way.pop(preemptor.metadata.uid, None)

    def _is_going(self, victim: Pod) -> bool:
        """Whether the API server has told of a victim's end already, ahead of its answer to the deletion."""
        services = self.handle.services
        if services is None:
            return False
        known = services.pod(victim.key)
        return known is None or known.is_terminating

    def events(self) -> Sequence[EventRegistration]:
        """Deletions, so that pods that stay out of the queue are looked at again when a victim is gone.

        None of them lets such a pod in: the host does that once all its victims are.
        """
        if not self.handle.gates["SchedulerAsyncPreemption"]:
            return ()
        deletion = ClusterEvent(Resource.POD, Action.DELETE)
        return (EventRegistration(deletion, self._after_pod_deletion, by_template=True),)

    @staticmethod
    def _after_pod_deletion(pod: PodInfo, old: Pod, new: None) -> Hint:
        return Hint.SKIP

    def post_filter(self, cycle: Cycle, pod: PodInfo) -> Steps:
        evaluation = cycle.evaluation
        if evaluation is None:
            raise LookupError("expected the evaluation of an attempt that found no node")
        if self._groups_preempt and pod.spec.scheduling_group is not None:
            return PostFilterResult(_rejected(REASON_BY_GROUP))
        why_not = objection(evaluation, pod)
        if why_not is not None:
            return PostFilterResult(_rejected(why_not))
        rows = evaluation.rows_rejected_with(Code.UNSCHEDULABLE)
        if not len(rows):
            return _hopeless(cycle.table, {}, 0)
        return (yield from self._among(evaluation, rows))

    def _among(self, evaluation: Evaluation, rows: Rows) -> Steps:
        """What can be done on rows where removing pods might help."""
        table = evaluation.cycle.table
        many = None if self.one_by_one else judging_many(evaluation, self._lineups, self._prospects)
        start = self.handle.rng.randrange(len(rows))
        with evaluation.trials() as trials:
            dry_run = DryRun(trials, self.candidates_wanted(len(rows)), many)
            candidates = yield from dry_run.run(np.concatenate((rows[start:], rows[:start])))
        if len(candidates):
            return self.chosen(table, candidates, dry_run.victims)
        if dry_run.errors:
            return PostFilterResult(error(PREFIX + aggregate(dry_run.errors)))
        return _hopeless(table, dry_run.reasons, dry_run.explained)

    def candidates_wanted(self, nodes: int) -> int:
        """How many candidates are enough, of so many nodes that could be."""
        args: DefaultPreemptionArgs = self.args
        share = nodes * args.min_candidate_nodes_percentage // 100
        return min(nodes, max(share, args.min_candidate_nodes_absolute))

    def among_candidates(self, victims: Mapping[str, Victims]) -> PostFilterResult:
        """The best of some nodes with the pods that would have to go from each."""
        table = self.handle.table
        found: list[tuple[int, int, Sacrifice]] = []
        for turn, (node, sacrificed) in enumerate(victims.items()):
            row = table.row_of(node)
            pods = [table.pods[pod.metadata.uid] for pod in sacrificed.pods if pod.metadata.uid in table.pods]
            if row is not None and pods:
                found.append((turn, row, Sacrifice(pods, sacrificed.violations)))
        by_row = {row: sacrifice.victims for _, row, sacrifice in found}
        return self.chosen(table, from_sacrifices(found), lambda rows: [by_row[row] for row in rows])

    def chosen(self, table: ClusterTable, candidates: Candidates, victims_of: VictimsOf) -> PostFilterResult:
        """The best candidate; one of the best at random if there are several."""
        best = equally_good(candidates)
        if not len(best):
            return PostFilterResult(_rejected(REASON_NO_CANDIDATE))
        nth = self.handle.rng.randrange(len(best))
        rows = candidates.rows[best].tolist()
        ties = tuple(table.name_of(row) for row in rows)
        (victims,) = victims_of([rows[nth]])
        return PostFilterResult(
            SUCCESS,
            ties[nth],
            tuple(info.pod for info in victims),
            VictimsByNode(table.nodes, candidates, victims_of),
            ties,
        )


def _rejected(reason: str) -> Status:
    return unschedulable(PREFIX + reason)


def _hopeless(table: ClusterTable, reasons: Mapping[str, int], explained: int) -> PostFilterResult:
    """No node can be helped: an earlier promise is taken back. `explained` nodes have their own reasons."""
    counts = Counter(reasons)
    if explained < table.node_count:
        counts[REASON_NOT_HELPFUL] += table.node_count - explained
    return PostFilterResult(_rejected(fit_error_text(table.node_count, counts)), "")
