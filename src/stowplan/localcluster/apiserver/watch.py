"""Watches over HTTP: events are encoded once for all watchers, and what one leaves unread is limited."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from aiohttp import web

from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.apiserver.responses import ResponseView
from stowplan.localcluster.apiserver.sending import limit_buffer, slices
from stowplan.localcluster.store import BOOKMARK, StoreChange

BUFFER_LIMIT: Final = 16 * 1024 * 1024
"""Number of bytes a watcher may lag behind before it is disconnected."""

PAUSE: Final = 0.002
"""Seconds between two batches to one watcher while changes keep coming."""

GRACE: Final = 5.0
"""Seconds that what is left may take to be read when the time of a watch is over."""

HEADERS: Final = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}


MOST_UNCONVERTED: Final = 10_000
"""Changes that may wait for a conversion webhook before a watch is ended."""

Convert = Callable[[Sequence[Json]], Awaitable[Sequence[Json]]]


class ConvertedChanges:
    """Passes changes on to a watch, in their order, after their objects have been converted by a webhook.

    A watch whose objects cannot be converted ends: its client watches again.
    """

    def __init__(self, watch: "WatchResponse", convert: Convert) -> None:
        self._watch = watch
        self._convert = convert
        self._waiting: deque[StoreChange] = deque()
        self._task: asyncio.Task[None] | None = None

    def send(self, change: StoreChange) -> None:
        self._waiting.append(change)
        if len(self._waiting) > MOST_UNCONVERTED:
            self._waiting.clear()
            self._watch.end()
        elif self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._pass_on())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _pass_on(self) -> None:
        try:
            while self._waiting:
                some = list(self._waiting)
                for change in await self.converted(some):
                    self._waiting.popleft()
                    self._watch.send(change)
        except ApiError:
            self._watch.end()
        finally:
            self._task = None

    async def converted(self, changes: Sequence[StoreChange]) -> list[StoreChange]:
        """Changes with their objects converted. Raises `ApiError`."""
        made = iter(await self._convert([one.object for one in changes if one.type != BOOKMARK]))
        return [
            one if one.type == BOOKMARK else StoreChange(one.type, one.version, next(made), one.previous)
            for one in changes
        ]


class WatchResponse:
    """One watch of one connection. `send` is its sink; `serve` writes until the time is over.

    A client that reads more slowly than things change is disconnected rather than waited for, as
    kube-apiserver does: it resumes from what it saw last. kube-apiserver counts events (10 to 1,000); here
    bytes count, until they are with the transport, which gets a slice at a time. Events that wait are shared
    with the other watchers of their form. `kept` waits until every change is durable: no client sees one
    before.
    """

    def __init__(
        self, view: ResponseView, kept: Callable[[], Awaitable[None]], limit: int = BUFFER_LIMIT
    ) -> None:
        self._view = view
        self._kept = kept
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._begins = True
        self._wake: asyncio.Future[None] | None = None
        self._ended = False
        self._transport: asyncio.Transport | None = None
        self.cut_off = False

    @property
    def unread(self) -> int:
        """Bytes of events that the transport has not got yet."""
        return self._size

    def send(self, change: StoreChange) -> None:
        if self._ended:
            return
        line = self._line(change)
        self._waiting.append(line)
        self._size += len(line)
        if self._size > self._limit:
            self.cut_off = True
            self._waiting.clear()
            self._size = 0
            self._ended = True
            self._abort()
        self._notify()

    def end(self) -> None:
        """Write what is waiting, and no more."""
        self._ended = True
        self._notify()

    async def serve(
        self, request: web.BaseRequest, backlog: list[StoreChange], deadline: float
    ) -> web.StreamResponse:
        """Write all past and future changes, until `deadline` on the loop's clock.

        A client that disconnects, in any way, is not written to any more; that is no error of the server.
        """
        self._begins = not backlog
        response = web.StreamResponse(headers=HEADERS)
        response.enable_chunked_encoding()
        await response.prepare(request)
        limit_buffer(request)
        self._transport = request.transport
        if self.cut_off:
            self._abort()
        loop = asyncio.get_running_loop()
        timers = (loop.call_at(deadline, self.end), loop.call_at(deadline + GRACE, self._abort))
        try:
            lines = (self._view.line(change, begins=not place) for place, change in enumerate(backlog))
            for piece in slices(lines):
                await response.write(piece)
            while await self._has_lines():
                count = len(self._waiting)
                await self._kept()
                for piece in slices(self._taken(count)):
                    await response.write(piece)
                if not self._ended:
                    await asyncio.sleep(PAUSE)
            if not self.cut_off:
                await response.write_eof()
        except ConnectionResetError:
            self._abort()
        finally:
            self._ended = True
            self._waiting.clear()
            for timer in timers:
                timer.cancel()
        return response

    def _line(self, change: StoreChange) -> bytes:
        line = self._view.line(change, begins=self._begins)
        self._begins = False
        return line

    def _taken(self, count: int) -> Iterator[bytes]:
        """The next events that wait, each no longer waiting when it is taken."""
        for _ in range(count):
            if not self._waiting:
                return
            line = self._waiting.popleft()
            self._size -= len(line)
            yield line

    def _abort(self) -> None:
        """End the connection itself: a client that does not read would not notice anything less."""
        if self._transport is not None:
            self._transport.abort()

    async def _has_lines(self) -> bool:
        """Wait for something to write; False when nothing will come any more."""
        while not self._waiting and not self._ended:
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None
        return bool(self._waiting)

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
