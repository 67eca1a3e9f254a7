"""Finding the best row among very many without looking at all of them each time."""

from bisect import bisect_left, insort
from heapq import nlargest
from typing import NamedTuple

import numpy as np

from stowplan.scheduler.table.changes import NO_ROWS, Rows
from stowplan.scheduler.table.columns import IntColumn

INFEASIBLE = int(np.iinfo(np.int64).min)
"""The total of rows that are not feasible: lower than any sum of scores."""
_SMALLEST_BLOCK = 256
_SHORTLIST = 128
"""Number of best rows that are tracked for the runners-up."""
_PATIENCE = 64
"""Number of queries after which a short list is checked again for being long enough to be of use."""


class Share(NamedTuple):
    """One plugin's share in totals: `points` (score times weight) in all of them; None: it varies."""

    plugin: str
    weight: int
    points: int | None


class Ranking:
    """Totals by row, with the best value and its number of ties kept per block of rows.

    A change in a row costs one check of its block; finding the best costs one pass over the blocks, which are
    a few dozen. The best rows of a block are looked up on request, and tracked from then on. So is the short
    list: all rows above a floor, best first. Infeasible rows hold INFEASIBLE.
    """

    __slots__ = (
        "_best",
        "_block",
        "_floor",
        "_is_fresh",
        "_patience",
        "_short",
        "_tied",
        "_ties",
        "_topmost",
        "_tops",
        "totals",
    )

    def __init__(self, capacity: int, used: int = 0) -> None:
        """Write the first `used` totals and call `refresh_all` before reading."""
        block = min(_SMALLEST_BLOCK, capacity)
        while block * block < 4 * capacity:
            block *= 2
        self._block = block = min(block, capacity)
        self.totals: IntColumn = np.empty(capacity, dtype=np.int64)
        self.totals[used:] = INFEASIBLE
        self._tops: list[int] = [INFEASIBLE] * (capacity // block)
        self._ties: list[int] | None = [block] * (capacity // block)
        """None: not counted since totals were rewritten as a whole."""
        self._tied: Rows = NO_ROWS
        """While ties are not counted by block: the rows of the best total, from when it was asked for."""
        self._topmost: list[list[int] | None] = [None] * (capacity // block)
        self._best: tuple[int, int] | None = None
        self._short: list[tuple[int, int]] = []
        self._floor: int | None = None
        self._patience = 0
        self._is_fresh = False
        """Totals were rewritten as a whole since they were last asked about: they may be again and again."""

    def refresh_all(self) -> None:
        """Totals were rewritten as a whole."""
        self._best = self._floor = None
        self._is_fresh = True
        blocks = self.totals.reshape(-1, self._block)
        self._tops = np.maximum.reduce(blocks, axis=1).tolist()
        self._ties = None
        self._topmost = [None] * len(self._tops)

    def _tie_counts(self) -> list[int]:
        """Number of rows of each block with its best total."""
        ties = self._ties
        if ties is None:
            blocks = self.totals.reshape(-1, self._block)
            tops = np.array(self._tops, dtype=np.int64)
            ties = self._ties = (blocks == tops[:, None]).sum(axis=1).tolist()
            self._tied = NO_ROWS
        return ties

    def refresh(self, rows: Rows) -> None:
        """Totals of these rows were rewritten."""
        if len(rows) > 2 * len(self._tops):
            self.refresh_all()
            return
        self._best = self._floor = None
        touched = set((rows // self._block).tolist())
        if len(touched) * 2 > len(self._tops):
            self.refresh_all()
            return
        for block in touched:
            self._look_at(block)

    def put(self, row: int, total: int) -> None:
        """Rewrite one row's total."""
        old = self.totals.item(row)
        if old == total:
            return
        ties = self._tie_counts()
        self.totals[row] = total
        if self._best is not None:
            self._best = self._best_after(*self._best, old, total)
        if self._floor is not None:
            self._follow(row, old, total, self._floor)
        block = row // self._block
        top = self._tops[block]
        rows = self._topmost[block]
        if total > top:
            self._tops[block], ties[block], self._topmost[block] = total, 1, [row]
        elif total == top:
            ties[block] += 1
            if rows is not None:
                insort(rows, row)
        elif old == top:
            if ties[block] > 1:
                ties[block] -= 1
                if rows is not None:
                    del rows[bisect_left(rows, row)]
            else:
                self._look_at(block)

    @staticmethod
    def _best_after(top: int, ties: int, old: int, new: int) -> tuple[int, int] | None:
        """The best total and its ties after one row's total changed; None: they have to be looked for."""
        if new > top:
            return new, 1
        ties += (new == top) - (old == top)
        return (top, ties) if ties else None

    def best(self) -> tuple[int, int]:
        """The highest total and how many rows have it."""
        if self._best is None:
            top, counts = max(self._tops), self._ties
            if counts is None:
                self._tied = self.ties(top)
                ties = len(self._tied)
            else:
                ties = sum([count for count, here in zip(counts, self._tops, strict=True) if here == top])
            self._best = (top, ties)
        return self._best

    def pick(self, top: int, nth: int) -> int:
        """The nth (from 0) of the rows whose total is `top`, the highest."""
        ties = self._ties
        if ties is None:
            self.best()
            return self._tied.item(nth)
        block = self._tops.index(top)
        while nth >= ties[block]:
            nth -= ties[block]
            block = self._tops.index(top, block + 1)
        return self._rows_at_top(block)[nth]

    def top_rows(self, count: int) -> list[int]:
        """The `count` rows with the highest totals, best first, equal ones in row order.

        Each of the `count` blocks with the highest tops holds a row at least as good as anything in the other
        blocks, so these are the only ones to look at.
        """
        top, ties = self.best()
        if ties >= count:
            return self._first_rows(top, count)
        if self._has_shortlist(count):
            return [row for _, row in self._short[:count]]
        size, tops = self._block, self._tops
        highest = nlargest(count, range(len(tops)), key=tops.__getitem__)
        blocks = sorted(highest)
        totals = self.totals.reshape(-1, size)[blocks].ravel()
        places = (
            (totals >= tops[highest[-1]]).nonzero()[0] if len(blocks) == count else np.arange(len(totals))
        )
        # The complement sorts downwards like the negative, which the lowest number does not have.
        best = places[(~totals[places]).argsort(kind="stable")][:count].tolist()
        return [blocks[place // size] * size + place % size for place in best]

    def _has_shortlist(self, count: int) -> bool:
        """True if the short list has that many rows; rebuilt if it has become too short."""
        if self._floor is not None and len(self._short) >= count:
            return True
        if self._patience:
            self._patience -= 1
            return False
        if self._is_fresh:
            self._is_fresh = False
            return False
        totals = self.totals
        if len(totals) <= _SHORTLIST:
            return False
        self._floor = floor = int(np.partition(totals, -_SHORTLIST)[-_SHORTLIST])
        rows = (totals > floor).nonzero()[0].tolist()
        self._short = sorted(zip((-totals[rows]).tolist(), rows, strict=True))
        if len(rows) < count:
            self._floor, self._patience = None, _PATIENCE
        return len(rows) >= count

    def _follow(self, row: int, old: int, total: int, floor: int) -> None:
        """Keep the short list up to date; one that grows too long is given up."""
        short = self._short
        if old > floor:
            del short[bisect_left(short, (-old, row))]
        if total > floor:
            insort(short, (-total, row))
            if len(short) > 4 * _SHORTLIST:
                self._floor = None

    def _first_rows(self, top: int, count: int) -> list[int]:
        """The first rows that have the highest total; there are at least as many."""
        block = self._tops.index(top)
        found = self._rows_at_top(block)[:count]
        while len(found) < count:
            block = self._tops.index(top, block + 1)
            found += self._rows_at_top(block)[: count - len(found)]
        return found

    def _rows_at_top(self, block: int) -> list[int]:
        """The best rows of a block, in row order."""
        rows = self._topmost[block]
        if rows is None:
            start = block * self._block
            part = self.totals[start : start + self._block]
            rows = self._topmost[block] = ((part == self._tops[block]).nonzero()[0] + start).tolist()
        return rows

    def ties(self, top: int) -> Rows:
        """All rows whose total is `top`, in row order."""
        rows: Rows = (self.totals == top).nonzero()[0]
        return rows

    def _look_at(self, block: int) -> None:
        part = self.totals[block * self._block : (block + 1) * self._block]
        top = int(part.max())
        self._tops[block] = top
        if self._ties is not None:
            self._ties[block] = int(np.count_nonzero(part == top))
        self._topmost[block] = None
