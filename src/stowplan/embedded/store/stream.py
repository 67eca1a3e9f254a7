"""A watch as an asynchronous iterator, with a buffer that does not grow without bound."""

import asyncio
from collections import deque
from collections.abc import Callable

from stowplan.embedded.store.changes import Change
from stowplan.embedded.store.watching import Sink, Watcher


class WatchStream:
    """Changes to iterate over, for one consumer.

    What is not consumed yet is kept, up to a limit; whoever falls further behind is cut off (`cut_off`): the
    stream ends, and its consumer resumes from the last version it saw or lists anew. What existed at the
    beginning does not count against the limit.
    """

    def __init__(self, watch: Callable[[Sink], Watcher], limit: int) -> None:
        self.cut_off = False
        self._limit = limit
        self._live: deque[Change] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._watcher = watch(self._arrived)
        self._backlog = deque(self._watcher.backlog)
        self._watcher.backlog = ()

    def __aiter__(self) -> "WatchStream":
        return self

    async def __anext__(self) -> Change:
        while True:
            waiting = self._backlog or self._live
            if waiting:
                return waiting.popleft()
            if not self._watcher.is_open:
                raise StopAsyncIteration
            self._wake = wake = asyncio.get_running_loop().create_future()
            try:
                await wake
            finally:
                self._wake = None

    def ready(self, limit: int) -> list[Change]:
        """What can be consumed without waiting, at most so much."""
        waiting = self._backlog or self._live
        if len(waiting) > limit:
            return [waiting.popleft() for _ in range(limit)]
        found = list(waiting)
        waiting.clear()
        return found

    def close(self) -> None:
        """End the stream after what is waiting to be consumed."""
        self._watcher.close()
        self._stir()

    def _arrived(self, change: Change) -> None:
        live = self._live
        live.append(change)
        if len(live) > self._limit:
            self.cut_off = True
            self._backlog.clear()
            live.clear()
            self._watcher.close()
        if self._wake is not None:
            self._stir()

    def _stir(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None and not wake.done():
            wake.set_result(None)
