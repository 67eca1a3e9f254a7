"""The labels of all nodes: the rows that have a key, and a column for each key that is in use."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from stowplan.api.node import Node
from stowplan.gocompat.numbers import parse_int64
from stowplan.scheduler.table.changes import NO_ROWS, Rows
from stowplan.scheduler.table.columns import BoolColumn, IdColumn, IntColumn

FEW: Final = 32
"""Rows are listed for a key that at most this many rows have."""
_UNHELD: Final = 64
"""Number of columns without a holder that are kept current."""


ABSENT = 0
"""The id of "this node does not have that label"; real values start at 1."""


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

    def count_of(self, ids: npt.NDArray[np.intp]) -> int:
        """Number of rows with one of these values."""
        populations = self.populations
        return sum(populations[i] for i in ids.tolist())

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


class NodeLabels:
    """Label keys over rows.

    A key that no node has needs no column, and a node that is added, changed or removed concerns the columns
    of its own labels only. A column that counters hold (`acquire`) lives as long as they do, even while no
    node has its key; of the others, which were made for a single lookup (`column`), the last few are kept.
    """

    __slots__ = ("_absent", "_columns", "_nodes", "_rows", "_unheld", "keys_version", "rarity_version")

    def __init__(self, nodes: Sequence[Node | None], capacity: int) -> None:
        self._nodes = nodes
        self._absent = _zeros(capacity)
        self._rows: dict[str, set[int] | int] = {}
        self._columns: dict[str, LabelColumn] = {}
        self._unheld: OrderedDict[str, None] = OrderedDict()
        self.keys_version = 0
        """Changes when a node is the first to have a key."""
        self.rarity_version = 0
        """Changes when a key becomes so common that its rows are no longer listed."""

    def sizes(self) -> dict[str, int]:
        held = len(self._columns) - len(self._unheld)
        return {
            "label keys": len(self._rows),
            "label columns held": held,
            "label columns not held": len(self._unheld),
            "label values": sum(column.size - 1 for column in self._columns.values()),
        }

    # Looking

    def any_with(self, key: str) -> bool:
        """True if some node has a label of this key."""
        return key in self._rows

    def few_with(self, key: str) -> set[int] | None:
        """The rows that have a key where they are few; None: they are many."""
        rows = self._rows.get(key, _NO_ROWS)
        return rows if isinstance(rows, set) else None

    def column(self, key: str) -> LabelColumn:
        """The column of a key, for a glance: it is good until a node changes. To keep it, `acquire` it."""
        column = self._columns.get(key)
        if column is None:
            if key not in self._rows:
                return LabelColumn(key, self._absent)
            column = self._columns[key] = self._made(key)
            self._unheld[key] = None
            if len(self._unheld) > _UNHELD:
                oldest, _ = self._unheld.popitem(last=False)
                del self._columns[oldest]
        elif not column.holders:
            self._unheld.move_to_end(key)
        return column

    def acquire(self, key: str) -> LabelColumn:
        """The column of a key, current from now on until it is given back with `release`."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = self._made(key)
        else:
            self._unheld.pop(key, None)
        column.holders += 1
        return column

    def release(self, column: LabelColumn) -> None:
        column.holders -= 1
        if column.holders:
            return
        if column.index:
            self._unheld[column.key] = None
            if len(self._unheld) <= _UNHELD:
                return
            oldest, _ = self._unheld.popitem(last=False)
            del self._columns[oldest]
        else:
            del self._columns[column.key]

    def _made(self, key: str) -> LabelColumn:
        column = LabelColumn(key, self._absent)
        few = self.few_with(key)
        if few is None:
            column.fill([None if node is None else node.metadata.labels.get(key) for node in self._nodes])
        else:
            for row in few:
                node = self._nodes[row]
                assert node is not None
                column.set(row, node.metadata.labels[key])
        return column

    # Changes

    def resize(self, capacity: int) -> None:
        """Make room for more rows."""
        self._absent = _zeros(capacity)
        for column in self._columns.values():
            column.resize(self._absent)

    def change(self, row: int, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """A row has other labels than before; `nodes` has the new node already, or none."""
        columns = self._columns
        for key in old:
            if key not in new:
                self._lost(row, key)
                if key in columns:
                    self._set(columns[key], row, None)
        for key, value in new.items():
            if key not in old:
                self._got(row, key)
            if key in columns:
                columns[key].set(row, value)

    def _set(self, column: LabelColumn, row: int, value: str | None) -> None:
        column.set(row, value)
        if not column.holders and not column.index:
            del self._columns[column.key]
            del self._unheld[column.key]

    def _got(self, row: int, key: str) -> None:
        rows = self._rows.get(key)
        if rows is None:
            self._rows[key] = {row}
            self.keys_version += 1
        elif isinstance(rows, set):
            rows.add(row)
            if len(rows) > FEW:
                self._rows[key] = len(rows)
                self.rarity_version += 1
        else:
            self._rows[key] = rows + 1

    def _lost(self, row: int, key: str) -> None:
        rows = self._rows[key]
        if not isinstance(rows, set) and rows > FEW // 2 + 1:
            self._rows[key] = rows - 1
            return
        left = self._rows[key] = rows if isinstance(rows, set) else self._listed(key)
        left.discard(row)
        if not left:
            del self._rows[key]

    def _listed(self, key: str) -> set[int]:
        """The rows of a key that has become rare."""
        return {
            row for row, node in enumerate(self._nodes) if node is not None and key in node.metadata.labels
        }


_NO_ROWS: set[int] = set()


def _zeros(capacity: int) -> IdColumn:
    zeros: IdColumn = np.zeros(capacity, dtype=np.intp)
    zeros.flags.writeable = False
    return zeros
