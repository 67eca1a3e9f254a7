"""All Score plugins of a profile over all rows, for one class of pods, and the ranking they give."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stowplan.cluster.changes import NO_ROWS, Rows
from stowplan.cluster.columns import BoolColumn, IntColumn
from stowplan.cluster.table import ClusterTable
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import ALL_ROWS, FEW_ROWS, MAX_NODE_SCORE, AllRows, Scores, StaleRows
from stowplan.framework.ranking import INFEASIBLE, Ranking
from stowplan.framework.rows import merge_stale
from stowplan.framework.scorecolumn import ScoreColumn, all_in_range


class Share(NamedTuple):
    """What one plugin adds to totals: `points` (score times weight) to all of them; None: it depends."""

    plugin: str
    weight: int
    points: int | None


class Preference:
    """All Score plugins of a profile over all rows, for one class of pods, and the ranking they give.

    `_sums` are the totals of all rows, whether or not they are feasible, so that rows that become feasible
    (as a whole zone may, with every other pod) have theirs at once. `ranking` has those of feasible rows.
    """

    __slots__ = (
        "_by_one",
        "_constant",
        "_coupled",
        "_feasible",
        "_feasible_version",
        "_local",
        "_node_position",
        "_scaled",
        "_skipped",
        "_sums",
        "_suspects",
        "_table",
        "_usage_position",
        "columns",
        "ranking",
        "shares",
        "varying",
    )

    def __init__(self, table: ClusterTable, columns: list[ScoreColumn]) -> None:
        self._table = table
        self.columns = columns
        self.ranking = Ranking(table.capacity)
        self.shares: tuple[Share, ...] = ()
        """What totals are made of, in the order of the plugins. A new tuple when that changes."""
        self.varying: list[tuple[Scores, int]] = []
        """Scores and weights of the plugins that do not give every row the same."""
        self._constant = 0
        self._sums: IntColumn = np.zeros(table.capacity, dtype=np.int64)
        self._feasible: BoolColumn = np.zeros(table.capacity, dtype=np.bool_)
        self._feasible_version = -1
        self._node_position = -1
        self._usage_position = -1
        self._skipped: frozenset[str] | None = None
        self._by_one = all(column.reusable and not column.by_node for column in columns)
        self._local: list[ScoreColumn] = []
        self._coupled: list[ScoreColumn] = []
        self._scaled: list[ScoreColumn] = []
        self._suspects: list[ScoreColumn] = []
        """Columns with a score outside 0..100 somewhere; in a feasible row that fails the attempt."""

    def sync(self, cycle: Cycle) -> None:
        """Bring scores and ranking up to date for this attempt."""
        feasible = cycle.feasible
        assert feasible is not None
        flipped = NO_ROWS
        if self._feasible_version != cycle.feasible_version:
            flipped = (feasible != self._feasible).nonzero()[0]
            self._feasible_version = cycle.feasible_version
        if not self._by_one or not self._sync_usage(cycle, feasible, flipped):
            self._sync_many(cycle, feasible, flipped)
            self._skipped = cycle.skipped_score
            watching = [column for column in self.columns if column.active and column.traits.watches]
            self._local = [column for column in watching if column.traits.row_local]
            self._coupled = [column for column in watching if not column.traits.row_local]
        if self._suspects:
            self._check(feasible)

    def _sync_usage(self, cycle: Cycle, feasible: BoolColumn, flipped: Rows) -> bool:
        """The usual case: only the usage of a few rows changed, and whatever follows from it for feasibility.

        False if it is not that; then nothing was done.
        """
        table = self._table
        if self._node_position != table.node_log.position or (
            self._skipped is not cycle.skipped_score and self._skipped != cycle.skipped_score
        ):
            return False
        rows = table.usage_log.few_since(self._usage_position, FEW_ROWS)
        if rows is None:
            return False
        for column in self._coupled:
            if not column.find_stale(cycle) or len(column.stale_rows) > FEW_ROWS:
                return False
        self._usage_position = table.usage_log.position
        many_flipped = len(flipped) > FEW_ROWS
        touched = rows
        if self._coupled or len(flipped):
            touched = self._touched(rows, NO_ROWS if many_flipped else flipped)
        befores = [column.raw_scores(touched) for column in self._scaled] if self._scaled else ()
        rewritten = self._score_again(cycle, feasible, rows)
        if befores:
            rewritten = self._scale(cycle, feasible, touched, befores, many_flipped) or rewritten
        if rewritten:
            self._total_all(feasible)
            return True
        self._total_few(feasible, touched)
        if many_flipped:
            self._feasible[flipped] = now = feasible[flipped]
            self.ranking.totals[flipped] = np.where(now, self._sums[flipped], INFEASIBLE)
            self.ranking.refresh(flipped)
        return True

    def _touched(self, rows: list[int], flipped: Rows) -> list[int]:
        """The rows with changed usage, and the others whose total may change with them."""
        others = flipped.tolist() if len(flipped) else []
        for column in self._coupled:
            if len(column.stale_rows):
                others += column.stale_rows.tolist()
        return list({*rows, *others}) if others else rows

    def _score_again(self, cycle: Cycle, feasible: BoolColumn, rows: list[int]) -> bool:
        """Ask about a few rows again; True if a plugin that gave every row the same does so no more."""
        table = self._table
        differs = False
        for column in self._local:
            differs = column.compute_few(table, cycle, rows) or differs
        for column in self._coupled:
            again = rows if column.traits.reads_usage else []
            if len(column.stale_rows):
                again = [*again, *column.stale_rows.tolist()]
            if again:
                differs = column.compute_few(table, cycle, again) or differs
            column.state = column.found
        if differs:
            for column in (*self._local, *self._coupled):
                if column.normalizes and column.extremes is None:
                    column.find_extremes(feasible)
                    column.normalize(cycle, None)
        return differs

    def _scale(
        self,
        cycle: Cycle,
        feasible: BoolColumn,
        rows: list[int],
        befores: Sequence[list[int]],
        many_flipped: bool,
    ) -> bool:
        """Normalize scores again after some rows' changed; True if that gave all rows other ones.

        `befores` are the rows' scores before that, by column.
        """
        rewritten = False
        was = [self._feasible.item(row) for row in rows]
        now = [feasible.item(row) for row in rows]
        for column, before in zip(self._scaled, befores, strict=True):
            if many_flipped or not column.adjust(rows, before, was, now):
                column.find_extremes(feasible)
            rewritten = column.normalize(cycle, np.array(rows, dtype=np.intp)) or rewritten
        return rewritten

    def _check(self, feasible: BoolColumn) -> None:
        """Refuse scores out of range in feasible rows, whoever gave them. Raises PluginError."""
        for column in self._suspects:
            column.check(feasible)

    def _find_suspects(self) -> None:
        """Look at all scores of all rows, whether or not they are feasible."""
        used = self._table.rows_in_use
        self._suspects = [
            column
            for column in self.columns
            if column.active
            and not (
                0 <= column.constant <= MAX_NODE_SCORE
                if column.final is None
                else all_in_range(column.final[:used])
            )
        ]

    def _total_few(self, feasible: BoolColumn, rows: list[int]) -> None:
        varying, constant = self.varying, self._constant
        for row in rows:
            total = constant
            fits = feasible.item(row)
            for final, weight in varying:
                score = final.item(row)
                if score > MAX_NODE_SCORE or score < 0:
                    self._find_suspects()
                    fits, total = False, 0
                    break
                total += score * weight
            self._sums[row] = total
            self._feasible[row] = fits
            self.ranking.put(row, total if fits else INFEASIBLE)

    def _sync_many(self, cycle: Cycle, feasible: BoolColumn, flipped: Rows) -> None:
        table = self._table
        node_rows = table.node_log.since(self._node_position) if self._node_position >= 0 else None
        usage_rows = table.usage_log.since(self._usage_position) if self._usage_position >= 0 else None
        self._node_position = table.node_log.position
        self._usage_position = table.usage_log.position
        everything = node_rows is None or usage_rows is None
        touched: StaleRows = flipped
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
        self._sort_out()
        self._find_suspects()
        used = self._table.rows_in_use
        totals = np.full(used, self._constant, dtype=np.int64)
        for final, weight in self.varying:
            totals += final[:used] if weight == 1 else final[:used] * weight
        self._sums[:used] = totals
        self._feasible[:used] = feasible[:used]
        self.ranking.totals[:used] = np.where(feasible[:used], totals, INFEASIBLE)
        self.ranking.refresh_all()

    def _total_rows(self, feasible: BoolColumn, rows: Rows) -> None:
        self._sort_out()
        if not len(rows):
            return
        totals = np.full(len(rows), self._constant, dtype=np.int64)
        for final, weight in self.varying:
            scores = final[rows]
            if not all_in_range(scores):
                self._find_suspects()
            totals += scores if weight == 1 else scores * weight
        self._sums[rows] = totals
        self._feasible[rows] = now = feasible[rows]
        self.ranking.totals[rows] = np.where(now, totals, INFEASIBLE)
        self.ranking.refresh(rows)

    def _sort_out(self) -> None:
        """Tell the plugins that give every row the same from those that do not."""
        active = [column for column in self.columns if column.active]
        self.varying = [(column.final, column.weight) for column in active if column.final is not None]
        self._scaled = [column for column in active if column.normalizes and column.raw is not None]
        shares = tuple(
            Share(
                column.plugin.name,
                column.weight,
                column.constant * column.weight if column.final is None else None,
            )
            for column in active
        )
        if shares != self.shares:
            self.shares = shares
        self._constant = sum(share.points or 0 for share in shares)
