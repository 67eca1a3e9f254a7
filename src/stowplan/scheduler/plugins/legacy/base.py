"""Common parts of plugins of earlier releases: base classes, facts by node, counts of a group of pods."""

from collections.abc import Callable
from typing import Any

import numpy as np

from stowplan.api.fielderrors import Path, aggregate, invalid
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.node import Node
from stowplan.scheduler.framework import Cycle, Handle, NodeRows, Plugin
from stowplan.scheduler.framework.advanced import FeatureGates, ProfileError
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.table.columns import IntArray, IntColumn
from stowplan.scheduler.table.matchers import PodMatcher
from stowplan.scheduler.table.table import ClusterTable

OLD_MAX_PRIORITY = 10
"""The best score a priority could give a node up to Kubernetes 1.16."""

MAX_PRIORITY = 100
"""The best score since."""


class LegacyArgs(PluginArgs, frozen=True, forbid_unknown_fields=True):
    """Arguments of a plugin that kube-scheduler no longer has.

    They are read when the plugin is made, not with the configuration, so an unknown field is refused here.
    """

    api_version: str = ""
    kind: str = ""

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        expected = type(self).__name__
        if self.kind in ("", expected):
            return []
        return [invalid(path.child("kind"), self.kind, f"must be {expected}")]


class PriorityArgs(LegacyArgs, frozen=True):
    """Arguments of a plugin that was a priority.

    `max_priority` is the best score of the release that is meant, 10 or 100. Rules that round are rounded on
    that scale; a point on the old scale then counts ten, so that the best score is 100 either way.
    """

    max_priority: int = MAX_PRIORITY

    @property
    def unit(self) -> int:
        """Value of a point on the scale of these arguments."""
        return MAX_PRIORITY // self.max_priority

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors = super().validate(path, gates)
        if self.max_priority not in (OLD_MAX_PRIORITY, MAX_PRIORITY):
            detail = f"must be {OLD_MAX_PRIORITY} or {MAX_PRIORITY}"
            errors.append(invalid(path.child("maxPriority"), self.max_priority, detail))
        return errors


class LegacyPlugin(Plugin):
    """A plugin that kube-scheduler no longer has.

    To the reader of configurations it is one from outside the tree, so its arguments are completed and
    checked here, when it is made.
    """

    def __init__(self, args: Any, handle: Handle) -> None:
        if isinstance(args, PluginArgs):
            args = args.completed(handle.gates)
            errors = args.validate(Path(), handle.gates)
            if errors:
                raise ProfileError(aggregate(errors))
        super().__init__(args, handle)


class ChangedNodes:
    """Rows whose node was replaced or changed since the last call."""

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


class Siblings:
    """A group's pods by row (`matcher`; None: there is no group), for scores that spread the group.

    A node's score depends on all feasible nodes: on the most pods any of them has, or on their sum.

    `found` is a plugin's last result for the feasible nodes, with its inputs.
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
        """Number of its pods on some rows."""
        if self.matcher is None:
            return np.zeros(nodes.count, dtype=np.int64)
        return self.matcher.rows.at(nodes.rows, nodes.table.capacity)

    def on_row(self, row: int) -> int:
        return 0 if self.matcher is None else self.matcher.rows.get(row)

    def on_feasible(self, cycle: Cycle) -> IntArray:
        """Number of its pods by row in use, 0 on rows that are not feasible."""
        used = cycle.table.rows_in_use
        assert cycle.feasible is not None
        return self.on(cycle.table.all_rows()) * cycle.feasible[:used]

    def close(self) -> None:
        if self.matcher is not None:
            self._table.matchers.release(self.matcher)
