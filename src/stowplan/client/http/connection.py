"""HTTP/1.1 on one kept connection: one request at a time, answers taken apart as they come in."""

import asyncio
import re
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, cast

from stowplan.client.http import hpack
from stowplan.client.http.requests import Message

LONGEST_HEAD: Final = 64 * 1024
LARGEST_OBJECT: Final = 10 * 1024 * 1024
"""Bytes of one object: an item of a list, a line of a watch, or an answer that is no list.

etcd takes 1.5 MiB by default. Written as JSON a byte may become six (`\\u003c`): 9 MiB.
"""
_MOST_INTERIM: Final = 5
"""Interim answers (1xx) to one request."""
IDLE_SECONDS: Final = 30.0
"""Servers and what stands before them close what is idle, but hardly so soon: we are first."""

_LONGEST_CHUNK_LINE: Final = 256
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: |$|\r)")
_FIELDS: Final = re.compile(rb"(?:\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]++:[^\r\n\0]*+)*+")
"""Header fields. Readers disagree on what any other line means, and on where the head with it ends."""
_LENGTH: Final = b"\r\ncontent-length:"
_ENCODING: Final = b"\r\ntransfer-encoding:"
_CONNECTION: Final = b"\r\nconnection:"
_RETRY_AFTER: Final = b"\r\nretry-after:"
_LINE_ENDS: Final = (b"\r\n", b"\r", b"\n")
_HEXADECIMAL: Final = frozenset(b"0123456789abcdefABCDEF")
_PLAIN_CHUNK_LINE: Final = re.compile(rb"([0-9a-fA-F]{1,15})\r\n")
"""The usual beginning of a chunk: without extensions and without unusual spelling."""


class MalformedError(ValueError):
    """The data received is not HTTP."""


class TooLargeError(MalformedError):
    """Something larger than any object was received."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} has more than {LARGEST_OBJECT >> 20} MiB, the limit of one object")


class Head(NamedTuple):
    """Relevant parts of an answer's head. Without `length` and chunks the answer ends with the connection."""

    status: int
    length: int | None
    chunked: bool
    closes: bool
    retry_after: float | None
    text: bytes = b""


def parse_head(text: bytes) -> Head:
    """Read a status line and the few header fields that matter. Raises MalformedError."""
    found = _STATUS.match(text)
    if found is None:
        raise MalformedError(f"malformed HTTP response {text[:40].decode('latin-1')!r}")
    if _FIELDS.fullmatch(text, text.find(b"\r\n") if b"\r\n" in text else len(text)) is None:
        raise MalformedError("malformed HTTP response: a malformed header")
    status = int(found[2])
    lowered = text.lower()
    length: int | None = None
    given = _only_field(lowered, _LENGTH)
    if given is not None:
        if not given.isdigit() or len(given) > 18:
            raise MalformedError(f"malformed Content-Length {given[:40].decode('latin-1')!r}")
        length = int(given)
    encoding = _only_field(lowered, _ENCODING)
    if encoding is not None and encoding != b"chunked":
        raise MalformedError(f"unsupported transfer encoding {encoding[:40].decode('latin-1')!r}")
    connection = _field(lowered, _CONNECTION)
    closes = b"close" in connection if connection is not None else found[1] == b"0"
    # The chunks count. Reading the length instead would take a different part as the next answer.
    closes = closes or (length is not None and encoding is not None)
    if status == 204 or status == 304:
        length, encoding = 0, None
    retry_after = retry_after_of(_field(lowered, _RETRY_AFTER)) if status >= 400 else None
    return Head(status, length, encoding is not None, closes, retry_after, text)


def retry_after_of(value: bytes | None) -> float | None:
    """Seconds to wait; None for none, and for a date."""
    return float(value) if value is not None and value.isdigit() and len(value) < 8 else None


def _field(lowered: bytes, name: bytes) -> bytes | None:
    at = lowered.find(name)
    if at < 0:
        return None
    begin = at + len(name)
    end = lowered.find(b"\r\n", begin)
    return lowered[begin : end if end >= 0 else len(lowered)].strip()


def _only_field(lowered: bytes, name: bytes) -> bytes | None:
    """A field that says where an answer ends: it may be repeated, but not say two things."""
    first = _field(lowered, name)
    if first is not None and lowered.count(name) > 1:
        others = (_field(name + rest, name) for rest in lowered.split(name)[2:])
        if any(other != first for other in others):
            what = name.strip(b"\r\n:").decode("latin-1")
            raise MalformedError(f"malformed HTTP response: {what} given twice")
    return first


class Chunks:
    """Decodes chunks as they arrive, cut at any place."""

    __slots__ = ("_in_trailer", "_left", "_rest", "ended")

    def __init__(self) -> None:
        self._rest = b""
        self._left = 0
        """Bytes of the present chunk that are to come, with the line end after it."""
        self._in_trailer = False
        self.ended = False

    def feed(self, data: bytes) -> bytes:
        """The content of what came; sets `ended` at the last chunk. Raises MalformedError."""
        if self._rest:
            data = self._rest + data
            self._rest = b""
        view = memoryview(data)
        pieces: list[memoryview] = []
        at, size = 0, len(data)
        while at < size and not self.ended:
            if self._left:
                at = self._take(view, at, pieces)
                continue
            if not self._in_trailer:
                at = _whole_chunks(data, view, at, pieces)
            end = data.find(b"\n", at)
            if end < 0:
                if size - at > _LONGEST_CHUNK_LINE:
                    raise MalformedError("malformed chunked encoding")
                self._rest = data[at:]
                break
            line = data[at:end].rstrip(b"\r")
            at = end + 1
            if self._in_trailer:
                self.ended = not line
            else:
                self._begin(line)
        if self.ended and at < size:
            raise MalformedError("unexpected data after an answer")
        return b"".join(pieces)

    def _begin(self, line: bytes) -> None:
        digits = line.partition(b";")[0].strip()
        if not digits or len(digits) > 15 or not _HEXADECIMAL.issuperset(digits):
            raise MalformedError("malformed chunked encoding")
        length = int(digits, 16)
        if length:
            self._left = length + 2
        else:
            self._in_trailer = True

    def _take(self, data: memoryview, at: int, pieces: list[memoryview]) -> int:
        """Take what is there of the present chunk; gives the place behind it."""
        there = min(self._left, len(data) - at)
        content = min(there, self._left - 2)
        if content > 0:
            pieces.append(data[at : at + content])
        ending = bytes(data[at + max(content, 0) : at + there])
        if ending and ending not in _LINE_ENDS:
            raise MalformedError("malformed chunked encoding")
        self._left -= there
        return at + there


def _whole_chunks(data: bytes, view: memoryview, at: int, pieces: list[memoryview]) -> int:
    """Take the chunks that are complete, and plain; returns the place after them.

    A server that streams a list may send each object as a separate chunk.
    """
    size, begins = len(data), _PLAIN_CHUNK_LINE.match
    while (line := begins(data, at)) is not None:
        begin = line.end()
        end = begin + int(line[1], 16)
        if end == begin or end + 2 > size or data[end : end + 2] != b"\r\n":
            break
        pieces.append(view[begin:end])
        at = end + 2
    return at


_INTERIM: Final = 200
"""Answers below this one are followed by another."""


GIVEN_UP: Final = "the request was given up"
OVERDUE: Final = "context deadline exceeded (no answer in time)"
SILENT: Final = "the connection was silent while the server could not be reached"
"""Error of a connection, or an attempt to make one, that is given up because the server is back."""


class HttpAnswer(NamedTuple):
    """A server's answer. The body of a stream is delivered separately.

    The body is kept in the pieces that came: joining a large one would block the event loop.
    """

    status: int
    pieces: Sequence[bytes]
    retry_after: float | None
    head: bytes = b""
    is_block: bool = False
    """True if the head is a header block of HTTP/2."""

    @property
    def date(self) -> bytes | None:
        """The header field Date: the clock of the server."""
        if self.is_block:
            return hpack.value_of(self.head, b"date")
        return _field(self.head.lower(), b"\r\ndate:")

    @property
    def body(self) -> bytes:
        pieces = self.pieces
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return sum(map(len, self.pieces))


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


class HttpStream(Protocol):
    """Receiver of the body of an answer while it arrives."""

    def feed(self, piece: bytes) -> None: ...

    def end(self, problem: str) -> None:
        """Nothing more comes; "" if the server ended it as it should."""
        ...


class Link(Protocol):
    """The part of a transport that a connection uses."""

    def write(self, data: bytes, /) -> None: ...

    def is_closing(self) -> bool: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _Part(Enum):
    """Next expected part of an answer."""

    NOTHING = auto()
    HEAD = auto()
    COUNTED = auto()
    CHUNKED = auto()
    UNTIL_CLOSED = auto()


class Connection(asyncio.Protocol):
    """A connection whose far end has been reached. `lost` is called when it ends, for any reason."""

    def __init__(self, lost: Callable[["Connection"], None]) -> None:
        self._lost = lost
        self._now = asyncio.get_running_loop().time
        self._transport: Link | None = None
        self._part = _Part.NOTHING
        self._answer: asyncio.Future[HttpAnswer] | None = None
        self._stream: HttpStream | None = None
        self._head: Head = Head(0, 0, False, False, None)
        self._begun = b""
        self._pieces: list[bytes] = []
        self._missing = 0
        self._held = 0
        """Bytes of the pieces that are kept."""
        self._interim = 0
        self._chunks = Chunks()
        self._answered = False
        self._served = 0
        self.deadline = float("inf")
        """Time when the wait for the answer ends, or when an unused connection is closed."""
        self.overdue = OVERDUE
        """Error to raise at that time."""
        self.made = self.heard = self._now()
        """When it was made, and when it was last heard of: made, or a byte came. By the loop's time."""
        self.is_last = False
        """True if it closes after the current answer."""

    @property
    def is_usable(self) -> bool:
        """True if another request can be sent."""
        return (
            self._part is _Part.NOTHING and self._transport is not None and not self._transport.is_closing()
        )

    def send(self, message: Message, stream: HttpStream | None = None) -> asyncio.Future[HttpAnswer]:
        """Send a request. With a stream, the body of a good answer goes there."""
        transport = self._transport
        assert transport is not None
        self._part = _Part.HEAD
        self._answered = False
        self._held = self._interim = 0
        self._stream = stream
        self._answer = answer = asyncio.get_running_loop().create_future()
        transport.write(message.text)
        return answer

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def retire(self) -> None:
        """Send nothing more over it."""
        if self._part is _Part.NOTHING:
            self.abort()
        self.is_last = True

    def sweep(self, now: float) -> None:
        """End it if it is overdue."""
        if self.deadline <= now:
            self.abort(self.overdue)

    def abort(self, problem: str = GIVEN_UP) -> None:
        """End it at once, with all requests under way."""
        transport, self._transport = self._transport, None
        self._fail(problem)
        if transport is not None:
            transport.abort()
            self._lost(self)

    # Calls from the event loop

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
            self._finish(self._pieces)
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
            self._interim += 1
            if self._interim > _MOST_INTERIM:
                raise MalformedError("too many 1xx informational responses")
            if rest:
                self._take_head(rest)
            return
        if self._stream is not None and head.status == 200 and self._answer is not None:
            self._resolve(HttpAnswer(200, (), None))
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
            self._finish([rest])
        else:
            if head.length > LARGEST_OBJECT and self._stream is None:
                raise TooLargeError("an answer")
            self._part = _Part.COUNTED
            self._missing = head.length
            self._take_counted(rest)

    def _take_counted(self, data: bytes) -> None:
        self._missing -= len(data)
        if self._missing < 0:
            raise MalformedError("unexpected data after an answer")
        self._give(data)
        if not self._missing:
            self._finish(self._pieces)

    def _take_chunks(self, data: bytes) -> None:
        content = self._chunks.feed(data)
        if content:
            self._give(content)
        if self._chunks.ended:
            self._finish(self._pieces)

    def _give(self, piece: bytes) -> None:
        if self._stream is not None:
            self._stream.feed(piece)
        else:
            self._held += len(piece)
            if self._held > LARGEST_OBJECT:
                raise TooLargeError("an answer")
            self._pieces.append(piece)

    def _finish(self, pieces: list[bytes]) -> None:
        """The answer is complete. If the connection ends with it, it closes before its owner is notified."""
        self._part = _Part.NOTHING
        self._pieces = []
        self._served += 1
        if (self._head.closes or self.is_last) and self._transport is not None:
            self._transport.close()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.end("")
        else:
            self._resolve(HttpAnswer(self._head.status, pieces, self._head.retry_after, self._head.text))

    def _resolve(self, answer: HttpAnswer) -> None:
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
