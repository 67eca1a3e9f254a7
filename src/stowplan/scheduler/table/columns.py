"""Building blocks of columns: lines of resources, values as small ids, counts by row or by domain."""

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from stowplan.scheduler.table.changes import ChangeLog, Rows

IntArray = npt.NDArray[np.int64]

# Past this many non-zero entries the array is both smaller and faster.
DENSE_FROM = 48


# Number of changes that are remembered one by one.
_REMEMBERED = 512


class Counts:
    """index → count. `version` grows by one with every change, and recent changes can be asked for."""

    __slots__ = ("_dense", "_recent", "_sparse", "total", "version")

    def __init__(self) -> None:
        self._sparse: dict[int, int] | None = {}
        self._dense: IntArray | None = None
        self._recent: list[int] = []
        self.total = 0
        self.version = 0

    def add(self, index: int, delta: int) -> None:
        self.version += 1
        self.total += delta
        recent = self._recent
        recent.append(index)
        if len(recent) > _REMEMBERED:
            del recent[: _REMEMBERED // 2]
        sparse = self._sparse
        if sparse is None:
            self._add_dense(index, delta)
            return
        count = sparse.get(index, 0) + delta
        if count:
            sparse[index] = count
            if len(sparse) > DENSE_FROM:
                self._densify()
        else:
            sparse.pop(index, None)

    def changed_since(self, version: int) -> list[int] | None:
        """The indexes whose count changed since a version, None if that is too long ago to say."""
        length = self.version - version
        recent = self._recent
        if length > len(recent):
            return None
        return recent[len(recent) - length :]

    def clear(self) -> None:
        self._sparse, self._dense = {}, None
        self._recent = []
        self.total = 0
        self.version += 1

    def fill(self, values: IntArray) -> None:
        """Replace everything by the counts of an array with the same index."""
        self._sparse, self._dense = None, values
        self._recent = []
        self.total = int(values.sum())
        self.version += 1

    @property
    def few(self) -> dict[int, int] | None:
        """The counts by index while they are few, not to be changed; None: they are many."""
        return self._sparse

    def get(self, index: int) -> int:
        if self._sparse is not None:
            return self._sparse.get(index, 0)
        dense = self._dense
        assert dense is not None
        return int(dense[index]) if index < len(dense) else 0

    def add_into(self, target: IntArray, weight: int = 1) -> None:
        """Add `weight` times every count to `target`, which is at least as long as the highest index."""
        if self._sparse is not None:
            for index, count in self._sparse.items():
                target[index] += weight * count
            return
        dense = self._dense
        assert dense is not None
        length = min(len(dense), len(target))
        if weight == 1:
            target[:length] += dense[:length]
        else:
            target[:length] += weight * dense[:length]

    def at(self, rows: npt.NDArray[np.intp] | slice, size: int) -> IntArray:
        """The counts of some of `size` indexes."""
        dense = self._dense
        if dense is None or len(dense) < size:
            dense = self.to_array(size)
            if self._sparse is None:
                self._dense = dense
        result: IntArray = dense[rows]
        return result

    def to_array(self, size: int) -> IntArray:
        """A fresh array of `size` counts."""
        result = np.zeros(size, dtype=np.int64)
        self.add_into(result)
        return result

    def _densify(self) -> None:
        sparse = self._sparse
        assert sparse is not None
        dense = np.zeros(max(64, 2 * (max(sparse) + 1)), dtype=np.int64)
        for index, count in sparse.items():
            dense[index] = count
        self._sparse, self._dense = None, dense

    def _add_dense(self, index: int, delta: int) -> None:
        dense = self._dense
        assert dense is not None
        if index >= len(dense):
            grown = np.zeros(2 * (index + 1), dtype=np.int64)
            grown[: len(dense)] = dense
            self._dense = dense = grown
        dense[index] += delta
        if not self.total:
            self._sparse, self._dense = {}, None


IntColumn = npt.NDArray[np.int64]
IdColumn = npt.NDArray[np.intp]
BoolColumn = npt.NDArray[np.bool_]

CPU, MEMORY, EPHEMERAL_STORAGE = 0, 1, 2
FIRST_SCALAR = 3
CORE_RESOURCES = ("cpu", "memory", "ephemeral-storage")


T = TypeVar("T", bound=Hashable)


class Interned(Generic[T]):
    """Distinct values by the small id that a column holds for them, kept as long as some row has them.

    Id 0 is the value of a row without a node; it is always there. The id of a value that its last row gave up
    is used again for the next new one. `log` has the ids that got another value, so that readers that
    evaluate values look at new ones only.
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
        """True if every row has the value of a row without a node."""
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
    """Resource name → its line in the resource columns, kept as long as it is in use.

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


@lru_cache(maxsize=1024)
def lines_of(listed: tuple[int, ...]) -> Lines:
    """Some lines of the resource columns; most pods ask for the same few."""
    return Lines(listed)
