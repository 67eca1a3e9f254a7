"""Watches over HTTP: each event is encoded once and written in batches, and a watcher's buffer is limited."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from stowplan.embedded.apiserver.responses import View
from stowplan.embedded.store import Change

BUFFER_LIMIT: Final = 16 * 1024 * 1024
"""How many bytes a watcher may lag behind before it is cut off."""

BATCH: Final = 512 * 1024
"""About how many bytes of what existed at the beginning are made at once."""

PAUSE: Final = 0.002
"""Seconds between two batches to one watcher while changes keep coming."""

GRACE: Final = 5.0
"""Seconds that what is left may take to be read when the time of a watch is over."""

HEADERS: Final = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}


class HttpWatch:
    """One watch of one connection. `send` is its sink; `serve` writes until the time is over.

    Who reads slower than things change is cut off rather than waited for: the connection is torn down, and
    its owner resumes from what it saw last. `settled` waits until every change is durable: before that
    no client sees it.
    """

    def __init__(
        self, view: View, settled: Callable[[], Awaitable[object]], limit: int = BUFFER_LIMIT
    ) -> None:
        self._view = view
        self._settled = settled
        self._limit = limit
        self._waiting: list[bytes] = []
        self._size = 0
        self._wake: asyncio.Future[None] | None = None
        self._ended = False
        self._transport: asyncio.Transport | None = None
        self.cut_off = False

    def send(self, change: Change) -> None:
        if self._ended:
            return
        line = self._view.line(change)
        self._waiting.append(line)
        self._size += len(line)
        if self._size > self._limit:
            self.cut_off = True
            self._waiting.clear()
            self._ended = True
            self._abort()
        self._notify()

    def end(self) -> None:
        """Write what is waiting, and no more."""
        self._ended = True
        self._notify()

    async def serve(
        self, request: web.BaseRequest, backlog: list[Change], deadline: float
    ) -> web.StreamResponse:
        """Write everything there was and everything that comes, until `deadline` on the loop's clock.

        Whoever has left, in whatever way, is not written to any more; that is no fault of the server.
        """
        response = web.StreamResponse(headers=HEADERS)
        response.enable_chunked_encoding()
        await response.prepare(request)
        self._transport = request.transport
        if self.cut_off:
            self._abort()
        loop = asyncio.get_running_loop()
        timers = (loop.call_at(deadline, self.end), loop.call_at(deadline + GRACE, self._abort))
        try:
            await self._settled()
            await self._write_backlog(response, backlog)
            while await self._has_lines():
                chunk = b"".join(self._waiting)
                self._waiting.clear()
                self._size = 0
                await self._settled()
                await response.write(chunk)
                if not self._ended:
                    await asyncio.sleep(PAUSE)
            if not self.cut_off:
                await response.write_eof()
        except ConnectionResetError:
            self._abort()
        finally:
            self._ended = True
            for timer in timers:
                timer.cancel()
        return response

    def _abort(self) -> None:
        """End the connection itself: whoever does not read would not notice anything less."""
        if self._transport is not None:
            self._transport.abort()

    async def _write_backlog(self, response: web.StreamResponse, backlog: list[Change]) -> None:
        lines: list[bytes] = []
        size = 0
        for change in backlog:
            line = self._view.line(change)
            lines.append(line)
            size += len(line)
            if size > BATCH:
                await response.write(b"".join(lines))
                lines.clear()
                size = 0
        if lines:
            await response.write(b"".join(lines))

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
