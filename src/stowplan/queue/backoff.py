"""Backoff: how long a pod waits after a failure, and the queue of pods that wait for its end.

Twice as long each time, up to a limit. All times are whole nanoseconds.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf, nextafter
from typing import Any, Final

from stowplan.queue.heap import KeyedHeap
from stowplan.queue.queued_pod import QueuedPod

SECOND: Final = 1_000_000_000
ORDERING_WINDOW: Final = SECOND
"""Backoffs end at whole seconds, so that pods whose backoff ends together are ordered by priority."""


def nanoseconds(seconds: float) -> int:
    """A point in time in whole nanoseconds."""
    return round(seconds * SECOND)


def first_second(time: int) -> float:
    """The earliest time in seconds that is not before a time in nanoseconds."""
    seconds = time / SECOND
    while nanoseconds(seconds) < time:
        seconds = nextafter(seconds, inf)
    return seconds


@dataclass(frozen=True, slots=True)
class Backoff:
    """The backoff of failed pods. A maximum of 0 switches it off; with a window of 1 it ends at any time."""

    initial: int = SECOND
    maximum: int = 10 * SECOND
    window: int = ORDERING_WINDOW

    def duration(self, failures: int) -> int:
        """How long to wait after so many failed attempts in a row."""
        if failures <= 0:
            return 0
        doublings = failures - 1
        return self.maximum if self.initial > self.maximum >> doublings else self.initial << doublings

    def expiration(self, timestamp: int, unschedulable: int, errors: int = 0) -> int | None:
        """When the backoff of a pod that failed at `timestamp` ends, None if it has none.

        Counted are the errors in a row if the last attempt ended with one, else the attempts that found
        no node.
        """
        failures = errors if errors > 0 else unschedulable
        if self.maximum == 0 or failures == 0:
            return None
        return self.aligned(timestamp + self.duration(failures))

    def aligned(self, time: int) -> int:
        """The beginning of the window a point in time is in."""
        return time - time % self.window


class BackoffQueue:
    """Two heaps, by the end of the backoff: pods that found no node, and pods whose attempt went wrong.

    A backoff ends with the window (a second) after the one its end falls into, so that pods whose backoffs
    end together come out by priority. Pods that found no node may be taken out before that; those whose
    attempt went wrong may not, because nothing says that another attempt would go better.
    """

    def __init__(self, backoff: Backoff, sort_key: Callable[[QueuedPod], Any]) -> None:
        self._backoff = backoff
        by_priority = backoff.window > 1

        def by_end(queued: QueuedPod) -> int:
            return self._end(queued) or 0

        def by_end_and_priority(queued: QueuedPod) -> tuple[int, Any]:
            return (self._end(queued) or 0, sort_key(queued))

        self._rejected: KeyedHeap[QueuedPod] = KeyedHeap(by_end_and_priority if by_priority else by_end)
        self._failed: KeyedHeap[QueuedPod] = KeyedHeap(by_end)
        self._heap_of: dict[str, KeyedHeap[QueuedPod]] = {}

    def __len__(self) -> int:
        return len(self._heap_of)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self._rejected
        yield from self._failed

    def __contains__(self, key: str) -> bool:
        return key in self._heap_of

    def get(self, key: str) -> QueuedPod | None:
        heap = self._heap_of.get(key)
        return None if heap is None else heap.get(key)

    def put(self, queued: QueuedPod) -> None:
        """Let a pod wait, or find its place anew after something about it changed."""
        key = queued.key
        heap = self._rejected if queued.rejected else self._failed
        if self._heap_of.get(key) is not heap:
            self.remove(key)
            self._heap_of[key] = heap
        heap.put(key, queued)

    def remove(self, key: str) -> QueuedPod | None:
        heap = self._heap_of.pop(key, None)
        return None if heap is None else heap.remove(key)

    def pop(self) -> QueuedPod | None:
        """Take out the first pod that found no node, though its backoff is not over."""
        return self._take_first(self._rejected)

    def take_complete(self, now: float, limit: int | None = None) -> list[QueuedPod]:
        """Take out the pods whose backoff is over, at most `limit` of them."""
        found: list[QueuedPod] = []
        for heap in (self._rejected, self._failed):
            while (
                len(found) != limit
                and (first := heap.peek()) is not None
                and not self.is_backing_off(first, now)
            ):
                self._take_first(heap)
                found.append(first)
        return found

    def is_backing_off(self, queued: QueuedPod, now: float) -> bool:
        end = self._end(queued)
        return end is not None and end >= self._backoff.aligned(nanoseconds(now))

    def ends_at(self, queued: QueuedPod) -> float:
        """When a pod's backoff will be over."""
        return first_second((self._end(queued) or 0) + self._backoff.window)

    def next_complete(self) -> float | None:
        """When the first backoff will be over."""
        ends = [self._end(first) for heap in (self._rejected, self._failed) if (first := heap.peek())]
        over = [(end or 0) + self._backoff.window for end in ends]
        return first_second(min(over)) if over else None

    def _take_first(self, heap: KeyedHeap[QueuedPod]) -> QueuedPod | None:
        first = heap.pop()
        if first is not None:
            del self._heap_of[first.key]
        return first

    def _end(self, queued: QueuedPod) -> int | None:
        if queued.backoff_until is None:
            queued.backoff_until = self._backoff.expiration(
                nanoseconds(queued.timestamp), queued.unschedulable_count, queued.consecutive_errors
            )
        return queued.backoff_until
