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

    __slots__ = ("_block", "_ties", "_tops", "totals")

    def __init__(self, capacity: int) -> None:
        self._block = min(_BLOCK, capacity)
        self.totals: IntColumn = np.full(capacity, INFEASIBLE, dtype=np.int64)
        blocks = capacity // self._block
        self._tops: IntColumn = np.full(blocks, INFEASIBLE, dtype=np.int64)
        self._ties: IntColumn = np.zeros(blocks, dtype=np.int64)

    def refresh_all(self) -> None:
        """Totals were rewritten as a whole."""
        blocks = self.totals.reshape(-1, self._block)
        tops = blocks.max(axis=1)
        self._tops = tops
        self._ties = np.count_nonzero(blocks == tops[:, None], axis=1).astype(np.int64)

    def refresh(self, rows: Rows) -> None:
        """Totals of these rows were rewritten."""
        size = self._block
        if len(rows) > len(self._tops):
            self.refresh_all()
            return
        for block in {row // size for row in rows.tolist()}:
            part = self.totals[block * size : (block + 1) * size]
            top = part.max()
            self._tops[block] = top
            self._ties[block] = np.count_nonzero(part == top)

    def best(self) -> tuple[int, int]:
        """The highest total and how many rows have it."""
        top = self._tops.max()
        return int(top), int(self._ties[self._tops == top].sum())

    def pick(self, top: int, nth: int) -> int:
        """The nth (from 0) of the rows whose total is `top`."""
        blocks = np.flatnonzero(self._tops == top)
        ends = np.cumsum(self._ties[blocks])
        which = int(np.searchsorted(ends, nth, side="right"))
        before = int(ends[which - 1]) if which else 0
        start = int(blocks[which]) * self._block
        part = self.totals[start : start + self._block]
        return start + int(np.flatnonzero(part == top)[nth - before])

    def ties(self, top: int) -> Rows:
        """All rows whose total is `top`, in row order."""
        return np.flatnonzero(self.totals == top)
