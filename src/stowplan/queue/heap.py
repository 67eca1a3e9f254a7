"""A heap whose entries can be found, replaced and taken out by key."""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Entry:
    """An item and its key; the heap orders (sort key, place among equals, serial number, entry)."""

    __slots__ = ("item", "key", "place")

    def __init__(self, key: str, item: Any, place: int) -> None:
        self.key = key
        self.item = item
        self.place = place


_GONE = object()
"""The item of an entry that no longer counts."""


class KeyedHeap(Generic[T]):
    """Smallest sort key first; among equals, who came first.

    Entries taken out from the middle stay where they are, marked, until they come up or are too many. So
    every operation takes O(log n), taken over many.
    """

    def __init__(self, sort_key: Callable[[T], Any]) -> None:
        self._sort_key = sort_key
        self._heap: list[tuple[Any, int, int, _Entry]] = []
        self._entries: dict[str, _Entry] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[T]:
        """All items, in no order to rely on."""
        return (entry.item for entry in self._entries.values())

    def get(self, key: str) -> T | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.item

    def put(self, key: str, item: T) -> None:
        """Add an item, or replace the one with that key, which then keeps its place among equals."""
        number = next(self._numbers)
        old = self._entries.get(key)
        entry = _Entry(key, item, number if old is None else old.place)
        heappush(self._heap, (self._sort_key(item), entry.place, number, entry))
        if old is not None:
            old.item = _GONE
        self._entries[key] = entry
        self._sweep()

    def peek(self) -> T | None:
        """The first item, None if there is none."""
        heap = self._heap
        while heap and heap[0][3].item is _GONE:
            heappop(heap)
        return heap[0][3].item if heap else None

    def pop(self) -> T | None:
        """Take out the first item, None if there is none."""
        item = self.peek()
        if item is not None:
            entry = heappop(self._heap)[3]
            del self._entries[entry.key]
        return item

    def remove(self, key: str) -> T | None:
        """Take out the item with a key, None if there is none."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        item: T = entry.item
        entry.item = _GONE
        self._sweep()
        return item

    def _sweep(self) -> None:
        """Throw away entries that no longer count once they are more than the others."""
        if len(self._heap) > 64 and len(self._heap) > 2 * len(self._entries):
            self._heap = [each for each in self._heap if each[3].item is not _GONE]
            heapify(self._heap)
