"""Pods of a group on the nodes that can take one more, for scores that spread the group.

What a node is worth depends here on all feasible nodes: on the most pods any of them has, or on how many they
have together.
"""

from typing import Any

import numpy as np

from stowplan.cluster.columns import IntArray
from stowplan.cluster.matchers import PodMatcher
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle


class Siblings:
    """A group's pods by row (`matcher`; None: there is no group), kept for a class of pods.

    `found` is what a plugin last found out about the feasible nodes, with what that was found from.
    """

    __slots__ = ("_table", "found", "matcher")

    def __init__(self, table: ClusterTable, matcher: PodMatcher | None) -> None:
        self._table = table
        self.matcher = matcher
        self.found: tuple[Any, Any] = (None, None)

    def version(self, cycle: Cycle) -> tuple[int, int, int]:
        """Changes with what is found: pods of the group, which nodes are feasible, and their labels."""
        pods = 0 if self.matcher is None else self.matcher.rows.version
        return pods, cycle.feasible_version, self._table.topology_version

    def on(self, nodes: NodeRows) -> IntArray:
        """How many there are on some rows."""
        if self.matcher is None:
            return np.zeros(nodes.count, dtype=np.int64)
        return self.matcher.rows.at(nodes.rows, nodes.table.capacity)

    def on_row(self, row: int) -> int:
        return 0 if self.matcher is None else self.matcher.rows.get(row)

    def on_feasible(self, cycle: Cycle) -> IntArray:
        """How many there are by row in use, 0 on rows that are not feasible."""
        used = cycle.table.rows_in_use
        assert cycle.feasible is not None
        return self.on(cycle.table.all_rows()) * cycle.feasible[:used]

    def close(self) -> None:
        if self.matcher is not None:
            self._table.matchers.release(self.matcher)
