"""One Score plugin over all rows: raw scores, their extremes, and final scores."""

from typing import Any

import numpy as np

from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import BoolColumn
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.view import NodeRow, NodeRows
from stowplan.framework.column import PluginColumn, describe
from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginError
from stowplan.framework.plugin import (
    FEW_ROWS,
    MAX_NODE_SCORE,
    AllRows,
    Extremes,
    Plugin,
    Scores,
    StaleRows,
    Traits,
)
from stowplan.framework.status import Code

IGNORED = int(np.iinfo(np.int64).min)
"""A raw score that means "not scored": it stays out of the extremes, and the plugin's `normalize` sees it."""

_NORMALIZE = "ScoreExtensionNormalize"
_SUCCESS = Code.SUCCESS.label


class ScoreColumn(PluginColumn):
    """One Score plugin's raw and final scores over all rows.

    `raw` is None while every row has raw score 0; then `constant` is the final score of all of them.
    `final` is `raw` itself for a plugin without `normalize`.
    """

    __slots__ = (
        "_at_high",
        "_at_low",
        "by_node",
        "constant",
        "extremes",
        "final",
        "known",
        "normalizes",
        "raw",
        "trusted",
        "weight",
    )

    point = "Score"

    def __init__(self, plugin: Plugin, traits: Traits, weight: int, reusable: bool, trusted: bool) -> None:
        super().__init__(plugin, traits, reusable)
        self.weight = weight
        self.trusted = trusted
        self.by_node = traits.by_node_score
        self.normalizes = traits.normalizes
        self.raw: Scores | None = None
        self.final: Scores | None = None
        self.known: BoolColumn | None = None
        self.constant = 0
        self.extremes: Extremes | None = None
        self._at_high = 0
        self._at_low = 0

    def named_stale(self, cycle: Cycle, now: Any) -> StaleRows:
        stale: StaleRows = self.call(self.traits.stale_score_rows, cycle, self.state, now)
        return stale

    def error(self, message: str, node: str | None = None) -> PluginError:
        name, nodes = self.plugin.name, () if node is None else (node,)
        return PluginError(name, f'running Score plugin "{name}": {message}', nodes)

    def stop(self) -> bool:
        was_active = self.active
        self.active, self.state, self.extremes = False, None, None
        self.raw = self.final = self.known = None
        return was_active

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
        old[rows] = 0 if scores is None else scores
        return before

    def compute_few(self, table: ClusterTable, cycle: Cycle, rows: list[int]) -> bool:
        """Ask the plugin again about a few rows; True if only now rows have different scores."""
        ask, raw = self.traits.score_row, self.raw
        if ask is None:
            self.compute(table, cycle, np.array(rows, dtype=np.intp))
            return raw is not self.raw
        if cycle.watch is not None:
            ask = self.timed(ask, cycle.watch)
        pod = cycle.pod
        try:
            for row in rows:
                score = ask(cycle, pod, row)
                if raw is not None:
                    raw[row] = score
                elif score:
                    self.compute(table, cycle, np.array(rows, dtype=np.intp))
                    return True
        except PluginError:
            raise
        except Exception as cause:
            raise self.raised(cause) from cause
        return False

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
        self.extremes = None
        self.final = None if self.normalizes else self.raw

    def _compute_all(self, table: ClusterTable, cycle: Cycle) -> None:
        scores = self._ask(cycle, table.all_rows())
        if scores is None or not scores.any():
            self.raw = None
        else:
            self.raw = np.empty(table.capacity, dtype=np.int64)
            self.raw[: len(scores)] = scores
            self.raw[len(scores) :] = 0
        self.extremes = None
        self.final = None if self.normalizes else self.raw

    def _ask(self, cycle: Cycle, nodes: NodeRows) -> Scores | None:
        answer = self.judge(self.plugin.score, cycle, nodes)  # type: ignore[attr-defined]
        if answer is None:
            return None
        scores: Scores = self.checked(answer, nodes.count, "scores")
        return scores

    def _ask_nodes(self, cycle: Cycle, rows: Rows) -> list[int]:
        scores: list[int] = []
        for row in rows.tolist():
            node = NodeRow(cycle.table, row)
            score = self.judge(self.plugin.score_node, cycle, node, node=node.name)  # type: ignore[attr-defined]
            if not isinstance(score, int | np.integer):
                raise self.error(f"expected an int, got {describe(score)}", node.name)
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
            used = cycle.table.rows_in_use
            self.final = np.zeros(len(self.raw), dtype=np.int64)
            self.final[:used] = self._normalized(cycle, self.raw[:used])
            return True
        self.final[rows] = self._normalized(cycle, self.raw[rows])
        return False

    def _normalized(self, cycle: Cycle, raw: Scores) -> Scores:
        # A plugin from outside the tree may write to what it is given.
        given = raw if self.trusted else raw.copy()
        ask = self.plugin.normalize  # type: ignore[attr-defined]
        watch = cycle.watch
        began = 0.0 if watch is None else watch.timer()
        result: Any = self.call(ask, cycle, given, self.extremes)
        if watch is not None:
            watch.plugin(self.plugin.name, _NORMALIZE, _SUCCESS, watch.timer() - began)
        if not isinstance(result, np.ndarray) or result.shape != raw.shape:
            raise self.error(f"normalize: expected an array of {len(raw)} scores, got {describe(result)}")
        if result.dtype.kind not in "iub":
            raise self.error(f"normalize: expected integer scores, got {result.dtype}")
        return result

    def check(self, feasible: BoolColumn | Rows) -> None:
        """Refuse scores outside 0..100 in feasible rows. Raises PluginError."""
        if self.final is None:
            bad = np.array([] if 0 <= self.constant <= MAX_NODE_SCORE else [self.constant])
        else:
            values = self.final[feasible]
            bad = values[(values < 0) | (values > MAX_NODE_SCORE)]
        if len(bad):
            raise PluginError(
                self.plugin.name,
                f'plugin "{self.plugin.name}" returns an invalid score {bad[0]}, it should in the range of '
                f"[0, {MAX_NODE_SCORE}] after normalizing",
            )


def all_in_range(scores: Scores) -> bool:
    """Whether scores are 0 to 100. Seen as unsigned, negative ones are above that, too."""
    return not len(scores) or bool(scores.view(np.uint64).max() <= MAX_NODE_SCORE)
