"""All Filter plugins of a profile over all rows, for one equivalence class of pods, and who rejects first."""

import enum
from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np

from stowplan.scheduler.framework.budget import LongSearchError
from stowplan.scheduler.framework.contract import Signs
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.extension_points import PluginColumn, call_plugin, describe, guarded
from stowplan.scheduler.framework.interface import (
    ALL_ROWS,
    FEW_ROWS,
    AllRows,
    Codes,
    Plugin,
    StaleRows,
    Traits,
)
from stowplan.scheduler.framework.status import PluginError, Status
from stowplan.scheduler.table.changes import NO_ROWS, Rows, merge_rows
from stowplan.scheduler.table.columns import BoolColumn
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.view import NodeRow, NodeRows

_MOST_SHARED = 32
"""Number of answers about all rows that are kept, for filters and signatures."""
_MOST_STATUSES = 4096
"""A filter that never returns the same status twice is evaluated for all nodes again at this number."""


class SharedCodes:
    """Codes that filters gave all rows, by what they read of a pod.

    Pods of other classes may be identical to one of the filters. Kept are answers of filters that depend on
    the template of a pod without its labels and on single nodes, not on the pods there, until a node changes.
    """

    __slots__ = ("_basis", "_kept")

    def __init__(self) -> None:
        self._basis: tuple[int, int] = (-1, 0)
        self._kept: dict[tuple[str, Hashable], Codes | None] = {}

    @staticmethod
    def has(plugin: Plugin, traits: Traits) -> bool:
        """True if answers of a filter are kept."""
        by_shape = plugin.contract.signs is Signs.TEMPLATE_WITHOUT_LABELS and traits.row_local
        return by_shape and not (traits.reads_usage or traits.by_node_filter)

    def current(self, table: ClusterTable) -> dict[tuple[str, Hashable], Codes | None]:
        """The answers that hold, by plugin and signature, and the place to put more."""
        basis = (table.node_log.position, table.capacity)
        if self._basis != basis or len(self._kept) > _MOST_SHARED:
            self._basis = basis
            self._kept.clear()
        return self._kept


class FilterColumn(PluginColumn):
    """One Filter plugin's codes over all rows; None while it passes every row.

    With `shared`, answers about all rows are looked up there by the signature of the pod. They are not
    written to: a class whose codes change gets its own copy.
    """

    __slots__ = ("_shared", "_signature", "by_node", "codes", "index", "known", "statuses")

    point = "Filter"

    def __init__(
        self,
        index: int,
        plugin: Plugin,
        traits: Traits,
        reusable: bool,
        shared: SharedCodes | None = None,
        signature: Hashable = None,
    ) -> None:
        super().__init__(plugin, traits, reusable)
        self._shared = shared
        self._signature = signature
        self.index = index
        self.by_node = traits.by_node_filter
        self.codes: Codes | None = None
        self.known: BoolColumn | None = None
        self.statuses: list[Status] = []

    def basis(self, cycle: Cycle) -> Any:
        return cycle.read(self.plugin)

    def named_stale(self, cycle: Cycle, now: Any) -> StaleRows:
        stale: StaleRows = self.call(self.traits.stale_filter_rows, cycle, self.state, now)
        return stale

    def failure(self, cycle: Cycle, code: int, *nodes: str) -> PluginError:
        """The error that a code below zero stands for."""
        message = self.status(cycle, cycle.pod, code).message
        error = self.error(message)
        error.nodes = nodes
        return error

    def stop(self) -> bool:
        """The plugin does not take part this time; says whether that changes anything."""
        changed = self.codes is not None
        self.active, self.codes, self.state, self.known = False, None, None, None
        return changed

    def status(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        """Status of a code of this plugin."""
        if self.by_node:
            return self.statuses[code - 1].by(self.plugin.name)
        status: Status = guarded(self.plugin, self.point, self.plugin.reason, cycle, pod, code)
        return status.by(self.plugin.name)

    def compute(self, table: ClusterTable, cycle: Cycle, rows: StaleRows) -> None:
        """Ask the plugin again about some rows, or about all of them."""
        if isinstance(rows, AllRows):
            kept = None if self._shared is None or cycle.watch is not None else self._shared.current(table)
            key = (self.plugin.name, self._signature)
            if kept is None:
                self.codes = self.ask(cycle, table.all_rows(), table.capacity)
            else:
                if key not in kept:
                    kept[key] = found = self.ask(cycle, table.all_rows(), table.capacity)
                    if found is not None:
                        found.flags.writeable = False
                self.codes = kept[key]
            return
        codes = self.ask(cycle, NodeRows(table, rows), None)
        if self.codes is None:
            if codes is None or not codes.any():
                return
            self.codes = np.zeros(table.capacity, dtype=np.int64)
        self._own_codes(self.codes)[rows] = 0 if codes is None else codes

    def _own_codes(self, codes: Codes) -> Codes:
        """The codes to write to: those that others have too are left as they are."""
        if not codes.flags.writeable:
            self.codes = codes = codes.copy()
        return codes

    def compute_few(self, table: ClusterTable, cycle: Cycle, rows: list[int]) -> list[int]:
        """Ask the plugin again about a few rows; returns those of which it says something else now."""
        ask = self.traits.filter_row
        if ask is None:
            if rows:
                self.compute(table, cycle, np.array(rows, dtype=np.intp))
            return rows
        if cycle.watch is not None:
            ask = self.timed(ask)
        pod, codes, changed = cycle.pod, self.codes, []
        try:
            for row in rows:
                code = ask(cycle, pod, row)
                if codes is None:
                    if not code:
                        continue
                    self.codes = codes = np.zeros(table.capacity, dtype=np.int64)
                if codes.item(row) != code:
                    codes = self._own_codes(codes)
                    codes[row] = code
                    changed.append(row)
        except (PluginError, LongSearchError):
            raise
        except Exception as cause:
            raise self.raised(cause, table.name_of(row)) from cause
        return changed

    def ask_row(self, table: ClusterTable, cycle: Cycle, row: int) -> int:
        """The plugin's code for one row as it is now, kept nowhere."""
        if self.by_node:
            return self.ask_node(cycle, NodeRow(table, row))
        ask = self.traits.filter_row
        if ask is None:
            codes = self.ask(cycle, NodeRows(table, np.array([row], dtype=np.intp)), None)
            code = 0 if codes is None else int(codes[0])
        else:
            code = self.call(ask, cycle, row, node=table.name_of(row))
        if code < 0:
            raise self.failure(cycle, code, table.name_of(row))
        return code

    def ask(self, cycle: Cycle, nodes: NodeRows, capacity: int | None) -> Codes | None:
        """The plugin's codes for some rows, checked; padded to `capacity` where given."""
        codes: Codes | None = self.by_column(self.plugin.filter, cycle, nodes, "codes")
        if codes is None or capacity is None:
            return codes
        if not codes.any():
            return None
        padded = np.zeros(capacity, dtype=np.int64)
        padded[: nodes.count] = codes
        return padded

    def compute_by_node(self, table: ClusterTable, cycle: Cycle, stale: StaleRows, alive: BoolColumn) -> Rows:
        """Ask about rows that passed all earlier plugins and whose answer is not known; returns them."""
        if self.codes is None or self.known is None:
            self.codes = np.zeros(table.capacity, dtype=np.int64)
            self.known = np.zeros(table.capacity, dtype=np.bool_)
        if isinstance(stale, AllRows) or len(self.statuses) > _MOST_STATUSES:
            self.known[:] = False
            self.codes[:] = 0
            self.statuses = []
        else:
            self.known[stale] = False
            self.codes[stale] = 0
        used = table.rows_in_use
        rows = np.flatnonzero(alive[:used] & ~self.known[:used])
        for row in rows.tolist():
            self.codes[row] = self.ask_node(cycle, NodeRow(table, row))
        self.known[rows] = True
        return rows

    def ask_node(self, cycle: Cycle, node: NodeRow) -> int:
        plugin: Any = self.plugin
        status = call_plugin(plugin, "Filter", plugin.filter_node, cycle, cycle.pod, node, node=node.name)
        if status is None:
            return 0
        if not isinstance(status, Status):
            raise self.error(
                f"expected a Status or None, got {describe(status)} (node {node.name})", node.name
            )
        if status.is_success:
            return 0
        if not status.code.is_rejection:
            raise self.error(status.message or status.code.label, node.name)
        if status not in self.statuses:
            self.statuses.append(status)
        return self.statuses.index(status) + 1


class Untold(enum.Enum):
    """The type of UNTOLD: what filters say of a row has to be tried."""

    UNTOLD = enum.auto()


UNTOLD: Final = Untold.UNTOLD

PASSED = -1
"""In `first`: no plugin rejects the row."""
NOT_ASKED_FOR = -2
"""In `first`: a PreFilter plugin left the row out."""
OVERRULED = -3
"""In `first`: out for this attempt only: pods are nominated to the row, or others than filters said so."""
OUTSIDE = -4
"""In `first`: not part of the placement that the pod's group is tried in; such rows are not reported."""


class FilterResults:
    """All Filter plugins of a profile over all rows, for one class of pods.

    `first` holds, by row, the first plugin that rejects it (or PASSED and the like); `feasible` the rows
    where none does. `version` changes with the latter, `rejections_version` with what is rejected and why.
    """

    __slots__ = (
        "_by_one",
        "_coupled",
        "_fallible",
        "_local",
        "_node_position",
        "_revisit",
        "_revisit_all",
        "_skipped",
        "_table",
        "_usage_position",
        "asked_for",
        "columns",
        "count",
        "feasible",
        "first",
        "inside",
        "rejections_version",
        "version",
    )

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self.columns: list[FilterColumn] = []
        self.first = np.empty(table.capacity, dtype=np.int16)
        self.first.fill(PASSED)
        self.feasible: BoolColumn = np.zeros(table.capacity, dtype=np.bool_)
        self.asked_for: BoolColumn | None = None
        """The rows that PreFilter plugins ask for; None: all."""
        self.inside: BoolColumn | None = None
        """The rows of the placement at hand; None: all."""
        self.count = 0
        self.version = 0
        self.rejections_version = 0
        self._revisit: list[int] = []
        self._revisit_all = False
        """Which rows are worth looking at changed in many rows: who rejects first is looked up in all."""
        self._node_position = -1
        self._usage_position = -1
        self._skipped: frozenset[str] | None = None
        self._by_one = False
        self._local: list[FilterColumn] = []
        self._coupled: list[FilterColumn] = []
        self._fallible: list[FilterColumn] = []

    def start(self, columns: list[FilterColumn]) -> None:
        """Take in the filters that have a say about the class."""
        self.columns = columns
        self._by_one = all(column.reusable and not column.by_node for column in columns)
        self._fallible = [column for column in columns if column.traits.can_fail]

    def sync(self, cycle: Cycle) -> None:
        """Bring codes up to date for this attempt."""
        if not self._by_one or not self._sync_usage(cycle):
            self._merge(self._sync_many(cycle))
            self._skipped = cycle.skipped
            watching = [column for column in self.columns if column.active and column.traits.watches]
            self._local = [column for column in watching if column.traits.row_local]
            self._coupled = [column for column in watching if not column.traits.row_local]
        if self._fallible:
            self._heed_failures(cycle)

    def _heed_failures(self, cycle: Cycle) -> None:
        """Raise the error of a plugin that failed on rows no earlier plugin rejected."""
        for column in self._fallible:
            if column.active and column.codes is not None:
                failed = (column.codes < 0) & (self.first == column.index) & self._table.valid
                rows = np.flatnonzero(failed).tolist()
                codes = {self._table.name_of(row): int(column.codes[row]) for row in rows}
                if codes:
                    raise column.failure(cycle, codes[min(codes)], *sorted(codes))

    def _sync_usage(self, cycle: Cycle) -> bool:
        """The usual case: nothing changed but the usage of a few rows, and what follows from it elsewhere.

        False if it is not that; then nothing was done.
        """
        table = self._table
        if (
            self._node_position != table.node_log.position
            or (self._skipped is not cycle.skipped and self._skipped != cycle.skipped)
            or len(self._revisit) > FEW_ROWS
        ):
            return False
        rows = table.usage_log.few_since(self._usage_position, FEW_ROWS)
        if rows is None:
            return False
        for column in self._coupled:
            if not column.find_stale(cycle):
                return False
        self._usage_position = table.usage_log.position
        revisit: list[int] = []
        if self._revisit:
            revisit, self._revisit = self._revisit, revisit
        for column in self._local:
            revisit += column.compute_few(table, cycle, rows)
        for column in self._coupled:
            stale = column.stale_rows
            if len(stale) > FEW_ROWS:
                column.compute(table, cycle, stale)
                self._merge_rows(stale)
            else:
                revisit += column.compute_few(table, cycle, stale.tolist())
            if column.traits.reads_usage:
                revisit += column.compute_few(table, cycle, rows)
            column.state = column.found
        if self._revisit_all:
            self._revisit_all = False
            self._merge_all()
            return True
        for row in revisit:
            self._merge_one(row)
        return True

    def _sync_many(self, cycle: Cycle) -> StaleRows:
        table = self._table
        node_rows = table.node_log.since(self._node_position) if self._node_position >= 0 else None
        usage_rows = table.usage_log.since(self._usage_position) if self._usage_position >= 0 else None
        self._node_position = table.node_log.position
        self._usage_position = table.usage_log.position
        touched: StaleRows = ALL_ROWS
        if node_rows is not None and usage_rows is not None and not self._revisit_all:
            touched = node_rows
            if self._revisit:
                touched = merge_rows(node_rows, np.array(self._revisit, dtype=np.intp))
        self._revisit, self._revisit_all = [], False
        for position, column in enumerate(self.columns):
            if column.plugin.name in cycle.skipped:
                if column.active and column.stop():
                    touched = ALL_ROWS
                continue
            state = cycle.read(column.plugin)
            rows: StaleRows = ALL_ROWS
            if node_rows is not None and usage_rows is not None:
                rows = column.stale(cycle, state, node_rows, usage_rows)
            if column.by_node:
                column.compute_by_node(table, cycle, rows, self._alive(position))
                rows = ALL_ROWS
            elif isinstance(rows, AllRows) or len(rows):
                column.compute(table, cycle, rows)
            column.active, column.state = True, state
            if isinstance(touched, AllRows) or isinstance(rows, AllRows):
                touched = ALL_ROWS
            else:
                touched = merge_rows(rows, touched)
        return touched

    def restrict(self, asked_for: BoolColumn | None, inside: BoolColumn | None) -> None:
        """Only these rows are worth looking at for the pod at hand, and only those inside; None: all are."""
        revisit: Rows = NO_ROWS
        for before, now in ((self.asked_for, asked_for), (self.inside, inside)):
            if before is not now:
                revisit = merge_rows(revisit, self._differing(before, now))
        if len(revisit) > FEW_ROWS:
            self._revisit_all = True
        else:
            self._revisit += revisit.tolist()
        self.asked_for, self.inside = asked_for, inside

    def _differing(self, before: BoolColumn | None, now: BoolColumn | None) -> Rows:
        if before is None:
            return NO_ROWS if now is None else np.flatnonzero(~now)
        return np.flatnonzero(~before if now is None else before != now)

    @property
    def is_restricted(self) -> bool:
        return self.asked_for is not None or self.inside is not None

    def asks_for(self, row: int) -> bool:
        """Is this row worth looking at?"""
        return (self.asked_for is None or bool(self.asked_for[row])) and (
            self.inside is None or bool(self.inside[row])
        )

    def verdict_with(
        self, cycle: Cycle, row: int, others: Sequence[PodInfo], reasons: dict[tuple[int, int], Status]
    ) -> Status | Untold | None:
        """The first rejection of a row as if other pods stood there as well; None: they make no difference.

        That is so if the row passes, and if it is rejected for the very same reasons without them. UNTOLD if
        a filter that looks at pods neither has `filter_row_with_pods` nor ignores these ones. `reasons` keeps
        what codes mean in this cycle: many rows are rejected for the same.
        """
        for column in self.columns:
            if not column.active:
                continue
            ask = None
            if column.traits.watches:
                ask = column.traits.filter_row_with_pods
                if ask is None and not guarded(
                    column.plugin, "Filter", column.plugin.ignores_pods, cycle.pod, row, others
                ):
                    return UNTOLD
            said = 0 if column.codes is None else column.codes.item(row)
            code = said if ask is None else column.call(ask, cycle, row, others)
            if code < 0:
                return UNTOLD
            if code:
                if code == said and self.first.item(row) == column.index:
                    return None
                status = reasons.get((column.index, code))
                if status is None:
                    status = reasons[column.index, code] = column.status(cycle, cycle.pod, code)
                return status
        return None

    def overrule(self, row: int) -> None:
        """Take a row out for this attempt only."""
        self.first[row] = OVERRULED
        self.rejections_version += 1
        self._revisit.append(row)
        if self.feasible[row]:
            self.feasible[row] = False
            self.count -= 1
            self.version += 1

    def overrule_many(self, rows: Rows) -> None:
        """Take rows out for this attempt only."""
        self.first[rows] = OVERRULED
        self.rejections_version += 1
        self._revisit += rows.tolist()
        passing = int(np.count_nonzero(self.feasible[rows]))
        if passing:
            self.feasible[rows] = False
            self.count -= passing
            self.version += 1

    def _alive(self, before: int) -> BoolColumn:
        """Rows that no plugin before a position rejects."""
        result = self._table.valid.copy()
        for mask in (self.asked_for, self.inside):
            if mask is not None:
                result &= mask
        for column in self.columns[:before]:
            if column.codes is not None:
                result &= column.codes == 0
        return result

    def _merge(self, touched: StaleRows) -> None:
        if isinstance(touched, AllRows):
            self._merge_all()
        elif len(touched) == 1:
            self._merge_one(int(touched[0]))
        elif len(touched):
            self._merge_rows(touched)

    def _merge_all(self) -> None:
        self.rejections_version += 1
        used = self._table.rows_in_use
        first = self.first[:used]
        first.fill(PASSED)
        rejecting = [column for column in reversed(self.columns) if column.codes is not None]
        for column in rejecting:
            assert column.codes is not None
            np.putmask(first, column.codes[:used] != 0, column.index)
        if self.asked_for is not None:
            first[~self.asked_for[:used]] = NOT_ASKED_FOR
        if self.inside is not None:
            first[~self.inside[:used]] = OUTSIDE
        feasible = self._table.valid[:used]
        if rejecting or self.is_restricted:
            feasible = (first == PASSED) & feasible
        count = int(np.count_nonzero(feasible))
        if count != self.count or (feasible != self.feasible[:used]).any():
            self.version += 1
            self.feasible[:used] = feasible
            self.count = count

    def _merge_one(self, row: int) -> None:
        found = PASSED
        for column in self.columns:
            if column.codes is not None and column.codes.item(row):
                found = column.index
                break
        if self.asked_for is not None and not self.asked_for[row]:
            found = NOT_ASKED_FOR
        if self.inside is not None and not self.inside[row]:
            found = OUTSIDE
        if found != PASSED or self.first.item(row) != PASSED:
            self.rejections_version += 1
            self.first[row] = found
        feasible = found == PASSED and bool(self._table.valid[row])
        if feasible != bool(self.feasible[row]):
            self.feasible[row] = feasible
            self.count += 1 if feasible else -1
            self.version += 1

    def _merge_rows(self, rows: Rows) -> None:
        found = np.full(len(rows), PASSED, dtype=np.int16)
        for column in reversed(self.columns):
            if column.codes is not None:
                np.putmask(found, column.codes[rows] != 0, column.index)
        if self.asked_for is not None:
            found[~self.asked_for[rows]] = NOT_ASKED_FOR
        if self.inside is not None:
            found[~self.inside[rows]] = OUTSIDE
        self.rejections_version += 1
        self.first[rows] = found
        feasible = (found == PASSED) & self._table.valid[rows]
        if (feasible != self.feasible[rows]).any():
            self.feasible[rows] = feasible
            # Not by the difference: a row may be listed twice, as one that was overruled twice is.
            self.count = int(np.count_nonzero(self.feasible))
            self.version += 1
