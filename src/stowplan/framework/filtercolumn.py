"""One Filter plugin over all rows, and what it said kept for the next pod of the class."""

from typing import Any

import numpy as np

from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import BoolColumn
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.view import NodeRow, NodeRows
from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginError
from stowplan.framework.plugin import ALL_ROWS, AllRows, Codes, Plugin, StaleRows, Traits
from stowplan.framework.rows import merge_stale, rows_read
from stowplan.framework.status import Status


class FilterColumn:
    """One Filter plugin's codes over all rows; None while it passes every row.

    `state` is what the plugin had found when the codes were computed, so that it can say which rows changed.
    """

    __slots__ = (
        "active",
        "by_node",
        "codes",
        "few",
        "index",
        "known",
        "plugin",
        "reusable",
        "state",
        "statuses",
        "traits",
    )

    def __init__(self, index: int, plugin: Plugin, traits: Traits, reusable: bool) -> None:
        self.index = index
        self.plugin = plugin
        self.traits = traits
        self.reusable = reusable
        self.by_node = traits.by_node_filter
        self.few: list[int] = []
        self.active = False
        self.codes: Codes | None = None
        self.state: Any = None
        self.known: BoolColumn | None = None
        self.statuses: list[Status] = []

    def stop(self) -> bool:
        """The plugin does not take part this time; says whether that changes anything."""
        changed = self.codes is not None
        self.active, self.codes, self.state, self.known = False, None, None, None
        return changed

    def status(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        """What a code means, said by this plugin."""
        status = self.statuses[code - 1] if self.by_node else self.plugin.reason(cycle, pod, code)
        return status.by(self.plugin.name)

    def compute(self, table: ClusterTable, cycle: Cycle, rows: StaleRows) -> None:
        """Ask the plugin again about some rows, or about all of them."""
        if isinstance(rows, AllRows):
            self.codes = self.ask(cycle, table.all_rows(), table.capacity)
            return
        codes = self.ask(cycle, NodeRows(table, rows), None)
        if self.codes is None:
            if codes is None or not codes.any():
                return
            self.codes = np.zeros(table.capacity, dtype=np.int64)
        self.codes[rows] = 0 if codes is None else codes

    def compute_few(self, table: ClusterTable, cycle: Cycle, rows: list[int]) -> None:
        """Ask the plugin again about a few rows."""
        ask = self.traits.filter_row
        if ask is None:
            self.compute(table, cycle, np.array(rows, dtype=np.intp))
            return
        for row in rows:
            try:
                code = ask(cycle, cycle.pod, row)
            except Exception as cause:
                raise filter_error(self.plugin, f"{type(cause).__name__}: {cause}") from cause
            if self.codes is None:
                if not code:
                    continue
                self.codes = np.zeros(table.capacity, dtype=np.int64)
            self.codes[row] = code

    def ask(self, cycle: Cycle, nodes: NodeRows, capacity: int | None) -> Codes | None:
        """The plugin's codes for some rows, checked; padded to `capacity` where given."""
        try:
            codes: Any = self.plugin.filter(cycle, cycle.pod, nodes)  # type: ignore[attr-defined]
        except PluginError:
            raise
        except Exception as cause:
            raise filter_error(self.plugin, f"{type(cause).__name__}: {cause}") from cause
        if codes is None:
            return None
        if not isinstance(codes, np.ndarray) or codes.shape != (nodes.count,):
            raise filter_error(
                self.plugin, f"expected an array of {nodes.count} codes, got {describe(codes)}"
            )
        if codes.dtype.kind not in "iub":
            raise filter_error(self.plugin, f"expected integer codes, got {codes.dtype}")
        if capacity is None:
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
            if not self.reusable:
                self.statuses = []
        if isinstance(stale, AllRows):
            self.known[:] = False
            self.codes[:] = 0
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
        try:
            status: Any = self.plugin.filter_node(cycle, cycle.pod, node)  # type: ignore[attr-defined]
        except Exception as cause:
            raise filter_error(self.plugin, f"{type(cause).__name__}: {cause}", node.name) from cause
        if status is None:
            return 0
        if not isinstance(status, Status):
            raise filter_error(self.plugin, f"expected a Status or None, got {describe(status)}", node.name)
        if status.is_success:
            return 0
        if not status.code.is_rejection:
            raise filter_error(self.plugin, status.message or status.code.label, node.name)
        if status not in self.statuses:
            self.statuses.append(status)
        return self.statuses.index(status) + 1

    def stale(self, cycle: Cycle, state: Any, node_rows: Rows, usage_rows: Rows) -> StaleRows:
        """The rows whose code may differ from the one kept."""
        if not self.active or not self.reusable:
            return ALL_ROWS
        traits = self.traits
        rows = rows_read(traits, node_rows, usage_rows)
        if traits.row_local:
            return rows
        return merge_stale(rows, traits.stale_filter_rows(cycle, cycle.pod, self.state, state))


def filter_error(plugin: Plugin, message: str, node: str | None = None) -> PluginError:
    return PluginError(
        plugin.name, f'running "{plugin.name}" filter plugin: {message}', () if node is None else (node,)
    )


def describe(value: object) -> str:
    """A short description of a wrong value."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return f"{type(value).__name__} {value!r}"[:80]
