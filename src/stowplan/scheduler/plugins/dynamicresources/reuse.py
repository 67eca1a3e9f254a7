"""Searches that need not be done again: what was found on a node for claims that ask for the same.

A search is the same as long as the claims ask for the same, the node has the same pools, no device of
these pools was taken or given back, and no class changed.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from stowplan.api.devices import ResourceClaim
from stowplan.scheduler.framework.advanced import Budget, Step
from stowplan.scheduler.plugins.dynamicresources.allocation.allocator import Found, Searching
from stowplan.scheduler.plugins.dynamicresources.allocation.pools import Pool
from stowplan.scheduler.plugins.dynamicresources.columns import SimpleClaim
from stowplan.scheduler.table.devices import AllocatedState, Classes

_MOST_KEYS: Final = 32
"""Number of kinds of claims for which searches are kept, the latest used."""

_MOST_EARLIER: Final = 1024
"""Number of earlier searches that are kept for one kind of claims."""


class Kept(NamedTuple):
    """Result of a search, None if nothing was found, and the versions it depends on."""

    pools: Sequence[Pool]
    pools_version: int
    classes_version: int
    found: list[Found] | None


class Failed(NamedTuple):
    """Why there is no verdict about a row, and the budget of the attempt that wanted one."""

    text: str
    budget: Budget


@dataclass(slots=True)
class UnderWay:
    """A search on a node that was interrupted, and what it rests on. `step` is what it `waits` for, if so."""

    pools: Sequence[Pool]
    pools_version: int
    classes_version: int
    budget: Budget
    search: Searching
    step: Step = None
    waits: bool = False


class Column:
    """The verdicts of one kind of claims by row, and the changes up to which they hold.

    `stale` are rows that have to be evaluated again, `pending` those of them that need a search. The
    remainder of both when an attempt is interrupted is done when it continues. `failed` are rows whose
    verdict is an error: every attempt evaluates them once more, for the message.
    """

    __slots__ = ("classes", "codes", "epoch", "failed", "pending", "position", "stale")

    def __init__(self, capacity: int) -> None:
        self.codes = np.zeros(capacity, dtype=np.int64)
        self.failed: dict[int, Failed] = {}
        self.stale: set[int] = set()
        self.pending: set[int] = set()
        self.classes = self.epoch = self.position = -1


class Searches:
    """The searches for one kind of claims: by node, and what they amount to as a column.

    `simple` is the claim if columns can answer it, False if they cannot, None if that was not looked at yet.
    `under_way` is the search that was interrupted, by node: one, unless there is none. `earlier` are replaced
    searches, for a group that is placed again: its members take devices in the same order as before.
    """

    __slots__ = ("by_node", "by_pools", "column", "earlier", "simple", "under_way")

    def __init__(self) -> None:
        self.by_node: dict[str, Kept] = {}
        self.by_pools: dict[tuple[int, ...], Kept] = {}
        """The latest searches on nodes with identical results for the same pools."""
        self.earlier: OrderedDict[tuple[str | tuple[int, ...], int], Kept] = OrderedDict()
        """By node or pools, and the version of the pools."""
        self.under_way: dict[str, UnderWay] = {}
        self.column: Column | None = None
        self.simple: SimpleClaim | Literal[False] | None = None


class KeptSearches:
    """Searches by what the claims ask for, then by node."""

    def __init__(self, allocated: AllocatedState, classes: Classes) -> None:
        self._allocated = allocated
        self._classes = classes
        self._searches: OrderedDict[bytes, Searches] = OrderedDict()

    def clear(self) -> None:
        """Forget all searches."""
        self._searches.clear()

    def of(self, claims: Sequence[ResourceClaim]) -> Searches:
        """The searches for claims that ask for the same as these."""
        key = msgspec.json.encode([claim.spec for claim in claims])
        found = self._searches.get(key)
        if found is None:
            found = self._searches[key] = Searches()
            if len(self._searches) > _MOST_KEYS:
                self._searches.popitem(last=False)
        else:
            self._searches.move_to_end(key)
        return found

    def current(self, searches: Searches, node: str, pools: Sequence[Pool]) -> Kept | None:
        """The search on a node, or on another that sees the same, if nothing changed that it rested on."""
        kept = searches.by_node.get(node)
        if kept is not None and kept.pools is pools and self._holds(kept):
            return kept
        shared = tuple(map(id, pools))
        kept = searches.by_pools.get(shared)
        if kept is not None and self._holds(kept):
            return kept
        if searches.earlier:
            version = self._version_of(pools)
            for key in (node, shared):
                kept = searches.earlier.get((key, version))
                if kept is not None and kept.pools is pools and self._holds(kept):
                    return kept
        return None

    def keep(self, searches: Searches, node: str, pools: Sequence[Pool], found: list[Found] | None) -> None:
        kept = Kept(pools, self._version_of(pools), self._classes.version, found)
        self._keep_earlier(searches, node, searches.by_node.get(node))
        searches.by_node[node] = kept
        searches.under_way.clear()
        if not any(pool.depends_on_node for pool in pools):
            if len(searches.by_pools) >= _MOST_KEYS:
                searches.by_pools.clear()
            # A kept result holds on to its pools, so no other pool has the id of one of them.
            shared = tuple(map(id, pools))
            self._keep_earlier(searches, shared, searches.by_pools.get(shared))
            searches.by_pools[shared] = kept

    def _keep_earlier(self, searches: Searches, key: str | tuple[int, ...], kept: Kept | None) -> None:
        if kept is not None:
            searches.earlier[key, kept.pools_version] = kept
            if len(searches.earlier) > _MOST_EARLIER:
                searches.earlier.popitem(last=False)

    def begun(self, searches: Searches, node: str, pools: Sequence[Pool], budget: Budget) -> UnderWay | None:
        """The search of the same attempt that was interrupted on a node, if it can go on."""
        under_way = searches.under_way.get(node)
        if under_way is None or under_way.budget is not budget or under_way.pools is not pools:
            return None
        return under_way if self._holds(under_way) else None

    def begin(
        self, searches: Searches, node: str, pools: Sequence[Pool], budget: Budget, search: Searching
    ) -> UnderWay:
        """Note that a search begins; what was left of another one is given up."""
        version = self._version_of(pools)
        under_way = UnderWay(pools, version, self._classes.version, budget, search)
        searches.under_way = {node: under_way}
        return under_way

    def _holds(self, kept: Kept | UnderWay) -> bool:
        """True if nothing changed that a search rested on."""
        return kept.classes_version == self._classes.version and kept.pools_version == self._version_of(
            kept.pools
        )

    def _version_of(self, pools: Sequence[Pool]) -> int:
        versions = self._allocated.pool_versions
        return sum([versions[pool.id] for pool in pools])
