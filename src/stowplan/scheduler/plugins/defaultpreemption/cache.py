"""Cached results of the dry run on every row, kept until something about the row changes."""

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from stowplan.scheduler.framework import Codes, PodInfo
from stowplan.scheduler.framework.nominations import (
    Mark,
    NominatedRows,
    Nominations,
    rows_with_nominated_pods,
)
from stowplan.scheduler.plugins.defaultpreemption.candidates import COSTS
from stowplan.scheduler.table.changes import Rows, merge_rows
from stowplan.scheduler.table.columns import BoolColumn, IntArray
from stowplan.scheduler.table.table import ClusterTable

UNKNOWN, HELPS, NO_HELP, NO_LOWER_PODS = range(4)
"""The outcome on a row: not known yet; evicting victims makes room; there is no room even with all pods of
lower priority gone, or there is without evicting any; there are no pods of lower priority."""

_MOST_KEPT = 8


class RowResults:
    """Results by row, for preemptors of one priority with the same requests.

    `codes` are those of NodeResourcesFit with all pods of lower priority gone. Where there are victims,
    `victims` has them by row, and `costs` their costs (a line per criterion, see candidates.py).
    """

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self.capacity = table.capacity
        self.outcome = np.full(table.capacity, UNKNOWN, dtype=np.int8)
        self.codes: Codes = np.zeros(table.capacity, dtype=np.int64)
        self.costs: IntArray = np.zeros((len(COSTS), table.capacity), dtype=np.int64)
        self.victims: dict[int, list[PodInfo]] = {}
        self._under_budget: BoolColumn = np.zeros(table.capacity, dtype=np.bool_)
        self._nominated: Mapping[int, list[PodInfo]] = {}
        self._mark: Mark | None = None
        self._own: int | None = None
        self._position = table.usage_log.position
        self._budgets = (table.budgets.version, table.budgets.allowances_version)

    @property
    def is_stale(self) -> bool:
        """True if pods on nodes have changed since the last attempt."""
        return self._position != self._table.usage_log.position

    def begin(self, nominations: Nominations, pod: PodInfo) -> Mapping[int, list[PodInfo]]:
        """Drop what may no longer hold, at the start of an attempt.

        Returns the nominated pods to be reckoned with, by row; results on rows where these are others than
        last time do not hold.
        """
        touched = self._table.usage_log.since(self._position)
        self._position = self._table.usage_log.position
        budgets = self._table.budgets
        was, self._budgets = self._budgets, (budgets.version, budgets.allowances_version)
        if touched is None or was[0] != budgets.version:
            self.outcome.fill(UNKNOWN)
            self.victims.clear()
        else:
            self.outcome[touched] = UNKNOWN
            for row in touched.tolist():
                self.victims.pop(row, None)
            if was[1] != budgets.allowances_version:
                self.outcome[self._under_budget] = UNKNOWN
        self.outcome[self._newly_nominated(nominations, pod)] = UNKNOWN
        return self._nominated

    def _newly_nominated(self, nominations: Nominations, pod: PodInfo) -> Rows | slice | list[int]:
        """Rows whose nominated pods that count changed since the last time; a pod's own nomination does not
        count."""
        last, nominated = self._nominated, rows_with_nominated_pods(nominations, pod)
        mark, own_before = self._mark, self._own
        self._nominated, self._mark, self._own = nominated, None, None
        if isinstance(nominations, NominatedRows):
            self._mark, self._own = nominations.mark, nominations.row_of(pod.uid)
            changed = nominations.changed_since(mark)
            if changed is None:
                return slice(None)
            own = [row for row in (self._own, own_before) if row is not None]
            return merge_rows(changed, np.array(own, dtype=np.intp)) if own else changed
        if mark is not None:
            return slice(None)
        return [
            *(row for row, pods in nominated.items() if last.get(row) != pods),
            *(last.keys() - nominated.keys()),
        ]

    def unknown(self, rows: Rows) -> Rows:
        """Those of some rows that have no result."""
        unknown: Rows = rows[self.outcome[rows] == UNKNOWN]
        return unknown

    def note(
        self,
        rows: Rows | int,
        outcome: IntArray | int,
        codes: Codes | int,
        under_budget: BoolColumn | bool,
    ) -> None:
        """Keep the outcome on rows, or on one, and whether any of their pods of lower priority is under a
        budget."""
        self.outcome[rows] = outcome
        self.codes[rows] = codes
        self._under_budget[rows] = under_budget

    def note_victims(self, rows: Rows, costs: IntArray, victims: Sequence[list[PodInfo]]) -> None:
        """Keep the victims on rows and their costs."""
        self.costs[:, rows] = costs
        self.victims.update(zip(rows.tolist(), victims, strict=True))


class RowResultsCache:
    """The results for the last few kinds of preemptors."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._kept: OrderedDict[Hashable, RowResults] = OrderedDict()

    def of(self, key: Hashable) -> RowResults:
        """The results for preemptors with the same key (requests and priority)."""
        found = self._kept.pop(key, None)
        if found is None or found.capacity != self._table.capacity:
            found = RowResults(self._table)
        self._kept[key] = found
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return found

    def drop_stale(self) -> None:
        """Forget results of before a change: they name victims that may be gone."""
        for key in [key for key, results in self._kept.items() if results.is_stale]:
            del self._kept[key]
