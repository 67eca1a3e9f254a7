"""The pods of a node in order of importance, with their numbers in an array; kept until the node changes."""

from collections.abc import Iterable, Sequence

import numpy as np

from stowplan.cluster.budgets import DisruptionBudgets
from stowplan.cluster.counts import IntArray
from stowplan.cluster.podinfo import PodInfo, PodTemplate
from stowplan.cluster.table import ClusterTable
from stowplan.plugins.defaultpreemption.importance import by_importance, start_of

PRIORITY, START, BUDGET, AMOUNTS = range(4)
"""Columns of a lineup's numbers. From `AMOUNTS` on there is one per thing that is limited: the number of pods
(each counts one), then every resource the table knows."""

NO_BUDGET = -1
SEVERAL_BUDGETS = -2
"""In place of the number of the only budget a pod is under."""


class Lineup:
    """The pods of one row, the most important first, and a line of numbers for each of them."""

    __slots__ = ("_budgets_version", "numbers", "pods")

    def __init__(self, pods: Iterable[PodInfo], resources: int) -> None:
        self.pods = by_importance(pods)
        lines = [
            (info.priority, start_of(info.pod), NO_BUDGET, 1, *_amounts(info.template, resources))
            for info in self.pods
        ]
        self.numbers: IntArray = np.array(lines, dtype=np.int64).reshape(len(lines), AMOUNTS + 1 + resources)
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


def _amounts(template: PodTemplate, resources: int) -> list[int]:
    """What a pod takes of every resource."""
    amounts = [0] * resources
    for line, amount in template.taken:
        amounts[line] = amount
    return amounts


class Lineups:
    """Lineups by row, made when first asked for."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._by_row: dict[int, Lineup] = {}
        self._position = -1
        self._resources = 0

    def refresh(self) -> None:
        """Forget the lineups of rows that were touched since the last time."""
        log = self._table.usage_log
        touched = log.since(self._position) if self._position >= 0 else None
        self._position = log.position
        resources = len(self._table.requested)
        if touched is None or resources != self._resources:
            self._by_row.clear()
            self._resources = resources
            return
        for row in touched.tolist():
            self._by_row.pop(row, None)

    def of(self, rows: Sequence[int]) -> list[Lineup]:
        """The lineups of some rows."""
        known, pods_on, budgets = self._by_row, self._table.pods_on, self._table.budgets
        for row in rows:
            if row not in known:
                known[row] = Lineup(pods_on[row].values(), self._resources)
        lineups = [known[row] for row in rows]
        if budgets:
            for lineup in lineups:
                lineup.note_budgets(budgets)
        return lineups
