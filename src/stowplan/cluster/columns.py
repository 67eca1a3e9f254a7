"""Columns of the table: resource amounts as numbers, label values as small ids."""

from collections.abc import Hashable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from stowplan.cluster.changes import NO_ROWS, ChangeLog, Rows
from stowplan.gocompat.numbers import parse_int64

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
    """Distinct values by the small id that a column holds for them, for as long as some row has them.

    Id 0 is the value of a row without a node; it is always there. The id of a value that the last row gave up
    is used again for the next new one. `log` has the ids that got another value, so that whoever judged
    values looks at new ones only.
    """

    __slots__ = ("_free", "_ids", "_rows", "_values", "log")

    def __init__(self, nothing: T) -> None:
        self._values: list[T | None] = [nothing]
        self._ids: dict[T, int] = {nothing: 0}
        self._rows: list[int] = [1]
        self._free: list[int] = []
        self.log = ChangeLog()

    def __len__(self) -> int:
        """One more than the highest id in use."""
        return len(self._values)

    @property
    def is_trivial(self) -> bool:
        """Whether every row has the value of a row without a node."""
        return len(self._ids) == 1

    def __iter__(self) -> Iterator[T | None]:
        """The values by id, None where an id is free."""
        return iter(self._values)

    def value(self, number: int) -> T | None:
        return self._values[number]

    def exchange(self, old: int, value: T) -> int:
        """A row with the value of one id gets another value; returns the id of that."""
        new = self._ids.get(value)
        if new == old:
            return old
        if new is None:
            new = self._new_id(value)
        self._rows[new] += 1
        self.release(old)
        return new

    def release(self, number: int) -> None:
        """A row gives up its value."""
        if not number:
            return
        self._rows[number] -= 1
        if self._rows[number]:
            return
        value = self._values[number]
        assert value is not None
        del self._ids[value]
        self._values[number] = None
        heappush(self._free, number)
        while len(self._values) > 1 and self._values[-1] is None:
            self._values.pop()
            self._rows.pop()

    def _new_id(self, value: T) -> int:
        while self._free:
            new = heappop(self._free)
            if new < len(self._values):
                self._values[new] = value
                break
        else:
            new = len(self._values)
            self._values.append(value)
            self._rows.append(0)
        self._ids[value] = new
        self.log.append(new)
        return new


class ResourceLines:
    """Resource name → its line in the resource columns, for as long as somebody needs it to have one.

    cpu, memory and ephemeral storage have the first three lines. Another resource has one while a node offers
    it or a profile scores it; free lines are used again, the lowest first. `version` changes with every name
    that gets or loses its line.
    """

    __slots__ = ("_free", "_index", "_users", "names", "version")

    def __init__(self) -> None:
        self.names: list[str | None] = list(CORE_RESOURCES)
        self._index: dict[str, int] = {name: i for i, name in enumerate(CORE_RESOURCES)}
        self._users: list[int] = [1] * len(CORE_RESOURCES)
        self._free: list[int] = []
        self.version = 0

    def __len__(self) -> int:
        """One more than the highest line in use."""
        return len(self.names)

    def find(self, name: str) -> int | None:
        return self._index.get(name)

    def acquire(self, name: str) -> int:
        """The line of a resource, which it has from now on; give it back with `release`."""
        line = self._index.get(name)
        if line is None:
            line = self._new_line(name)
        self._users[line] += 1
        return line

    def release(self, name: str) -> int | None:
        """One user less; returns the line if that was the last one and it is free now."""
        line = self._index[name]
        self._users[line] -= 1
        if self._users[line]:
            return None
        del self._index[name]
        self.names[line] = None
        self.version += 1
        heappush(self._free, line)
        while self.names[-1] is None:
            self.names.pop()
            self._users.pop()
        return line

    def _new_line(self, name: str) -> int:
        self.version += 1
        while self._free:
            line = heappop(self._free)
            if line < len(self.names):
                self.names[line] = name
                break
        else:
            line = len(self.names)
            self.names.append(name)
            self._users.append(0)
        self._index[name] = line
        return line


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
    for months does not grow its columns. While no node has the label, `ids` are the zeros that all such
    columns share.
    """

    __slots__ = (
        "_absent",
        "_free",
        "_numbers",
        "_row_sums",
        "holders",
        "ids",
        "index",
        "key",
        "populations",
        "values",
    )

    def __init__(self, key: str, absent: IdColumn) -> None:
        self.key = key
        self.holders = 0
        self._absent = absent
        self.ids: IdColumn = absent
        self._forget_values()

    def _forget_values(self) -> None:
        self.values: list[str | None] = [None]
        self.index: dict[str, int] = {}
        self.populations: list[int] = [0]
        self._row_sums: list[int] = [0]
        self._free: list[int] = []
        self._numbers: tuple[IntColumn, BoolColumn] | None = None

    @property
    def size(self) -> int:
        """One more than the highest id in use."""
        return len(self.values)

    def resize(self, absent: IdColumn) -> None:
        if self.index:
            grown = np.zeros(len(absent), dtype=np.intp)
            grown[: len(self.ids)] = self.ids
            self.ids = grown
        else:
            self.ids = absent
        self._absent = absent

    def fill(self, values: Sequence[str | None]) -> None:
        """Give the first rows of an empty column their values, all at once."""
        index = self.index
        for value in values:
            if value is not None and value not in index:
                self._new_id(value)
        if not index:
            return
        self.ids = np.zeros(len(self._absent), dtype=np.intp)
        known = [ABSENT if value is None else index[value] for value in values]
        self.ids[: len(values)] = numbers = np.array(known, dtype=np.intp)
        self.populations = np.bincount(numbers, minlength=self.size).tolist()
        rows = np.arange(len(values))
        self._row_sums = np.bincount(numbers, weights=rows, minlength=self.size).astype(np.int64).tolist()
        self.populations[ABSENT] = self._row_sums[ABSENT] = 0

    def set(self, row: int, value: str | None) -> None:
        """Give a row a value, or take its value away with None."""
        old = int(self.ids[row])
        if old and self.values[old] == value:
            return
        if value is not None:
            new = self.index.get(value)
            if new is None:
                new = self._new_id(value)
            if self.ids is self._absent:
                self.ids = np.zeros(len(self._absent), dtype=np.intp)
            self.populations[new] += 1
            self._row_sums[new] += row
            self.ids[row] = new
        elif old:
            self.ids[row] = ABSENT
        if old:
            self.populations[old] -= 1
            self._row_sums[old] -= row
            if not self.populations[old]:
                self._release(old)

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

    def only_row(self, number: int) -> int:
        """The row of a value that exactly one row has."""
        return self._row_sums[number]

    def numbers(self) -> tuple[IntColumn, BoolColumn]:
        """The values by id as integers, and which of them are integers at all; read once."""
        kept = self._numbers
        if kept is None:
            parsed = [None if value is None else parse_int64(value) for value in self.values]
            kept = self._numbers = (
                np.array([number or 0 for number in parsed], dtype=np.int64),
                np.array([number is not None for number in parsed], dtype=np.bool_),
            )
        return kept

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
        self._numbers = None
        return new

    def _release(self, old: int) -> None:
        value = self.values[old]
        assert value is not None
        del self.index[value]
        self._numbers = None
        if self.index:
            self.values[old] = None
            self._free.append(old)
        else:
            self._forget_values()
            self.ids = self._absent
