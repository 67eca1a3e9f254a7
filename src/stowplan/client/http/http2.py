"""HTTP/2 on one kept connection (RFC 9113): many requests at a time, written together.

Everything sent in one turn of the event loop goes out in one write, and answers that arrived together are one
read: with many small requests the system calls, not the bytes, are the cost of a client.
"""

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

from stowplan.client.http import hpack
from stowplan.client.http.connection import (
    GIVEN_UP,
    IDLE_SECONDS,
    LARGEST_OBJECT,
    LONGEST_HEAD,
    OVERDUE,
    HttpAnswer,
    Link,
    LostError,
    MalformedError,
    TooLargeError,
    retry_after_of,
)
from stowplan.client.http.requests import Message

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD: Final = Struct(">IBI")
"""The head of a frame: its length and type, flags, the stream."""
_SETTING: Final = Struct(">HI")
_NUMBER: Final = Struct(">I")

# Types of frames, flags, settings and codes of errors
_DATA, _HEADERS, _PRIORITY, _RST_STREAM, _SETTINGS = 0, 1, 2, 3, 4
_PUSH_PROMISE, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = 5, 6, 7, 8, 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _WITH_PRIORITY = 1, 1, 4, 8, 32
_HEADER_TABLE_SIZE, _ENABLE_PUSH, _MAX_CONCURRENT_STREAMS = 1, 2, 3
_INITIAL_WINDOW_SIZE, _MAX_FRAME_SIZE, _MAX_HEADER_LIST_SIZE = 4, 5, 6
_PROTOCOL_ERROR, _FLOW_CONTROL_ERROR, _FRAME_SIZE_ERROR = 1, 3, 6
_REFUSED_STREAM, _CANCEL, _COMPRESSION_ERROR, _ENHANCE_YOUR_CALM = 7, 8, 9, 11

_CODES: Final = (
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
)

_FRAME: Final = 16_384
"""Bytes of a frame, until the other side allows more. We do not: a piece of TLS is no larger."""

_DEFAULT_WINDOW: Final = 65_535
_LARGEST_WINDOW: Final = (1 << 31) - 1
_WINDOW: Final = 1 << 30
"""Bytes the server may send unasked. Every caller reads its whole answer, so nothing is held back."""

_MOST_STREAMS: Final = 1_000
"""Requests at a time if the server does not say how many it takes."""
_FEW: Final = 2
"""With so few requests under way, one is sent at once: waiting for others would cost a turn."""
_LAST_STREAM: Final = (1 << 31) - 1
_MOST_PIECES: Final = 64
"""Frames of one header block."""
_MOST_RESPONSES: Final = 10_000
"""Number of frames that we answer for the server before it reads our writes."""
_SMALL: Final = 64
"""Bytes of a body below which a frame is worth less than the work of taking it apart."""
_MOST_IDLE_FRAMES: Final = 10_000
"""Frames without content for any request that may come between two answers.

PING, SETTINGS, WINDOW_UPDATE, PRIORITY, interim answers, empty or tiny pieces of bodies, frames of streams
that have ended: a server that behaves sends a few of them with each answer.
"""


def _opening() -> bytes:
    """Connection preface of a client: settings, and its window for the connection as a whole."""
    settings = b"".join(
        _SETTING.pack(*one)
        for one in (
            (_HEADER_TABLE_SIZE, 0),
            (_ENABLE_PUSH, 0),
            (_INITIAL_WINDOW_SIZE, _WINDOW),
            (_MAX_HEADER_LIST_SIZE, LONGEST_HEAD),
        )
    )
    window = _frame(_WINDOW_UPDATE, 0, 0, _NUMBER.pack(_WINDOW - _DEFAULT_WINDOW))
    return _PREFACE + _frame(_SETTINGS, 0, 0, settings) + window


def _frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return _HEAD.pack(len(content) << 8 | kind, flags, stream) + content


_OPENING: Final = _opening()


class CountedLink(Link, Protocol):
    """A link that tells how much of what was written the system has not taken."""

    @property
    def backlog(self) -> int: ...


class FramingError(MalformedError):
    """A violation of HTTP/2 that ends the connection, with the error code that the server is sent."""

    def __init__(self, problem: str, code: int = _PROTOCOL_ERROR) -> None:
        super().__init__(f"malformed HTTP/2 response: {problem}")
        self.code = code


class UnprocessedError(LostError):
    """A request that certainly was not done: it was not sent, or the server says so. It may be sent again."""


class Exchange:
    """A request and its answer."""

    __slots__ = (
        "answer",
        "answered",
        "began",
        "credit",
        "head",
        "pieces",
        "size",
        "status",
        "stream",
        "topped",
        "unsent",
    )

    def __init__(self, stream: int, answer: asyncio.Future[HttpAnswer], began: float) -> None:
        self.stream = stream
        self.answer = answer
        self.began = began
        self.status = 0
        self.head = b""
        self.pieces: list[bytes] = []
        self.size = 0
        """Bytes of these."""
        self.answered = False
        self.unsent: memoryview | None = None
        """Part of the body that the server has not accepted yet."""
        self.credit = 0
        """Bytes the server takes of that."""
        self.topped = 0
        """Bytes of the answer that the server was told of as taken."""


class Http2Connection:
    """A connection whose far end has been reached. `lost` is called when it ends, for any reason."""

    def __init__(self, lost: Callable[["Http2Connection"], None]) -> None:
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._link: CountedLink | None = None
        self._exchanges: dict[int, Exchange] = {}
        self._held: dict[int, Exchange] = {}
        """Those whose body the server did not take completely yet, in the order they came."""
        self._encoder = hpack.Encoder()
        self._next_stream = 1
        self._outgoing: list[bytes] = []
        self._unsent_from = 1
        """No stream from this one on has left this process."""
        self._rest = b""
        self._block: list[bytes] = []
        """The frames so far of a header block that is not complete."""
        self._block_stream = 0
        self._block_flags = 0
        self._settled: asyncio.Future[None] = self._loop.create_future()
        self._settled.add_done_callback(_noticed)
        self._most = _MOST_STREAMS
        self._largest = _FRAME
        self._window = _DEFAULT_WINDOW
        """Initial window of a new stream at the server."""
        self._credit = _DEFAULT_WINDOW
        """Window of the whole connection at the server."""
        self._received = 0
        self._responses = 0
        self._idle_frames = 0
        """Frames without content since the last answer."""
        self._served = 0
        self.reserved = 0
        """Number of reserved streams."""
        self.patience = float("inf")
        """Seconds for which an answer is waited."""
        self.made = self.heard = self._now()
        """When it was made, and when it was last heard of: made, or a byte came. By the loop's time."""
        self.is_last = False
        """True if it closes after the current answers."""

    async def ready(self) -> None:
        """Wait until the server has said what it takes. Raises LostError."""
        await self._settled

    @property
    def is_usable(self) -> bool:
        """True if another request can be sent."""
        return (
            self._link is not None
            and not self.is_last
            and len(self._exchanges) + self.reserved < self._most
            and not self._link.is_closing()
        )

    @property
    def load(self) -> int:
        """Requests under way, and places that are promised."""
        return len(self._exchanges) + self.reserved

    def send(self, message: Message) -> Exchange:
        """Send a request: with all others of this turn of the event loop, if there may be others."""
        stream = self._next_stream
        self._next_stream = stream + 2
        if self._next_stream > _LAST_STREAM:
            self.is_last = True
        exchange = Exchange(stream, self._loop.create_future(), self._now())
        self._exchanges[stream] = exchange
        common, path, body = message
        size = len(body)
        length = None if not size and common.may_be_empty else size
        block = self._encoder.block(common, common.path + path.encode(), length)
        outgoing = self._outgoing
        is_first = not outgoing
        ending = 0 if size else _END_STREAM
        if len(block) > self._largest:
            self._send_long(block, ending, stream)
        else:
            outgoing.append(_HEAD.pack(len(block) << 8 | _HEADERS, _END_HEADERS | ending, stream))
            outgoing.append(block)
        if not size:
            pass
        elif size <= self._credit and size <= self._window and size <= self._largest and not self._held:
            self._credit -= size
            outgoing.append(_HEAD.pack(size << 8, _END_STREAM, stream))
            outgoing.append(body)
        else:
            exchange.unsent = memoryview(body)
            exchange.credit = self._window
            self._held[stream] = exchange
            self._send_held()
        if len(self._exchanges) <= _FEW:
            self._flush()
        elif is_first:
            self._loop.call_soon(self._flush)
        return exchange

    def give_up(self, exchange: Exchange) -> None:
        """Nobody waits for an answer any more."""
        if self._exchanges.get(exchange.stream) is exchange:
            self._reset(exchange, _CANCEL)
            self._end_if_last()

    def release(self) -> None:
        """A place that was promised is taken or not needed any more."""
        self.reserved -= 1
        self._end_if_last()

    def retire(self) -> None:
        """Send nothing more over it."""
        self.is_last = True
        self._end_if_last()

    def sweep(self, now: float) -> None:
        """Give up overdue requests, and the connection if it is unused or silent."""
        overdue = [one for one in self._exchanges.values() if one.began + self.patience <= now]
        for exchange in overdue:
            self.is_last = self.is_last or self.heard < exchange.began
            self._reset(exchange, _CANCEL)
            _fail(exchange, self._loss(exchange, OVERDUE))
        if not self.load and (self.is_last or self.heard + IDLE_SECONDS <= now):
            self.abort()

    def abort(self, problem: str = GIVEN_UP) -> None:
        """End it at once, with all requests under way."""
        link, self._link = self._link, None
        self._fail_all(problem)
        if link is not None:
            link.abort()
            self._lost(self)

    # Calls from the link

    def connection_made(self, link: CountedLink, /) -> None:
        self._link = link
        self._send(_OPENING)

    def data_received(self, data: bytes, /) -> None:
        if self._link is None:
            return
        self.heard = self._now()
        if self._rest:
            data = self._rest + data
            self._rest = b""
        at, size = 0, len(data)
        exchanges = self._exchanges
        try:
            while size - at >= 9:
                first, flags, stream = _HEAD.unpack_from(data, at)
                length = first >> 8
                if length > _FRAME:
                    raise FramingError("a frame too large", _FRAME_SIZE_ERROR)
                begin = at + 9
                end = begin + length
                if end > size:
                    break
                at = end
                kind = first & 255
                stream &= _LAST_STREAM
                if kind == _DATA and stream in exchanges and not self._block:
                    if length < _SMALL:
                        self._count_idle_frame()
                    self._take_data(exchanges[stream], flags, data[begin:at])
                elif (
                    kind == _HEADERS
                    and flags & 0x2C == _END_HEADERS
                    and stream in exchanges
                    and not self._block
                ):
                    self._take_headers(stream, flags, data[begin:at])
                else:
                    self._take_other(kind, flags, stream, data[begin:at])
        except FramingError as error:
            self._refuse(str(error), error.code)
            return
        except hpack.HeaderError as error:
            self._refuse(str(error), _COMPRESSION_ERROR)
            return
        if at < size:
            self._rest = data[at:]

    def connection_lost(self, exc: Exception | None, /) -> None:
        self._fail_all("EOF" if exc is None else str(exc) or type(exc).__name__, is_end=exc is None)
        if self._link is not None:
            self._link = None
            self._lost(self)

    # Taking answers apart

    def _take_data(self, exchange: Exchange, flags: int, content: bytes) -> None:
        if not exchange.status:
            raise FramingError("a body without a head")
        size = len(content)
        if flags & _PADDED:
            content = _unpadded(content)
        if content:
            exchange.pieces.append(content)
            exchange.size += len(content)
        self._count(size)
        if exchange.size > LARGEST_OBJECT:
            self._reset(exchange, _CANCEL)
            _fail(exchange, self._loss(exchange, str(TooLargeError("an answer"))))
            self._end_if_last()
        elif flags & _END_STREAM:
            self._finish(exchange)

    def _take_headers(self, stream: int, flags: int, block: bytes) -> None:
        exchange = self._exchanges.get(stream)
        if exchange is None:
            self._check_known(stream)
            return
        exchange.answered = True
        if not exchange.status:
            status = hpack.status_of(block)
            if status >= 200:
                exchange.status = status
                exchange.head = block
            elif flags & _END_STREAM:
                raise FramingError("an interim answer without another one")
            else:
                self._count_idle_frame()
        elif not flags & _END_STREAM:
            raise FramingError("a trailer before the end")
        if flags & _END_STREAM:
            self._finish(exchange)

    def _take_other(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        """A frame that is rarer than heads and bodies of answers, or stands where another one belongs."""
        if kind != _SETTINGS and not self._settled.done():
            raise FramingError("no settings")
        self._count_idle_frame()
        if self._block and (kind != _CONTINUATION or stream != self._block_stream):
            raise FramingError("a header block that is interrupted")
        if kind == _DATA:
            self._count(len(content))
            self._check_known(stream)
        elif kind == _HEADERS:
            self._begin_block(stream, flags, content)
        elif kind == _CONTINUATION:
            self._continue_block(flags, content)
        elif kind == _SETTINGS:
            self._take_settings(flags, stream, content)
        elif kind == _PING:
            if len(content) != 8:
                raise FramingError("a malformed PING", _FRAME_SIZE_ERROR)
            if stream:
                raise FramingError("a PING of a stream")
            if not flags & _ACK:
                self._respond(_frame(_PING, _ACK, 0, content))
        elif kind == _WINDOW_UPDATE:
            self._take_window(stream, _number_in(content, 4))
        elif kind == _RST_STREAM:
            self._take_reset(stream, _number_in(content, 4))
        elif kind == _GOAWAY:
            self._take_goaway(stream, content)
        elif kind == _PUSH_PROMISE:
            raise FramingError("a push that was not allowed")

    def _begin_block(self, stream: int, flags: int, content: bytes) -> None:
        if flags & _PADDED:
            content = _unpadded(content)
        if flags & _WITH_PRIORITY:
            if len(content) < 5:
                raise FramingError("a frame too short")
            content = content[5:]
        if flags & _END_HEADERS:
            self._take_headers(stream, flags, content)
            return
        self._check_known(stream)
        self._block = [content]
        self._block_stream = stream
        self._block_flags = flags

    def _continue_block(self, flags: int, content: bytes) -> None:
        block = self._block
        if not block:
            raise FramingError("an end of a header block without a beginning")
        block.append(content)
        if len(block) > _MOST_PIECES or sum(map(len, block)) > LONGEST_HEAD:
            raise FramingError("a header block too large", _ENHANCE_YOUR_CALM)
        if flags & _END_HEADERS:
            self._block = []
            self._take_headers(self._block_stream, self._block_flags, b"".join(block))

    def _take_settings(self, flags: int, stream: int, content: bytes) -> None:
        if stream:
            raise FramingError("settings of a stream")
        if len(content) % 6 or (flags & _ACK and content):
            raise FramingError("malformed settings", _FRAME_SIZE_ERROR)
        if flags & _ACK:
            return
        window = self._window
        for name, value in _SETTING.iter_unpack(content):
            if name == _HEADER_TABLE_SIZE:
                self._encoder.resize(value)
            elif name == _MAX_CONCURRENT_STREAMS:
                self._most = max(value, 1)
            elif name == _INITIAL_WINDOW_SIZE:
                if value > _LARGEST_WINDOW:
                    raise FramingError("a window too large", _FLOW_CONTROL_ERROR)
                window = value
            elif name == _MAX_FRAME_SIZE:
                if not _FRAME <= value < 1 << 24:
                    raise FramingError("a frame size that is not allowed")
                self._largest = value
        # Once for all settings of the frame: it may have thousands, and there may be many bodies to look at.
        if window != self._window:
            for exchange in self._held.values():
                exchange.credit = _enlarged(exchange.credit, window - self._window)
            self._window = window
        self._respond(_frame(_SETTINGS, _ACK, 0))
        if not self._settled.done():
            self._settled.set_result(None)
        self._send_held()

    def _take_window(self, stream: int, more: int) -> None:
        if not more:
            raise FramingError("a window of nothing")
        if not stream:
            self._credit = _enlarged(self._credit, more)
        else:
            self._check_known(stream)
            exchange = self._held.get(stream)
            if exchange is None:
                return
            exchange.credit = _enlarged(exchange.credit, more)
        self._send_held()

    def _take_reset(self, stream: int, code: int) -> None:
        self._check_known(stream)
        exchange = self._forget(stream)
        if exchange is not None:
            problem = f"stream error: {_code(code)}; received from peer"
            if code == _REFUSED_STREAM:
                _fail(exchange, UnprocessedError(problem))
            else:
                _fail(exchange, self._loss(exchange, problem))
            self._end_if_last()

    def _take_goaway(self, stream: int, content: bytes) -> None:
        """The server takes no more requests. Those after the last one it names it has not looked at."""
        if stream:
            raise FramingError("a GOAWAY of a stream")
        last = _number_in(content[:4], 4) & _LAST_STREAM
        code = _number_in(content[4:8], 4)
        self.is_last = True
        for stream in [one for one in self._exchanges if one > last]:
            exchange = self._forget(stream)
            if exchange is not None:
                _fail(exchange, UnprocessedError(f"the server sent GOAWAY: {_code(code)}"))
        self._end_if_last()

    def _check_known(self, stream: int) -> None:
        """Frames of a stream that has ended may come for a while; no other stream can be."""
        if not stream & 1 or stream >= self._next_stream:
            raise FramingError("a stream that was not begun")

    def _count_idle_frame(self) -> None:
        """A frame brought no content: not more of them may come than a server has use for."""
        self._idle_frames += 1
        if self._idle_frames > _MOST_IDLE_FRAMES:
            raise FramingError("a flood of frames without content", _ENHANCE_YOUR_CALM)

    def _count(self, size: int) -> None:
        """So much came of bodies; now and then the server has to hear that, or it stops sending."""
        self._received += size
        if self._received < _WINDOW // 2:
            return
        self._respond(_frame(_WINDOW_UPDATE, 0, 0, _NUMBER.pack(self._received)))
        self._received = 0
        for exchange in self._exchanges.values():
            taken = exchange.size
            if taken > exchange.topped:
                more = _NUMBER.pack(taken - exchange.topped)
                self._respond(_frame(_WINDOW_UPDATE, 0, exchange.stream, more))
                exchange.topped = taken

    # The ends of exchanges

    def _finish(self, exchange: Exchange) -> None:
        # Reading the head may fail. The exchange is still under way then, and fails with all others.
        status, head = exchange.status, exchange.head
        after = retry_after_of(hpack.value_of(head, b"retry-after")) if status >= 400 else None
        self._idle_frames = 0
        if exchange.unsent is None:
            del self._exchanges[exchange.stream]
        else:
            self._reset(exchange, _CANCEL)
        self._served += 1
        self._end_if_last()
        if not exchange.answer.done():
            exchange.answer.set_result(HttpAnswer(status, exchange.pieces, after, head, True))

    def _forget(self, stream: int) -> Exchange | None:
        self._held.pop(stream, None)
        return self._exchanges.pop(stream, None)

    def _reset(self, exchange: Exchange, code: int) -> None:
        self._forget(exchange.stream)
        self._send(_frame(_RST_STREAM, 0, exchange.stream, _NUMBER.pack(code)))

    def _end_if_last(self) -> None:
        """Close a connection after its last answer, before the callers are notified."""
        if self.is_last and not self.load and self._link is not None:
            self._flush()
            self._link.close()

    def _loss(self, exchange: Exchange, problem: str) -> LostError:
        return LostError(problem, answered=exchange.answered, reused=self._served > 0)

    def _fail_all(self, problem: str, *, is_end: bool = False) -> None:
        if not self._settled.done():
            self._settled.set_exception(UnprocessedError(problem))
        exchanges = list(self._exchanges.values())
        self._exchanges.clear()
        self._held.clear()
        self._outgoing.clear()
        for exchange in exchanges:
            if exchange.stream >= self._unsent_from:
                _fail(exchange, UnprocessedError(problem))
            else:
                cut = is_end and exchange.answered
                _fail(exchange, self._loss(exchange, "unexpected EOF" if cut else problem))

    def _refuse(self, problem: str, code: int) -> None:
        """The server does not speak HTTP/2 as it should."""
        if self._link is not None and not self._link.is_closing():
            self._link.write(_frame(_GOAWAY, 0, 0, _NUMBER.pack(0) + _NUMBER.pack(code)))
        self.abort(problem)

    # Writing

    def _respond(self, frame: bytes) -> None:
        """Answer the server itself, which has to read what it asked for."""
        self._responses += 1
        if self._responses > _MOST_RESPONSES:
            raise FramingError("it asks for more answers than it reads", _ENHANCE_YOUR_CALM)
        self._send(frame)

    def _send(self, frame: bytes) -> None:
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(frame)

    def _flush(self) -> None:
        link = self._link
        if not self._outgoing or link is None:
            return
        text = b"".join(self._outgoing)
        self._outgoing.clear()
        if link.is_closing():
            return
        if not link.backlog:
            self._responses = 0
        self._unsent_from = self._next_stream
        link.write(text)

    def _send_long(self, block: bytes, ending: int, stream: int) -> None:
        """A header block that takes several frames."""
        kind, flags = _HEADERS, ending
        for at in range(0, len(block), self._largest):
            piece = block[at : at + self._largest]
            if at + self._largest >= len(block):
                flags |= _END_HEADERS
            self._outgoing.append(_frame(kind, flags, stream, piece))
            kind, flags = _CONTINUATION, 0

    def _send_held(self) -> None:
        """Send of long bodies what the server takes, in their order."""
        for exchange in list(self._held.values()):
            unsent = exchange.unsent
            assert unsent is not None
            while (
                len(unsent) and (some := min(len(unsent), self._credit, exchange.credit, self._largest)) > 0
            ):
                ending = _END_STREAM if some == len(unsent) else 0
                self._send(_frame(_DATA, ending, exchange.stream, bytes(unsent[:some])))
                unsent = unsent[some:]
                self._credit -= some
                exchange.credit -= some
            if len(unsent):
                exchange.unsent = unsent
            else:
                exchange.unsent = None
                del self._held[exchange.stream]


def _noticed(future: "asyncio.Future[None]") -> None:
    """Retrieve the exception of a connection that was given up, since no caller will."""
    if not future.cancelled():
        future.exception()


def _fail(exchange: Exchange, error: LostError) -> None:
    if not exchange.answer.done():
        exchange.answer.set_exception(error)


def _unpadded(content: bytes) -> bytes:
    padding = content[0] if content else 0
    if padding >= len(content):
        raise FramingError("malformed padding")
    return content[1 : len(content) - padding]


def _number_in(content: bytes, size: int) -> int:
    if len(content) != size:
        raise FramingError("a frame of another size", _FRAME_SIZE_ERROR)
    return int.from_bytes(content)


def _enlarged(credit: int, more: int) -> int:
    """The window after the server changed it; smaller, if the change is negative."""
    if credit + more > _LARGEST_WINDOW:
        raise FramingError("a window that overflows", _FLOW_CONTROL_ERROR)
    return credit + more


def _code(code: int) -> str:
    return _CODES[code] if code < len(_CODES) else f"code {code}"
