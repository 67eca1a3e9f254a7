"""Finding the best row among very many without looking at all of them each time."""

import numpy as np

from stowplan.cluster.changes import Rows
from stowplan.cluster.columns import IntColumn

INFEASIBLE = -1
_BLOCK = 256


class Ranking:
    """Totals by row, with the best value and its number of ties kept per block of rows.

    A change in a few rows costs a few blocks; finding the best costs one look at the block maxima.
    Infeasible rows hold -1.
    """

    __slots__ = ("_best", "_block", "_ties", "_tops", "totals")

    def __init__(self, capacity: int) -> None:
        self._block = min(_BLOCK, capacity)
        self.totals: IntColumn = np.full(capacity, INFEASIBLE, dtype=np.int64)
        blocks = capacity // self._block
        self._tops: IntColumn = np.full(blocks, INFEASIBLE, dtype=np.int64)
        self._ties: IntColumn = np.zeros(blocks, dtype=np.int64)
        self._best: tuple[int, int] | None = None

    def refresh_all(self) -> None:
        """Totals were rewritten as a whole."""
        self._best = None
        blocks = self.totals.reshape(-1, self._block)
        tops = blocks.max(axis=1)
        self._tops = tops
        self._ties = np.count_nonzero(blocks == tops[:, None], axis=1).astype(np.int64)

    def refresh(self, rows: Rows) -> None:
        """Totals of these rows were rewritten."""
        if len(rows) > len(self._tops):
            self.refresh_all()
        else:
            self.refresh_few(rows.tolist())

    def refresh_few(self, rows: list[int]) -> None:
        """Totals of a few rows were rewritten."""
        self._best = None
        size = self._block
        for block in {row // size for row in rows}:
            part = self.totals[block * size : (block + 1) * size]
            top = part.max()
            self._tops[block] = top
            self._ties[block] = np.count_nonzero(part == top)

    def best(self) -> tuple[int, int]:
        """The highest total and how many rows have it."""
        if self._best is None:
            self._best = self._find_best()
        return self._best

    def _find_best(self) -> tuple[int, int]:
        tops = self._tops
        at = int(tops.argmax())
        top = tops.item(at)
        if at + 1 == len(tops) or (tops[at + 1 :] != top).all():
            return top, self._ties.item(at)
        return top, int(self._ties[tops == top].sum())

    def pick(self, top: int, nth: int) -> int:
        """The nth (from 0) of the rows whose total is `top`."""
        first = int(self._tops.argmax())
        ties = self._ties.item(first)
        if nth < ties:
            return self._nth_in_block(first, top, nth)
        blocks = np.flatnonzero(self._tops == top)
        ends = np.cumsum(self._ties[blocks])
        which = int(np.searchsorted(ends, nth, side="right"))
        before = int(ends[which - 1]) if which else 0
        return self._nth_in_block(int(blocks[which]), top, nth - before)

    def _nth_in_block(self, block: int, top: int, nth: int) -> int:
        start = block * self._block
        part = self.totals[start : start + self._block]
        return start + int(np.flatnonzero(part == top)[nth])

    def ties(self, top: int) -> Rows:
        """All rows whose total is `top`, in row order."""
        return np.flatnonzero(self.totals == top)
