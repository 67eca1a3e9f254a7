"""The labels of all nodes: which rows have a key at all, and a column for each key that somebody looks at."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from stowplan.api.node import Node
from stowplan.cluster.columns import IdColumn, LabelColumn

FEW: Final = 32
"""For a key that at most so many rows have, the rows are listed."""
_UNHELD: Final = 64
"""How many columns are kept current that nobody holds."""


class NodeLabels:
    """Label keys over rows.

    A key that no node has needs no column, and a node that comes, changes or goes concerns the columns of
    its own labels only. A column that counters hold (`acquire`) lives as long as they do, even while no
    node has its key; of the others, which were made for a glance (`column`), the last few are kept.
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
        """Changes when so many nodes have a key that they are no longer listed."""

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
        """Whether some node has a label of this key."""
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
