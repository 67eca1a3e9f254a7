"""All Score plugins of a profile over all rows, for one equivalence class of pods, and their totals."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.extension_points import PluginColumn, call_plugin, describe, merge_stale
from stowplan.scheduler.framework.interface import (
    ALL_ROWS,
    FEW_ROWS,
    IGNORED,
    MAX_NODE_SCORE,
    AllRows,
    Plugin,
    ScoreRange,
    Scores,
    StaleRows,
    Traits,
    all_in_range,
    as_unsigned,
    highest_score,
)
from stowplan.scheduler.framework.reuse.ranking import INFEASIBLE, Ranking, Share
from stowplan.scheduler.framework.status import Code, PluginError
from stowplan.scheduler.table.changes import NO_ROWS, Rows
from stowplan.scheduler.table.columns import BoolColumn, IntColumn
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.view import NodeRow, NodeRows

_NORMALIZE = "ScoreExtensionNormalize"
_SUCCESS = Code.SUCCESS.label
_LIGHT = (1 << 31) // MAX_NODE_SCORE
"""Scores of 0 to 100 whose weights together are less than this add up to a number of 32 bits."""


class ScoreColumn(PluginColumn):
    """One Score plugin's raw and final scores over all rows.

    `raw` is None while every row has raw score 0; then `constant` is the final score of all of them.
    `final` is `raw` itself for a plugin without `normalize`. Final scores are compared with the range 0..100
    as they come in; while `in_range` is False some row may have one outside of it. Those of a plugin of this
    project that answers with numbers of 32 bits are kept like that while all are within.
    """

    __slots__ = (
        "_at_high",
        "_at_low",
        "_odd_rows",
        "by_node",
        "constant",
        "extremes",
        "final",
        "in_range",
        "known",
        "normalizes",
        "raw",
        "weight",
    )

    point = "Score"

    def __init__(self, plugin: Plugin, traits: Traits, weight: int, reusable: bool) -> None:
        super().__init__(plugin, traits, reusable)
        self.weight = weight
        self.by_node = traits.by_node_score
        self.normalizes = traits.normalizes
        self.raw: Scores | None = None
        self.final: Scores | None = None
        self.known: BoolColumn | None = None
        self.constant = 0
        self.extremes: ScoreRange | None = None
        self.in_range = True
        self._odd_rows: Rows | None = None
        """Rows with scores out of range, and such as had them; None: they have to be looked for."""
        self._at_high = 0
        self._at_low = 0

    def named_stale(self, cycle: Cycle, now: Any) -> StaleRows:
        stale: StaleRows = self.call(self.traits.stale_score_rows, cycle, self.state, now)
        return stale

    def stop(self) -> bool:
        was_active = self.active
        self.active, self.state, self.extremes = False, None, None
        self.raw = self.final = self.known = None
        self.constant, self.in_range = 0, True
        return was_active

    def can_change(self, cycle: Cycle) -> bool:
        """True if the scores can change although no node does."""
        idle = self.traits.scores_only_if_filtering and self.plugin.name in cycle.skipped
        return self.traits.watches and not idle

    def basis(self, cycle: Cycle) -> Any:
        ask = self.traits.score_basis
        return cycle.read_score(self.plugin) if ask is None else self.call(ask, cycle)

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
                self.final, self.extremes = None, None
        if scores is not None and not self.normalizes and not all_in_range(scores):
            old = self._widened(old)
            self._note_odd_scores()
        old[rows] = 0 if scores is None else scores
        return before

    def _widened(self, raw: Scores) -> Scores:
        """Scores that come are not 0 to 100: make room for any."""
        if raw.dtype != np.int64:
            self.raw = self.final = raw = raw.astype(np.int64)
        return raw

    def compute_few(self, table: ClusterTable, cycle: Cycle, rows: list[int]) -> bool:
        """Ask the plugin again about a few rows; True if scores are kept elsewhere now, as when only now rows
        have different ones."""
        ask, raw = self.traits.score_row, self.raw
        if ask is None:
            self.compute(table, cycle, np.array(rows, dtype=np.intp))
            return raw is not self.raw
        if cycle.watch is not None:
            ask = self.timed(ask)
        pod, is_final, kept = cycle.pod, not self.normalizes, raw
        try:
            for row in rows:
                score = ask(cycle, pod, row)
                if raw is not None:
                    if is_final and (score > MAX_NODE_SCORE or score < 0):
                        raw = self._widened(raw)
                        self._note_odd_scores()
                    raw[row] = score
                elif score:
                    self.compute(table, cycle, np.array(rows, dtype=np.intp))
                    return True
        except PluginError:
            raise
        except Exception as cause:
            raise self.raised(cause, table.name_of(row)) from cause
        return raw is not kept

    def raw_scores(self, rows: list[int]) -> list[int]:
        raw = self.raw
        return [0] * len(rows) if raw is None else [raw.item(row) for row in rows]

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
        self._rewritten(highest_score(self.raw))

    def _compute_all(self, table: ClusterTable, cycle: Cycle) -> None:
        scores = self._ask(cycle, table.all_rows())
        self.raw = None
        highest = 0 if scores is None else highest_score(scores)
        if scores is not None and highest:
            small = self.traits.trusted and not self.normalizes and scores.dtype == np.int32
            self.raw = np.empty(table.capacity, dtype=np.int32 if small else np.int64)
            self.raw[: len(scores)] = scores
            self.raw[len(scores) :] = 0
        self._rewritten(highest)

    def _rewritten(self, highest: int) -> None:
        """Raw scores of all rows are others."""
        self.extremes = None
        self.final = None if self.normalizes else self.raw
        self.in_range = True
        if self.final is not None and highest > MAX_NODE_SCORE:
            self._note_odd_scores()

    def _ask(self, cycle: Cycle, nodes: NodeRows) -> Scores | None:
        scores: Scores | None = self.by_column(self.plugin.score, cycle, nodes, "scores")
        return scores

    def _ask_nodes(self, cycle: Cycle, rows: Rows) -> list[int]:
        scores: list[int] = []
        plugin: Any = self.plugin
        for row in rows.tolist():
            node = NodeRow(cycle.table, row)
            score = call_plugin(plugin, "Score", plugin.score_node, cycle, cycle.pod, node, node=node.name)
            if not isinstance(score, int | np.integer):
                raise self.error(f"expected an int, got {describe(score)} (node {node.name})", node.name)
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
            self.extremes = ScoreRange(low, high)
            self.final = None
        return True

    def find_extremes(self, cycle: Cycle, feasible: BoolColumn) -> None:
        old = self.extremes
        if self.raw is None:
            count = cycle.feasible_count
            self.extremes, self._at_low, self._at_high = ScoreRange(0, 0), count, count
        else:
            values = self.raw[feasible]
            if len(values) and values.min() == IGNORED:
                values = values[values != IGNORED]
            if not len(values):
                self.extremes, self._at_low, self._at_high = ScoreRange(0, 0), 0, 0
            else:
                low, high = int(values.min()), int(values.max())
                self.extremes = ScoreRange(low, high)
                self._at_low = int(np.count_nonzero(values == low))
                self._at_high = int(np.count_nonzero(values == high))
        if self.extremes != old:
            self.final = None

    def normalize(self, cycle: Cycle, rows: Rows | None) -> bool:
        """Make final scores current in some rows; True if that took rewriting all of them."""
        assert self.extremes is not None
        if self.raw is None:
            changed = self.final is not None
            constant = self.traits.normalized_zero if cycle.watch is None else None
            if constant is None:
                constant = int(self._normalized(cycle, np.zeros(1, dtype=np.int64))[0])
                if self.traits.constant_normalize:
                    self.traits.normalized_zero = constant
            changed = changed or constant != self.constant
            self.constant, self.final = constant, None
            self.in_range = 0 <= constant <= MAX_NODE_SCORE
            return changed
        if self.final is None or rows is None:
            used = cycle.table.rows_in_use
            self.final = np.zeros(len(self.raw), dtype=np.int64)
            self.final[:used] = scores = self._normalized(cycle, self.raw[:used])
            self.in_range = True
        else:
            self.final[rows] = scores = self._normalized(cycle, self.raw[rows])
            used = 0
        if not all_in_range(scores):
            self._note_odd_scores()
        return bool(used)

    def _normalized(self, cycle: Cycle, raw: Scores) -> Scores:
        # A plugin from outside the tree may write to what it is given.
        given = raw if self.traits.trusted else raw.copy()
        watch = cycle.watch
        began = 0.0 if watch is None else watch.timer()
        result: Any = self.call(self.plugin.normalize, cycle, given, self.extremes)
        if watch is not None:
            watch.plugin(self.plugin.name, _NORMALIZE, _SUCCESS, watch.timer() - began)
        if not isinstance(result, np.ndarray) or result.shape != raw.shape:
            raise self.error(f"normalize: expected an array of {len(raw)} scores, got {describe(result)}")
        if result.dtype.kind not in "iub":
            raise self.error(f"normalize: expected integer scores, got {result.dtype}")
        return result

    def _note_odd_scores(self) -> None:
        self.in_range, self._odd_rows = False, None

    def _odd_rows_in(self, feasible: BoolColumn) -> Rows:
        """The rows of some whose final scores are outside 0..100."""
        odd = self._odd_rows
        if odd is None:
            assert self.final is not None
            odd = self._odd_rows = (as_unsigned(self.final) > MAX_NODE_SCORE).nonzero()[0]
        return odd[feasible[odd]]

    def check(self, feasible: BoolColumn) -> None:
        """Refuse scores outside 0..100 in feasible rows. Raises PluginError."""
        bad = self.constant
        if self.final is not None:
            if not len(self._odd_rows_in(feasible)):
                return
            self._odd_rows = None
            rows = self._odd_rows_in(feasible)
            if not len(rows):
                return
            bad = self.final.item(rows[0])
        raise PluginError(
            self.plugin.name,
            f'plugin "{self.plugin.name}" returns an invalid score {bad}, it should in the range of '
            f"[0, {MAX_NODE_SCORE}] after normalizing",
        )


class ScoreResults:
    """All Score plugins of a profile over all rows, for one class of pods, and the ranking they give.

    `ranking` has the totals of feasible rows. Once many rows became feasible or no longer are (as a whole
    zone may, with every other pod), `_sums` are kept, the totals of all rows, feasible or not.
    """

    __slots__ = (
        "_by_one",
        "_constant",
        "_coupled",
        "_feasible",
        "_feasible_version",
        "_local",
        "_node_position",
        "_points",
        "_ranging",
        "_scaled",
        "_shares",
        "_sharing",
        "_skipped",
        "_sums",
        "_table",
        "_usage_position",
        "columns",
        "is_started",
        "ranking",
        "varying",
    )

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self.columns: list[ScoreColumn] = []
        self.is_started = False
        self._shares: tuple[Share, ...] | None = ()
        self.varying: list[tuple[Scores, int]] = []
        """Scores and weights of the plugins that do not give every row the same."""
        self._sharing: list[ScoreColumn] = []
        self._points: list[int | None] = []
        self._constant = 0
        self._sums: IntColumn | None = None
        self._feasible: BoolColumn = np.zeros(table.capacity, dtype=np.bool_)
        self._feasible_version = -1
        self._node_position = -1
        self._usage_position = -1
        self._skipped: frozenset[str] | None = None
        self._by_one = False
        self._local: list[ScoreColumn] = []
        self._coupled: list[ScoreColumn] = []
        self._scaled: list[ScoreColumn] = []
        self._ranging: list[ScoreColumn] = []
        """Columns where a score may be out of range, now or after another pod."""

    def start(self, columns: list[ScoreColumn]) -> None:
        """Take in the plugins that have a say about the class."""
        self.columns = columns
        self.is_started = True
        self._by_one = all(column.reusable and not column.by_node for column in columns)
        self.ranking = Ranking(self._table.capacity, self._table.rows_in_use)

    @property
    def shares(self) -> tuple[Share, ...]:
        """Parts of the totals, in the order of the plugins. A new tuple when they change."""
        if self._shares is None:
            given = zip(self._sharing, self._points, strict=True)
            self._shares = tuple(
                [Share(column.plugin.name, column.weight, points) for column, points in given]
            )
        return self._shares

    def sync(self, cycle: Cycle) -> None:
        """Bring scores and ranking up to date for this attempt."""
        feasible = cycle.feasible
        assert feasible is not None
        flipped = NO_ROWS
        if self._feasible_version != cycle.feasible_version:
            if self._node_position >= 0:
                flipped = (feasible != self._feasible).nonzero()[0]
            self._feasible_version = cycle.feasible_version
        if not self._by_one or not self._sync_usage(cycle, feasible, flipped):
            self._sync_many(cycle, feasible, flipped)
            self._skipped = cycle.skipped_score
            watching = [column for column in self.columns if column.active and column.can_change(cycle)]
            self._local = [column for column in watching if column.traits.row_local]
            self._coupled = [column for column in watching if not column.traits.row_local]

    def _sync_usage(self, cycle: Cycle, feasible: BoolColumn, flipped: Rows) -> bool:
        """The usual case: only the usage of a few rows changed, with its effect on their feasibility.

        A plugin may report that this changes most rows for it, as spreading over a few zones does: it is
        called for all of them, the others only for these few. Returns False, with nothing done, in any other
        case.
        """
        table = self._table
        if self._node_position != table.node_log.position or (
            self._skipped is not cycle.skipped_score and self._skipped != cycle.skipped_score
        ):
            return False
        rows = table.usage_log.few_since(self._usage_position, FEW_ROWS)
        if rows is None:
            return False
        wide: list[ScoreColumn] = []
        for column in self._coupled:
            if not column.find_stale(cycle) or len(column.stale_rows) > max(FEW_ROWS, table.rows_in_use // 4):
                wide.append(column)
            elif len(column.stale_rows) > FEW_ROWS:
                return False
        self._usage_position = table.usage_log.position
        many_flipped = len(flipped) > FEW_ROWS
        if wide:
            self._score_widely(cycle, feasible, rows, flipped, wide)
            return True
        touched = rows
        if self._coupled or len(flipped):
            touched = self._touched(rows, NO_ROWS if many_flipped else flipped)
        befores = [column.raw_scores(touched) for column in self._scaled] if self._scaled else ()
        rewritten = self._score_again(cycle, feasible, rows)
        if befores:
            rewritten = (
                self._scale(cycle, feasible, touched, self._scaled, befores, many_flipped) or rewritten
            )
        if rewritten:
            self._total_all(feasible)
            return True
        self._total_few(feasible, touched)
        if many_flipped:
            self._feasible[flipped] = now = feasible[flipped]
            self.ranking.totals[flipped] = np.where(now, self._sums_of_all()[flipped], INFEASIBLE)
            self.ranking.refresh(flipped)
        return True

    def _score_widely(
        self, cycle: Cycle, feasible: BoolColumn, rows: list[int], flipped: Rows, wide: list[ScoreColumn]
    ) -> None:
        """Ask some plugins about all rows, and the others about those they name and those that changed."""
        few_flipped = flipped if len(flipped) <= FEW_ROWS else NO_ROWS
        for column in wide:
            column.stale_rows = NO_ROWS
        touched = self._touched(rows, few_flipped)
        scaled = [column for column in self._scaled if column not in wide]
        befores = [column.raw_scores(touched) for column in scaled]
        self._score_again(cycle, feasible, rows, wide)
        self._scale(cycle, feasible, touched, scaled, befores, len(flipped) > FEW_ROWS)
        for column in wide:
            column.compute(self._table, cycle, ALL_ROWS)
            if column.normalizes:
                column.find_extremes(cycle, feasible)
                column.normalize(cycle, None)
            column.state = column.found
        self._total_all(feasible)

    def _touched(self, rows: list[int], flipped: Rows) -> list[int]:
        """The rows with changed usage, and the others whose total may change with them."""
        others = flipped.tolist() if len(flipped) else []
        for column in self._coupled:
            if len(column.stale_rows):
                others += column.stale_rows.tolist()
        return list({*rows, *others}) if others else rows

    def _score_again(
        self, cycle: Cycle, feasible: BoolColumn, rows: list[int], wide: Sequence[ScoreColumn] = ()
    ) -> bool:
        """Ask about a few rows again; True if a plugin that gave every row the same does so no more."""
        table = self._table
        differs = False
        for column in self._local:
            differs = column.compute_few(table, cycle, rows) or differs
        for column in self._coupled:
            if column in wide:
                continue
            again = rows if column.traits.reads_usage else []
            if len(column.stale_rows):
                again = [*again, *column.stale_rows.tolist()]
            if again:
                differs = column.compute_few(table, cycle, again) or differs
            column.state = column.found
        if differs:
            for column in (*self._local, *self._coupled):
                if column.normalizes and column.extremes is None:
                    column.find_extremes(cycle, feasible)
                    column.normalize(cycle, None)
        return differs

    def _scale(
        self,
        cycle: Cycle,
        feasible: BoolColumn,
        rows: list[int],
        scaled: Sequence[ScoreColumn],
        befores: Sequence[list[int]],
        many_flipped: bool,
    ) -> bool:
        """Normalize scores again after some rows' changed; True if that gave all rows other ones.

        `befores` are the rows' scores before that, by column.
        """
        rewritten = False
        was = [self._feasible.item(row) for row in rows]
        now = [feasible.item(row) for row in rows]
        for column, before in zip(scaled, befores, strict=True):
            if many_flipped or not column.adjust(rows, before, was, now):
                column.find_extremes(cycle, feasible)
            rewritten = column.normalize(cycle, np.array(rows, dtype=np.intp)) or rewritten
        return rewritten

    def _check(self, feasible: BoolColumn) -> None:
        """Refuse scores out of range in feasible rows. Raises PluginError.

        In other rows they do no harm, since their totals do not count.
        """
        for column in self._ranging:
            if not column.in_range:
                column.check(feasible)

    def _total_few(self, feasible: BoolColumn, rows: list[int]) -> None:
        self._check(feasible)
        varying, constant = self.varying, self._constant
        for row in rows:
            total = constant
            for final, weight in varying:
                total += final.item(row) * weight
            fits = feasible.item(row)
            if self._sums is not None:
                try:
                    self._sums[row] = total
                except OverflowError:
                    self._sums[row] = 0
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
                column.find_extremes(cycle, feasible)
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
        self._check(feasible)
        used = self._table.rows_in_use
        fits, totals = feasible[:used], self.ranking.totals[:used]
        self._sums = None
        self._feasible[:used] = fits
        self._add_up(totals)
        if not fits.all():
            np.putmask(totals, ~fits, INFEASIBLE)
        self.ranking.refresh_all()

    def _sums_of_all(self) -> IntColumn:
        """The totals of all rows, as scores are now."""
        if self._sums is None:
            self._sums = np.zeros(self._table.capacity, dtype=np.int64)
            self._add_up(self._sums[: self._table.rows_in_use])
        return self._sums

    def _add_up(self, totals: IntColumn) -> None:
        """Write what all plugins together give the first rows."""
        used = len(totals)
        totals.fill(self._constant)
        is_light = sum([weight for _, weight in self.varying]) < _LIGHT
        light: Any = None
        for final, weight in self.varying:
            scores = final[:used]
            if is_light and scores.dtype == np.int32:
                scores = scores if weight == 1 else scores * weight
                light = scores if light is None else light + scores
            else:
                totals += scores if weight == 1 else np.multiply(scores, weight, dtype=np.int64)
        if light is not None:
            totals += light

    def _total_rows(self, feasible: BoolColumn, rows: Rows) -> None:
        self._sort_out()
        self._check(feasible)
        if not len(rows):
            return
        totals = np.full(len(rows), self._constant, dtype=np.int64)
        for final, weight in self.varying:
            totals += final[rows] if weight == 1 else np.multiply(final[rows], weight, dtype=np.int64)
        if self._sums is not None:
            self._sums[rows] = totals
        self._feasible[rows] = now = feasible[rows]
        self.ranking.totals[rows] = np.where(now, totals, INFEASIBLE)
        self.ranking.refresh(rows)

    def _sort_out(self) -> None:
        """Tell the plugins that give every row the same from those that do not."""
        active = [column for column in self.columns if column.active]
        self.varying = [(column.final, column.weight) for column in active if column.final is not None]
        self._scaled = [column for column in active if column.normalizes and column.raw is not None]
        self._ranging = [c for c in active if c.traits.watches or c in self._scaled or not c.in_range]
        points = [column.constant * column.weight if column.final is None else None for column in active]
        if points != self._points or active != self._sharing:
            self._points, self._sharing, self._shares = points, active, None
            self._constant = sum([given for given in points if given])
