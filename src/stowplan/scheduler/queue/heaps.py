"""Heaps whose entries can be found by key, in which whole groups of pods may stand."""

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Final, Generic, TypeVar

from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.unschedulable_pods import UnschedulablePods
from stowplan.scheduler.queue.waiting_group import Group, group_of

T = TypeVar("T")

_Entry = list[Any]
"""Sort key, place among equals, serial number, key, item; numbers differ, so no comparison gets past them.

The key of a group is None.
"""
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
        self._numbers = 0

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
        number = self._numbers
        self._numbers = number + 1
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
        if kept > 64 and kept > 2 * len(self):
            self._line = deque(entry for entry in self._line if entry[_ITEM] is not _GONE)
            self._heap = [entry for entry in self._heap if entry[_ITEM] is not _GONE]
            heapify(self._heap)


class PodHeap(KeyedHeap[QueuedPod]):
    """A heap of pods, in which groups that were woken as a whole stand as one entry each.

    The entry of a group is that of its first pod. When it comes up that pod is taken, and the entry of the
    next one goes back, so a group costs nothing before its turn. Pods of groups are found through `waiting`,
    where they were before. Sort keys have to be those of the pods' priorities and timestamps.
    """

    def __init__(self, sort_key: Callable[[QueuedPod], Any], waiting: UnschedulablePods) -> None:
        super().__init__(sort_key)
        self._waiting = waiting
        self._groups: dict[int, Group] = {}
        """The groups that stand here, by the place among equals of their first pod."""
        self._in_groups = 0

    def __len__(self) -> int:
        return len(self._entries) + self._in_groups

    def __contains__(self, key: str) -> bool:
        return key in self._entries or (self._in_groups > 0 and self._grouped(key) is not None)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from super().__iter__()
        for group in self._groups.values():
            yield from group.pods.values()

    def get(self, key: str) -> QueuedPod | None:
        return super().get(key) or (self._grouped(key) if self._in_groups else None)

    def put(self, key: str, item: QueuedPod) -> None:
        if self._in_groups and (found := self._grouped(key)) is not None:
            group = group_of(found)
            if item.priority == group.priority:
                return
            self._dissolve(group)
        super().put(key, item)

    def put_group(self, group: Group) -> None:
        """Add the pods of a group that is in order: the same as adding one after the other.

        Each gets a number for its place among equals, and the group goes by the first one.
        """
        group.place = self._numbers
        group.heap = self
        self._numbers += len(group.pods)
        self._groups[group.place] = group
        self._in_groups += len(group.pods)
        self._push(group, next(iter(group.pods.values())))

    def peek(self) -> QueuedPod | None:
        while self._groups:
            first = self._first()
            if first is None or first[_KEY] is not None:
                break
            group: Group = first[_ITEM]
            if group.next() is group.first:
                return group.first
            heappop(self._heap)
            self._go_on(group)
        return super().peek()

    def pop(self) -> QueuedPod | None:
        if not self._groups:
            return super().pop()
        line, heap = self._line, self._heap
        while line or heap:
            first = line.popleft() if line and not (heap and heap[0] < line[0]) else heappop(heap)
            item = first[_ITEM]
            if item is _GONE:
                continue
            if first[_KEY] is not None:
                del self._entries[first[_KEY]]
                popped: QueuedPod = item
                return popped
            group: Group = item
            queued = group.next()
            if queued is not None and queued is group.first:
                self._leave(group, queued)
                self._go_on(group)
                return queued
            self._go_on(group)
        return None

    def remove(self, key: str) -> QueuedPod | None:
        found = self._grouped(key) if self._in_groups else None
        if found is None:
            return super().remove(key)
        group = group_of(found)
        self._leave(group, found)
        if not group.pods:
            self._forget(group)
        return found

    def _grouped(self, key: str) -> QueuedPod | None:
        """A pod that stands here as one of a group."""
        queued = self._waiting.pods.get(key)
        return queued if queued is not None and group_of(queued).heap is self else None

    def _go_on(self, group: Group) -> None:
        """Let a group whose entry came up go by its next pod."""
        queued = group.next()
        if queued is None:
            self._groups.pop(group.place, None)
        else:
            self._push(group, queued)

    def _push(self, group: Group, first: QueuedPod) -> None:
        group.first = first
        group.entry = [self._sort_key(first), group.place, group.place, None, group]
        heappush(self._heap, group.entry)

    def _leave(self, group: Group, queued: QueuedPod) -> None:
        self._in_groups -= 1
        self._waiting.leave(group, queued)

    def _forget(self, group: Group) -> None:
        group.entry[_ITEM] = _GONE
        del self._groups[group.place]

    def _dissolve(self, group: Group) -> None:
        """Let every pod of a group stand for itself, in the place it has."""
        self._forget(group)
        for place, queued in enumerate(list(group.pods.values()), group.place):
            self._leave(group, queued)
            entry = [self._sort_key(queued), place, self._numbers, queued.key, queued]
            self._numbers += 1
            self._entries[queued.key] = entry
            heappush(self._heap, entry)
