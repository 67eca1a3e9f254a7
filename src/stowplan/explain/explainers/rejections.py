"""Which filters reject which nodes: the funnel, and the near misses.

The scheduler stops at the first filter that rejects a node. To see how far a node is from taking a pod every
filter has to be asked. Those that answer for all nodes at once were asked already, the others are asked now.
"""

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

import numpy as np

from stowplan.explain.document.pod import DeviceFinding, FunnelLine, NearMiss
from stowplan.scheduler.framework.budget import Step, run_at_once
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.explanation import Shortfall, ShortfallPlugin, ShortfallSizesPlugin
from stowplan.scheduler.framework.interface import Codes, Plugin
from stowplan.scheduler.framework.reuse.filter_results import NOT_ASKED_FOR, FilterColumn
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import BoolColumn
from stowplan.scheduler.table.view import NodeRow

_STEP: Final = 200
"""How many near misses are put into words in one step."""

LEFT_OUT: Final = ""
"""Stands for the PreFilter plugins that named the only nodes to look at."""
EXAMPLES: Final = 3
"""How many nodes are named for each reason."""


class NearRow(NamedTuple):
    """A near miss and the row of its node."""

    row: int
    size: float
    """How much is missing, exactly: the document has it rounded."""
    miss: NearMiss


class Rejections:
    """Results of all filters of a profile on all nodes, for a pod that was evaluated."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._columns = {
            column.plugin.name: (column, codes)
            for column in evaluation.pod_class.filters.columns
            if column.active and (codes := _all_codes(evaluation, column)) is not None
        }
        self.cycle = evaluation.cycle
        self.near_miss_count = 0
        """How many nodes only one plugin rejects; known when they have been looked at."""
        self._reasons: dict[tuple[str, int], str] = {}
        self._telling = {
            name: plugin
            for name, (column, _) in self._columns.items()
            if isinstance(plugin := column.plugin, ShortfallPlugin)
        }

    @property
    def against(self) -> dict[str, BoolColumn]:
        """By filter: the rows it rejects. Nodes that PreFilter plugins left out are under an empty name."""
        found = {name: codes != 0 for name, (_, codes) in self._columns.items()}
        if self._evaluation.pre_filtering.node_names is not None:
            first = self._evaluation.pod_class.filters.first
            left_out = self._evaluation.cycle.table.valid & (first == NOT_ASKED_FOR)
            found = {name: codes & ~left_out for name, codes in found.items()}
            if left_out.any():
                found = {LEFT_OUT: left_out, **found}
        return found

    @property
    def rejected_once(self) -> BoolColumn:
        """The rows that exactly one filter rejects."""
        table = self._evaluation.cycle.table
        count = np.zeros(table.capacity, dtype=np.int32)
        for codes in self.against.values():
            count += codes
        once: BoolColumn = (count == 1) & table.valid
        return once

    def plugin(self, name: str) -> Plugin | None:
        """A filter that rejects nodes, by name."""
        found = self._columns.get(name)
        return None if found is None else found[0].plugin

    def reason_on(self, name: str, row: int) -> str:
        """A filter's own words for a row that it rejects."""
        if name == LEFT_OUT:
            return self._evaluation.left_out.message
        return self._reason(name, int(self._columns[name][1][row]))

    @property
    def funnel(self) -> list[FunnelLine]:
        """All rejected nodes by the first plugin to reject them, largest group first."""
        evaluation = self._evaluation
        table = evaluation.cycle.table
        outright = evaluation.rejected_outright
        if outright is not None:
            return [FunnelLine(outright.plugin, outright.message, table.node_count, ())]
        lines = [
            FunnelLine(
                status.plugin,
                ", ".join(status.reasons) or status.code.label,
                len(rows),
                tuple(table.name_of(row) for row in rows[:EXAMPLES].tolist()),
            )
            for status, rows in evaluation.rejections().items()
        ]
        return sorted(lines, key=lambda line: -line.nodes)

    def near_misses(self) -> list[NearRow]:
        """The nodes that exactly one plugin rejects, those first that lack least."""
        return run_at_once(self.near_miss_steps())

    def near_miss_steps(self, most: int | None = None) -> Generator[Step, None, list[NearRow]]:
        """The same in steps of so many nodes.

        With `most` so many of the nearest are enough; `near_miss_count` says how many there are.
        """
        found = []
        for row, name, code in self._rows_rejected_once(most):
            found.append(self._near_miss(row, name, code))
            if not len(found) % _STEP:
                yield None
        return sorted(found, key=lambda near: (near.size, near.miss.node))

    def _rows_rejected_once(self, most: int | None) -> Iterator[tuple[int, str, int]]:
        """Rows that one filter rejects, with its name and its code; of many only the nearest."""
        evaluation = self._evaluation
        if evaluation.rejected_outright is not None:
            return
        table = evaluation.cycle.table
        against = np.zeros(table.capacity, dtype=np.int32)
        for _, codes in self._columns.values():
            against += codes != 0
        once = (against == 1) & table.valid
        for name, (_, codes) in self._columns.items():
            rows = np.flatnonzero(once & (codes != 0))
            self.near_miss_count += len(rows)
            if most is not None and len(rows) > most:
                rows = self._nearest(name, rows, most)
            for row, code in zip(rows.tolist(), codes[rows].tolist(), strict=True):
                yield row, name, code

    def _nearest(self, name: str, rows: Rows, most: int) -> Rows:
        """So many of the rows that lack least, if the plugin can say of all at once how much they lack."""
        plugin = self._columns[name][0].plugin
        if not isinstance(plugin, ShortfallSizesPlugin):
            return rows
        cycle = self._evaluation.cycle
        sizes = plugin.shortfall_sizes(cycle, cycle.pod, rows)
        nearest: Rows = rows[np.argsort(sizes, kind="stable")[:most]]
        return nearest

    def _near_miss(self, row: int, name: str, code: int) -> NearRow:
        cycle = self._evaluation.cycle
        reason = self._reason(name, code)
        plugin = self._telling.get(name)
        told = None if plugin is None else plugin.shortfall(cycle, cycle.pod, row)
        lacking = told or Shortfall(reason)
        miss = NearMiss(
            node=cycle.table.name_of(row),
            plugin=name,
            reason=reason,
            missing=lacking.about,
            detail=lacking.text,
            size=round(lacking.size, 4),
            devices=tuple(DeviceFinding(**one) for one in lacking.devices),
        )
        return NearRow(row, lacking.size, miss)

    def _reason(self, name: str, code: int) -> str:
        known = self._reasons.get((name, code))
        if known is None:
            cycle = self._evaluation.cycle
            status = self._columns[name][0].status(cycle, cycle.pod, code)
            known = self._reasons[name, code] = ", ".join(status.reasons)
        return known


def _all_codes(evaluation: Evaluation, column: FilterColumn) -> Codes | None:
    """Results of a filter on all rows, also on those that another one had rejected before."""
    if not column.traits.by_node_filter or column.codes is None or column.known is None:
        return column.codes
    cycle = evaluation.cycle
    codes = column.codes.copy()
    for row in np.flatnonzero(cycle.table.valid & ~column.known).tolist():
        codes[row] = column.ask_node(cycle, NodeRow(cycle.table, row))
    return codes
