"""The fast path of the dry run: many nodes at once, in arrays, where the pod only lacks resources.

Most preemptors fit nowhere because NodeResourcesFit rejects every node. On such a node removing pods and
putting them back is arithmetic on a few numbers, done for all nodes in step: the most important pod of every
node, then the next of every node. Results are cached (`cache.py`): the next preemptor of the same priority
and requests only looks at nodes that changed since. Nodes where removing pods could change the result of
another filter are left to `dryrun.py`, which tries them one by one.
"""

from collections import Counter
from collections.abc import Generator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from stowplan.gocompat.numbers import MAX_INT64, MIN_INT64
from stowplan.scheduler.framework import (
    Codes,
    Cycle,
    PodInfo,
    Status,
    unresolvable,
)
from stowplan.scheduler.framework.advanced import Evaluation
from stowplan.scheduler.framework.reuse.filter_results import FilterColumn
from stowplan.scheduler.plugins.defaultpreemption.cache import (
    HELPS,
    NO_HELP,
    NO_LOWER_PODS,
    RowResults,
    RowResultsCache,
)
from stowplan.scheduler.plugins.defaultpreemption.candidates import (
    REASON_NO_VICTIMS,
    Candidates,
    bounds_of,
    costs_of,
)
from stowplan.scheduler.plugins.defaultpreemption.importance import (
    MANY_BUDGETS,
    over_budget,
    reprieve_order,
    start_of,
    violations_of,
)
from stowplan.scheduler.plugins.noderesources.fit import SAFE, NodeResourcesFit
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import BoolColumn, IntArray
from stowplan.scheduler.table.lookups import DisruptionBudgets
from stowplan.scheduler.table.table import ClusterTable

PRIORITY, START, BUDGET, AMOUNTS = range(4)
"""Columns of `SortedPods.numbers`. From `AMOUNTS` on there is one per thing that is limited: the number of
pods (each counts one), then every resource the table knows."""

FEW = 4
"""Up to this number of rows arrays do not pay off."""

_ROWS_AT_ONCE = 4
"""Rows that are worked out in one step if their pods are under very many budgets."""

NO_BUDGET = -1

SEVERAL_BUDGETS = -2
"""In place of the number of the only budget a pod is under."""


class SortedPods:
    """The pods of one node, the most important first, with a line of numbers for each."""

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


class SortedPodsByRow:
    """The sorted pods of every node, by row; sorted when first asked for, kept until the node changes."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._by_row: dict[int, SortedPods] = {}
        self._position = -1
        self._resources = 0
        self._version = -1

    def refresh(self) -> None:
        """Drop rows that changed since the last time."""
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

    def of(self, rows: Sequence[int]) -> list[SortedPods]:
        """The sorted pods of some rows."""
        known, budgets = self._by_row, self._table.budgets
        missing = [row for row in rows if row not in known]
        if missing:
            self._sort(missing)
        sorted_pods = [known[row] for row in rows]
        if budgets:
            for some in sorted_pods:
                some.note_budgets(budgets)
        return sorted_pods

    def _sort(self, rows: Sequence[int]) -> None:
        """Sort the pods of some rows, all at once: by priority, then by start.

        Equal ones keep the order in which they came to their node, as with `by_importance`.
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
            self._by_row[row] = SortedPods(pods[begin:end], numbers[begin:end].copy())

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


class PodArrays:
    """The sorted pods of some rows, one row after the other in flat arrays.

    The potential victims of entry i, its pods of lower priority, are `first[i]` up to `end[i]`, and
    `lower[i]` is how many they are. `limits` are the limited things, as columns of the pods' amounts.
    """

    def __init__(self, sorted_pods: Sequence[SortedPods], limits: Sequence[int], priority: int) -> None:
        self._sorted_pods = sorted_pods
        numbers = np.concatenate([some.numbers for some in sorted_pods]).T
        self._priorities, self._starts, self._budget = numbers[[PRIORITY, START, BUDGET]]
        self._amounts: IntArray = numbers[[AMOUNTS + limit for limit in limits]]
        self._bounds = bounds_of(np.array([len(some.pods) for some in sorted_pods], dtype=np.int64))
        self.end = self._bounds[1:]
        self.lower = self._count(self._priorities < priority, self._bounds[:-1])
        self.first = self.end - self.lower

    def _count(self, chosen: BoolColumn, first: IntArray) -> IntArray:
        """Number of chosen pods of each entry, from a first one on."""
        before = bounds_of(chosen)
        counts: IntArray = before[self.end] - before[first]
        return counts

    def removable(self, kind: np.dtype[Any]) -> IntArray:
        """Sum of all potential victims of each row, a line per limited resource.

        `kind` is that of the numbers it is added to: int64, or object where those might overflow.
        """
        sums = np.zeros((len(self._amounts), len(self._priorities) + 1), dtype=kind)
        np.cumsum(self._amounts.astype(kind, copy=False), axis=1, out=sums[:, 1:])
        taken: IntArray = sums[:, self.end] - sums[:, self.first]
        return taken

    def under_budget(self) -> BoolColumn:
        """True for rows with a potential victim under a disruption budget."""
        return self._count(self._budget != NO_BUDGET, self.first) > 0

    def select_victims(
        self, entries: Rows, left: IntArray, budgets: DisruptionBudgets
    ) -> tuple[IntArray, list[list[PodInfo]]]:
        """The victims of each of some entries, the pods that cannot be reprieved, and their costs.

        `left` is what each of the entries has left with all potential victims gone and the preemptor there.
        It must be known to be less than what they take together.
        """
        victims, violations = self._without_reprieved(entries, left, budgets)
        places = np.flatnonzero(victims)
        bounds = bounds_of(self._count(victims, self.first)[entries])
        costs = costs_of(violations, bounds, self._priorities[places], self._starts[places])
        owners = np.searchsorted(self.end, places, side="right")
        at = zip(owners.tolist(), (places - self._bounds[owners]).tolist(), strict=True)
        pods = [self._sorted_pods[owner].pods[place] for owner, place in at]
        return costs, [pods[begin:end] for begin, end in pairwise(bounds.tolist())]

    def _without_reprieved(
        self, entries: Rows, left: IntArray, budgets: DisruptionBudgets
    ) -> tuple[BoolColumn, IntArray]:
        """Which pods are victims, and how many of an entry's victims violate a budget."""
        lower = self.lower[entries]
        bounds = bounds_of(lower)
        places = np.repeat(self.first[entries] - bounds[:-1], lower) + np.arange(bounds[-1])
        protected = np.zeros(len(self._priorities) + 1, dtype=np.bool_)
        if budgets:
            owners = np.repeat(np.arange(len(entries)), lower)
            protected[places] = self._protected(entries, places, owners, budgets)
            # Protected pods are reprieved first, otherwise the order of importance is kept.
            places = places[np.argsort(2 * owners + ~protected[places], kind="stable")]
        # One pod more that takes nothing, for entries with fewer pods than others.
        filler = len(self._priorities)
        places = np.append(places, filler)
        amounts = np.concatenate((self._amounts, np.zeros((len(left), 1), dtype=np.int64)), axis=1)
        steps = np.arange(int(lower.max()))[:, None]
        pods = places[np.where(steps < lower, bounds[:-1] + steps, -1)]
        taken = amounts[:, pods]
        is_victim = np.empty(pods.shape, dtype=np.bool_)
        for step in range(len(pods)):
            after = left - taken[:, step]
            reprieved = after.min(axis=0) >= 0
            left = np.where(reprieved, after, left)
            np.logical_not(reprieved, out=is_victim[step])
        victims = np.zeros(filler + 1, dtype=np.bool_)
        victims[pods[is_victim]] = True
        return victims[:-1], (protected[pods] & is_victim).sum(axis=0)

    def _protected(
        self, entries: Rows, places: IntArray, owners: IntArray, budgets: DisruptionBudgets
    ) -> BoolColumn:
        """Which of the pods in `places` violate their budget if evicted with the more important ones.

        Within an entry the pods of a budget are numbered in their order: those past what it allows are
        protected. Entries with pods under several budgets, or under budgets that list disrupted pods, are
        gone through pod by pod.
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
        by_pod = numbers == SEVERAL_BUDGETS
        by_pod[under] = ~budgets.untouched[numbers[under]]
        for owner in np.unique(owners[by_pod]).tolist():
            pods = self._sorted_pods[entries[owner]].pods
            protected[owners == owner] = over_budget(pods[len(pods) - self.lower[entries[owner]] :], budgets)
        return protected


class _RoomOnRow:
    """Check for a pod's room on a row with the pods nominated to it, as others are taken off."""

    __slots__ = ("_cycle", "_fit", "_more", "_pods", "_row")

    def __init__(self, fit: NodeResourcesFit, cycle: Cycle, row: int, nominated: Sequence[PodInfo]) -> None:
        self._fit = fit
        self._cycle = cycle
        self._row = row
        self._pods = 0
        self._more = Counter[int]()
        for info in nominated:
            self._add(info)

    def code(self) -> int:
        """Code of NodeResourcesFit; 0: there is room."""
        return self._fit.filter_row(self._cycle, self._cycle.pod, self._row, self._pods, self._more)

    def remove(self, info: PodInfo) -> None:
        self._pods -= 1
        for line, amount in self._cycle.table.taken_by(info.template):
            self._more[line] -= amount

    def reprieves(self, info: PodInfo) -> bool:
        """Put a pod back if there is room for both."""
        self._add(info)
        if not self.code():
            return True
        self.remove(info)
        return False

    def _add(self, info: PodInfo) -> None:
        self._pods += 1
        for line, amount in self._cycle.table.taken_by(info.template):
            self._more[line] += amount


class BatchDryRun:
    """The dry run on rows where removing pods can change the result of NodeResourcesFit alone.

    Every other filter's result on such a row stays the same when pods are removed: either it does not depend
    on pods, or it passes the row and goes on passing it with fewer pods (`Plugin.passes_with_fewer`). Up to
    `few` rows, such as that of the last preemptor, are computed one after the other, which is quicker than
    together.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        fit: NodeResourcesFit,
        sorted_pods: SortedPodsByRow,
        results: RowResults,
        few: int,
    ) -> None:
        self._few = few
        self._cycle = evaluation.cycle
        self._pod = evaluation.cycle.pod
        self._table = evaluation.cycle.table
        self._fit = fit
        self._sorted_pods = sorted_pods
        self._results = results
        self._filters = evaluation.filters()
        self._constant = [column for column in self._filters if not column.traits.watches]
        self._easing = [c for c in self._filters if c.traits.watches and c.plugin is not fit]
        self._others_say = evaluation.ruled_out_by_others
        self._nominated = results.begin(evaluation.nominations, self._pod)
        self._left_out: BoolColumn | None = None

    def leave_out(self, rows: BoolColumn) -> None:
        """Do not try some rows here, as their pods do not go one by one."""
        self._left_out = rows

    def unknown_among(self, rows: Rows) -> int:
        """On how many rows there is something to be worked out."""
        return len(self._results.unknown(rows))

    def suits(self, rows: Rows) -> BoolColumn:
        """Which rows can be tried here."""
        result: BoolColumn = np.ones(len(rows), dtype=np.bool_)
        for column in self._easing:
            if column.codes is not None:
                result &= column.codes[rows] == 0
        if self._others_say:
            result &= ~np.isin(rows, self._others_say)
        if self._left_out is not None:
            result &= ~self._left_out[rows]
        if self._easing and self._nominated:
            heeding = [row for row, others in self._nominated.items() if not self._ignore(row, others)]
            if heeding:
                result &= ~np.isin(rows, heeding)
        return result

    def _ignore(self, row: int, others: Sequence[PodInfo]) -> bool:
        """True if filters that look at pods, except NodeResourcesFit, ignore those nominated to a row."""
        return all(column.plugin.ignores_pods(self._pod, row, others) for column in self._easing)

    def run(self, rows: Rows, turns: IntArray) -> "BatchResult":
        """The candidates among rows, which must be such as `suits` accepts."""
        results = self._results
        unknown = results.unknown(rows)
        if len(unknown) <= self._few and self._has_plain_numbers(unknown):
            for row in unknown.tolist():
                self._evaluate_row(row)
        elif len(unknown):
            self._evaluate(unknown)
        outcome = results.outcome[rows]
        helps = outcome == HELPS
        for column in self._constant:
            if column.codes is not None:
                helps &= column.codes[rows] == 0
        found = rows[helps]
        candidates = Candidates(found, turns[helps], results.costs[:, found])
        return BatchResult(self, rows, turns, outcome == NO_LOWER_PODS, helps, candidates)

    def prepare(self, rows: Rows) -> Generator[None, None, None]:
        """Do what may take long in steps, before `run`: to look up the budgets of pods, and to work out rows
        whose pods are under very many."""
        budgets = self._table.budgets
        if not budgets:
            return
        unknown = self._results.unknown(rows)
        pods_on = self._table.pods_on
        most = yield from budgets.look_up(
            info for row in unknown.tolist() for info in list(pods_on[row].values())
        )
        if most > MANY_BUDGETS:
            for start in range(0, len(unknown), _ROWS_AT_ONCE):
                self._evaluate(unknown[start : start + _ROWS_AT_ONCE])
                yield

    def victims(self, rows: Sequence[int]) -> list[list[PodInfo]]:
        """The victims on each of some candidates, the most important first."""
        return [self._results.victims[row] for row in rows]

    def _evaluate(self, rows: Rows) -> None:
        """Work out the results of rows and cache them."""
        limits = [0, *(1 + line for line in self._fit.limited_lines(self._cycle))]
        arrays = PodArrays(self._sorted_pods.of(rows.tolist()), limits, self._pod.priority)
        left_now = self._left_over(rows)
        left = left_now + arrays.removable(left_now.dtype)
        has_lower = arrays.lower > 0
        helps = has_lower & (left_now < 0).any(axis=0) & (left >= 0).all(axis=0)
        outcome = np.where(helps, HELPS, np.where(has_lower, NO_HELP, NO_LOWER_PODS))
        left = np.clip(left, MIN_INT64, MAX_INT64).astype(np.int64) if left.dtype == object else left
        codes = self._fit.codes_for(self._cycle, rows, left)
        self._results.note(rows, outcome, codes, arrays.under_budget())
        entries = np.flatnonzero(helps)
        if len(entries):
            found = arrays.select_victims(entries, left[:, entries], self._table.budgets)
            self._results.note_victims(rows[entries], *found)

    def _has_plain_numbers(self, rows: Rows) -> bool:
        """True if room is all that counts on rows, and no sum on them overflows a column."""
        if not self._fit.is_room_alone(self._cycle):
            return False
        lines, requested = self._fit.limited_lines(self._cycle), self._table.requested
        return all(requested.item(line, row) < SAFE for row in rows.tolist() for line in lines)

    def _evaluate_row(self, row: int) -> None:
        """Work out the result of one row: what `_evaluate` does for many, in numbers instead of arrays."""
        budgets, priority = self._table.budgets, self._pod.priority
        lower = [info for info in self._sorted_pods.of([row])[0].pods if info.priority < priority]
        room = _RoomOnRow(self._fit, self._cycle, row, self._nominated.get(row, ()))
        is_full = bool(room.code())
        for info in lower:
            room.remove(info)
        code = room.code()
        helps = bool(lower) and is_full and not code
        outcome = HELPS if helps else NO_HELP if lower else NO_LOWER_PODS
        under_budget = bool(budgets) and any(budgets.of(info) for info in lower)
        self._results.note(row, outcome, code, under_budget)
        if not helps:
            return
        protected = violations_of([[info] for info in lower], budgets)
        spared = {position for position in reprieve_order(protected) if room.reprieves(lower[position])}
        places = [place for place in range(len(lower)) if place not in spared]
        victims = [lower[place] for place in places]
        costs = costs_of(
            np.array([sum(protected[place] for place in places)]),
            np.array([0, len(victims)]),
            np.array([info.priority for info in victims]),
            np.array([start_of(info.pod) for info in victims]),
        )
        self._results.note_victims(np.array([row]), costs, [victims])

    def _left_over(self, rows: Rows) -> IntArray:
        """Amounts that rows would have left with the pod and their nominated pods: where all of these fit,
        the pod fits without them, too."""
        left = self._fit.left_over(self._cycle, rows)
        if not self._nominated:
            return left
        places = {line: place for place, line in enumerate(self._fit.limited_lines(self._cycle), start=1)}
        concerned = [(entry, row) for entry, row in enumerate(rows.tolist()) if row in self._nominated]
        amounts = {
            (places[line], entry): amount
            for entry, row in concerned
            for line, amount in self._nominated_amounts(row).items()
            if line in places
        }
        if any(amount >= SAFE for amount in amounts.values()):
            left = left.astype(object)
        for entry, row in concerned:
            left[0, entry] -= len(self._nominated[row])
        for (place, entry), amount in amounts.items():
            left[place, entry] -= amount
        return left

    def _nominated_amounts(self, row: int) -> Counter[int]:
        """Amounts that the nominated pods of a row will take, by line."""
        taken = Counter[int]()
        for info in self._nominated[row]:
            for line, amount in self._table.taken_by(info.template):
                taken[line] += amount
        return taken

    def first_rejections(self, rows: Rows) -> list[tuple[Status, Rows]]:
        """Which filter rejects rows first with all potential victims gone."""
        found: list[tuple[Status, Rows]] = []
        passed: BoolColumn = np.ones(len(rows), dtype=np.bool_)
        for column in self._filters:
            codes = self._codes(column)
            if codes is None:
                continue
            rejected = passed & (codes[rows] != 0)
            passed &= ~rejected
            failed = rows[rejected]
            for code in np.unique(codes[failed]).tolist():
                found.append((column.status(self._cycle, self._pod, code), failed[codes[failed] == code]))
        return found

    def _codes(self, column: FilterColumn) -> Codes | None:
        return self._results.codes if column.plugin is self._fit else column.codes


class BatchResult:
    """The result of a dry run on many rows."""

    def __init__(
        self,
        batch: BatchDryRun,
        rows: Rows,
        turns: IntArray,
        no_lower_pods: BoolColumn,
        helps: BoolColumn,
        candidates: Candidates,
    ) -> None:
        self._batch = batch
        self._rows = rows
        self._turns = turns
        self._no_lower_pods = no_lower_pods
        self._helps = helps
        self.candidates = candidates

    def failures(self, last_turn: int | None = None) -> list[tuple[Status, Rows]]:
        """Why preemption does not help, with the nodes it is true of; up to a turn if one is given."""
        helps = self._helps if last_turn is None else self._helps | (self._turns > last_turn)
        found = self._batch.first_rejections(self._rows[~helps & ~self._no_lower_pods])
        without = self._rows[self._no_lower_pods & ~helps]
        return [*found, (unresolvable(REASON_NO_VICTIMS), without)] if len(without) else found


def batch_dry_run(
    evaluation: Evaluation, sorted_pods: SortedPodsByRow, cache: RowResultsCache, few: int = FEW
) -> BatchDryRun | None:
    """The fast path, if the filters that ran allow it."""
    filters = evaluation.filters()
    fit = next((column.plugin for column in filters if isinstance(column.plugin, NodeResourcesFit)), None)
    pod = evaluation.cycle.pod
    if fit is None or any(column.by_node for column in filters):
        return None
    if not all(c.plugin.passes_with_fewer(pod) for c in filters if c.traits.watches):
        return None
    sorted_pods.refresh()
    key = (fit.asked_for(evaluation.cycle), pod.priority)
    return BatchDryRun(evaluation, fit, sorted_pods, cache.of(key), few)
