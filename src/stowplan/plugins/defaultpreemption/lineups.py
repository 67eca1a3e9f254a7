"""The pods of a node in order of importance, with their numbers in an array; kept until the node changes."""

from collections.abc import Sequence

import numpy as np

from stowplan.cluster.columns import IntArray
from stowplan.cluster.lookups import DisruptionBudgets
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.plugins.defaultpreemption.importance import start_of

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
