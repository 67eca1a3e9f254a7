"""What preemption would come to on every row, kept until something about the row changes."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import BoolColumn, IntArray
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.framework.interface import Codes
from stowplan.plugins.defaultpreemption.candidates import COSTS

UNKNOWN, HELPED, NOT_HELPED, NOBODY_LOWER = range(4)
"""How a row stands: nobody has looked; there are victims that make room; there is no room even when all less
important pods are gone, or there is without any of them going; there are no less important pods."""

_KEPT = 8


class Prospects:
    """What preemption would come to by row, for pods of one priority that ask for the same.

    `codes` is what NodeResourcesFit would say if all less important pods were gone. Where there are victims,
    `victims` names them by row, and `costs` is what they cost (a line per criterion, see candidates.py).
    """

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self.capacity = table.capacity
        self.standing = np.full(table.capacity, UNKNOWN, dtype=np.int8)
        self.codes: Codes = np.zeros(table.capacity, dtype=np.int64)
        self.costs: IntArray = np.zeros((len(COSTS), table.capacity), dtype=np.int64)
        self.victims: dict[int, list[PodInfo]] = {}
        self._guarded: BoolColumn = np.zeros(table.capacity, dtype=np.bool_)
        self._unsettled: list[int] = []
        self._position = table.usage_log.position
        self._budgets = (table.budgets.version, table.budgets.allowances_version)

    def begin(self, unsettled: Iterable[int]) -> None:
        """An attempt begins: forget what may no longer hold.

        The `unsettled` rows have pods promised to them. What is found there holds for this attempt only.
        """
        touched = self._table.usage_log.since(self._position)
        self._position = self._table.usage_log.position
        budgets = self._table.budgets
        before, self._budgets = self._budgets, (budgets.version, budgets.allowances_version)
        if touched is None or before[0] != budgets.version:
            self.standing.fill(UNKNOWN)
            self.victims.clear()
        else:
            self.standing[touched] = UNKNOWN
            for row in touched.tolist():
                self.victims.pop(row, None)
            if before[1] != budgets.allowances_version:
                self.standing[self._guarded] = UNKNOWN
        self.standing[self._unsettled] = UNKNOWN
        self._unsettled = list(unsettled)
        self.standing[self._unsettled] = UNKNOWN

    def unknown(self, rows: Rows) -> Rows:
        """Those of some rows that have to be looked at."""
        unknown: Rows = rows[self.standing[rows] == UNKNOWN]
        return unknown

    def note(self, rows: Rows, standing: IntArray, codes: Codes, guarded: BoolColumn) -> None:
        """How rows stand, and whether any of their less important pods is under a budget."""
        self.standing[rows] = standing
        self.codes[rows] = codes
        self._guarded[rows] = guarded

    def note_victims(self, rows: Rows, costs: IntArray, victims: Sequence[list[PodInfo]]) -> None:
        """Who has to go from rows, and what it costs."""
        self.costs[:, rows] = costs
        self.victims.update(zip(rows.tolist(), victims, strict=True))


class KeptProspects:
    """The prospects of the last few sorts of pods that preempted."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._kept: OrderedDict[Hashable, Prospects] = OrderedDict()

    def of(self, sort: Hashable) -> Prospects:
        """The prospects of one sort of pods, new ones if they are not known any more."""
        found = self._kept.pop(sort, None)
        if found is None or found.capacity != self._table.capacity:
            found = Prospects(self._table)
        self._kept[sort] = found
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return found
