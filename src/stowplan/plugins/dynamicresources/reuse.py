"""Searches that need not be done again: what was found on a node for claims that ask for the same.

A search is the same as long as the claims ask for the same, the node has the same pools, no device of
these pools was taken or given back, and no class changed.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from stowplan.api.devices import ResourceClaim
from stowplan.cluster.devices import AllocatedState, Classes
from stowplan.plugins.dynamicresources.allocator import Found
from stowplan.plugins.dynamicresources.columns import SimpleClaim
from stowplan.plugins.dynamicresources.pools import Pool

_MOST_KEYS: Final = 32
"""For so many kinds of claims searches are kept, the latest used."""


class Kept(NamedTuple):
    """What a search found, None if nothing, and what it rested on."""

    pools: Sequence[Pool]
    pools_version: int
    classes_version: int
    found: list[Found] | None


class Column:
    """The verdicts of one kind of claims by row, and the changes up to which they hold.

    `failed` are rows whose verdict is an error: those are looked at every time, for the message.
    """

    __slots__ = ("classes", "codes", "epoch", "failed", "position")

    def __init__(self, capacity: int) -> None:
        self.codes = np.zeros(capacity, dtype=np.int64)
        self.failed: set[int] = set()
        self.classes = self.epoch = self.position = -1


class Searches:
    """The searches for one kind of claims: by node, and what they amount to as a column.

    `simple` is the claim if columns can answer it, False if they cannot, None if that was not looked at yet.
    """

    __slots__ = ("by_node", "column", "simple")

    def __init__(self) -> None:
        self.by_node: dict[str, Kept] = {}
        self.column: Column | None = None
        self.simple: SimpleClaim | Literal[False] | None = None


class KeptSearches:
    """Searches by what the claims ask for, then by node."""

    def __init__(self, allocated: AllocatedState, classes: Classes) -> None:
        self._allocated = allocated
        self._classes = classes
        self._searches: OrderedDict[bytes, Searches] = OrderedDict()

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
        """The search on a node, if nothing changed that it rested on."""
        kept = searches.by_node.get(node)
        if (
            kept is None
            or kept.pools is not pools
            or kept.classes_version != self._classes.version
            or kept.pools_version != self._version_of(pools)
        ):
            return None
        return kept

    def keep(self, searches: Searches, node: str, pools: Sequence[Pool], found: list[Found] | None) -> None:
        searches.by_node[node] = Kept(pools, self._version_of(pools), self._classes.version, found)

    def _version_of(self, pools: Sequence[Pool]) -> int:
        versions = self._allocated.pool_versions
        return sum([versions[pool.id] for pool in pools])
