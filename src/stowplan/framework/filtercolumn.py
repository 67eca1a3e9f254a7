"""One Filter plugin over all rows, and what it said kept for the next pod of the class."""

from typing import Any

import numpy as np

from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import BoolColumn
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.view import NodeRow, NodeRows
from stowplan.framework.column import PluginColumn, describe
from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginError
from stowplan.framework.plugin import AllRows, Codes, Plugin, StaleRows, Traits
from stowplan.framework.status import Status

_MOST_STATUSES = 4096
"""A filter that never says the same twice is asked about all nodes again when so much has piled up."""


class FilterColumn(PluginColumn):
    """One Filter plugin's codes over all rows; None while it passes every row."""

    __slots__ = ("by_node", "codes", "index", "known", "statuses")

    point = "Filter"

    def __init__(self, index: int, plugin: Plugin, traits: Traits, reusable: bool) -> None:
        super().__init__(plugin, traits, reusable)
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

    def error(self, message: str, node: str | None = None) -> PluginError:
        name = self.plugin.name
        return PluginError(
            name, f'running "{name}" filter plugin: {message}', () if node is None else (node,)
        )

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

    def compute_few(self, table: ClusterTable, cycle: Cycle, rows: list[int]) -> list[int]:
        """Ask the plugin again about a few rows; returns those of which it says something else now."""
        ask = self.traits.filter_row
        if ask is None:
            if rows:
                self.compute(table, cycle, np.array(rows, dtype=np.intp))
            return rows
        if cycle.watch is not None:
            ask = self.timed(ask, cycle.watch)
        pod, codes, changed = cycle.pod, self.codes, []
        try:
            for row in rows:
                code = ask(cycle, pod, row)
                if codes is None:
                    if not code:
                        continue
                    self.codes = codes = np.zeros(table.capacity, dtype=np.int64)
                if codes.item(row) != code:
                    codes[row] = code
                    changed.append(row)
        except PluginError:
            raise
        except Exception as cause:
            raise self.raised(cause) from cause
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
        answer = self.judge(self.plugin.filter, cycle, nodes)  # type: ignore[attr-defined]
        if answer is None:
            return None
        codes: Codes = self.checked(answer, nodes.count, "codes")
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
        status = self.judge(self.plugin.filter_node, cycle, node, node=node.name)  # type: ignore[attr-defined]
        if status is None:
            return 0
        if not isinstance(status, Status):
            raise self.error(f"expected a Status or None, got {describe(status)}", node.name)
        if status.is_success:
            return 0
        if not status.code.is_rejection:
            raise self.error(status.message or status.code.label, node.name)
        if status not in self.statuses:
            self.statuses.append(status)
        return self.statuses.index(status) + 1
