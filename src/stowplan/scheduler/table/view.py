"""Views handed to plugins: some rows of the table, or one row as a node."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from stowplan.api.node import Node, Taint
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import IdColumn, IntColumn
from stowplan.scheduler.table.podinfo import PodInfo

if TYPE_CHECKING:
    from stowplan.scheduler.table.table import ClusterTable


class NodeRows:
    """Some rows of the table. `rows` is a slice (all rows in use) or an array of row numbers.

    Index any column with it: `table.pod_count[nodes.rows]`. In-tree plugins may get rows of deleted nodes,
    which is faster; their results for these are not used. Iteration gives living nodes only.
    """

    __slots__ = ("count", "rows", "table")

    def __init__(self, table: "ClusterTable", rows: Rows | slice) -> None:
        self.table = table
        self.rows = rows
        self.count = table.rows_in_use if isinstance(rows, slice) else len(rows)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> "Iterator[NodeRow]":
        table = self.table
        numbers = range(self.count) if isinstance(self.rows, slice) else self.rows.tolist()
        return (NodeRow(table, row) for row in numbers if table.nodes[row] is not None)

    def living(self) -> "NodeRows":
        """These rows without those of deleted nodes."""
        table, rows = self.table, self.rows
        if table.node_count == table.rows_in_use:
            return self
        if isinstance(rows, slice):
            return NodeRows(table, np.flatnonzero(table.valid[rows]))
        lives = table.valid[rows]
        return self if lives.all() else NodeRows(table, rows[lives])

    def fill(self, results: IntColumn) -> IntColumn:
        """Results for the living rows of these, with 0 for the others."""
        filled: IntColumn = np.zeros(self.count, dtype=np.int64)
        filled[self.table.valid[self.rows]] = results
        return filled

    def labels(self, key: str) -> IdColumn:
        """Ids of the values of one label, 0 where a node does not have it."""
        return self.table.label_column(key).ids[self.rows]

    def allocatable(self, resource: str) -> IntColumn:
        """cpu in millicores, everything else in its unit."""
        return self.table.allocatable_of(resource)[self.rows]

    def requested(self, resource: str) -> IntColumn:
        """The sum of what the pods on each node ask for."""
        return self.table.requested_of(resource)[self.rows]

    @property
    def pod_count(self) -> IntColumn:
        return self.table.pod_count[self.rows]


class NodeRow:
    """One node with what runs on it, for plugins that look at one node at a time."""

    __slots__ = ("_table", "row")

    def __init__(self, table: "ClusterTable", row: int) -> None:
        self._table = table
        self.row = row

    @property
    def node(self) -> Node:
        node = self._table.nodes[self.row]
        if node is None:
            raise LookupError(f"the node of row {self.row} was deleted")
        return node

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.node.metadata.annotations

    @property
    def taints(self) -> tuple[Taint, ...]:
        return self.node.spec.taints

    @property
    def unschedulable(self) -> bool:
        return self.node.spec.unschedulable

    @property
    def pods(self) -> list[PodInfo]:
        return list(self._table.pods_on[self.row].values())

    def allocatable(self, resource: str) -> int:
        """cpu in millicores, everything else in its unit; 0 if the node has none."""
        return int(self._table.allocatable_of(resource)[self.row])

    def requested(self, resource: str) -> int:
        """The sum of what the pods on the node ask for."""
        return int(self._table.requested_of(resource)[self.row])

    def free(self, resource: str) -> int:
        return self.allocatable(resource) - self.requested(resource)
