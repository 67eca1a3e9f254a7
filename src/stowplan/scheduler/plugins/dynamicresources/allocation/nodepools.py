"""The pools of every node, gathered once and again only where slices or the node's labels changed."""

from collections.abc import Iterable
from typing import Final

from stowplan.api.node import Node
from stowplan.scheduler.plugins.dynamicresources.allocation.pools import (
    Built,
    Pool,
    gather_pools,
    problem_pools,
    sees_counters_everywhere,
)
from stowplan.scheduler.plugins.dynamicresources.features import Features
from stowplan.scheduler.table.devices import PoolID, SliceChange
from stowplan.scheduler.table.table import ClusterTable

_MANY: Final = 1024
"""After this number of slice changes everything is gathered again."""
_NO_ROWS: Final[frozenset[int]] = frozenset()


class NodePools:
    """Pools by node, and the rows that see a pool."""

    def __init__(self, table: ClusterTable, features: Features) -> None:
        self._table = table
        self._slices = table.devices.slices
        self._features = features
        self._kept: dict[str, tuple[Node, int, list[Pool]]] = {}
        self._rows: dict[PoolID, set[int]] = {}
        self._problems: dict[PoolID, Pool] = {}
        self._built: Built = {}
        self._version = -1

    def refresh(self) -> set[int] | None:
        """Forget what changes of slices made wrong; the rows concerned, None if that may be any."""
        slices = self._slices
        if slices.version == self._version:
            return set()
        changes = None if self._version < 0 else slices.since(self._version)
        self._version = slices.version
        self._built.clear()
        if changes is None or len(changes) > _MANY or not self._are_local(changes):
            self._kept.clear()
            self._rows.clear()
            self._problems = problem_pools(slices, self._features, slices.counting_pools())
            return None
        found: set[int] = set()
        for change in changes:
            found |= self._rows.get(change.pool, _NO_ROWS)
            row = self._table.row_of(change.node)
            if row is not None:
                found.add(row)
                self._kept.pop(change.node, None)
        for row in found:
            self._kept.pop(self._table.names[row], None)
        return found

    def _are_local(self, changes: Iterable[SliceChange]) -> bool:
        """True if changes concern only nodes that see the pool, or that the slices are for."""
        everywhere = sees_counters_everywhere(self._features)
        for change in changes:
            if not change.node and not (change.is_counting and everywhere):
                return False
            if self._slices.has_counters(change.pool) or change.pool in self._problems:
                before, now = self._problems.get(change.pool), self._problem(change.pool)
                if (before is None) != (now is None):
                    return False
                if before is not None and now is not None and before.is_invalid != now.is_invalid:
                    return False
        return True

    def _problem(self, pool: PoolID) -> Pool | None:
        return problem_pools(self._slices, self._features, (pool,)).get(pool)

    def of(self, node: Node, row: int) -> list[Pool]:
        """The pools of a node, as they were when `refresh` was called last or are now. Raises PoolError."""
        kept = self._kept.get(node.name)
        if kept is not None and kept[1] == row and _sees_the_same(kept[0], node):
            return kept[2]
        pools = gather_pools(self._slices, node, self._features, self._problems, self._built)
        self._kept[node.name] = (node, row, pools)
        for pool in pools:
            self._rows.setdefault(pool.id, set()).add(row)
        return pools

    def rows_of(self, pool: PoolID) -> set[int] | frozenset[int]:
        """The rows that see a pool, and maybe some that did."""
        return self._rows.get(pool, _NO_ROWS)


def _sees_the_same(then: Node, now: Node) -> bool:
    """True if slices select the node as before; they select nodes by name, labels and features."""
    return then is now or (
        then.metadata.labels == now.metadata.labels
        and then.status.declared_features == now.status.declared_features
    )
