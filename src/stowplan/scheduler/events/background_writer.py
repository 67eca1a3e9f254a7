"""A bounded queue of writes, and the tasks that carry them out."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

LIMIT: Final = 10_000
"""Writes that may be queued."""

WRITERS: Final = 64
"""Writes that may be in flight."""

FEW_WRITERS: Final = 4
"""Writes that may be in flight while more important ones have to wait for the server."""


class BackgroundWriter(Generic[T]):
    """Writes queued items in order, several at a time.

    `put` never waits. A writer takes one item after the other as long as there are any; before it starts on
    one while more are waiting it starts another writer. So where a write does not wait (a store in this
    process) one writer does everything in one go, and where it does there are as many as needed.

    While `others_wait` says that more important writes than these have to wait for the server, only a few
    writers work, unless half of the queue's limit is reached. With `gather` nothing is written before that
    many seconds are over, and then everything in one turn of the event loop: over a network ten writes
    together cost little more than one.
    """

    def __init__(
        self,
        write: Callable[[T], Awaitable[None]],
        *,
        limit: int = LIMIT,
        writers: int = WRITERS,
        others_wait: Callable[[], bool] = lambda: False,
        gather: float = 0.0,
    ) -> None:
        self._write = write
        self._gather = gather
        self._gathering: asyncio.TimerHandle | None = None
        self._limit = limit
        self._most_writers = writers
        self._fewest_writers = min(FEW_WRITERS, writers)
        self._others_wait = others_wait
        self._waiting: deque[T] = deque()
        self._writers: set[asyncio.Task[None]] = set()
        self._idle: list[asyncio.Future[None]] = []
        self._called = False
        self._under_way = 0
        self._written_all = asyncio.Event()
        self._end: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        """Number of waiting items."""
        return len(self._waiting)

    @property
    def is_running(self) -> bool:
        return self._end is not None

    def put(self, item: T) -> bool:
        """Have something written; False if too much is waiting already."""
        if len(self._waiting) >= self._limit:
            return False
        self._waiting.append(item)
        if self._gather and len(self._waiting) < self._most_writers:
            if self._gathering is None and self._end is not None:
                loop = asyncio.get_running_loop()
                self._gathering = loop.call_later(self._gather, self._write_gathered)
        elif self._gathering is not None:
            self._write_gathered()
        elif not self._called:
            self._call_writer()
        return True

    async def run(self) -> None:
        """Write until cancelled. Raises the errors of writers."""
        self._end = asyncio.get_running_loop().create_future()
        try:
            if self._waiting:
                self._call_writer()
            await self._end
        finally:
            self._end = None
            await self._dismiss()

    async def drain(self) -> None:
        """Return when everything has been written, even if `run` is not running."""
        while self.is_running and (self._waiting or self._under_way):
            self._write_gathered()
            self._written_all.clear()
            await self._written_all.wait()
        while self._waiting:
            await self._write(self._waiting.popleft())

    def _write_gathered(self) -> None:
        """Have as many writers come as there is to write, all in the next turn."""
        if self._gathering is None:
            return
        self._gathering.cancel()
        self._gathering = None
        for _ in range(min(len(self._waiting), self._wanted_writers - self._under_way)):
            self._call_writer()

    def _call_writer(self) -> None:
        """Wake an idle writer or start one. One at a time: each writer starts the next if there is need."""
        if self._end is None or self._under_way >= self._wanted_writers:
            return
        if self._idle:
            self._called = True
            self._idle.pop().set_result(None)
        elif len(self._writers) < self._most_writers:
            self._called = True
            writer = asyncio.get_running_loop().create_task(self._work(), name="writer")
            self._writers.add(writer)
            writer.add_done_callback(self._ended)

    @property
    def _wanted_writers(self) -> int:
        """Number of writers that may work now."""
        if len(self._waiting) < self._limit // 2 and self._others_wait():
            return self._fewest_writers
        return self._most_writers

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._called = False
            self._under_way += 1
            try:
                await self._write_all()
            finally:
                self._under_way -= 1
            self._written_all.set()
            idle: asyncio.Future[None] = loop.create_future()
            self._idle.append(idle)
            await idle

    async def _write_all(self) -> None:
        """Write what is waiting, then let others have their turn before going on with what has come since.

        However much they put in theirs, it is written before their next one.
        """
        waiting, write = self._waiting, self._write
        while waiting:
            left = len(waiting)
            while waiting and left:
                # A few may always write: only beyond them it matters who else waits, which takes time to see.
                crowded = self._under_way > self._fewest_writers and self._under_way > self._wanted_writers
                if crowded or self._gathering is not None:
                    return
                left -= 1
                item = waiting.popleft()
                if waiting and not self._called:
                    self._call_writer()
                await write(item)
            if waiting:
                await asyncio.sleep(0)

    def _ended(self, writer: asyncio.Task[None]) -> None:
        self._writers.discard(writer)
        if not writer.cancelled() and self._end is not None and not self._end.done():
            error = writer.exception()
            if error is not None:
                self._end.set_exception(error)

    async def _dismiss(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        writers = list(self._writers)
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        self._idle.clear()
        self._called = False
        self._written_all.set()
