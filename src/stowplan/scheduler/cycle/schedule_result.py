"""The result of a node search."""

from collections.abc import Sequence
from dataclasses import dataclass

from stowplan.scheduler.cycle import empty_node_scores
from stowplan.scheduler.extenders.requests import ExtenderScores
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import IntColumn


@dataclass(slots=True)
class ScheduleResult:
    """Result of a node search: the row, None if no node can take the pod.

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
        """Scores of all feasible rows by plugin, times its weight."""
        scores = self.evaluation.scores(rows)
        for plugin, shifts in (self.shifts or {}).items():
            scores[plugin] = [score + shift for score, shift in zip(scores[plugin], shifts, strict=True)]
        return scores

    def all_totals(self, rows: Rows) -> list[int]:
        """The totals of all the feasible rows."""
        totals = self.evaluation.totals()[rows] if self.totals is None else self.totals
        listed: list[int] = totals.tolist()
        return listed
