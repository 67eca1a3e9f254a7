"""Judging many rows at once, where what a pod lacks is room.

Most pods that preempt fit nowhere because NodeResourcesFit says so. For such rows removing and putting back
pods is arithmetic on a few numbers per row, and all rows are gone through in step: the most important pod of
every row, then the next of every row. What that comes to is kept: the next pod of the sort only has to look
at rows that were touched since. Rows where another filter has a say that pods could change are left to be
tried each on its own.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from stowplan.cluster.budgets import DisruptionBudgets
from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import BoolColumn
from stowplan.cluster.counts import IntArray
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.framework.evaluation import Evaluation
from stowplan.framework.filtercolumn import FilterColumn
from stowplan.framework.plugin import Codes
from stowplan.framework.status import Status, unresolvable
from stowplan.framework.trials import promised
from stowplan.gocompat.numbers import MAX_INT64, MIN_INT64
from stowplan.plugins.defaultpreemption.cache import (
    HELPED,
    NOBODY_LOWER,
    NOT_HELPED,
    KeptProspects,
    Prospects,
)
from stowplan.plugins.defaultpreemption.candidates import (
    REASON_NO_VICTIMS,
    Candidates,
    bounds_of,
    costs_of,
    over_budget,
    start_of,
)
from stowplan.plugins.noderesources.fit import SAFE, NodeResourcesFit

PRIORITY, START, BUDGET, AMOUNTS = range(4)
"""Columns of a lineup's numbers. From `AMOUNTS` on there is one per thing that is limited: the number of pods
(each counts one), then every resource the table knows."""
NO_BUDGET = -1
SEVERAL_BUDGETS = -2
"""In place of the number of the only budget a pod is under."""


class Lineup:
    """The pods of one row, the most important first, and a line of numbers for each of them."""

    __slots__ = ("_budgets_version", "numbers", "pods")

    def __init__(self, pods: list[PodInfo], numbers: IntArray) -> None:
        self.pods = pods
        self.numbers = numbers
        self._budgets_version = 0

    def note_budgets(self, budgets: DisruptionBudgets) -> None:
        """Enter the budget each pod is under, unless that has been done."""
        if self._budgets_version == budgets.version:
            return
        self._budgets_version = budgets.version
        for place, info in enumerate(self.pods):
            found = budgets.of(info)
            number = found[0].number if found else NO_BUDGET
            self.numbers[place, BUDGET] = number if len(found) < 2 else SEVERAL_BUDGETS


class Lineups:
    """Lineups by row, made when first asked for."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._by_row: dict[int, Lineup] = {}
        self._position = -1
        self._resources = 0
        self._version = -1

    def refresh(self) -> None:
        """Forget the lineups of rows that were touched since the last time."""
        log = self._table.usage_log
        touched = log.since(self._position) if self._position >= 0 else None
        self._position = log.position
        version = self._table.resources.version
        if touched is None or version != self._version:
            self._by_row.clear()
            self._version = version
            self._resources = len(self._table.resources)
            return
        for row in touched.tolist():
            self._by_row.pop(row, None)

    def of(self, rows: Sequence[int]) -> list[Lineup]:
        """The lineups of some rows."""
        known, budgets = self._by_row, self._table.budgets
        missing = [row for row in rows if row not in known]
        if missing:
            self._make(missing)
        lineups = [known[row] for row in rows]
        if budgets:
            for lineup in lineups:
                lineup.note_budgets(budgets)
        return lineups

    def _make(self, rows: Sequence[int]) -> None:
        """Line up the pods of some rows, all at once: by priority, then by start.

        Equals stay in the order they came to their node, as with `by_importance`.
        """
        here = [self._table.pods_on[row].values() for row in rows]
        pods = [info for some in here for info in some]
        counts = [len(some) for some in here]
        numbers = self._numbers(pods)
        owners = np.repeat(np.arange(len(rows)), counts)
        order = np.lexsort((numbers[:, START], -numbers[:, PRIORITY], owners))
        numbers = numbers[order]
        pods = [pods[place] for place in order.tolist()]
        end = 0
        for row, count in zip(rows, counts, strict=True):
            begin, end = end, end + count
            self._by_row[row] = Lineup(pods[begin:end], numbers[begin:end].copy())

    def _numbers(self, pods: Sequence[PodInfo]) -> IntArray:
        numbers = np.empty((len(pods), AMOUNTS + 1 + self._resources), dtype=np.int64)
        numbers[:, PRIORITY] = [info.priority for info in pods]
        numbers[:, START] = [start_of(info.pod) for info in pods]
        numbers[:, BUDGET] = NO_BUDGET
        numbers[:, AMOUNTS] = 1
        templates = [info.template for info in pods]
        places = {template: place for place, template in enumerate(dict.fromkeys(templates))}
        amounts = np.zeros((len(places), self._resources), dtype=np.int64)
        for template, place in places.items():
            for line, amount in self._table.taken_by(template):
                amounts[place, line] = amount
        numbers[:, AMOUNTS + 1 :] = amounts[[places[template] for template in templates]]
        return numbers


class Crowd:
    """The lineups of some rows, one after the other in flat arrays.

    The less important pods of entry i, those a preemptor may make go, are `first[i]` up to `end[i]`, and
    `lower[i]` is how many they are. `limits` names the things that are limited, as columns of the lineups'
    amounts.
    """

    def __init__(self, lineups: Sequence[Lineup], limits: Sequence[int], priority: int) -> None:
        self._lineups = lineups
        numbers = np.concatenate([lineup.numbers for lineup in lineups]).T
        self._priorities, self._starts, self._budget = numbers[[PRIORITY, START, BUDGET]]
        self._amounts: IntArray = numbers[[AMOUNTS + limit for limit in limits]]
        self._bounds = bounds_of(np.array([len(lineup.pods) for lineup in lineups], dtype=np.int64))
        self.end = self._bounds[1:]
        self.lower = self._count(self._priorities < priority, self._bounds[:-1])
        self.first = self.end - self.lower

    def _count(self, chosen: BoolColumn, first: IntArray) -> IntArray:
        """How many pods are chosen of each entry, from a first one on."""
        before = bounds_of(chosen)
        counts: IntArray = before[self.end] - before[first]
        return counts

    def removable(self, kind: np.dtype[Any]) -> IntArray:
        """What all less important pods of each row take together, a line per thing that is limited.

        `kind` is that of the numbers it is added to: int64, or object where those might not do.
        """
        sums = np.zeros((len(self._amounts), len(self._priorities) + 1), dtype=kind)
        np.cumsum(self._amounts.astype(kind, copy=False), axis=1, out=sums[:, 1:])
        taken: IntArray = sums[:, self.end] - sums[:, self.first]
        return taken

    def guarded(self) -> BoolColumn:
        """Whether any of the less important pods of a row is under a budget."""
        return self._count(self._budget != NO_BUDGET, self.first) > 0

    def sacrifices(
        self, entries: Rows, left: IntArray, budgets: DisruptionBudgets
    ) -> tuple[IntArray, list[list[PodInfo]]]:
        """Who has to go of each of some entries because he cannot be put back, and what that costs.

        `left` is what each of the entries has left when all its less important pods are gone and the
        preemptor is there. That it is less than they take together must be known.
        """
        victims, violations = self._without_reprieved(entries, left, budgets)
        places = np.flatnonzero(victims)
        bounds = bounds_of(self._count(victims, self.first)[entries])
        costs = costs_of(violations, bounds, self._priorities[places], self._starts[places])
        owners = np.searchsorted(self.end, places, side="right")
        at = zip(owners.tolist(), (places - self._bounds[owners]).tolist(), strict=True)
        pods = [self._lineups[owner].pods[place] for owner, place in at]
        return costs, [pods[begin:end] for begin, end in pairwise(bounds.tolist())]

    def _without_reprieved(
        self, entries: Rows, left: IntArray, budgets: DisruptionBudgets
    ) -> tuple[BoolColumn, IntArray]:
        """Who is a victim, and how many of an entry's victims budgets protect."""
        lower = self.lower[entries]
        bounds = bounds_of(lower)
        places = np.repeat(self.first[entries] - bounds[:-1], lower) + np.arange(bounds[-1])
        protected = np.zeros(len(self._priorities) + 1, dtype=np.bool_)
        if budgets:
            owners = np.repeat(np.arange(len(entries)), lower)
            protected[places] = self._protected(entries, places, owners, budgets)
            # Who is protected comes first, otherwise the order of importance is kept.
            places = places[np.argsort(2 * owners + ~protected[places], kind="stable")]
        # One pod more that takes nothing: entries with fewer pods than others put that one back at last.
        nobody = len(self._priorities)
        places = np.append(places, nobody)
        amounts = np.concatenate((self._amounts, np.zeros((len(left), 1), dtype=np.int64)), axis=1)
        steps = np.arange(int(lower.max()))[:, None]
        pods = places[np.where(steps < lower, bounds[:-1] + steps, -1)]
        taken = amounts[:, pods]
        goes = np.empty(pods.shape, dtype=np.bool_)
        for step in range(len(pods)):
            after = left - taken[:, step]
            stays = after.min(axis=0) >= 0
            left = np.where(stays, after, left)
            np.logical_not(stays, out=goes[step])
        victims = np.zeros(nobody + 1, dtype=np.bool_)
        victims[pods[goes]] = True
        return victims[:-1], (protected[pods] & goes).sum(axis=0)

    def _protected(
        self, entries: Rows, places: IntArray, owners: IntArray, budgets: DisruptionBudgets
    ) -> BoolColumn:
        """Which of the pods in `places` exceed their budget, if they and the more important ones went.

        Within an entry the pods of a budget are numbered in their order: those past what it allows are
        protected. Where pods are under several budgets, or budgets have pods taken off them, it is worked
        out pod by pod.
        """
        numbers = self._budget[places]
        protected = np.zeros(len(places), dtype=np.bool_)
        under = np.flatnonzero(numbers >= 0)
        group = owners[under] * len(budgets.allowed) + numbers[under]
        sequence = np.argsort(group, kind="stable")
        sorted_group = group[sequence]
        begins = np.flatnonzero(np.diff(sorted_group, prepend=-1))
        nth = np.arange(len(under)) - np.repeat(begins, np.diff(begins, append=len(under)))
        protected[under[sequence]] = nth >= budgets.allowed[numbers[under[sequence]]]
        intricate = numbers == SEVERAL_BUDGETS
        intricate[under] = ~budgets.untouched[numbers[under]]
        for owner in np.unique(owners[intricate]).tolist():
            pods = self._lineups[entries[owner]].pods
            protected[owners == owner] = over_budget(pods[len(pods) - self.lower[entries[owner]] :], budgets)
        return protected


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
