"""Which rows were touched since I last looked?"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.intp]

NO_ROWS: Rows = np.empty(0, dtype=np.intp)


class ChangeLog:
    """An append-only list of touched rows, read from a position on.

    Readers keep their own position. The log drops its older half once it is long; a reader who has fallen
    behind that far has to read everything again.
    """

    __slots__ = ("_base", "_limit", "_rows", "position")

    def __init__(self, limit: int = 65536) -> None:
        self._rows: list[int] = []
        self._base = 0
        self._limit = limit
        self.position = 0
        """Where a reader who has seen everything stands."""

    def append(self, row: int) -> None:
        rows = self._rows
        rows.append(row)
        self.position += 1
        if len(rows) > self._limit:
            half = len(rows) // 2
            del rows[:half]
            self._base += half

    def extend(self, touched: Sequence[int]) -> None:
        """Rows were touched, one after the other."""
        rows = self._rows
        rows.extend(touched)
        self.position += len(touched)
        excess = len(rows) - self._limit
        if excess > 0:
            forgotten = max(excess, len(rows) // 2)
            del rows[:forgotten]
            self._base += forgotten

    def few_since(self, position: int, most: int) -> list[int] | None:
        """The distinct rows touched since `position` if they are at most that many, else None."""
        start = position - self._base
        if start < 0:
            return None
        rows = self._rows
        length = len(rows) - start
        if length <= 1:
            return rows[start:]
        if length > 4 * most:
            return None
        distinct = list(set(rows[start:]))
        return distinct if len(distinct) <= most else None

    def since(self, position: int) -> Rows | None:
        """The distinct rows touched since `position`; None if that is too long ago to say."""
        start = position - self._base
        if start < 0:
            return None
        rows = self._rows
        length = len(rows) - start
        if length == 0:
            return NO_ROWS
        if length == 1:
            return np.array((rows[-1],), dtype=np.intp)
        return np.array(list(set(rows[start:])), dtype=np.intp)


def merge_rows(one: Rows, other: Rows) -> Rows:
    """The rows of either, each once."""
    if not len(one) or one is other:
        return other
    if not len(other):
        return one
    if len(one) + len(other) <= 64:
        return np.array(sorted({*one.tolist(), *other.tolist()}), dtype=np.intp)
    mask = np.zeros(max(int(one.max()), int(other.max())) + 1, dtype=np.bool_)
    mask[one] = True
    mask[other] = True
    return np.flatnonzero(mask)
