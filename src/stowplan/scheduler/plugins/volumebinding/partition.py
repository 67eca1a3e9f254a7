"""Rows sorted by their results in the relevant tests: rows with equal results get the same answer.

Where volumes are zonal, there are as many kinds of rows as zones, regardless of the number of nodes; where
every node has local volumes each row is its own kind.
"""

from typing import Final, NamedTuple

import numpy as np

from stowplan.api.labels import IN
from stowplan.api.rules.nodeselector import RequiredNodeAffinity
from stowplan.scheduler.plugins.volumebinding.claims import is_migrated
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import IdColumn
from stowplan.scheduler.table.selection import matching_affinity
from stowplan.scheduler.table.table import ClusterTable


class Migrated(NamedTuple):
    """Nodes on which a CSI driver took over a built-in kind of volumes, by the name of the kind."""

    plugin: str


Test = RequiredNodeAffinity | Migrated
"""Something that some nodes have and others have not."""

Kind = frozenset[int]
"""The numbers of the tests that a row passes."""

EVERYWHERE: Final = -1
"""In place of a test's number: every node passes."""


class PassingRows:
    """The rows that pass tests, kept while nodes are as they are."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._rows: dict[RequiredNodeAffinity, Rows] = {}
        self._topology = -1

    def of(self, test: Test) -> Rows:
        if isinstance(test, Migrated):
            return self._migrated(test.plugin)
        if self._topology != self._table.topology_version:
            self._rows, self._topology = {}, self._table.topology_version
        rows = self._rows.get(test)
        if rows is None:
            rows = self._rows[test] = self._find(test)
        return rows

    def passes(self, test: Test, row: int) -> bool:
        """True if a single row passes."""
        node = self._table.nodes[row]
        if node is None:
            return False
        if isinstance(test, Migrated):
            return self._is_migrated(test.plugin, node.name)
        return test.matches(node.metadata.labels, node.name)

    def _migrated(self, plugin: str) -> Rows:
        table = self._table
        names = (name for name in table.storage.csi_nodes if self._is_migrated(plugin, name))
        rows = [row for row in map(table.row_of, names) if row is not None]
        return np.array(sorted(rows), dtype=np.intp)

    def _find(self, test: RequiredNodeAffinity) -> Rows:
        table = self._table
        only = _only_values(test)
        if only is not None:
            column = table.label_column(only[0])
            ids = [column.index[value] for value in only[1] if value in column.index]
            return column.rows_of(ids, table.rows_in_use)
        nodes = table.all_rows()
        return np.flatnonzero(matching_affinity(test, nodes) & table.valid[: nodes.count])

    def _is_migrated(self, plugin: str, node: str) -> bool:
        return is_migrated(plugin, self._table.storage.csi_nodes.get(node))


def _only_values(test: RequiredNodeAffinity) -> tuple[str, tuple[str, ...]] | None:
    """The label and the values that a test is all about; None if it is about more."""
    if test.labels is not None or test.affinity is None or len(test.affinity.terms) != 1:
        return None
    term = test.affinity.terms[0]
    if term.errors or term.fields or len(term.expressions) != 1 or term.expressions[0].operator != IN:
        return None
    return term.expressions[0].key, term.expressions[0].values


class Partition:
    """Every row's kind, as the index of a list of kinds, for a set of tests that can grow."""

    def __init__(self, table: ClusterTable, passing: PassingRows) -> None:
        self._passing = passing
        self.ids: IdColumn = np.zeros(table.capacity, dtype=np.intp)
        self.kinds: list[Kind] = [frozenset()]
        self._index: dict[Kind, int] = {frozenset(): 0}
        self._tests: dict[Test, int] = {}
        self._kinds_with: list[list[int]] = []

    def number(self, test: Test | None) -> int:
        """The number of a test (None: there is none to pass).

        A new one sorts the rows that pass it apart from those that do not.
        """
        if test is None:
            return EVERYWHERE
        number = self._tests.get(test)
        if number is None:
            number = self._tests[test] = len(self._kinds_with)
            self._kinds_with.append([])
            self._refine(number, self._passing.of(test))
        return number

    def kinds_with(self, number: int) -> list[int]:
        """The kinds of rows that pass a test."""
        return self._kinds_with[number]

    def sort_again(self, rows: Rows) -> None:
        """Find the kinds of rows whose nodes changed."""
        for row in rows.tolist():
            kind = frozenset(
                number for test, number in self._tests.items() if self._passing.passes(test, row)
            )
            self.ids[row] = self._of(kind)

    def _refine(self, number: int, rows: Rows) -> None:
        before, which = np.unique(self.ids[rows], return_inverse=True)
        after = [self._of(self.kinds[kind] | {number}) for kind in before.tolist()]
        self.ids[rows] = np.array(after, dtype=np.intp)[which]

    def _of(self, kind: Kind) -> int:
        known = self._index.get(kind)
        if known is None:
            known = self._index[kind] = len(self.kinds)
            self.kinds.append(kind)
            for number in sorted(kind):
                self._kinds_with[number].append(known)
        return known
