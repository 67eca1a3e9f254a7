"""One kept connection to a server: one request at a time, answers taken apart as they come in."""

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, cast

from stowplan.client.http.wire import LONGEST_HEAD, Chunks, Head, MalformedError, parse_head

_INTERIM: Final = 200
"""Answers below this one are followed by another."""


class Answer(NamedTuple):
    """What a server answered. The body of a stream comes elsewhere."""

    status: int
    body: bytes
    retry_after: float | None


class LostError(Exception):
    """A connection that broke before the answer was complete.

    `answered`: something of the answer had come. `reused`: the connection had served before, so the server
    may have closed it just when the request was sent.
    """

    def __init__(self, problem: str, *, answered: bool = False, reused: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.answered = answered
        self.reused = reused


class Stream(Protocol):
    """Who takes the body of an answer while it comes."""

    def feed(self, piece: bytes) -> None: ...

    def end(self, problem: str) -> None:
        """Nothing more comes; "" if the server ended it as it should."""
        ...


class Link(Protocol):
    """What a connection needs of a transport."""

    def write(self, data: bytes, /) -> None: ...

    def is_closing(self) -> bool: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _Part(Enum):
    """What is expected next of an answer."""

    NOTHING = auto()
    HEAD = auto()
    COUNTED = auto()
    CHUNKED = auto()
    UNTIL_CLOSED = auto()


class Connection(asyncio.Protocol):
    """A connection whose far end has been reached. `lost` is told when it ends, for whatever reason."""

    def __init__(self, lost: Callable[["Connection"], None]) -> None:
        self._lost = lost
        self._now = asyncio.get_running_loop().time
        self._transport: Link | None = None
        self._part = _Part.NOTHING
        self._answer: asyncio.Future[Answer] | None = None
        self._stream: Stream | None = None
        self._head: Head = Head(0, 0, False, False, None)
        self._begun = b""
        self._pieces: list[bytes] = []
        self._missing = 0
        self._chunks = Chunks()
        self._answered = False
        self._served = 0
        self.deadline = float("inf")
        """When whoever waits for the answer has waited long enough, or nobody needs the connection."""
        self.overdue = "context deadline exceeded (no answer in time)"
        """What went wrong if that time comes."""
        self.heard = self._now()
        """When the last byte came, by the loop's time."""
        self.is_last = False
        """Whether it closes after the answer that is under way."""

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent."""
        return (
            self._part is _Part.NOTHING and self._transport is not None and not self._transport.is_closing()
        )

    def send(self, message: bytes, stream: Stream | None = None) -> asyncio.Future[Answer]:
        """Send a request. With a stream, the body of a good answer goes there."""
        transport = self._transport
        assert transport is not None
        self._part = _Part.HEAD
        self._answered = False
        self._stream = stream
        self._answer = answer = asyncio.get_running_loop().create_future()
        transport.write(message)
        return answer

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self, problem: str = "the request was given up", *, is_stream_over: bool = False) -> None:
        """End it at once, whatever is under way. For a stream that may be the end, or a problem."""
        transport, self._transport = self._transport, None
        if is_stream_over and self._stream is not None and self._answer is None:
            stream, self._stream = self._stream, None
            stream.end("")
        self._fail(problem)
        if transport is not None:
            transport.abort()
            self._lost(self)

    # What the event loop tells

    def connection_made(self, transport: asyncio.BaseTransport | Link) -> None:
        self._transport = cast(Link, transport)

    def data_received(self, data: bytes) -> None:
        self.heard = self._now()
        try:
            if self._part is _Part.HEAD:
                self._take_head(data)
            elif self._part is _Part.COUNTED:
                self._take_counted(data)
            elif self._part is _Part.CHUNKED:
                self._take_chunks(data)
            elif self._part is _Part.UNTIL_CLOSED:
                self._give(data)
            else:
                self.abort()
        except MalformedError as error:
            self.abort(str(error))

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._part is _Part.UNTIL_CLOSED and exc is None:
            self._finish(b"".join(self._pieces))
        else:
            problem = "EOF" if exc is None else str(exc) or type(exc).__name__
            self._fail("unexpected EOF" if exc is None and self._answered else problem)
        if self._transport is not None:
            self._transport = None
            self._lost(self)

    # Taking an answer apart

    def _take_head(self, data: bytes) -> None:
        self._answered = True
        if self._begun:
            data = self._begun + data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if len(data) > LONGEST_HEAD or not b"HTTP/1.".startswith(data[:7]):
                raise MalformedError(f"malformed HTTP response {data[:40].decode('latin-1')!r}")
            self._begun = data
            return
        self._begun = b""
        self._head = head = parse_head(data[:end])
        rest = data[end + 4 :]
        if head.status < _INTERIM:
            if rest:
                self._take_head(rest)
            return
        if self._stream is not None and head.status == 200 and self._answer is not None:
            self._resolve(Answer(200, b"", None))
        elif self._stream is not None:
            self._stream = None
        if head.chunked:
            self._part = _Part.CHUNKED
            self._chunks = Chunks()
            if rest:
                self._take_chunks(rest)
        elif head.length is None:
            self._part = _Part.UNTIL_CLOSED
            if rest:
                self._give(rest)
        elif head.length == len(rest) and self._stream is None:
            self._finish(rest)
        else:
            self._part = _Part.COUNTED
            self._missing = head.length
            self._take_counted(rest)

    def _take_counted(self, data: bytes) -> None:
        self._missing -= len(data)
        if self._missing < 0:
            raise MalformedError("unexpected data after an answer")
        self._give(data)
        if not self._missing:
            self._finish(b"".join(self._pieces))

    def _take_chunks(self, data: bytes) -> None:
        for piece in self._chunks.feed(data):
            self._give(piece)
        if self._chunks.ended:
            self._finish(b"".join(self._pieces))

    def _give(self, piece: bytes) -> None:
        if self._stream is not None:
            self._stream.feed(piece)
        else:
            self._pieces.append(piece)

    def _finish(self, body: bytes) -> None:
        """The answer is complete. A connection that ends with it closes before its owner is told."""
        self._part = _Part.NOTHING
        self._pieces.clear()
        self._served += 1
        if (self._head.closes or self.is_last) and self._transport is not None:
            self._transport.close()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.end("")
        else:
            self._resolve(Answer(self._head.status, body, self._head.retry_after))

    def _resolve(self, answer: Answer) -> None:
        waiting, self._answer = self._answer, None
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _fail(self, problem: str) -> None:
        self._part = _Part.NOTHING
        self._pieces.clear()
        stream, self._stream = self._stream, None
        waiting, self._answer = self._answer, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(LostError(problem, answered=self._answered, reused=self._served > 0))
        elif stream is not None:
            stream.end(problem)
