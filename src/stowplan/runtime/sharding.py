"""A dictionary for as many entries as a cluster has pods, of which no single change takes long.

Python copies a dictionary as a whole when it grows: with a million entries that takes tens of milliseconds,
in which nothing else happens. Divided into shards, only one of them is copied at a time.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from itertools import chain
from typing import Final, TypeVar, overload
from zlib import crc32

V = TypeVar("V")
D = TypeVar("D")

FEW: Final = 80_000
"""Number of entries up to which one dictionary is used. It is copied last when it has half as many."""

_SHARDS: Final = 251
"""A prime: names that count up then fill the shards at random, not in step, so that they grow one by one."""

_MOVED: Final = 2
"""Entries that move into their shards with each new one, until all have."""


class ShardedDict(MutableMapping[str, V]):
    """A dictionary by strings, of values other than None.

    It begins as one dictionary, in the order in which keys were added. When there are many, new entries go
    into shards and take some of the old ones along; the order is then another, but depends on nothing but
    what was done with the dictionary.
    """

    __slots__ = ("_first", "_shards")

    def __init__(self, entries: Mapping[str, V] | None = None) -> None:
        self._first: dict[str, V] = {}
        """All entries, or those that have not moved into their shards yet."""
        self._shards: list[dict[str, V]] = []
        if entries is not None:
            self.add_all(entries)

    @overload
    def get(self, key: str, /) -> V | None: ...
    @overload
    def get(self, key: str, default: V | D, /) -> V | D: ...
    def get(self, key: str, default: V | D | None = None, /) -> V | D | None:
        shards = self._shards
        if shards:
            found = shards[crc32(key.encode()) % _SHARDS].get(key)
            if found is not None:
                return found
        return self._first.get(key, default)

    def __getitem__(self, key: str) -> V:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def __setitem__(self, key: str, value: V) -> None:
        first, shards = self._first, self._shards
        if not shards:
            first[key] = value
            if len(first) >= FEW:
                self._shards = [{} for _ in range(_SHARDS)]
        elif key in first:
            first[key] = value
        else:
            shards[crc32(key.encode()) % _SHARDS][key] = value
            for _ in range(min(_MOVED, len(first))):
                moved, its_value = first.popitem()
                shards[crc32(moved.encode()) % _SHARDS][moved] = its_value

    def __delitem__(self, key: str) -> None:
        if key in self._first:
            del self._first[key]
        elif self._shards:
            del self._shards[crc32(key.encode()) % _SHARDS][key]
        else:
            raise KeyError(key)

    @overload
    def pop(self, key: str, /) -> V: ...
    @overload
    def pop(self, key: str, default: V | D, /) -> V | D: ...
    def pop(self, key: str, /, *default: V | D) -> V | D:
        found = self._first.pop(key, None)
        if found is None and self._shards:
            found = self._shards[crc32(key.encode()) % _SHARDS].pop(key, None)
        if found is not None:
            return found
        if default:
            return default[0]
        raise KeyError(key)

    def add_all(self, entries: Mapping[str, V]) -> None:
        """Set many entries."""
        if not self._shards and len(self._first) + len(entries) < FEW:
            self._first.update(entries)
            return
        for key, value in entries.items():
            self[key] = value

    def has_any(self, keys: Iterable[str]) -> bool:
        """True if it has one of these keys."""
        if not self._shards:
            return not self._first.keys().isdisjoint(keys)
        return any(map(self.__contains__, keys))

    def shards(self) -> list[Mapping[str, V]]:
        """All entries, in parts that can each be gone through without taking long."""
        return [self._first, *self._shards]

    def __len__(self) -> int:
        return len(self._first) + sum(map(len, self._shards))

    def __iter__(self) -> Iterator[str]:
        return chain(self._first, *self._shards)

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def items(self) -> ItemsView[str, V]:
        return _Items(self)

    def __repr__(self) -> str:
        return f"ShardedDict({dict(self)!r})"


class _Values(ValuesView[V]):
    def __init__(self, of: ShardedDict[V]) -> None:
        super().__init__(of)
        self._of = of

    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(shard.values() for shard in self._of.shards())


class _Items(ItemsView[str, V]):
    def __init__(self, of: ShardedDict[V]) -> None:
        super().__init__(of)
        self._of = of

    def __iter__(self) -> Iterator[tuple[str, V]]:
        return chain.from_iterable(shard.items() for shard in self._of.shards())
