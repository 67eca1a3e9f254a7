"""Nodes by the label that tells them apart best: `8 nodes of pool infer`."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from stowplan.explain.layout import plural
from stowplan.scheduler.table.table import ClusterTable

_POOLS_AT_MOST: Final = 24
"""Values of a label that stands for pools; with more of them it tells single nodes apart."""
_PURPOSES: Final = (("pool",), ("nodegroup", "group", "nodeclass"), ("instance-type",), ("role", "type"))
"""Words in the names of labels that say what nodes are for, the most telling first."""
_PLACES: Final = ("zone", "region", "os", "arch", "hostname")
"""Last words of labels that say where nodes are or what they run."""


class NodeNames:
    """Labels of the nodes of a table by key and value, counted once for each state of the nodes."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for node in table.nodes:
            if node is None:
                continue
            for key, value in node.metadata.labels.items():
                if value != node.name:
                    self._counts[key][value] += 1
        self.pool_key = self._best_key()

    def _best_key(self) -> str | None:
        """The label that stands for pools: of nearly all nodes, with few values."""
        count = self._table.node_count
        fit = [
            key
            for key, values in self._counts.items()
            if 1 < len(values) <= _POOLS_AT_MOST
            and 2 * values.total() > count
            and _purpose(key) < len(_PURPOSES)
        ]
        return min(fit, key=lambda key: (_purpose(key), -self._counts[key].total(), key), default=None)

    def by_pool(self, rows: Sequence[int]) -> dict[str | None, list[int]]:
        """Rows by their pool, in their order; None are those without one."""
        found: dict[str | None, list[int]] = {}
        key = self.pool_key
        for row in rows:
            found.setdefault(None if key is None else self._labels(row).get(key), []).append(row)
        return found

    def name(self, rows: Sequence[int], asked: Collection[str] = ()) -> str:
        """Rows in words. Labels whose keys a pod `asked` for come before others."""
        count = len(rows)
        common = self._common(rows)
        best = min(
            (
                pair
                for pair in common.items()
                if 2 * count >= self._counts[pair[0]][pair[1]] and _purpose(pair[0]) <= len(_PURPOSES)
            ),
            key=lambda pair: (
                self._counts[pair[0]][pair[1]] != count,
                _purpose(pair[0]),
                pair[0] not in asked,
                len(pair[0]),
                pair[0],
            ),
            default=None,
        )
        if count == 1:
            name = self._table.name_of(rows[0])
            named = name in (self._labels(rows[0]).get(key) for key in asked)
            only = best is not None and self._counts[best[0]][best[1]] == 1 and not named
            return f"1 node of {_label(best)} ({name})" if best is not None and only else name
        whole = self._table.node_count
        if count == whole:
            return f"all {count} nodes"
        if best is None:
            return plural(count, "node")
        there = self._counts[best[0]][best[1]]
        return f"{count if there == count else f'{count} of {there}'} nodes of {_label(best)}"

    def values(self, key: str) -> Mapping[str, int]:
        """The values of a label with the number of nodes that have each."""
        return self._counts.get(key, Counter())

    @property
    def keys(self) -> Collection[str]:
        """All keys of labels that do not name single nodes."""
        return self._counts.keys()

    def _labels(self, row: int) -> Mapping[str, str]:
        node = self._table.nodes[row]
        return {} if node is None else node.metadata.labels

    def _common(self, rows: Sequence[int]) -> dict[str, str]:
        """Labels that all of the rows have."""
        found = {key: value for key, value in self._labels(rows[0]).items() if key in self._counts}
        found = {key: value for key, value in found.items() if value in self._counts[key]}
        for row in rows[1:]:
            if not found:
                break
            labels = self._labels(row)
            found = {key: value for key, value in found.items() if labels.get(key) == value}
        return found


def _purpose(key: str) -> int:
    """How much the key of a label says about what nodes are for: 0 is most."""
    name = key.rpartition("/")[2].lower()
    if name in _PLACES:
        return len(_PURPOSES) + 1
    for place, words in enumerate(_PURPOSES):
        if any(word in name for word in words):
            return place
    return len(_PURPOSES)


def _label(pair: tuple[str, str]) -> str:
    """A label as a name: `pool infer`."""
    key, value = pair
    return f"{key.rpartition('/')[2]} {value}" if value else key


_NAMES: Final[WeakKeyDictionary[ClusterTable, tuple[tuple[int, int], NodeNames]]] = WeakKeyDictionary()


def node_names(table: ClusterTable) -> NodeNames:
    """The names of the nodes of a table as it is now."""
    state = (table.topology_version, table.node_log.position)
    known = _NAMES.get(table)
    if known is None or known[0] != state:
        known = _NAMES[table] = (state, NodeNames(table))
    return known[1]
