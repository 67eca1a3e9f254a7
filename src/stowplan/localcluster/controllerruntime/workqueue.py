"""Which objects a control loop has to look at, each at most once at a time.

A key that is added while it waits is not added twice; one that is added while it is worked on comes again
afterwards. Keys for later wait in one heap behind one timer, however many they are.
"""

import asyncio
from heapq import heappop, heappush
from typing import Final

FIRST_RETRY: Final = 0.005
LONGEST_RETRY: Final = 30.0
LONGEST_DEAFNESS: Final = 1.0
"""The longest time after a failure for which events do not requeue a key at once, in seconds."""


class WorkQueue:
    """Keys to work on, in the order they came."""

    def __init__(self, *, first_retry: float = FIRST_RETRY, longest_retry: float = LONGEST_RETRY) -> None:
        self._first_retry = first_retry
        self._longest_retry = longest_retry
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._dirty: set[str] = set()
        self._working: set[str] = set()
        self._heap: list[tuple[float, int, str]] = []
        self._due: dict[str, float] = {}
        self._resting: dict[str, float] = {}
        self._rest_after: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._count = 0

    def __len__(self) -> int:
        """Number of keys waiting or in progress; delayed ones do not count."""
        return len(self._dirty | self._working)

    def add(self, key: str) -> None:
        """Have a key worked on soon: at once, or when its rest is over."""
        until = self._resting.get(key)
        if until is not None:
            left = until - asyncio.get_running_loop().time()
            if left > 0:
                self.add_after(key, left)
                return
            del self._resting[key]
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._ready.put_nowait(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Have a key worked on later; of several times the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        when = asyncio.get_running_loop().time() + seconds
        due = self._due.get(key)
        if due is not None and due <= when:
            return
        self._due[key] = when
        self._count += 1
        heappush(self._heap, (when, self._count, key))
        if self._heap[0][2] == key:
            self._arm()

    def retry(self, key: str) -> None:
        """Have a key that failed worked on again, after a pause that doubles with every failure.

        Events of the key do not shorten a short pause: else a sync whose failure causes events never rests.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        pause = min(self._first_retry * 2 ** min(failures, 40), self._longest_retry)
        self.rest(key, min(pause, LONGEST_DEAFNESS))
        self.add_after(key, pause)

    def forget(self, key: str) -> None:
        """A key's work is done well: its next failure is its first."""
        self._failures.pop(key, None)

    def rest(self, key: str, seconds: float) -> None:
        """Do not work on a key for this duration, regardless of additions: syncs are costly, events come in
        bursts.

        For a key in progress it begins when that work is done.
        """
        if key in self._working:
            self._rest_after[key] = seconds
        else:
            self._resting[key] = asyncio.get_running_loop().time() + seconds

    async def get(self) -> str:
        """The next key; it has to be given back with `done`."""
        key = await self._ready.get()
        self._dirty.discard(key)
        self._working.add(key)
        return key

    def done(self, key: str) -> None:
        self._working.discard(key)
        seconds = self._rest_after.pop(key, 0.0)
        if seconds:
            self.rest(key, seconds)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def close(self) -> None:
        """No timer goes off any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self.close()
        if self._heap:
            self._timer = asyncio.get_running_loop().call_at(self._heap[0][0], self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            when, _, key = heappop(self._heap)
            if self._due.get(key) == when:
                del self._due[key]
                self.add(key)
        self._arm()
