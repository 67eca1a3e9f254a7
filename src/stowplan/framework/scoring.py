"""Running Score plugins over rows, normalizing, summing, and keeping all of it for the next pod."""

from typing import Any

import numpy as np

from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import BoolColumn
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.view import NodeRow, NodeRows
from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginError
from stowplan.framework.filtering import describe, merge_rows, merge_stale, rows_read
from stowplan.framework.plugin import (
    ALL_ROWS,
    FEW_ROWS,
    MAX_NODE_SCORE,
    AllRows,
    Extremes,
    Plugin,
    Scores,
    StaleRows,
    Traits,
)
from stowplan.framework.ranking import INFEASIBLE, Ranking

IGNORED = int(np.iinfo(np.int64).min)
"""A raw score that means "not scored": it stays out of the extremes, and the plugin's `normalize` sees it."""


class ScoreColumn:
    """One Score plugin's raw and final scores over all rows.

    `raw` is None while every row has raw score 0; then `constant` is the final score of all of them.
    `final` is `raw` itself for a plugin without `normalize`.
    """

    __slots__ = (
        "_at_high",
        "_at_low",
        "active",
        "by_node",
        "checked",
        "constant",
        "extremes",
        "few",
        "final",
        "known",
        "normalizes",
        "plugin",
        "raw",
        "reusable",
        "state",
        "traits",
        "weight",
    )

    def __init__(self, plugin: Plugin, traits: Traits, weight: int, reusable: bool, trusted: bool) -> None:
        self.plugin = plugin
        self.traits = traits
        self.weight = weight
        self.reusable = reusable
        self.checked = not trusted
        self.by_node = traits.by_node_score
        self.normalizes = traits.normalizes
        self.few: list[int] = []
        self.active = False
        self.state: Any = None
        self.raw: Scores | None = None
        self.final: Scores | None = None
        self.known: BoolColumn | None = None
        self.constant = 0
        self.extremes: Extremes | None = None
        self._at_high = 0
        self._at_low = 0

    def stop(self) -> bool:
        was_active = self.active
        self.active, self.state, self.extremes = False, None, None
        self.raw = self.final = self.known = None
        return was_active

    def basis(self, cycle: Cycle) -> Any:
        """What the plugin's scores of this attempt rest on, beside the rows themselves."""
        ask = self.traits.score_basis
        return cycle.read_score(self.plugin) if ask is None else ask(cycle, cycle.pod)

    def stale(self, cycle: Cycle, state: Any, node_rows: Rows, usage_rows: Rows) -> StaleRows:
        """The rows whose raw score may differ from the one kept."""
        if not self.active or not self.reusable:
            return ALL_ROWS
        traits = self.traits
        rows = rows_read(traits, node_rows, usage_rows)
        if traits.row_local:
            return rows
        return merge_stale(rows, traits.stale_score_rows(cycle, cycle.pod, self.state, state))

    def compute(self, table: ClusterTable, cycle: Cycle, rows: StaleRows) -> list[int] | None:
        """Ask the plugin again; returns the old raw scores of a few rows, for `adjust`."""
        if isinstance(rows, AllRows):
            self._compute_all(table, cycle)
            return None
        old = self.raw
        before = None
        if len(rows) <= FEW_ROWS:
            before = [0] * len(rows) if old is None else old[rows].tolist()
        scores = self._ask(cycle, NodeRows(table, rows))
        if old is None:
            if scores is None or not scores.any():
                return before
            self.raw = old = np.zeros(table.capacity, dtype=np.int64)
            if not self.normalizes:
                self.final = old
            else:
                self.final = np.full(table.capacity, self.constant, dtype=np.int64)
        old[rows] = 0 if scores is None else scores
        return before

    def compute_few(self, table: ClusterTable, cycle: Cycle, rows: list[int]) -> None:
        """Ask the plugin again about a few rows."""
        ask = self.traits.score_row
        if ask is None:
            self.compute(table, cycle, np.array(rows, dtype=np.intp))
            return
        for row in rows:
            try:
                score = ask(cycle, cycle.pod, row)
            except Exception as cause:
                raise score_error(self.plugin, f"{type(cause).__name__}: {cause}") from cause
            if self.raw is None:
                if not score:
                    continue
                self.compute(table, cycle, np.array(rows, dtype=np.intp))
                return
            self.raw[row] = score

    def compute_by_node(self, table: ClusterTable, cycle: Cycle, stale: StaleRows) -> None:
        """Ask about feasible rows whose score is not known."""
        if self.raw is None or self.known is None or isinstance(stale, AllRows):
            self.raw = np.zeros(table.capacity, dtype=np.int64)
            self.known = np.zeros(table.capacity, dtype=np.bool_)
        else:
            self.known[stale] = False
        assert cycle.feasible is not None
        rows = np.flatnonzero(cycle.feasible & ~self.known)
        self.raw[rows] = self._ask_nodes(cycle, rows)
        self.known[rows] = True
        self.extremes = None
        self.final = None if self.normalizes else self.raw

    def _compute_all(self, table: ClusterTable, cycle: Cycle) -> None:
        scores = self._ask(cycle, table.all_rows())
        if scores is None or not scores.any():
            self.raw = None
        else:
            self.raw = np.zeros(table.capacity, dtype=np.int64)
            self.raw[: len(scores)] = scores
        self.extremes = None
        self.final = None if self.normalizes else self.raw

    def _ask(self, cycle: Cycle, nodes: NodeRows) -> Scores | None:
        try:
            scores: Any = self.plugin.score(cycle, cycle.pod, nodes)  # type: ignore[attr-defined]
        except PluginError:
            raise
        except Exception as cause:
            raise score_error(self.plugin, f"{type(cause).__name__}: {cause}") from cause
        if scores is None:
            return None
        if not isinstance(scores, np.ndarray) or scores.shape != (nodes.count,):
            raise score_error(
                self.plugin, f"expected an array of {nodes.count} scores, got {describe(scores)}"
            )
        if scores.dtype.kind not in "iub":
            raise score_error(self.plugin, f"expected integer scores, got {scores.dtype}")
        return scores

    def _ask_nodes(self, cycle: Cycle, rows: Rows) -> list[int]:
        scores: list[int] = []
        for row in rows.tolist():
            node = NodeRow(cycle.table, row)
            try:
                score: Any = self.plugin.score_node(cycle, cycle.pod, node)  # type: ignore[attr-defined]
            except Exception as cause:
                raise score_error(self.plugin, f"{type(cause).__name__}: {cause}", node.name) from cause
            if not isinstance(score, int | np.integer):
                raise score_error(self.plugin, f"expected an int, got {describe(score)}", node.name)
            scores.append(int(score))
        return scores

    def adjust(
        self, rows: Rows | list[int], before: list[int], was_feasible: list[bool], is_feasible: list[bool]
    ) -> bool:
        """Move the extremes after a few rows changed; False if they must be found anew."""
        if self.extremes is None:
            return False
        low, high = self.extremes
        at_low, at_high = self._at_low, self._at_high
        now = [0] * len(rows) if self.raw is None else self.raw[rows].tolist()
        for old, new, was, is_now in zip(before, now, was_feasible, is_feasible, strict=True):
            if was and old != IGNORED:
                at_low -= old == low
                at_high -= old == high
            if is_now and new != IGNORED:
                if new < low:
                    low, at_low = new, 1
                elif new == low:
                    at_low += 1
                if new > high:
                    high, at_high = new, 1
                elif new == high:
                    at_high += 1
        if at_low <= 0 or at_high <= 0:
            return False
        self._at_low, self._at_high = at_low, at_high
        if (low, high) != self.extremes:
            self.extremes = Extremes(low, high)
            self.final = None
        return True

    def find_extremes(self, feasible: BoolColumn) -> None:
        old = self.extremes
        if self.raw is None:
            count = int(np.count_nonzero(feasible))
            self.extremes, self._at_low, self._at_high = Extremes(0, 0), count, count
        else:
            values = self.raw[feasible]
            values = values[values != IGNORED]
            if not len(values):
                self.extremes, self._at_low, self._at_high = Extremes(0, 0), 0, 0
            else:
                low, high = int(values.min()), int(values.max())
                self.extremes = Extremes(low, high)
                self._at_low = int(np.count_nonzero(values == low))
                self._at_high = int(np.count_nonzero(values == high))
        if self.extremes != old:
            self.final = None

    def normalize(self, cycle: Cycle, rows: Rows | None) -> bool:
        """Make final scores current in some rows; True if that took rewriting all of them."""
        assert self.extremes is not None
        if self.raw is None:
            changed = self.final is not None
            constant = int(self._normalized(cycle, np.zeros(1, dtype=np.int64))[0])
            changed = changed or constant != self.constant
            self.constant, self.final = constant, None
            return changed
        if self.final is None or rows is None:
            self.final = self._normalized(cycle, self.raw)
            return True
        self.final[rows] = self._normalized(cycle, self.raw[rows])
        return False

    def _normalized(self, cycle: Cycle, raw: Scores) -> Scores:
        try:
            result: Any = self.plugin.normalize(cycle, cycle.pod, raw, self.extremes)  # type: ignore[attr-defined]
        except Exception as cause:
            raise score_error(self.plugin, f"{type(cause).__name__}: {cause}") from cause
        if not isinstance(result, np.ndarray) or result.shape != raw.shape:
            raise score_error(
                self.plugin, f"normalize: expected an array of {len(raw)} scores, got {describe(result)}"
            )
        return result

    def check(self, feasible: BoolColumn) -> None:
        """Refuse scores outside 0..100."""
        if self.final is None:
            worst = self.constant
            if 0 <= worst <= MAX_NODE_SCORE:
                return
        else:
            values = self.final[feasible]
            bad = values[(values < 0) | (values > MAX_NODE_SCORE)]
            if not len(bad):
                return
            worst = int(bad[0])
        raise PluginError(
            self.plugin.name,
            f'plugin "{self.plugin.name}" returns an invalid score {worst}, it should in the range of '
            f"[0, {MAX_NODE_SCORE}] after normalizing",
        )


def _as_rows(rows: Rows | list[int]) -> Rows:
    return np.array(sorted(set(rows)), dtype=np.intp) if isinstance(rows, list) else rows


def score_error(plugin: Plugin, message: str, node: str | None = None) -> PluginError:
    return PluginError(
        plugin.name, f'running Score plugin "{plugin.name}": {message}', () if node is None else (node,)
    )


class Preference:
    """All Score plugins of a profile over all rows, for one class of pods, and the ranking they give."""

    __slots__ = (
        "_by_one",
        "_feasible",
        "_node_position",
        "_skipped",
        "_table",
        "_unseen",
        "_usage_position",
        "columns",
        "ranking",
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
        self._by_one = all(
            column.reusable and not column.by_node and not column.checked for column in columns
        )

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
        for column in self.columns:
            traits = column.traits
            if not column.active or not traits.watches:
                continue
            column.few = rows if traits.reads_usage else []
            if traits.row_local:
                continue
            stale = traits.stale_score_rows(cycle, cycle.pod, column.state, column.basis(cycle))
            if isinstance(stale, AllRows) or len(stale) > FEW_ROWS:
                return None
            if len(stale):
                column.few = [*column.few, *stale.tolist()]
                touched.update(column.few)
        return list(touched) if len(touched) <= FEW_ROWS else None

    def _sync_few(self, cycle: Cycle, rows: list[int]) -> None:
        """Go through a few changed rows one by one; rewrite all totals only if an extreme moved."""
        feasible = cycle.feasible
        assert feasible is not None
        was = [bool(self._feasible[row]) for row in rows]
        now = [bool(feasible[row]) for row in rows]
        rewritten = False
        for column in self.columns:
            if not column.active:
                continue
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
        if rewritten:
            self._total_all(feasible)
            return
        self._total_few(rows, now)

    def _total_few(self, rows: list[int], feasible: list[bool]) -> None:
        scored = [column for column in self.columns if column.active]
        constant = sum(column.constant * column.weight for column in scored if column.final is None)
        parts = [(column.final, column.weight) for column in scored if column.final is not None]
        totals = self.ranking.totals
        for row, fits in zip(rows, feasible, strict=True):
            total = INFEASIBLE
            if fits:
                total = constant
                for final, weight in parts:
                    total += final.item(row) * weight
            totals[row] = total
            self._feasible[row] = fits
        self.ranking.refresh_few(rows)

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
        for column in self.columns:
            if column.active and column.checked:
                column.check(feasible)
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
