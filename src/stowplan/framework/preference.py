"""All Score plugins of a profile over all rows, for one class of pods, and the ranking they give."""

from collections.abc import Mapping

import numpy as np

from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import BoolColumn
from stowplan.cluster.table import ClusterTable
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import (
    ALL_ROWS,
    FEW_ROWS,
    AllRows,
    StaleRows,
)
from stowplan.framework.ranking import INFEASIBLE, Ranking
from stowplan.framework.rows import merge_rows, merge_stale
from stowplan.framework.scorecolumn import ScoreColumn


class Preference:
    """All Score plugins of a profile over all rows, for one class of pods, and the ranking they give."""

    __slots__ = (
        "_by_one",
        "_feasible",
        "_live",
        "_node_position",
        "_skipped",
        "_table",
        "_unproven",
        "_unseen",
        "_usage_position",
        "_watching",
        "columns",
        "ranking",
        "weights",
    )

    def __init__(self, table: ClusterTable, columns: list[ScoreColumn]) -> None:
        self._table = table
        self.columns = columns
        self.ranking = Ranking(table.capacity)
        self._feasible: BoolColumn = np.zeros(table.capacity, dtype=np.bool_)
        self._unseen: StaleRows | list[int] = ALL_ROWS
        self._node_position = -1
        self._usage_position = -1
        self._skipped: set[str] | None = None
        self._by_one = all(column.reusable and not column.by_node for column in columns)
        self._live: list[ScoreColumn] = []
        self._watching: list[ScoreColumn] = []
        self.weights: Mapping[str, int] = {}
        """The weight of every plugin that scores pods of the class."""
        self._unproven = [column for column in columns if not column.trusted]

    def note(self, touched: StaleRows | list[int]) -> None:
        """Feasibility was looked at again in these rows."""
        unseen = self._unseen
        if isinstance(unseen, AllRows):
            return
        if isinstance(touched, AllRows):
            self._unseen = ALL_ROWS
        elif isinstance(touched, list) and isinstance(unseen, list):
            self._unseen = touched if not unseen else [*unseen, *touched]
        else:
            self._unseen = merge_rows(_as_rows(touched), _as_rows(unseen))

    def sync(self, cycle: Cycle) -> None:
        """Bring scores and ranking up to date for this attempt."""
        few = self._few_stale(cycle) if self._by_one else None
        if few is not None:
            self._usage_position = self._table.usage_log.position
            self._sync_few(cycle, few)
        else:
            if isinstance(self._unseen, list):
                self._unseen = _as_rows(self._unseen)
            self._sync_many(cycle, self._unseen)
            self._skipped = cycle.skipped_score
            self._live = [column for column in self.columns if column.active]
            self._watching = [column for column in self._live if column.traits.watches]
            self.weights = {column.plugin.name: column.weight for column in self._live}
        self._unseen = []

    def _few_stale(self, cycle: Cycle) -> list[int] | None:
        """The stale rows if they are few and nothing but usage changed, else None."""
        table, unseen = self._table, self._unseen
        if (
            not isinstance(unseen, list)
            or self._node_position != table.node_log.position
            or self._skipped != cycle.skipped_score
        ):
            return None
        rows = table.usage_log.few_since(self._usage_position, FEW_ROWS)
        if rows is None:
            return None
        touched = set(rows)
        touched.update(unseen)
        for column in self._watching:
            if not column.find_few(cycle, rows):
                return None
            if column.few is not rows:
                touched.update(column.few)
        return list(touched) if len(touched) <= FEW_ROWS else None

    def _sync_few(self, cycle: Cycle, rows: list[int]) -> None:
        """Go through a few changed rows one by one; rewrite all totals only if an extreme moved."""
        feasible = cycle.feasible
        assert feasible is not None
        was = [self._feasible.item(row) for row in rows]
        now = [feasible.item(row) for row in rows]
        rewritten = False
        for column in self._live:
            before = None
            if column.normalizes:
                raw = column.raw
                before = [0] * len(rows) if raw is None else [raw.item(row) for row in rows]
            if column.traits.watches:
                if column.few:
                    column.compute_few(self._table, cycle, column.few)
                column.state = column.basis(cycle)
            if before is not None and (column.raw is not None or column.extremes is None):
                if not column.adjust(rows, before, was, now):
                    column.find_extremes(feasible)
                rewritten = column.normalize(cycle, np.array(rows, dtype=np.intp)) or rewritten
        if self._unproven:
            few = [row for row, fits in zip(rows, now, strict=True) if fits]
            self._check(feasible if rewritten else np.array(few, dtype=np.intp))
        if rewritten:
            self._total_all(feasible)
        else:
            self._total_few(rows, now)

    def _check(self, rows: BoolColumn | Rows) -> None:
        """Refuse nonsense from plugins that are not our own."""
        for column in self._unproven:
            if column.active:
                column.check(rows)

    def _total_few(self, rows: list[int], feasible: list[bool]) -> None:
        constant = 0
        parts = []
        for column in self._live:
            if column.final is None:
                constant += column.constant * column.weight
            else:
                parts.append((column.final, column.weight))
        for row, fits in zip(rows, feasible, strict=True):
            total = INFEASIBLE
            if fits:
                total = constant
                for final, weight in parts:
                    total += final.item(row) * weight
            self.ranking.put(row, total)
            self._feasible[row] = fits

    def _sync_many(self, cycle: Cycle, unseen: StaleRows) -> None:
        table = self._table
        feasible = cycle.feasible
        assert feasible is not None
        node_rows = table.node_log.since(self._node_position) if self._node_position >= 0 else None
        usage_rows = table.usage_log.since(self._usage_position) if self._usage_position >= 0 else None
        self._node_position = table.node_log.position
        self._usage_position = table.usage_log.position
        everything = node_rows is None or usage_rows is None or isinstance(unseen, AllRows)
        touched: StaleRows = unseen
        befores: dict[int, tuple[Rows, list[int]]] = {}
        rewritten = everything
        for index, column in enumerate(self.columns):
            if column.plugin.name in cycle.skipped_score:
                rewritten = column.stop() or rewritten
                continue
            state = column.basis(cycle)
            rows: StaleRows = ALL_ROWS
            if node_rows is not None and usage_rows is not None:
                rows = column.stale(cycle, state, node_rows, usage_rows)
            if not isinstance(rows, AllRows) and len(rows) > table.rows_in_use // 4:
                rows = ALL_ROWS
            if column.by_node:
                column.compute_by_node(table, cycle, rows)
                rewritten = True
            elif isinstance(rows, AllRows):
                column.compute(table, cycle, rows)
                rewritten = True
            elif len(rows):
                before = column.compute(table, cycle, rows)
                if before is not None:
                    befores[index] = (rows, before)
                elif column.normalizes:
                    column.extremes = None
                touched = merge_stale(rows, touched)
            column.active, column.state = True, state
        few = not rewritten and not isinstance(touched, AllRows) and len(touched) <= FEW_ROWS
        rewritten = self._normalize(cycle, feasible, touched if few else None, befores) or rewritten
        self._check(feasible)
        if rewritten or isinstance(touched, AllRows):
            self._total_all(feasible)
        else:
            self._total_rows(feasible, touched)

    def _normalize(
        self,
        cycle: Cycle,
        feasible: BoolColumn,
        few: StaleRows | None,
        befores: dict[int, tuple[Rows, list[int]]],
    ) -> bool:
        """Final scores of all plugins that normalize; True if some were rewritten in all rows."""
        rewritten = False
        was = now = None
        for index, column in enumerate(self.columns):
            if not (column.active and column.normalizes):
                continue
            adjusted = False
            if few is not None and not isinstance(few, AllRows):
                if was is None or now is None:
                    was, now = self._feasible[few].tolist(), feasible[few].tolist()
                before = self._before(column, few, befores.get(index))
                adjusted = column.adjust(few, before, was, now)
            if not adjusted:
                column.find_extremes(feasible)
            rows = few if few is not None and not isinstance(few, AllRows) else None
            rewritten = column.normalize(cycle, rows) or rewritten
        return rewritten

    @staticmethod
    def _before(column: ScoreColumn, rows: Rows, known: tuple[Rows, list[int]] | None) -> list[int]:
        """The raw scores of rows as they were before this attempt's changes."""
        now: list[int] = [0] * len(rows) if column.raw is None else column.raw[rows].tolist()
        if known is None:
            return now
        changed, before = known
        if changed is rows:
            return before
        old = dict(zip(changed.tolist(), before, strict=True))
        return [old.get(row, score) for row, score in zip(rows.tolist(), now, strict=True)]

    def _total_all(self, feasible: BoolColumn) -> None:
        used = self._table.rows_in_use
        totals = np.zeros(used, dtype=np.int64)
        for column in self.columns:
            if not column.active:
                continue
            if column.final is None:
                totals += column.constant * column.weight
            elif column.weight == 1:
                totals += column.final[:used]
            else:
                totals += column.final[:used] * column.weight
        self._feasible[:used] = feasible[:used]
        self.ranking.totals[:used] = np.where(feasible[:used], totals, INFEASIBLE)
        self.ranking.refresh_all()

    def _total_rows(self, feasible: BoolColumn, rows: Rows) -> None:
        if not len(rows):
            return
        constant = 0
        totals = np.zeros(len(rows), dtype=np.int64)
        for column in self.columns:
            if not column.active:
                continue
            if column.final is None:
                constant += column.constant * column.weight
            elif column.weight == 1:
                totals += column.final[rows]
            else:
                totals += column.final[rows] * column.weight
        totals += constant
        now = feasible[rows]
        totals[~now] = INFEASIBLE
        self._feasible[rows] = now
        self.ranking.totals[rows] = totals
        self.ranking.refresh(rows)


def _as_rows(rows: Rows | list[int]) -> Rows:
    return np.array(sorted(set(rows)), dtype=np.intp) if isinstance(rows, list) else rows
