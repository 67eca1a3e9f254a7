"""Judging many rows at once, where what a pod lacks is room.

Most pods that preempt fit nowhere because NodeResourcesFit says so. For such rows removing and putting back
pods is arithmetic on a few numbers per row, and all rows are gone through in step: the most important pod of
every row, then the next of every row. Rows where another filter has a say that pods could change are left to
be tried each on its own.
"""

import numpy as np

from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import BoolColumn
from stowplan.cluster.counts import IntArray
from stowplan.framework.evaluation import Evaluation
from stowplan.framework.filtercolumn import FilterColumn
from stowplan.framework.plugin import Codes
from stowplan.framework.status import Status, unresolvable
from stowplan.framework.trials import promised
from stowplan.plugins.defaultpreemption.candidates import NO_CANDIDATES, Candidates
from stowplan.plugins.defaultpreemption.crowd import Crowd
from stowplan.plugins.defaultpreemption.lineups import Lineups
from stowplan.plugins.defaultpreemption.reprieve import REASON_NO_VICTIMS
from stowplan.plugins.noderesourcesfit import NodeResourcesFit


class ManyRows:
    """Rows where NodeResourcesFit alone decides what preemption can change.

    Every other filter's word on such a row stands whatever pods are taken off it: either it does not look at
    pods, or it passes the row and goes on passing it with fewer pods (`Plugin.passes_with_fewer`).
    """

    def __init__(self, evaluation: Evaluation, fit: NodeResourcesFit, lineups: Lineups) -> None:
        self._cycle = evaluation.cycle
        self._pod = evaluation.cycle.pod
        self._table = evaluation.cycle.table
        self._fit = fit
        self._lineups = lineups
        self._filters = evaluation.filters()
        self._constant = [column for column in self._filters if not column.traits.watches]
        self._easing = [c for c in self._filters if c.traits.watches and c.plugin is not fit]
        nominations = evaluation.nominations
        self._others_say = [row for row, verdict in evaluation.overruled.items() if not verdict.plugin]
        self._promised = {row: pods for row in nominations if (pods := promised(nominations, row, self._pod))}

    def suits(self, rows: Rows) -> BoolColumn:
        """Which rows can be judged here."""
        result: BoolColumn = np.ones(len(rows), dtype=np.bool_)
        for column in self._easing:
            if column.codes is not None:
                result &= column.codes[rows] == 0
        if self._others_say:
            result &= ~np.isin(rows, self._others_say)
        if self._easing and self._promised:
            result &= ~np.isin(rows, list(self._promised))
        return result

    def judge(self, rows: Rows, turns: IntArray) -> "Judged":
        """Where taking pods away helps, and whom it costs. The rows must be such as `suits` accepts."""
        lines = self._fit.limited_lines(self._cycle)
        crowd = Crowd(self._lineups.of(rows.tolist()), [0, *(1 + line for line in lines)], self._pod.priority)
        left = self._fit.left_over(self._cycle, rows) + crowd.removable()
        self._make_room_for_promised(rows, lines, left)
        helped = (crowd.lower > 0) & (left >= 0).all(axis=0)
        for column in self._constant:
            if column.codes is not None:
                helped &= column.codes[rows] == 0
        entries = np.flatnonzero(helped)
        judged = Judged(self, rows, crowd.lower == 0, helped, left)
        if len(entries):
            budgets = self._table.budgets
            judged.candidates = crowd.candidates(rows, turns, entries, left[:, entries], budgets)
        return judged

    def _make_room_for_promised(self, rows: Rows, lines: list[int], left: IntArray) -> None:
        """Count pods promised to a row as if they were there: where they fit too, it fits without them."""
        places = {line: place for place, line in enumerate(lines, start=1)}
        for entry in np.flatnonzero(np.isin(rows, list(self._promised))).tolist():
            for info in self._promised[int(rows[entry])]:
                left[0, entry] -= 1
                template = info.template
                for line, amount in template.taken:
                    if line in places:
                        left[places[line], entry] -= amount

    def first_rejections(self, rows: Rows, left: IntArray) -> list[tuple[Status, int]]:
        """What the filters say of rows when all less important pods are gone, by number of rows."""
        found: list[tuple[Status, int]] = []
        passed: BoolColumn = np.ones(len(rows), dtype=np.bool_)
        for column in self._filters:
            codes = self._codes(column, rows, left)
            if codes is None:
                continue
            rejected = passed & (codes != 0)
            passed &= ~rejected
            for code, count in zip(*np.unique(codes[rejected], return_counts=True), strict=True):
                found.append((column.status(self._cycle, self._pod, int(code)), int(count)))
        return found

    def _codes(self, column: FilterColumn, rows: Rows, left: IntArray) -> Codes | None:
        if column.plugin is self._fit:
            return self._fit.codes_for(self._cycle, rows, left)
        return None if column.codes is None else column.codes[rows]


class Judged:
    """What many rows came to."""

    def __init__(
        self, many: ManyRows, rows: Rows, nobody_lower: BoolColumn, helped: BoolColumn, left: IntArray
    ) -> None:
        self._many = many
        self._rows = rows
        self._nobody_lower = nobody_lower
        self._rejected = ~helped & ~nobody_lower
        self._left = left
        self.candidates: Candidates = NO_CANDIDATES

    def failures(self) -> list[tuple[Status, int]]:
        """Why preemption does not help, with the number of nodes it is true of."""
        found = self._many.first_rejections(self._rows[self._rejected], self._left[:, self._rejected])
        lonely = int(np.count_nonzero(self._nobody_lower))
        return [*found, (unresolvable(REASON_NO_VICTIMS), lonely)] if lonely else found


def judging_many(evaluation: Evaluation, lineups: Lineups) -> ManyRows | None:
    """The fast way, if the filters that were asked allow of it."""
    filters = evaluation.filters()
    fit = next((column.plugin for column in filters if isinstance(column.plugin, NodeResourcesFit)), None)
    pod = evaluation.cycle.pod
    if fit is None or any(column.by_node for column in filters):
        return None
    if not all(c.plugin.passes_with_fewer(pod) for c in filters if c.traits.watches):
        return None
    lineups.refresh()
    return ManyRows(evaluation, fit, lineups)
