"""A watch over HTTP: lines are decoded when they are read, and a slow reader slows the server down."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from stowplan.api import status
from stowplan.api.decode import UNDECODABLE, undecodable
from stowplan.api.meta import Object
from stowplan.api.pruning import Steps
from stowplan.api.status import ApiError
from stowplan.client.http import errors
from stowplan.client.http.connection import LARGEST_OBJECT, SILENT, Connection, HttpStream, TooLargeError
from stowplan.client.http.decoder import Decoding
from stowplan.client.interface import WatchEvent
from stowplan.gocompat.quoting import quote


class WatchLines:
    """Pieces go in, whole lines come out. Only a line that lies across pieces is put together."""

    __slots__ = ("_at", "_begun", "_whole", "begun_size", "size")

    def __init__(self) -> None:
        self._whole: deque[bytes] = deque()
        """Pieces that end with the end of a line."""
        self._at = 0
        self._begun: list[bytes] = []
        """The beginning of a line whose end has not come."""
        self.begun_size = 0
        """Bytes of that."""
        self.size = 0
        """Bytes that wait."""

    def __bool__(self) -> bool:
        return bool(self._whole)

    def feed(self, piece: bytes) -> None:
        self.size += len(piece)
        end = piece.rfind(b"\n") + 1
        if not end:
            self._begun.append(piece)
            self.begun_size += len(piece)
            return
        if self._begun:
            first = piece.find(b"\n") + 1
            self._whole.append(b"".join((*self._begun, piece[:first])))
            self._begun.clear()
            if first < end:
                self._whole.append(piece[first:end])
        else:
            self._whole.append(piece if end == len(piece) else piece[:end])
        self.begun_size = len(piece) - end
        if end < len(piece):
            self._begun.append(piece[end:])

    def next(self) -> memoryview | None:
        """The next whole line, None if there is none yet. It is gone from here."""
        if not self._whole:
            return None
        piece, at = self._whole[0], self._at
        end = piece.find(b"\n", at)
        if end + 1 == len(piece):
            self._whole.popleft()
            self._at = 0
        else:
            self._at = end + 1
        self.size -= end + 1 - at
        return memoryview(piece)[at:end]

    def several(self) -> bytes | None:
        """The lines of the next piece if there are several, and all of them are still here."""
        if not self._whole or self._at:
            return None
        piece = self._whole[0]
        return None if piece.find(b"\n") + 1 == len(piece) else piece

    def drop(self) -> None:
        """Those are gone from here."""
        self.size -= len(self._whole.popleft())

    def drop_begun(self) -> None:
        """The line whose end has not come is gone from here."""
        self.size -= self.begun_size
        self.begun_size = 0
        self._begun.clear()


T = TypeVar("T", bound=Object)

PAUSE_ABOVE: Final = 8 * 1024 * 1024
"""Bytes that may wait here before reading is paused."""

_RESUME_BELOW: Final = PAUSE_ABOVE // 2

SILENCE: Final = 150.0
"""Seconds without a word after which a watch is begun anew. Most servers send a bookmark every minute; those
that do not, for lack of changes, lose nothing by it.
"""

INITIAL_SILENCE: Final = 60.0
"""The same while the server has not shown everything that exists."""

_NO_PROBLEM: Final = ""
_SLACK: Final = 60.0
"""Seconds that a server may take beyond its time to end a watch."""


class HttpWatch(Generic[T]):
    """A watch with typed objects. It begins with the first event that is read, and `aclose` ends it.

    Complete events are returned before the error of a broken connection. A connection that stays silent
    though something should come may be dead without the system knowing it, so the watch ends, as it does in
    any case when the server should have ended it after `lifetime` seconds. Its end because the server is back
    after an outage is not a failure: the reflector resumes.
    """

    def __init__(
        self,
        begin: Callable[[HttpStream], Awaitable[Connection]],
        decoding: Decoding[T],
        url: str,
        lifetime: float,
        *,
        initial_events: bool = False,
    ) -> None:
        self._begin = begin
        self._decoding = decoding
        self._url = url
        self._lifetime = lifetime + _SLACK
        self._ends = float("inf")
        self._silence = INITIAL_SILENCE if initial_events else SILENCE
        self._lines = WatchLines()
        self._connection: Connection | None = None
        self._begun = False
        self._ended = False
        self._problem = ""
        self._failure: ApiError | None = None
        self._paused = False
        self._wake: asyncio.Future[None] | None = None
        self._decoded: deque[WatchEvent[T]] = deque()
        """Events of lines that came together and were decoded together."""
        self._odd: Steps[WatchEvent[T]] | None = None
        """The reading of a line that cannot be decoded as it is."""

    def __aiter__(self) -> "HttpWatch[T]":
        return self

    async def __anext__(self) -> WatchEvent[T]:
        if not self._begun:
            self._begun = True
            if not self._ended:
                self._connection = connection = await self._begin(self)
                self._ends = asyncio.get_running_loop().time() + self._lifetime
                connection.overdue = _NO_PROBLEM
                self._expect_more(connection)
        while True:
            event = None if self._failure is not None else self._next()
            if self._odd is not None:
                event = await self._read_odd(self._odd)
            if event is not None:
                return event
            if self._failure is not None:
                await self.aclose()
                raise self._failure
            if self._ended:
                if self._problem:
                    raise errors.unreachable("GET", self._url, self._problem)
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None

    def ready(self, limit: int) -> Sequence[WatchEvent[T]]:
        """At most `limit` events that have arrived already."""
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

    # Calls from the connection

    def feed(self, piece: bytes) -> None:
        if self._ended:
            return
        self._lines.feed(piece)
        connection = self._connection
        if self._lines.begun_size > LARGEST_OBJECT:
            self._lines.drop_begun()
            self.end(str(TooLargeError("a line of a watch")))
            if connection is not None:
                connection.abort()
            return
        if connection is not None:
            if self._lines.size > PAUSE_ABOVE and self._lines and not self._paused:
                self._paused = True
                connection.pause()
            self._expect_more(connection)
        self._stir()

    def end(self, problem: str) -> None:
        if not self._ended:
            self._ended = True
            self._problem = "" if problem == SILENT else problem
        self._stir()

    def _expect_more(self, connection: Connection) -> None:
        """The time by which something has to come, or the watch has to end."""
        connection.deadline = min(self._ends, connection.heard + self._silence)

    def _stir(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _resume(self) -> None:
        """Read on if there is room again."""
        if self._paused and self._lines.size < _RESUME_BELOW and self._connection is not None:
            self._paused = False
            self._connection.resume()

    def _next(self) -> WatchEvent[T] | None:
        """The next event if its line has arrived.

        A failure is kept for the next read, and so is a line that has to be read in steps.
        """
        if self._odd is not None:
            return None
        if self._decoded:
            return self._decoded.popleft()
        several = self._lines.several()
        if several is not None:
            events = self._decoding.events(several)
            if events:
                self._lines.drop()
                self._resume()
                self._decoded.extend(events)
                return self._decoded.popleft()
        line = self._lines.next()
        while line is not None and not line:
            line = self._lines.next()
        if line is None:
            return None
        self._resume()
        try:
            event = self._decoding.event(line)
        except ApiError as error:
            self._failure = error
            return None
        if event is None:
            self._odd = self._decoding.reading(bytes(line))
        elif event.synced:
            self._synced()
        return event

    async def _read_odd(self, steps: Steps[WatchEvent[T]]) -> WatchEvent[T] | None:
        """Read a line in steps, between which others get a turn. None if that fails."""
        try:
            while True:
                next(steps)
                await asyncio.sleep(0)
        except StopIteration as end:
            event: WatchEvent[T] = end.value
            if event.synced:
                self._synced()
            return event
        except ApiError as error:
            self._failure = error
        except UNDECODABLE as error:
            # A resumed watch would get the same line again. A list has the object.
            problem = f"the answer cannot be read: {undecodable(error)}"
            self._failure = status.unresumable(f"Get {quote(self._url)}: {problem}")
        finally:
            self._odd = None
        return None

    def _synced(self) -> None:
        """Everything that existed has been shown; from now on changes come, and less often."""
        self._silence = SILENCE
        if self._connection is not None:
            self._expect_more(self._connection)
