"""How full nodes would be, reckoned as earlier releases did.

Two things differ from `plugins/allocation.py`: a resource that a node does not have counts, as one of which
nothing is left; and extended resources count also for pods that ask for none.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from stowplan.cluster.columns import CPU, MEMORY, IntArray, Lines
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.interface import Handle, Reads, Scores
from stowplan.gocompat.numbers import MAX_INT64
from stowplan.plugins.allocation import saturated_sum
from stowplan.plugins.legacy.base import LegacyPlugin


class Demand:
    """The resources a score looks at, and what a class of pods asks of each."""

    __slots__ = ("_amounts", "_lines", "_listed")

    def __init__(self, table: ClusterTable, names: Sequence[str], amounts: Sequence[int]) -> None:
        self._lines = Lines([table.line_of(name) for name in names])
        self._amounts = np.array(amounts, dtype=np.int64)[:, None]
        self._listed = tuple(zip(self._lines.listed, amounts, strict=True))

    def look(self, nodes: NodeRows) -> tuple[IntArray, IntArray]:
        """By resource and row: what there is, and what would be taken of it with the pod."""
        table, rows = nodes.table, nodes.rows
        used = self._lines.of(table.requested, rows).copy()
        for position, line in enumerate(self._lines.listed):
            if line in (CPU, MEMORY):
                used[position] = table.non_zero[line, rows]
        return self._lines.of(table.allocatable, rows), saturated_sum(used, self._amounts)

    def look_at(self, table: ClusterTable, row: int) -> list[tuple[int, int]]:
        """The same for one row, by resource."""
        return [
            (
                table.allocatable.item(line, row),
                min(
                    (table.non_zero if line in (CPU, MEMORY) else table.requested).item(line, row) + amount,
                    MAX_INT64,
                ),
            )
            for line, amount in self._listed
        ]


class OldAllocation(LegacyPlugin):
    """A score by resources. Subclasses bring the formula, for many rows and for one."""

    reads = Reads.USAGE
    signs_template = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._names: tuple[str, ...] = tuple(self.resources())
        for name in self._names:
            handle.table.hold_resource(name)

    def resources(self) -> Sequence[str]:
        """The resources that count."""
        return [spec.name for spec in self.args.resources]

    def points(self, capacity: IntArray, requested: IntArray) -> Scores:
        """Points on the scale of the arguments, by row."""
        raise LookupError(self.name)

    def points_of(self, figures: list[tuple[int, int]]) -> int:
        """The same for one row."""
        raise LookupError(self.name)

    def sign(self, pod: PodInfo) -> Hashable:
        return self._asked(pod)

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores:
        capacity, requested = self._demand(cycle, pod).look(nodes)
        unit: int = self.args.unit
        return self.points(capacity, requested) * unit

    def score_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        unit: int = self.args.unit
        return self.points_of(self._demand(cycle, pod).look_at(cycle.table, row)) * unit

    def _demand(self, cycle: Cycle, pod: PodInfo) -> Demand:
        kept: Demand | None = cycle.memo(self)
        if kept is None:
            kept = Demand(cycle.table, self._names, self._asked(pod))
            cycle.remember(self, kept)
        return kept

    def _asked(self, pod: PodInfo) -> tuple[int, ...]:
        return pod.template.asked(self._names, non_zero=True, pod_level=False)
