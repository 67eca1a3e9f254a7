"""Judging many rows at once, where what a pod lacks is room.

Most pods that preempt fit nowhere because NodeResourcesFit says so. For such rows removing and putting back
pods is arithmetic on a few numbers per row, and all rows are gone through in step: the most important pod of
every row, then the next of every row. What that comes to is kept: the next pod of the sort only has to look
at rows that were touched since. Rows where another filter has a say that pods could change are left to be
tried each on its own.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import BoolColumn, IntArray
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.evaluation import Evaluation
from stowplan.framework.filter_results import FilterColumn
from stowplan.framework.interface import Codes
from stowplan.framework.simulation import promised
from stowplan.framework.status import Status, unresolvable
from stowplan.gocompat.numbers import MAX_INT64, MIN_INT64
from stowplan.plugins.defaultpreemption.candidates import Candidates
from stowplan.plugins.defaultpreemption.crowd import Crowd
from stowplan.plugins.defaultpreemption.lineups import Lineups
from stowplan.plugins.defaultpreemption.prospects import (
    HELPED,
    NOBODY_LOWER,
    NOT_HELPED,
    KeptProspects,
    Prospects,
)
from stowplan.plugins.defaultpreemption.reprieve import REASON_NO_VICTIMS
from stowplan.plugins.noderesourcesfit import SAFE, NodeResourcesFit


class ManyRows:
    """Rows where NodeResourcesFit alone decides what preemption can change.

    Every other filter's word on such a row stands whatever pods are taken off it: either it does not look at
    pods, or it passes the row and goes on passing it with fewer pods (`Plugin.passes_with_fewer`).
    """

    def __init__(
        self, evaluation: Evaluation, fit: NodeResourcesFit, lineups: Lineups, prospects: Prospects
    ) -> None:
        self._cycle = evaluation.cycle
        self._pod = evaluation.cycle.pod
        self._table = evaluation.cycle.table
        self._fit = fit
        self._lineups = lineups
        self._prospects = prospects
        self._filters = evaluation.filters()
        self._constant = [column for column in self._filters if not column.traits.watches]
        self._easing = [c for c in self._filters if c.traits.watches and c.plugin is not fit]
        nominations = evaluation.nominations
        self._others_say = [row for row, verdict in evaluation.overruled.items() if not verdict.plugin]
        self._promised = {row: pods for row in nominations if (pods := promised(nominations, row, self._pod))}
        prospects.begin(self._promised)

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
        """Where taking pods away helps, and what it costs. The rows must be such as `suits` accepts."""
        prospects = self._prospects
        unknown = prospects.unknown(rows)
        if len(unknown):
            self._look_at(unknown)
        standing = prospects.standing[rows]
        helped = standing == HELPED
        for column in self._constant:
            if column.codes is not None:
                helped &= column.codes[rows] == 0
        found = rows[helped]
        candidates = Candidates(found, turns[helped], prospects.costs[:, found])
        return Judged(self, rows, standing == NOBODY_LOWER, helped, candidates)

    def victims(self, rows: Sequence[int]) -> list[list[PodInfo]]:
        """Who would have to go from each of some candidates, the most important first."""
        return [self._prospects.victims[row] for row in rows]

    def _look_at(self, rows: Rows) -> None:
        """Find out how rows stand."""
        limits = [0, *(1 + line for line in self._fit.limited_lines(self._cycle))]
        crowd = Crowd(self._lineups.of(rows.tolist()), limits, self._pod.priority)
        left_now = self._left_over(rows)
        left = left_now + crowd.removable(left_now.dtype)
        anybody = crowd.lower > 0
        helped = anybody & (left_now < 0).any(axis=0) & (left >= 0).all(axis=0)
        standing = np.where(helped, HELPED, np.where(anybody, NOT_HELPED, NOBODY_LOWER))
        left = np.clip(left, MIN_INT64, MAX_INT64).astype(np.int64) if left.dtype == object else left
        codes = self._fit.codes_for(self._cycle, rows, left)
        self._prospects.note(rows, standing, codes, crowd.guarded())
        entries = np.flatnonzero(helped)
        if len(entries):
            found = crowd.sacrifices(entries, left[:, entries], self._table.budgets)
            self._prospects.note_victims(rows[entries], *found)

    def _left_over(self, rows: Rows) -> IntArray:
        """What rows would have left beside the pod and the pods promised to them: where all of these fit, the
        pod fits without them."""
        left = self._fit.left_over(self._cycle, rows)
        if not self._promised:
            return left
        places = {line: place for place, line in enumerate(self._fit.limited_lines(self._cycle), start=1)}
        promised = {
            (places[line], entry): amount
            for entry, row in enumerate(rows.tolist())
            for line, amount in self._promised_amounts(row).items()
            if line in places
        }
        if any(amount >= SAFE for amount in promised.values()):
            left = left.astype(object)
        for entry, row in enumerate(rows.tolist()):
            left[0, entry] -= len(self._promised.get(row, ()))
        for (place, entry), amount in promised.items():
            left[place, entry] -= amount
        return left

    def _promised_amounts(self, row: int) -> Counter[int]:
        """What the pods promised to a row will take, by line."""
        taken = Counter[int]()
        for info in self._promised.get(row, ()):
            for line, amount in self._table.taken_by(info.template):
                taken[line] += amount
        return taken

    def first_rejections(self, rows: Rows) -> list[tuple[Status, int]]:
        """What the filters say of rows when all less important pods are gone, by number of rows."""
        found: list[tuple[Status, int]] = []
        passed: BoolColumn = np.ones(len(rows), dtype=np.bool_)
        for column in self._filters:
            codes = self._codes(column)
            if codes is None:
                continue
            rejected = passed & (codes[rows] != 0)
            passed &= ~rejected
            for code, count in zip(*np.unique(codes[rows[rejected]], return_counts=True), strict=True):
                found.append((column.status(self._cycle, self._pod, int(code)), int(count)))
        return found

    def _codes(self, column: FilterColumn) -> Codes | None:
        return self._prospects.codes if column.plugin is self._fit else column.codes


class Judged:
    """What many rows came to."""

    def __init__(
        self,
        many: ManyRows,
        rows: Rows,
        nobody_lower: BoolColumn,
        helped: BoolColumn,
        candidates: Candidates,
    ) -> None:
        self._many = many
        self._rows = rows
        self._nobody_lower = nobody_lower
        self._helped = helped
        self.candidates = candidates

    def failures(self) -> list[tuple[Status, int]]:
        """Why preemption does not help, with the number of nodes it is true of."""
        found = self._many.first_rejections(self._rows[~self._helped & ~self._nobody_lower])
        lonely = int(np.count_nonzero(self._nobody_lower))
        return [*found, (unresolvable(REASON_NO_VICTIMS), lonely)] if lonely else found


def judging_many(evaluation: Evaluation, lineups: Lineups, kept: KeptProspects) -> ManyRows | None:
    """The fast way, if the filters that were asked allow of it."""
    filters = evaluation.filters()
    fit = next((column.plugin for column in filters if isinstance(column.plugin, NodeResourcesFit)), None)
    pod = evaluation.cycle.pod
    if fit is None or any(column.by_node for column in filters):
        return None
    if not all(c.plugin.passes_with_fewer(pod) for c in filters if c.traits.watches):
        return None
    lineups.refresh()
    sort = (fit.asked_for(evaluation.cycle), pod.priority)
    return ManyRows(evaluation, fit, lineups, kept.of(sort))
