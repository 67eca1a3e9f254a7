"""Capacity and use of a few resources on all nodes, as floats that are kept for all classes of pods.

The scores of a class that is met for the first time are computed for every node. Dividing 64-bit integers is
most of that work, and floats are divided many times faster. Up to a limit they give the same: a float holds
every whole number below 2**53, and a quotient of two of them is rounded to a whole number above it only if
the divisor times that number is past 2**53.
"""

from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from stowplan.scheduler.framework import MAX_NODE_SCORE, NodeRows
from stowplan.scheduler.framework.advanced import FEW_ROWS
from stowplan.scheduler.plugins.noderesources.resource_allocation import ScoredResources
from stowplan.scheduler.table.changes import NO_ROWS, Rows
from stowplan.scheduler.table.columns import MEMORY
from stowplan.scheduler.table.table import ClusterTable

Floats = npt.NDArray[np.float64]
SmallScores = npt.NDArray[np.int32]
"""Scores of half the width: they are 0 to 100, and faster to get at."""

_EXACT: Final = 1 << 46
"""Below this a hundred times a number is below 2**53, and so is a divisor times a quotient up to 100."""
_MOST_KEPT: Final = 16
_PERCENT: Final = float(MAX_NODE_SCORE)


class UsageColumns:
    """Capacity and use of some lines by row, updated in rows that were touched.

    `used` is the sum of pods' requests, `counted` the same with the customary defaults for containers without
    requests, `room` a hundred times the rest. `odd` are the rows to which the arithmetic of floats does not
    apply: nodes without one of the resources, or with more than floats are exact for. In these rows
    everything is 1, and there is no room.

    The room on every node is kept as a bound: most often it shows that no node lacks any.
    """

    __slots__ = (
        "_is_least",
        "_least_free",
        "_least_room",
        "_least_slots",
        "_lines",
        "_position",
        "allocatable",
        "counted",
        "odd",
        "room",
        "twice_allocatable",
        "used",
    )

    def __init__(self, lines: tuple[int, ...]) -> None:
        self._lines = lines
        self._position = -1
        nothing: Floats = np.zeros((len(lines), 0))
        self.allocatable = self.twice_allocatable = self.used = self.counted = self.room = nothing
        self.odd: Rows = NO_ROWS
        self._least_free: list[float] = []
        self._least_room: list[float] = []
        self._least_slots = 0
        self._is_least = False
        """True if some node has exactly the bounds; False: all nodes may have more by now."""

    def sync(self, table: ClusterTable, count: int) -> None:
        """Take in what changed on the first `count` rows, which are all there are."""
        log = table.usage_log
        position, self._position = self._position, log.position
        if position == log.position and self.allocatable.shape[1] == count:
            return
        stale = None
        if position >= 0 and self.allocatable.shape[1] == count:
            stale = log.few_since(position, FEW_ROWS)
        if stale is None:
            self._read_all(table, count)
        else:
            for row in stale:
                self._read_row(table, row)

    def _read_all(self, table: ClusterTable, count: int) -> None:
        if self.allocatable.shape[1] != count:
            self.allocatable, self.twice_allocatable, self.used, self.counted, self.room = np.empty(
                (5, len(self._lines), count)
            )
        plain = np.ones(count, dtype=np.bool_)
        for place, line in enumerate(self._lines):
            there, used = table.allocatable[line, :count], table.requested[line, :count]
            counted = table.non_zero[line, :count] if line <= MEMORY else used
            plain &= (there > 0) & (there < _EXACT) & (used < _EXACT) & (counted < _EXACT)
            self.allocatable[place], self.used[place], self.counted[place] = there, used, counted
        self.odd = np.flatnonzero(~plain)
        for column in (self.allocatable, self.used, self.counted):
            column[:, self.odd] = 1.0
        np.subtract(self.allocatable, self.counted, out=self.room)
        self.room *= _PERCENT
        np.multiply(self.allocatable, 2.0, out=self.twice_allocatable)
        self._find_least(table)

    def _read_row(self, table: ClusterTable, row: int) -> None:
        figures = []
        for line in self._lines:
            there, used = table.allocatable.item(line, row), table.requested.item(line, row)
            counted = table.non_zero.item(line, row) if line <= MEMORY else used
            figures.append((there, used, counted))
        plain = all(0 < there < _EXACT and used < _EXACT and by < _EXACT for there, used, by in figures)
        for place, (there, used, counted) in enumerate(figures if plain else [(1, 1, 1)] * len(figures)):
            free, room = there - used, (there - counted) * MAX_NODE_SCORE
            if room > self.room.item(place, row):
                self._is_least = False
            self.allocatable[place, row] = there
            self.twice_allocatable[place, row] = 2 * there
            self.used[place, row] = used
            self.counted[place, row] = counted
            self.room[place, row] = room
            if free < self._least_free[place]:
                self._least_free[place] = free
            if room < self._least_room[place]:
                self._least_room[place] = room
        slots = table.allowed_pods.item(row) - table.pod_count.item(row)
        self._least_slots = min(self._least_slots, slots)
        was_odd = len(self.odd) and row in self.odd
        if plain and was_odd:
            self.odd = self.odd[self.odd != row]
        elif not plain and not was_odd:
            self.odd = np.append(self.odd, row)

    def _find_least(self, table: ClusterTable) -> None:
        count = self.allocatable.shape[1]
        self._least_free = (self.allocatable - self.used).min(axis=1, initial=np.inf).tolist()
        self._least_room = self.room.min(axis=1, initial=np.inf).tolist()
        slots = table.allowed_pods[:count] - table.pod_count[:count]
        self._least_slots = int(slots.min(initial=1))
        self._is_least = True

    def has_room(self, table: ClusterTable, amounts: Sequence[int]) -> bool:
        """True if these amounts are free on every node, and room for another pod. False: the rows must be
        checked."""
        found = self._has_room(amounts)
        if not found and not self._is_least:
            self._find_least(table)
            found = self._has_room(amounts)
        return found

    def _has_room(self, amounts: Sequence[int]) -> bool:
        least = self._least_free
        return self._least_slots > 0 and all(amount <= least[place] for place, amount in enumerate(amounts))

    def _fits(self, place: int, amount: int) -> bool:
        """True if no node would have more than all of a resource used. False: some may."""
        return amount * MAX_NODE_SCORE <= self._least_room[place] and amount <= self._least_free[place]

    def share_left(self, place: int, amount: int) -> SmallScores:
        """Remaining share of a resource, 0 to 100."""
        shares: Floats = self.room[place] - float(amount * MAX_NODE_SCORE)
        shares /= self.allocatable[place]
        if not self._fits(place, amount):
            np.maximum(shares, 0.0, out=shares)
        # Nothing is negative, so that cutting off is rounding down.
        return shares.astype(np.int32)

    def share_used(self, place: int, amount: int) -> SmallScores:
        """Used share of a resource, 0 to 100."""
        shares: Floats = self.counted[place] + float(amount)
        shares *= _PERCENT
        shares /= self.allocatable[place]
        if not self._fits(place, amount):
            np.minimum(shares, _PERCENT, out=shares)
        return shares.astype(np.int32)

    def half_used(self, place: int, amount: int) -> Floats:
        """Half of the fraction of a resource that would be used by what pods request, 0 to 0.5.

        Floats are halved without rounding, so that it makes no difference when it is done.
        """
        halves: Floats = self.used[place] + float(amount)
        halves /= self.twice_allocatable[place]
        if not self._fits(place, amount):
            np.minimum(halves, 0.5, out=halves)
        return halves


class UsageOfAllNodes:
    """The usage columns of a table, by the lines that count: each pod asks for some resources."""

    def __init__(self) -> None:
        self._by_lines: dict[tuple[int, ...], UsageColumns] = {}
        self._version = -1

    def of(self, lines: tuple[int, ...], table: ClusterTable, count: int) -> UsageColumns:
        """Current columns of some lines."""
        if self._version != table.resources.version:
            self._version = table.resources.version
            self._by_lines.clear()
        kept = self._by_lines.get(lines)
        if kept is None:
            if len(self._by_lines) >= _MOST_KEPT:
                self._by_lines.clear()
            kept = self._by_lines[lines] = UsageColumns(lines)
        kept.sync(table, count)
        return kept


_usage: WeakKeyDictionary[ClusterTable, UsageOfAllNodes] = WeakKeyDictionary()


class Usage:
    """The usage columns of the scheduler's own table, which all plugins that read them share.

    Other tables, as of nodes that an extender returned, are not covered.
    """

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._columns = _usage.setdefault(table, UsageOfAllNodes())

    def of(self, lines: tuple[int, ...], nodes: NodeRows) -> UsageColumns | None:
        """Current columns of some lines for a question about all nodes; None if it is not that."""
        if not lines or not isinstance(nodes.rows, slice) or nodes.table is not self._table:
            return None
        return self._columns.of(lines, self._table, nodes.count)

    def scored(self, resources: ScoredResources, nodes: NodeRows) -> UsageColumns | None:
        """The same for a score; None also if floats will not do."""
        if resources.by_devices or max(resources.wanted, default=0) >= _EXACT:
            return None
        kept = self.of(resources.lines, nodes)
        return None if kept is None or len(kept.odd) > nodes.count // 4 else kept


def average_share(
    columns: UsageColumns, wanted: Sequence[int], weights: list[int], *, most: bool
) -> SmallScores:
    """The weighted mean of what would be left of each resource (with `most`: used), 0 to 100."""
    share = columns.share_used if most else columns.share_left
    total = share(0, wanted[0])
    if weights[0] != 1:
        total *= weights[0]
    for place, weight in enumerate(weights[1:], 1):
        line = share(place, wanted[place])
        total += line if weight == 1 else line * weight
    summed = sum(weights)
    if summed == 2:
        total >>= 1
    elif summed > 1:
        total //= summed
    return total
