"""Columns of the table: resource amounts as numbers, label values as small ids."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from stowplan.cluster.changes import NO_ROWS, Rows

IntColumn = npt.NDArray[np.int64]
IdColumn = npt.NDArray[np.intp]
BoolColumn = npt.NDArray[np.bool_]

ABSENT = 0
"""The id of "this node does not have that label"; real values start at 1."""

CPU, MEMORY, EPHEMERAL_STORAGE = 0, 1, 2
FIRST_SCALAR = 3
CORE_RESOURCES = ("cpu", "memory", "ephemeral-storage")


T = TypeVar("T", bound=Hashable)


class Interned(Generic[T]):
    """Values met so far, by the id a column holds for them. Id 0 is the value of a row without a node."""

    __slots__ = ("_ids", "_values")

    def __init__(self, nothing: T) -> None:
        self._values: list[T] = [nothing]
        self._ids: dict[T, int] = {nothing: 0}

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[T]:
        return iter(self._values)

    def intern(self, value: T) -> int:
        known = self._ids.get(value)
        if known is None:
            known = self._ids[value] = len(self._values)
            self._values.append(value)
        return known


class ResourceNames:
    """Resource name → index of its line in the resource columns. cpu, memory and storage come first."""

    __slots__ = ("_index", "names")

    def __init__(self) -> None:
        self.names: list[str] = list(CORE_RESOURCES)
        self._index: dict[str, int] = {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def find(self, name: str) -> int | None:
        return self._index.get(name)

    def intern(self, name: str) -> int:
        index = self._index.get(name)
        if index is None:
            index = self._index[name] = len(self.names)
            self.names.append(name)
        return index


class Lines:
    """Some lines of the resource columns. Neighbouring lines are read in place, others are copied out."""

    __slots__ = ("_index", "_span", "listed")

    def __init__(self, lines: Sequence[int]) -> None:
        self.listed = tuple(lines)
        self._index = np.array(self.listed, dtype=np.intp)
        neighbours = self.listed and self.listed == tuple(range(self.listed[0], self.listed[-1] + 1))
        self._span = slice(self.listed[0], self.listed[-1] + 1) if neighbours else None

    def __len__(self) -> int:
        return len(self.listed)

    def of(self, columns: IntColumn, rows: Rows | slice) -> IntColumn:
        """These lines of a matrix at some rows. Not to be written to: it may be the matrix itself."""
        result: IntColumn
        if self._span is not None:
            result = columns[self._span, rows]
        elif isinstance(rows, slice):
            result = columns[self._index, rows]
        else:
            result = columns[self._index[:, None], rows]
        return result


class LabelColumn:
    """One label key over all rows, as ids of interned values; a value is a topology domain.

    An id whose last row lost it is used again for the next new value, so a cluster whose nodes come and go
    for months does not grow its columns.
    """

    __slots__ = ("_free", "_row_sums", "ids", "index", "key", "populations", "values")

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.ids: IdColumn = np.zeros(capacity, dtype=np.intp)
        self.values: list[str | None] = [None]
        self.index: dict[str, int] = {}
        self.populations: list[int] = [0]
        self._row_sums: list[int] = [0]
        self._free: list[int] = []

    @property
    def size(self) -> int:
        """One more than the highest id in use."""
        return len(self.values)

    def resize(self, capacity: int) -> None:
        grown = np.zeros(capacity, dtype=np.intp)
        grown[: len(self.ids)] = self.ids
        self.ids = grown

    def set(self, row: int, value: str | None) -> None:
        """Give a row a value, or take its value away with None."""
        old = int(self.ids[row])
        if old:
            if self.values[old] == value:
                return
            self.populations[old] -= 1
            self._row_sums[old] -= row
            if not self.populations[old]:
                self._release(old)
        if value is None:
            self.ids[row] = ABSENT
            return
        new = self.index.get(value)
        if new is None:
            new = self._new_id(value)
        self.populations[new] += 1
        self._row_sums[new] += row
        self.ids[row] = new

    def rows_of(self, ids: Sequence[int] | npt.NDArray[np.intp], rows_in_use: int) -> Rows:
        """The rows whose value is one of `ids`."""
        if len(ids) == 0:
            return NO_ROWS
        populations, sums = self.populations, self._row_sums
        listed = [int(i) for i in ids]
        if len(listed) <= 64 and all(i and populations[i] <= 1 for i in listed):
            return np.array([sums[i] for i in listed if populations[i]], dtype=np.intp)
        wanted = np.zeros(self.size, dtype=np.bool_)
        wanted[listed] = True
        return np.flatnonzero(wanted[self.ids[:rows_in_use]])

    def _new_id(self, value: str) -> int:
        if self._free:
            new = self._free.pop()
            self.values[new] = value
        else:
            new = len(self.values)
            self.values.append(value)
            self.populations.append(0)
            self._row_sums.append(0)
        self.index[value] = new
        return new

    def _release(self, old: int) -> None:
        value = self.values[old]
        assert value is not None
        del self.index[value]
        self.values[old] = None
        self._free.append(old)
