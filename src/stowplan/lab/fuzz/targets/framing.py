"""Targets for what a server sends over a connection: HTTP/1.1, HTTP/2 and its header blocks."""

import asyncio
import asyncio.events
import http.client
import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from stowplan.client.http import hpack
from stowplan.client.http.body import Body
from stowplan.client.http.connection import Connection, HttpAnswer, LostError
from stowplan.client.http.http2 import Exchange, Http2Connection
from stowplan.client.http.requests import Common, Message
from stowplan.client.http.settings import Address
from stowplan.lab.fuzz.targets.target import FuzzTarget, Violation, expect, oracle, pieces, refused

T = TypeVar("T")

ADDRESS: Final = Address.parse("https://k8s.example:6443")
GET: Final = Message(Common("GET", ADDRESS, [("User-Agent", "fuzz")]), "/api/v1/nodes")
POST: Final = Message(Common("POST", ADDRESS, [("User-Agent", "fuzz")]), "/api/v1/pods", b"{}" * 40_000)
"""A request with a body larger than the first window of a stream."""


class ManualLoop:
    """An event loop without selectors and time: what is to be called soon is called by `run_ready`."""

    def __init__(self) -> None:
        self._ready: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()

    def time(self) -> float:
        return 0.0

    def get_debug(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., object], *args: Any, context: object = None) -> None:
        self._ready.append((callback, args))

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=cast(asyncio.AbstractEventLoop, self))

    def run_ready(self) -> None:
        while self._ready:
            callback, args = self._ready.popleft()
            callback(*args)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise Violation("nothing goes wrong in a callback", str(context.get("message")))

    @contextmanager
    def running(self) -> "Iterator[None]":
        """A block in which this is the running loop."""
        before = asyncio.events._get_running_loop()
        asyncio.events._set_running_loop(cast(asyncio.AbstractEventLoop, self))
        try:
            yield
        finally:
            asyncio.events._set_running_loop(before)


class RecordingLink:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.backlog = 0
        self.ended = False

    def write(self, data: bytes, /) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.ended

    def close(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.ended = True

    def pause_reading(self) -> None:
        return None

    def resume_reading(self) -> None:
        return None


class FramingResult(NamedTuple, Generic[T]):
    """The outcome of a request: an answer, a problem, or nothing yet."""

    value: T | None = None
    problem: str = ""


def _result(future: "asyncio.Future[HttpAnswer]") -> FramingResult[HttpAnswer]:
    if not future.done():
        return FramingResult()
    error = future.exception()
    if error is None:
        return FramingResult(future.result())
    if not isinstance(error, LostError):
        raise error
    return FramingResult(problem=error.problem)


# HTTP/1.1


class _Seen(NamedTuple):
    status: int
    body: bytes
    problem: str
    is_usable: bool


def _answer_of(parts: Iterable[bytes], *, stream: bool) -> _Seen:
    """The answer that a connection reads from these pieces."""
    loop, link = ManualLoop(), RecordingLink()
    with loop.running():
        connection = Connection(lambda _: None)
        connection.connection_made(link)
        body = Body() if stream else None
        if body is not None:
            body.comes_from(connection, 60.0)
        future = connection.send(GET, body)
        for piece in parts:
            connection.data_received(piece)
        is_usable = connection.is_usable
        connection.connection_lost(None)
        loop.run_ready()
        found = _result(future)
        problem, content = found.problem, b"" if found.value is None else found.value.body
        if body is not None and found.value is not None and found.value.status == 200:
            problem, content = _streamed(body, loop)
    return _Seen(0 if found.value is None else found.value.status, content, problem, is_usable)


def _streamed(body: Body, loop: ManualLoop) -> tuple[str, bytes]:
    """True if a body is complete, and its content. Only a complete body has all of its content."""
    completed = body._completed
    assert completed is not None
    if not completed.done():
        raise Violation("a body ends with its connection", f"{body.size} bytes")
    error = completed.exception()
    if error is None:
        return "", b"".join(body._pieces)
    assert isinstance(error, LostError)
    return error.problem, b""


_SURPLUS: Final = "unexpected data after an answer"


def _check_http1(data: bytes) -> str:
    """The first byte says whether the body is a stream, and how many of the others cut the rest."""
    if not data:
        return "nothing"
    cuts = data[1 : 1 + data[0] % 16]
    text, stream = data[1 + len(cuts) :], data[0] >= 128
    whole = _answer_of([text] if text else [], stream=stream)
    cut = _answer_of(pieces(text, cuts), stream=stream)
    if _SURPLUS in (whole.problem, cut.problem):
        # It is noticed with the answer or after it, depending on when it comes.
        expect("nothing is requested after too much data", (whole.is_usable, cut.is_usable), (False, False))
    elif not (whole.problem and cut.problem):
        expect("an answer is the same however it is cut", cut, whole)
    if not whole.problem and whole.status:
        _compare_with_standard(text, whole)
    return f"{whole.status} {whole.problem[:40]} {whole.is_usable}"


class _Socket:
    """A socket for http.client."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._text)


def _compare_with_standard(text: bytes, seen: _Seen) -> None:
    """An answer that is accepted has the status and the body that the standard library finds."""
    response = http.client.HTTPResponse(cast(Any, _Socket(_final_answer(text))), method="GET")
    try:
        response.begin()
        body = response.read()
    except (http.client.HTTPException, ValueError):
        return
    expect("the status is that of http.client", seen.status, response.status)
    expect("the body is that of http.client", seen.body, body)


def _final_answer(text: bytes) -> bytes:
    """The text without interim answers, of which http.client knows one alone."""
    while text[:8] in (b"HTTP/1.1", b"HTTP/1.0") and text[9:10] == b"1" and b"\r\n\r\n" in text:
        text = text.partition(b"\r\n\r\n")[2]
    return text


# HTTP/2

_SETTINGS: Final = b"\0\0\0\x04\0\0\0\0\0"
_STREAMS: Final = (0, 1, 3, 5, 2, 7, 1, 3)
"""Streams that frames are about: the three requests, the connection, and some that do not exist."""


def frames(data: bytes) -> bytes:
    """Bytes as frames of a server: kind, flags, stream and length of each, then its content.

    Lengths always fit, so most of what is mutated still consists of frames.
    """
    made = bytearray(_SETTINGS)
    at = 0
    while at + 4 <= len(data):
        kind, flags, stream, length = data[at : at + 4]
        content = data[at + 4 : at + 4 + length]
        at += 4 + length
        made += len(content).to_bytes(3) + bytes((kind % 11, flags)) + _STREAMS[stream % 8].to_bytes(4)
        made += content
    return bytes(made)


class _Exchanged(NamedTuple):
    answers: tuple[FramingResult[tuple[int, bytes]], ...]
    refused: bool
    written: int


def _exchanged(parts: Iterable[bytes]) -> _Exchanged:
    """The outcomes of three requests when a server sends this."""
    loop, link = ManualLoop(), RecordingLink()
    refusals: list[bool] = []
    with loop.running():
        connection = Http2Connection(lambda _: refusals.append(True))
        connection.connection_made(link)
        loop.run_ready()
        exchanges: list[Exchange] = [connection.send(message) for message in (GET, GET, POST)]
        loop.run_ready()
        sent = len(link.written)
        received = 0
        for piece in parts:
            received += len(piece)
            connection.data_received(piece)
            loop.run_ready()
        was_refused = bool(refusals)
        connection.connection_lost(None)
        loop.run_ready()
        results = [_result(one.answer) for one in exchanges]
    if len(link.written) - sent > len(POST.body) + 100 + 10 * received:
        raise Violation("no more is written than was caused", f"{len(link.written)} after {received} bytes")
    found = tuple(
        FramingResult(problem=one.problem)
        if one.value is None
        else FramingResult((one.value.status, one.value.body))
        for one in results
    )
    return _Exchanged(found, was_refused, len(link.written))


def _check_http2(data: bytes) -> str:
    """The first byte says how many of the others cut the rest; if it is odd the rest is sent as it is."""
    if not data:
        return "nothing"
    cuts = data[1 : 1 + data[0] // 2 % 8]
    rest = data[1 + len(cuts) :]
    text = _SETTINGS + rest if data[0] % 2 else frames(rest)
    whole = _exchanged([text])
    cut = _exchanged(pieces(text, cuts))
    expect("answers are the same however they are cut", cut.answers, whole.answers)
    expect("a server is refused however it is cut", cut.refused, whole.refused)
    _compare_with_h2(text, whole)
    return f"{whole.refused} " + " ".join(
        f"{one.value[0]}+{bool(one.value[1])}" if one.value else one.problem[:30] for one in whole.answers
    )


def _compare_with_h2(text: bytes, seen: _Exchanged) -> None:
    """Answers that h2 finds, too, are the same; and what it takes for a mistake is no answer."""
    h2 = oracle("h2.connection")
    if h2 is None:
        return
    answers, problem = _asked_h2(h2, text)
    if problem:
        return
    for one, other in zip(seen.answers, answers, strict=True):
        if one.value is not None:
            expect("the answer is that of h2", one.value, other)
        elif other is not None and not one.problem.startswith(("the server sent GOAWAY", "stream error")):
            raise Violation("what h2 takes for an answer is one", f"{other!r}: {one.problem}")


def _asked_h2(h2: Any, text: bytes) -> tuple[list[tuple[int, bytes] | None], str]:
    """The answers that h2 finds to the three requests, and what it complains about."""
    config, events, exceptions = (oracle(f"h2.{name}") for name in ("config", "events", "exceptions"))
    settings = oracle("h2.settings").SettingCodes
    client = h2.H2Connection(config=config.H2Configuration(client_side=True, header_encoding=None))
    client.initiate_connection()
    client.update_settings({settings.HEADER_TABLE_SIZE: 0, settings.ENABLE_PUSH: 0})
    client.receive_data(_SETTINGS + b"\0\0\0\x04\x01\0\0\0\0\0\0\0\x04\x01\0\0\0\0")
    head = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"a"), (b":path", b"/")]
    for stream in (1, 3, 5):
        client.send_headers(stream, head, end_stream=True)
    status: dict[int, int] = {}
    bodies: dict[int, bytes] = {1: b"", 3: b"", 5: b""}
    ended: set[int] = set()
    try:
        for event in client.receive_data(text):
            if isinstance(event, events.ResponseReceived):
                status[event.stream_id] = int(dict(event.headers)[b":status"])
            elif isinstance(event, events.DataReceived):
                bodies[event.stream_id] += event.data
            elif isinstance(event, events.StreamEnded):
                ended.add(event.stream_id)
    except (exceptions.H2Error, ValueError, KeyError) as error:
        return [], f"{type(error).__name__}: {error}"
    return [(status[one], bodies[one]) if one in ended else None for one in (1, 3, 5)], ""


# Header blocks


def _check_hpack(data: bytes) -> str:
    """A header block of a server, as text of an answer and as Huffman code."""
    reference = _reference_fields(data)
    try:
        hpack.value_of(data, b"x-none")
        status = hpack.status_of(data)
    except hpack.HeaderError as error:
        if reference and reference[0][0] == b":status" and _is_status(reference[0][1]):
            raise Violation("what the hpack package reads is read", str(error)) from None
        return refused(error)
    if reference is not None:
        fields: dict[bytes, bytes] = {}
        for name, value in reference:
            fields.setdefault(name, value)
        expect("the status is that of the hpack package", b"%d" % status, fields.get(b":status"))
        for name in (b"date", b"retry-after"):
            expect("a value is that of the hpack package", hpack.value_of(data, name), fields.get(name))
    _check_huffman(data)
    return f"{status} {len(reference or ())}"


def _is_status(text: bytes) -> bool:
    return len(text) == 3 and text.isdigit() and text >= b"100"


def _reference_fields(block: bytes) -> list[tuple[bytes, bytes]] | None:
    """The fields that the hpack package finds, None if it refuses the block or is not installed."""
    package = oracle("hpack")
    if package is None:
        return None
    decoder = package.Decoder()
    decoder.max_allowed_table_size = 0
    decoder.header_table_size = 0
    try:
        return [(bytes(name), bytes(value)) for name, value in decoder.decode(block, raw=True)]
    except package.HPACKError:
        return None


def _check_huffman(data: bytes) -> None:
    expect("Huffman code is read back", hpack.unhuffman(hpack.huffman(data)), data)
    table = oracle("hpack.huffman_table")
    if table is None:
        return
    try:
        wanted: bytes | None = table.decode_huffman(data)
    except oracle("hpack").HPACKError:
        wanted = None
    try:
        found: bytes | None = hpack.unhuffman(data)
    except hpack.HeaderError:
        found = None
    expect("Huffman code is read as by the hpack package", found, wanted)


def _record(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    """A frame in the form that `frames` reads; the stream is a place in `_STREAMS`."""
    return bytes((kind, flags, stream, len(content))) + content


_OK: Final = b"\x88"
_BLOCK: Final = b"\x88\x0f\x12\x1dTue, 17 Nov 2026 12:00:00 GMT\x5f\x10application/json"
_LINES: Final = b"HTTP/1.1 200 OK\r\n"

FRAMING: Final = (
    FuzzTarget(
        "http1",
        "answers in HTTP/1.1, in arbitrary pieces",
        _check_http1,
        (
            b"\0" + _LINES + b"Content-Length: 5\r\n\r\nhello",
            b"\x83\x05\x10\x03" + _LINES + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            b"\x02\x01\x01HTTP/1.1 103 Early\r\nX: y\r\n\r\n" + _LINES + b"Connection: close\r\n\r\nrest",
            b"\0HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
            b"\x82\x20\x20"
            + _LINES
            + b"transfer-encoding: chunked\r\n\r\nA;x=y\r\n0123456789\r\n1\n!\n0\r\nT: z\r\n\r\n",
            b"\0HTTP/1.0 204 None\r\n\r\n",
        ),
        (
            b"\r\n",
            b"\n",
            b"\r\n\r\n",
            b"HTTP/1.1 ",
            b"Content-Length: ",
            b"Transfer-Encoding: chunked",
            b"100",
            b"200",
            b"0\r\n\r\n",
            b"5\r\n",
            b";",
            b"Connection: close",
            b" ",
            b"\t",
            b":",
            b"ffffffff",
            b"-1",
            b"+5",
            b"0x5",
        ),
        oracle="http.client of the standard library, and itself: the same in one piece",
        failed_once=(
            b"\0" + _LINES + b"Content-Length: 5\r\n\n None\r\n\r\nhello",
            b"\0HTTP/1.1 200 5\r\nOK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nhello\r\n4\r\n\r\n",
        ),
    ),
    FuzzTarget(
        "http2",
        "frames of HTTP/2, in arbitrary pieces",
        _check_http2,
        (
            b"\0" + _record(1, 5, 1, _OK) + _record(1, 4, 2, _BLOCK) + _record(0, 1, 2, b"{}"),
            b"\x04\x10\x02"
            + _record(1, 0, 1, _OK)
            + _record(9, 4, 1, b"\x0f\x12\x01x")
            + _record(0, 9, 1, b"\x01a\0"),
            b"\0"
            + _record(8, 0, 0, b"\0\1\0\0")
            + _record(4, 0, 0, b"\0\4\0\1\0\0\0\1\0\0\x10\0")
            + _record(6, 0, 0, b"12345678"),
            b"\0"
            + _record(3, 0, 2, b"\0\0\0\x07")
            + _record(7, 0, 0, b"\0\0\0\1\0\0\0\0bye")
            + _record(1, 5, 1, _OK),
            b"\1" + b"\0\0\1\1\5\0\0\0\1\x88",
            b"\0"
            + _record(1, 44, 1, b"\0\0\0\0\0\x10" + _OK)
            + _record(5, 4, 1, b"\0\0\0\2")
            + _record(2, 0, 1, b"\0\0\0\0\1"),
        ),
        (
            *(_record(kind, 5, 1) for kind in range(10)),
            _OK,
            b"\x8c",
            b"\x08\x03200",
            b"\0\0\0\1",
            b"\x7f\xff\xff\xff",
            b"\x3f\xe1\x1f",
        ),
        oracle="h2, and itself: the same in one piece",
        modules=("h2",),
    ),
    FuzzTarget(
        "hpack",
        "header blocks and Huffman code of HTTP/2",
        _check_hpack,
        (
            _OK,
            _BLOCK,
            b"\x20\x8d\x0f\x12\x01x",
            b"\x48\x03503\x0f\x26\x827\xff",
            b"\x08\x82\x08\x17",
            b"\x00\x04date\x01x",
            b"\x88" + b"\x40\x84\xbe\x1c\x92\xff\x03abc",
            b"\x89\x5f\x8b\x1d\x75\xd0\x62\x0d\x26\x3d\x4c\x74\x41\xea",
        ),
        (
            b"\x88",
            b"\x8e",
            b"\x48\x03",
            b"\x20",
            b"\x3f\xe1\x1f",
            b"\xff\x80\x01",
            b"\x7f\xff\xff\xff\x7f",
            b"\x0f\x12",
            b"\x82",
            b"\xbf",
        ),
        oracle="the package hpack",
        modules=("hpack",),
    ),
)
