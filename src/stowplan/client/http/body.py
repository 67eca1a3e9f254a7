"""The body of an answer that is taken while it comes, as that of a long list."""

import asyncio
from collections import deque
from typing import Final

from stowplan.client.http.connection import Connection, LostError

_PAUSE_ABOVE: Final = 8 * 1024 * 1024
"""Bytes that may wait here before reading is paused."""

_RESUME_BELOW: Final = _PAUSE_ABOVE // 2


class Body:
    """Pieces are put in on arrival and taken out on request.

    A slow reader slows the server down.

    If the response breaks off, the request may be sent again, and the body starts over, as long as nothing of
    it has been passed on (`is_given`).
    """

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._connection: Connection | None = None
        self._patience = 0.0
        self._paused = False
        self._is_over = False
        self._begins_anew = False
        self._stirred = asyncio.Event()
        self._completed: asyncio.Future[None] | None = None
        self.size = 0
        """Bytes that have come."""
        self.is_given = False

    async def next(self) -> bytes | None:
        """The next piece, b"" after the last, None if the body begins anew."""
        while not self._pieces and not self._is_over and not self._begins_anew:
            self._stirred.clear()
            await self._stirred.wait()
        if self._begins_anew:
            self._begins_anew = False
            return None
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        self._waiting -= len(piece)
        if self._paused and self._waiting < _RESUME_BELOW and self._connection is not None:
            self._paused = False
            self._connection.resume()
        return piece

    def asked(self, request: "asyncio.Task[object]") -> None:
        """The request is over, well or not."""
        self._is_over = True
        self._stirred.set()

    def begin_anew(self) -> bool:
        """The answer broke off: whether it may be asked for again."""
        if self.is_given:
            return False
        if self.size:
            self._pieces.clear()
            self._waiting = self.size = 0
            self._begins_anew = True
            self._stirred.set()
        return True

    # Calls from the pool and the connection

    def comes_from(self, connection: Connection, patience: float) -> None:
        """The connection it comes over, and for how many seconds that may be silent."""
        self._connection = connection
        self._patience = patience
        self._paused = False
        self._completed = asyncio.get_running_loop().create_future()

    async def complete(self) -> None:
        """Wait until all of it has come. Raises LostError."""
        assert self._completed is not None
        await self._completed

    def feed(self, piece: bytes) -> None:
        if not piece:
            return
        self._pieces.append(piece)
        self.size += len(piece)
        self._waiting += len(piece)
        connection = self._connection
        if connection is not None:
            connection.deadline = connection.heard + self._patience
            if self._waiting > _PAUSE_ABOVE and not self._paused:
                self._paused = True
                connection.pause()
        self._stirred.set()

    def end(self, problem: str) -> None:
        completed = self._completed
        if completed is None or completed.done():
            return
        if problem:
            completed.set_exception(LostError(problem, answered=True))
        else:
            completed.set_result(None)
