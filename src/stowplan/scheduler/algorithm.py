"""Finding a node for one pod: filters, extenders, scores, and the choice among the best."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from stowplan.api.node import Node
from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import IntColumn
from stowplan.cluster.podinfo import PodInfo
from stowplan.extenders import Extender, ExtenderError
from stowplan.extenders.rounds import ExtenderScores, filter_round, prioritize_round
from stowplan.framework.evaluation import Evaluation
from stowplan.framework.framework import Framework
from stowplan.framework.status import unresolvable
from stowplan.framework.trials import NO_NOMINATIONS, Nominations
from stowplan.logs import Journal, Ref
from stowplan.scheduler import emptynodes
from stowplan.scheduler.sampler import Sampler

_IGNORED = "Skipping extender as it returned error and has ignorable flag set"
_NO_SCORE = "Failed to run extender's priority function. No score given by this extender."


@dataclass(slots=True)
class Found:
    """What came of the search: the row, None if no node can take the pod.

    `ties` is how many rows were as good. Where extenders had a say, `extender_scores` is what they added,
    `shifts` how far plugins' scores moved because nodes came back empty, and `totals` the totals of the
    feasible rows with all of that.
    """

    evaluation: Evaluation
    row: int | None = None
    ties: int = 0
    extender_scores: Sequence[ExtenderScores] = ()
    shifts: emptynodes.Difference | None = None
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


class Algorithm:
    """The search for a node, the same for every profile. Ties are broken by `rng`, fairly.

    `filtered_at` is when the filters of the last search were done, by `timer`; it is looked at only if the
    log shows where time goes.
    """

    def __init__(
        self,
        sampler: Sampler,
        extenders: Sequence[Extender],
        rng: Random,
        journal: Journal,
        timer: Callable[[], float] | None = None,
    ) -> None:
        self._sampler = sampler
        self._extenders = extenders
        self._rng = rng
        self._journal = journal
        self._timer = timer
        self.filtered_at = 0.0

    def find(
        self,
        framework: Framework,
        pod: PodInfo,
        nominations: Nominations = NO_NOMINATIONS,
        nominated_row: int | None = None,
    ) -> Found:
        """Search without asking extenders. Raises PluginError."""
        evaluation = framework.screen(pod, nominations, nominated_row)
        if framework.profile.percentage_of_nodes_to_score is not None:
            self._sample(framework, evaluation)
        if self._journal.detail >= 2 and self._timer is not None:
            self.filtered_at = self._timer()
        framework.rank(evaluation)
        return self._choose(evaluation)

    async def find_with_extenders(
        self,
        framework: Framework,
        pod: PodInfo,
        nominations: Nominations = NO_NOMINATIONS,
        nominated_row: int | None = None,
    ) -> Found:
        """Search with extenders. The table must not change meanwhile. Raises PluginError, ExtenderError."""
        evaluation = framework.screen(pod, nominations, nominated_row)
        if evaluation.only_row is not None and not await self._nominated_passes(evaluation):
            evaluation.keep_to(None)
        rejected = False
        fresh: Mapping[str, Node] = {}
        if evaluation.only_row is None and evaluation.feasible_count:
            self._sample(framework, evaluation)
            rejected, fresh = await self._filter(evaluation)
        if self._timer is not None and self._journal.shows(2):
            self.filtered_at = self._timer()
        framework.rank(evaluation)
        found = await self._prioritize(evaluation, fresh) if evaluation.scored else self._choose(evaluation)
        found.extenders_rejected = rejected
        return found

    def _sample(self, framework: Framework, evaluation: Evaluation) -> None:
        percentage = framework.profile.percentage_of_nodes_to_score
        if percentage is not None and evaluation.only_row is None and evaluation.rejected_outright is None:
            self._sampler.narrow(evaluation, percentage)

    def _choose(self, evaluation: Evaluation) -> Found:
        if not evaluation.feasible_count:
            return Found(evaluation)
        row, ties = evaluation.choose(self._rng.randrange)
        return Found(evaluation, row, ties)

    # Extenders

    async def _nominated_passes(self, evaluation: Evaluation) -> bool:
        """Do extenders accept the node promised to the pod? One that fails stands for no."""
        row = evaluation.only_row
        assert row is not None
        try:
            left = await filter_round(self._extenders, evaluation.cycle.pod.pod, _nodes(evaluation, [row]))
        except ExtenderError as failure:
            self._journal.problem("Evaluation failed on nominated node", err=failure)
            return False
        return bool(left.kept)

    async def _filter(self, evaluation: Evaluation) -> tuple[bool, Mapping[str, Node]]:
        """Leave out what extenders reject. Returns whether there was any, and the nodes that came back."""
        table = evaluation.cycle.table
        rows = evaluation.feasible_rows.tolist()
        left_out = unresolvable() if evaluation.pre_filtering.node_names is None else evaluation.left_out
        left = await filter_round(
            self._extenders, evaluation.cycle.pod.pod, _nodes(evaluation, rows), left_out
        )
        for name, cause in left.ignored:
            self._journal.info(0, _IGNORED, pod=Ref(evaluation.cycle.pod.key), extender=name, err=cause)
        verdicts = {table.row_of(name): verdict for name, verdict in left.verdicts.items()}
        known = {row: verdict for row, verdict in verdicts.items() if row is not None}
        evaluation.leave_out(np.array(list(known), dtype=np.intp), known)
        return len(left.kept) != len(rows), left.fresh

    async def _prioritize(self, evaluation: Evaluation, fresh: Mapping[str, Node]) -> Found:
        """Add what extenders think of the nodes, and choose."""
        rows = evaluation.feasible_rows
        nodes = _nodes(evaluation, rows.tolist())
        asked = await prioritize_round(self._extenders, evaluation.cycle.pod.pod, nodes)
        for name, cause in asked.ignored:
            self._journal.info(5, _NO_SCORE, error=cause, pod=Ref(evaluation.cycle.pod.key), extender=name)
        shifts = emptynodes.differences(evaluation, rows, fresh) if fresh else {}
        totals = evaluation.totals()[rows] + emptynodes.total(shifts, len(rows))
        for given in asked.scores:
            totals += np.array([given.scores.get(node.name, 0) for node in nodes], dtype=np.int64)
        best: Rows = rows[totals == totals.max()]
        row = int(best[self._rng.randrange(len(best)) if len(best) > 1 else 0])
        evaluation.check_choice(row)
        return Found(evaluation, row, len(best), asked.scores, shifts, totals)


def _nodes(evaluation: Evaluation, rows: Sequence[int]) -> list[Node]:
    nodes = evaluation.cycle.table.nodes
    return [node for node in (nodes[row] for row in rows) if node is not None]
