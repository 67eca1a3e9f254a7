"""A watch over HTTP: lines are decoded when they are asked for, and a slow reader slows the server down."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from stowplan.api.meta import Object
from stowplan.api.status import ApiError
from stowplan.client.http import failures
from stowplan.client.http.connection import Connection, Stream
from stowplan.client.http.decoding import Decoding
from stowplan.client.http.lines import Lines
from stowplan.client.interface import WatchEvent

T = TypeVar("T", bound=Object)

PAUSE_ABOVE: Final = 8 * 1024 * 1024
"""Bytes that may wait here before reading is paused."""

_RESUME_BELOW: Final = PAUSE_ABOVE // 2


class HttpWatch(Generic[T]):
    """A watch with typed objects. It begins when it is first asked for an event, and `aclose` ends it.

    What has come completely is given out before it is told that the connection broke.
    """

    def __init__(
        self, begin: Callable[[Stream], Awaitable[Connection]], decoding: Decoding[T], url: str
    ) -> None:
        self._begin = begin
        self._decoding = decoding
        self._url = url
        self._lines = Lines()
        self._connection: Connection | None = None
        self._begun = False
        self._ended = False
        self._problem = ""
        self._failure: ApiError | None = None
        self._paused = False
        self._wake: asyncio.Future[None] | None = None

    def __aiter__(self) -> "HttpWatch[T]":
        return self

    async def __anext__(self) -> WatchEvent[T]:
        if not self._begun:
            self._begun = True
            if not self._ended:
                self._connection = await self._begin(self)
        while True:
            event = None if self._failure is not None else self._next()
            if event is not None:
                return event
            if self._failure is not None:
                await self.aclose()
                raise self._failure
            if self._ended:
                if self._problem:
                    raise failures.unreachable("GET", self._url, self._problem)
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None

    def ready(self, limit: int) -> Sequence[WatchEvent[T]]:
        """Events that have come already, at most so many."""
        events: list[WatchEvent[T]] = []
        while len(events) < limit and self._failure is None:
            event = self._next()
            if event is None:
                break
            events.append(event)
        return events

    async def aclose(self) -> None:
        self._ended = True
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    # What the connection tells

    def feed(self, piece: bytes) -> None:
        self._lines.feed(piece)
        if (
            self._lines.size > PAUSE_ABOVE
            and self._lines
            and not self._paused
            and self._connection is not None
        ):
            self._paused = True
            self._connection.pause()
        self._stir()

    def end(self, problem: str) -> None:
        if not self._ended:
            self._ended = True
            self._problem = problem
        self._stir()

    def _stir(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _next(self) -> WatchEvent[T] | None:
        """The next event if its line has come; a failure is kept for whoever waits next."""
        line = self._lines.next()
        while line is not None and not line:
            line = self._lines.next()
        if line is None:
            return None
        if self._paused and self._lines.size < _RESUME_BELOW and self._connection is not None:
            self._paused = False
            self._connection.resume()
        try:
            return self._decoding.event(line)
        except ApiError as error:
            self._failure = error
        except msgspec.MsgspecError as error:
            self._failure = failures.unreadable("GET", self._url, error)
        return None
