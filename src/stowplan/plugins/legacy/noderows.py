"""Facts about nodes that the table has no column for, kept current as nodes change."""

from collections.abc import Callable

import numpy as np

from stowplan.api.node import Node
from stowplan.cluster.columns import IntColumn
from stowplan.cluster.table import ClusterTable


class ChangedNodes:
    """Which rows have another node, or a changed one, since somebody last asked."""

    __slots__ = ("_position", "_table")

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._position = -1

    def take(self) -> list[int]:
        """The rows to look at again; all of them the first time."""
        log = self._table.node_log
        position = self._position
        if position == log.position:
            return []
        rows = log.since(position) if position >= 0 else None
        self._position = log.position
        return list(range(self._table.rows_in_use)) if rows is None else rows.tolist()


class NodeFacts:
    """A number per row, worked out from its node; 0 where there is none."""

    __slots__ = ("_changed", "_table", "_values", "_work_out")

    def __init__(self, table: ClusterTable, work_out: Callable[[Node], int]) -> None:
        self._table = table
        self._work_out = work_out
        self._changed = ChangedNodes(table)
        self._values: IntColumn = np.zeros(table.capacity, dtype=np.int64)

    def column(self) -> IntColumn:
        """The numbers as they are now. Not to be written to."""
        table = self._table
        if len(self._values) != table.capacity:
            grown: IntColumn = np.zeros(table.capacity, dtype=np.int64)
            grown[: len(self._values)] = self._values
            self._values = grown
        for row in self._changed.take():
            node = table.nodes[row]
            self._values[row] = 0 if node is None else self._work_out(node)
        return self._values
