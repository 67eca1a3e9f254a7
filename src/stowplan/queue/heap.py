"""A heap whose entries can be found, replaced and taken out by key."""

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

_Entry = list[Any]
"""Sort key, place among equals, serial number, key, item; numbers differ, so no comparison gets past them."""
_PLACE: Final = 1
_KEY: Final = 3
_ITEM: Final = 4

_GONE: Final = object()
"""The item of an entry that no longer counts."""


class KeyedHeap(Generic[T]):
    """Smallest sort key first; among equals, who came first.

    Entries that come in order, as most pods do, wait in a line; only those that have to go before another one
    are put into a heap. Entries taken out from the middle stay where they are, marked, until they come up or
    are too many. So every operation takes O(log n), taken over many, and O(1) for what comes in order.
    """

    def __init__(self, sort_key: Callable[[T], Any]) -> None:
        self._sort_key = sort_key
        self._line: deque[_Entry] = deque()
        self._heap: list[_Entry] = []
        self._entries: dict[str, _Entry] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[T]:
        """All items, in no order to rely on."""
        return (entry[_ITEM] for entry in self._entries.values())

    def get(self, key: str) -> T | None:
        entry = self._entries.get(key)
        return None if entry is None else entry[_ITEM]

    def put(self, key: str, item: T) -> None:
        """Add an item, or replace the one with that key, which then keeps its place among equals."""
        number = next(self._numbers)
        old = self._entries.get(key)
        place = number if old is None else old[_PLACE]
        entry = [self._sort_key(item), place, number, key, item]
        line = self._line
        if not line or line[-1] < entry:
            line.append(entry)
        else:
            heappush(self._heap, entry)
        self._entries[key] = entry
        if old is not None:
            old[_ITEM] = _GONE
            self._sweep()

    def peek(self) -> T | None:
        """The first item, None if there is none."""
        first = self._first()
        return None if first is None else first[_ITEM]

    def pop(self) -> T | None:
        """Take out the first item, None if there is none."""
        line, heap = self._line, self._heap
        while line or heap:
            first = line.popleft() if line and not (heap and heap[0] < line[0]) else heappop(heap)
            item: T = first[_ITEM]
            if item is not _GONE:
                del self._entries[first[_KEY]]
                return item
        return None

    def remove(self, key: str) -> T | None:
        """Take out the item with a key, None if there is none."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        item: T = entry[_ITEM]
        entry[_ITEM] = _GONE
        self._sweep()
        return item

    def _first(self) -> _Entry | None:
        line, heap = self._line, self._heap
        while line and line[0][_ITEM] is _GONE:
            line.popleft()
        while heap and heap[0][_ITEM] is _GONE:
            heappop(heap)
        if not heap:
            return line[0] if line else None
        return line[0] if line and line[0] < heap[0] else heap[0]

    def _sweep(self) -> None:
        """Throw away entries that no longer count once they are more than the others."""
        kept = len(self._line) + len(self._heap)
        if kept > 64 and kept > 2 * len(self._entries):
            self._line = deque(entry for entry in self._line if entry[_ITEM] is not _GONE)
            self._heap = [entry for entry in self._heap if entry[_ITEM] is not _GONE]
            heapify(self._heap)
