"""What all nodes have and use of a few resources, as floats that are kept for all classes of pods.

The scores of a class that is met for the first time are worked out for every node. Dividing 64-bit integers
is most of that work, and floats are divided many times faster. Up to a limit they give the same: a float
holds every whole number below 2**53, and a quotient of two of them is rounded to a whole number above it
only if the divisor times that number is past 2**53.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from stowplan.cluster.changes import NO_ROWS, Rows
from stowplan.cluster.columns import MEMORY, IntArray
from stowplan.cluster.table import ClusterTable
from stowplan.framework import FEW_ROWS, MAX_NODE_SCORE, NodeRows, Scores
from stowplan.plugins.noderesources.resource_allocation import ScoredResources

Floats = npt.NDArray[np.float64]

_EXACT: Final = 1 << 46
"""Below this a hundred times a number is below 2**53, and so is a divisor times a quotient up to 100."""
_MOST_KEPT: Final = 16


class UsageColumns:
    """What there is, is used and is free of some lines by row, brought up to date in rows that were touched.

    `odd` are the rows to which the arithmetic of floats does not apply: nodes without one of the resources,
    or with more than floats are exact for. In these rows `allocatable` is 1 and nothing is free.
    """

    __slots__ = ("_lines", "_position", "_with_defaults", "allocatable", "free", "odd", "used")

    def __init__(self, lines: tuple[int, ...], *, with_defaults: bool) -> None:
        self._lines = lines
        self._with_defaults = with_defaults
        self._position = -1
        self.allocatable: Floats = np.zeros((len(lines), 0))
        self.used: Floats = np.zeros((len(lines), 0))
        self.free: Floats = np.zeros((len(lines), 0))
        self.odd: Rows = NO_ROWS

    def sync(self, table: ClusterTable, count: int) -> None:
        """Take in what changed on the first `count` rows, which are all there are."""
        log = table.usage_log
        stale = None
        if self._position >= 0 and self.allocatable.shape[1] == count:
            stale = log.few_since(self._position, FEW_ROWS)
        self._position = log.position
        if stale is None:
            self._read_all(table, count)
        else:
            for row in stale:
                self._read_row(table, row)

    def _source(self, table: ClusterTable, line: int) -> IntArray:
        return table.non_zero if self._with_defaults and line <= MEMORY else table.requested

    def _read_all(self, table: ClusterTable, count: int) -> None:
        if self.allocatable.shape[1] != count:
            self.allocatable = np.empty((len(self._lines), count))
            self.used = np.empty((len(self._lines), count))
            self.free = np.empty((len(self._lines), count))
        plain = np.ones(count, dtype=np.bool_)
        for place, line in enumerate(self._lines):
            there = table.allocatable[line, :count]
            used = self._source(table, line)[line, :count]
            plain &= (there > 0) & (there < _EXACT) & (used < _EXACT)
            self.allocatable[place] = there
            self.used[place] = used
        np.subtract(self.allocatable, self.used, out=self.free)
        self.odd = np.flatnonzero(~plain)
        self.allocatable[:, self.odd] = 1.0
        self.free[:, self.odd] = 0.0

    def _read_row(self, table: ClusterTable, row: int) -> None:
        plain = True
        for place, line in enumerate(self._lines):
            there, used = table.allocatable.item(line, row), self._source(table, line).item(line, row)
            plain = plain and 0 < there < _EXACT and used < _EXACT
            self.allocatable[place, row] = there
            self.used[place, row] = used
            self.free[place, row] = there - used
        if not plain:
            self.allocatable[:, row] = 1.0
            self.free[:, row] = 0.0
        was_odd = len(self.odd) and row in self.odd
        if plain and was_odd:
            self.odd = self.odd[self.odd != row]
        elif not plain and not was_odd:
            self.odd = np.append(self.odd, row)


class UsageOfAllNodes:
    """The usage columns of a plugin, by the lines that count: each pod asks for some resources."""

    def __init__(self, *, with_defaults: bool) -> None:
        self._with_defaults = with_defaults
        self._by_lines: dict[tuple[int, ...], UsageColumns] = {}
        self._version = -1

    def columns(self, resources: ScoredResources, nodes: NodeRows) -> UsageColumns | None:
        """Current columns for a question about all nodes; None if it is not that, or floats will not do."""
        if resources.by_devices or resources.largest_amount >= _EXACT:
            return None
        kept = self.of(resources.lines, nodes)
        return None if kept is None or len(kept.odd) > nodes.count // 4 else kept

    def of(self, lines: tuple[int, ...], nodes: NodeRows) -> UsageColumns | None:
        """Current columns of some lines for a question about all nodes; None if it is not that."""
        if not lines or not isinstance(nodes.rows, slice):
            return None
        table = nodes.table
        if self._version != table.resources.version:
            self._version = table.resources.version
            self._by_lines.clear()
        kept = self._by_lines.get(lines)
        if kept is None:
            if len(self._by_lines) >= _MOST_KEPT:
                self._by_lines.clear()
            kept = self._by_lines[lines] = UsageColumns(lines, with_defaults=self._with_defaults)
        kept.sync(table, nodes.count)
        return kept


def average_share(columns: UsageColumns, amounts: IntArray, weights: list[int], *, most: bool) -> Scores:
    """The weighted mean of what would be left of each resource (with `most`: used), 0 to 100."""
    if most:
        shares = columns.used + amounts.astype(np.float64)
        shares *= float(MAX_NODE_SCORE)
        shares /= columns.allocatable
        at_most(shares, float(MAX_NODE_SCORE))
    else:
        shares = columns.free - amounts.astype(np.float64)
        shares *= float(MAX_NODE_SCORE)
        shares /= columns.allocatable
        if shares.min() < 0:
            np.maximum(shares, 0.0, out=shares)
    # Nothing is negative, so that cutting off is rounding down.
    whole = shares.astype(np.int32)
    total = whole[0] if weights[0] == 1 else whole[0] * weights[0]
    for line, weight in zip(whole[1:], weights[1:], strict=True):
        total += line if weight == 1 else line * weight
    summed = sum(weights)
    if summed == 2:
        total >>= 1
    elif summed > 1:
        total //= summed
    scores: Scores = total.astype(np.int64)
    return scores


def at_most(values: Floats, highest: float) -> None:
    """Bring values down to a limit that few of them reach."""
    if values.max() > highest:
        np.minimum(values, highest, out=values)
