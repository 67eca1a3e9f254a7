"""Zones of nodes as small numbers, by row: a zone is a pair of region and zone labels, old or new."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from stowplan.cluster.columns import IdColumn
from stowplan.cluster.table import ClusterTable

ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION_LABELS: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
"""The beta labels take precedence, even empty ones."""


class Zones:
    """By row the number of its zone, 0 for nodes that are in none. Made anew when that changes."""

    __slots__ = ("ids", "size")

    def __init__(self, ids: IdColumn) -> None:
        self.ids = ids
        self.size = int(ids.max(initial=0)) + 1

    def rows_of(self, chosen: Sequence[int] | IdColumn, rows_in_use: int) -> IdColumn:
        """The rows of some zones."""
        wanted = np.zeros(self.size, dtype=np.bool_)
        wanted[chosen] = True
        return np.flatnonzero(wanted[self.ids[:rows_in_use]])


class ZoneColumn:
    """The zones of a table, looked at again only after labels or the set of nodes changed."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._version = -1
        self._zones = Zones(np.zeros(0, dtype=np.intp))

    def current(self) -> Zones:
        """The zones as they are; the same object as before if nothing about them changed."""
        table = self._table
        if self._version != table.topology_version or len(self._zones.ids) != table.capacity:
            self._version = table.topology_version
            ids = self._numbered()
            if not np.array_equal(ids, self._zones.ids):
                self._zones = Zones(ids)
        return self._zones

    def _numbered(self) -> IdColumn:
        texts: dict[str, int] = {"": 0}
        zones = self._texts(ZONE_LABELS, texts)
        regions = self._texts(REGION_LABELS, texts)
        pairs = regions * len(texts) + zones
        distinct, numbers = np.unique(pairs, return_inverse=True)
        ids: IdColumn = numbers.astype(np.intp).reshape(-1)
        # No region and no zone is the lowest pair where any row has it; otherwise 0 stays free.
        return ids if len(distinct) and distinct[0] == 0 else ids + 1

    def _texts(self, labels: Sequence[str], texts: dict[str, int]) -> IdColumn:
        """By row the number of the text that the first of some labels has."""
        found: IdColumn = np.zeros(self._table.capacity, dtype=np.intp)
        for label in reversed(labels):
            column = self._table.label_column(label)
            numbers = [texts.setdefault(value or "", len(texts)) for value in column.values]
            found = np.where(column.ids != 0, np.array(numbers, dtype=np.intp)[column.ids], found)
        return found
