"""HTTP/2 by itself, without a network: frames, header blocks, and servers that do not behave."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived
from h2.settings import SettingCodes, Settings
from hpack import Encoder as ReferenceEncoder
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hypothesis import given
from hypothesis import strategies as st

from stowplan.client.http import Address, hpack
from stowplan.client.http.connection import LostError
from stowplan.client.http.http2 import Exchange, Http2Connection, UnprocessedError
from stowplan.client.http.requests import Common, Message
from waiting import PATIENCE

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 1, 1, 4, 8, 32
ADDRESS = Address.parse("https://k8s.example:6443/base")
COMMON = Common("GET", ADDRESS, [("User-Agent", "test")])
GET = Message(COMMON, "/api/v1/nodes")


class Link:
    """Takes what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.writes = 0
        self.backlog = 0
        self.ended = False

    def write(self, data: bytes, /) -> None:
        self.written += data
        self.writes += 1

    def is_closing(self) -> bool:
        return self.ended

    def close(self) -> None:
        self.ended = True

    abort = close

    def pause_reading(self) -> None:
        raise AssertionError

    resume_reading = pause_reading


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return len(content).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + content


def block(*fields: tuple[str, str], huffman: bool = True) -> bytes:
    encoder = ReferenceEncoder()
    encoder.header_table_size = 0
    return encoder.encode(fields, huffman=huffman)


def with_connection(test: Callable[[Http2Connection, Link], Awaitable[None]], *settings: bytes) -> None:
    async def run() -> None:
        link = Link()
        connection = Http2Connection(lambda _: None)
        connection.connection_made(link)
        connection.data_received(frame(SETTINGS, 0, 0, b"".join(settings)))
        await connection.ready()
        await test(connection, link)

    asyncio.run(run())


def cut(text: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(text) + 1) for place in places} | {len(text)})
    return [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


# Answers


class Reply:
    """An answer in frames, and what is to be read from it."""

    def __init__(self, draw: Any, stream: int) -> None:
        number = st.integers(0, 20)
        self.status = draw(st.sampled_from([200, 201, 204, 404, 409, 429, 503]))
        self.body = [draw(st.binary(max_size=40)) for _ in range(draw(st.integers(0, 3)))]
        self.after = draw(st.none() | st.integers(0, 99))
        fields = [(":status", str(self.status)), ("audit-id", "0f-é"), ("content-type", "application/json")]
        if self.after is not None:
            fields.append(("retry-after", str(self.after)))
        head = block(*fields, huffman=draw(st.booleans()))
        ends = draw(st.sampled_from(["head", "body", "empty", "trailer"]))
        if ends == "head":
            self.body = []
        self.frames = [
            frame(HEADERS, END_HEADERS, stream, block((":status", "103"))) for _ in range(draw(number) // 8)
        ]
        flags = END_STREAM if ends == "head" else 0
        if draw(st.booleans()):
            flags, head = flags | WITH_PRIORITY, b"\0\0\0\0\x10" + head
        if draw(st.booleans()):
            padding = draw(number)
            flags, head = flags | PADDED, bytes((padding,)) + head + bytes(padding)
            self.frames.append(frame(HEADERS, flags | END_HEADERS, stream, head))
        else:
            first, *rest = cut(head, [draw(number) + 5, draw(number) + 5])
            kinds = [frame(HEADERS, flags | (0 if rest else END_HEADERS), stream, first)]
            kinds += [frame(CONTINUATION, 0, stream, piece) for piece in rest[:-1]]
            kinds += [frame(CONTINUATION, END_HEADERS, stream, piece) for piece in rest[-1:]]
            self.frames.append(b"".join(kinds))
        for number_of, piece in enumerate(self.body, 1):
            flags = END_STREAM if ends == "body" and number_of == len(self.body) else 0
            if draw(st.booleans()):
                flags, piece = flags | PADDED, b"\x03" + piece + bytes(3)
            self.frames.append(frame(DATA, flags, stream, piece))
        if ends == "empty" or (ends == "body" and not self.body):
            self.frames.append(frame(DATA, END_STREAM, stream))
        elif ends == "trailer":
            self.frames.append(frame(HEADERS, END_HEADERS | END_STREAM, stream, block(("x", "y"))))


@given(st.data())
def test_answers_are_the_same_however_they_are_mixed_and_cut(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    replies = [Reply(data.draw, 2 * number + 1) for number in range(count)]
    others = [
        frame(PING, 0, 0, b"12345678"),
        frame(WINDOW, 0, 0, b"\0\0\1\0"),
        frame(WINDOW, 0, 1, b"\0\0\1\0"),
        frame(SETTINGS, ACK, 0),
        frame(PRIORITY, 0, 1, b"\0\0\0\0\x10"),
        frame(0xBE, 0, 0, b"unknown"),
    ]
    turns = [number for number, reply in enumerate(replies) for _ in reply.frames]
    order = data.draw(st.permutations([*turns, *(-1 for _ in others)]))
    left = [*(iter(reply.frames) for reply in replies), iter(others)]
    text = b"".join(next(left[number]) for number in order)
    pieces = cut(text, data.draw(st.lists(st.integers(0, 10_000), max_size=30)))

    async def test(connection: Http2Connection, link: Link) -> None:
        exchanges = [connection.send(GET) for _ in replies]
        for piece in pieces:
            connection.data_received(piece)
        for reply, exchange in zip(replies, exchanges, strict=True):
            answer = await exchange.answer
            assert (answer.status, answer.body) == (reply.status, b"".join(reply.body))
            assert answer.retry_after == (reply.after if reply.status >= 400 else None)
        await asyncio.sleep(0)
        assert frame(PING, ACK, 0, b"12345678") in link.written
        assert connection.is_usable
        assert not connection.load

    with_connection(test)


# Requests


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["GET", "POST", "PATCH", "DELETE"]),
            st.sampled_from(["", "short", "x" * 200, "y" * 2000, "z" * 5000]),
            st.text("abc/", max_size=300),
            st.sampled_from([0, 1, 100, 20_000]),
            st.sampled_from([None, 0, 300, 4096, 65_536]),
        ),
        max_size=12,
    )
)
def test_the_server_understands_every_request(
    requests: list[tuple[str, str, str, int, int | None]],
) -> None:
    """Whatever is in the table, and whichever size the server gives it in between."""
    commons = {
        (method, token): Common(method, ADDRESS, [("Accept", "*/*"), ("Authorization", token)])
        for method, token, *_ in requests
    }

    async def run() -> None:
        link = Link()
        connection = Http2Connection(lambda _: None)
        connection.connection_made(link)
        server = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        server.initiate_connection()
        seen: dict[int, tuple[Any, bytes]] = {}

        async def exchange_words() -> None:
            for _ in range(20):
                await asyncio.sleep(0)
                text, link.written = link.written, b""
                for event in server.receive_data(text):
                    if isinstance(event, RequestReceived):
                        seen[event.stream_id] = event.headers, b""
                    elif isinstance(event, DataReceived):
                        fields, body = seen[event.stream_id]
                        seen[event.stream_id] = fields, body + event.data
                        server.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                connection.data_received(server.data_to_send())

        await exchange_words()
        for number, (method, token, path, size, table) in enumerate(requests):
            if table is not None:
                server.update_settings({SettingCodes.HEADER_TABLE_SIZE: table})
                connection.data_received(server.data_to_send())
            connection.send(Message(commons[method, token], f"/{path}", b"b" * size))
            if number % 3 == 0:
                await exchange_words()
        await exchange_words()
        assert len(seen) == len(requests)
        for (method, token, path, size, _), (fields, body) in zip(
            requests, (seen[stream] for stream in sorted(seen)), strict=True
        ):
            wanted = {
                ":method": method,
                ":scheme": "https",
                ":authority": "k8s.example:6443",
                ":path": f"/base/{path}",
                "accept": "*/*",
                "authorization": token,
            }
            if size or method in ("POST", "PATCH"):
                wanted["content-length"] = str(size)
            assert dict(fields) == wanted
            assert body == b"b" * size

    asyncio.run(run())


def test_a_request_like_the_last_one_is_little_more_than_its_path() -> None:
    encoder = hpack.Encoder()
    token = "t" * 1000
    common = Common("PATCH", ADDRESS, [("User-Agent", "test"), ("Authorization", f"Bearer {token}")])
    first = encoder.block(common, b"/path", 10)
    assert len(first) > 1000
    for _ in range(3):
        assert len(encoder.block(common, b"/path", 10)) < 20


def kinds_and_flags(text: bytes) -> list[tuple[int, int]]:
    """The frames behind the preface of a connection."""
    found, at = [], len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    while at < len(text):
        found.append((text[at + 3], text[at + 4]))
        at += 9 + int.from_bytes(text[at : at + 3])
    return found


def test_a_head_of_many_frames_is_sent() -> None:
    common = Common("GET", ADDRESS, [("Authorization", "t" * 40_000)])

    async def test(connection: Http2Connection, link: Link) -> None:
        connection.send(Message(common, "/"))
        server = H2Connection(H2Configuration(client_side=False))
        server.local_settings = Settings(
            client=False, initial_values={SettingCodes.MAX_HEADER_LIST_SIZE: 100_000}
        )
        server.decoder.max_header_list_size = 100_000
        server.initiate_connection()
        (event,) = (one for one in server.receive_data(link.written) if isinstance(one, RequestReceived))
        assert dict(event.headers)[b"authorization"] == b"t" * 40_000
        assert kinds_and_flags(link.written)[-3:] == [
            (HEADERS, END_STREAM),
            (CONTINUATION, 0),
            (CONTINUATION, END_HEADERS),
        ]

    with_connection(test)


def test_requests_of_a_turn_are_one_write() -> None:
    async def test(connection: Http2Connection, link: Link) -> None:
        for _ in range(10):
            connection.send(GET)
        await asyncio.sleep(0)
        assert link.writes == 3, "two that go at once, and the others"

    with_connection(test)


def sent_of(link: Link) -> int:
    """Bytes of bodies that were sent."""
    at, size = link.written.index(b"SM\r\n\r\n") + 6, 0
    while at < len(link.written):
        length = int.from_bytes(link.written[at : at + 3])
        size += length if link.written[at + 3] == DATA else 0
        at += 9 + length
    return size


def test_a_body_goes_on_when_the_server_takes_more() -> None:
    """By a word on the stream, on the connection, or on all streams; and less after they take some back."""
    common = Common("POST", ADDRESS, [])

    async def test(connection: Http2Connection, link: Link) -> None:
        async def taken() -> int:
            await asyncio.sleep(0)
            return sent_of(link)

        connection.send(Message(common, "/", b"b" * 100_000))
        assert await taken() == 100
        connection.data_received(frame(WINDOW, 0, 1, b"\0\0\0\x0a"))
        assert await taken() == 110
        connection.data_received(frame(SETTINGS, 0, 0, b"\0\4\0\0\0\x32"))
        connection.data_received(frame(WINDOW, 0, 1, b"\0\0\0\x32"))
        assert await taken() == 110
        connection.data_received(frame(SETTINGS, 0, 0, b"\0\4\0\0\0\x33"))
        assert await taken() == 111
        connection.data_received(frame(WINDOW, 0, 1, b"\0\2\0\0"))
        assert await taken() == 65_535
        connection.data_received(frame(WINDOW, 0, 0, b"\0\2\0\0"))
        assert await taken() == 100_000

    with_connection(test, b"\0\4\0\0\0\x64")


# Servers that do not behave

HEAD = frame(HEADERS, END_HEADERS, 1, block((":status", "200")))


PROTOCOL_ERROR, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, COMPRESSION_ERROR, CALM = 1, 3, 6, 9, 11


def long_head(head: bytes, flags: int = 0) -> bytes:
    """A header block in as many frames as it takes."""
    pieces = [head[at : at + 16_384] for at in range(0, len(head), 16_384)]
    last = len(pieces) - 1
    return b"".join(
        frame(
            CONTINUATION if number else HEADERS,
            (0 if number else flags) | (END_HEADERS if number == last else 0),
            1,
            piece,
        )
        for number, piece in enumerate(pieces)
    )


def string_of(size: int) -> bytes:
    """A Huffman-coded string of `size` bytes, each of which takes eight steps to read."""
    return hpack.number(size, 7, 0x80) + bytes(size)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        pytest.param(FRAME_SIZE_ERROR, b"HTTP/1.1 400 Bad Request\r\n\r\n", id="another version"),
        pytest.param(PROTOCOL_ERROR, frame(DATA, 0, 1, b"x"), id="body without a head"),
        pytest.param(
            PROTOCOL_ERROR, HEAD + frame(DATA, PADDED, 1, b"\x05abc"), id="more padding than content"
        ),
        pytest.param(PROTOCOL_ERROR, frame(HEADERS, END_HEADERS | PADDED, 1), id="padding without a length"),
        pytest.param(
            PROTOCOL_ERROR, frame(HEADERS, END_HEADERS | WITH_PRIORITY, 1, b"\0"), id="half a priority"
        ),
        pytest.param(COMPRESSION_ERROR, frame(HEADERS, END_HEADERS, 1), id="no status"),
        pytest.param(
            COMPRESSION_ERROR, frame(HEADERS, END_HEADERS, 1, block(("a", "b"))), id="a field, but no status"
        ),
        pytest.param(
            COMPRESSION_ERROR,
            frame(HEADERS, END_HEADERS, 1, block((":status", "2x0"))),
            id="a status that is none",
        ),
        pytest.param(
            COMPRESSION_ERROR,
            frame(HEADERS, END_HEADERS, 1, b"\xbe"),
            id="a field of a table that is not there",
        ),
        pytest.param(
            COMPRESSION_ERROR,
            frame(HEADERS, END_HEADERS, 1, b"\x3f\xe1\x1f\x88"),
            id="a table that was not allowed",
        ),
        pytest.param(
            COMPRESSION_ERROR,
            frame(HEADERS, END_HEADERS, 1, b"\x08\x7f\xff\xff\xff\xff\x0f"),
            id="a huge string",
        ),
        pytest.param(
            COMPRESSION_ERROR,
            frame(HEADERS, END_HEADERS, 1, b"\xff" + b"\x80" * 16_000 + b"\0"),
            id="an endless number",
        ),
        pytest.param(
            COMPRESSION_ERROR,
            frame(HEADERS, END_HEADERS, 1, b"\x08\x84\xff\xff\xff\xff"),
            id="no Huffman code",
        ),
        pytest.param(
            COMPRESSION_ERROR, long_head(b"\x08" + string_of(60_000)), id="a status of 60,000 bytes"
        ),
        pytest.param(
            COMPRESSION_ERROR,
            long_head(b"\x8e\x0f\x26" + string_of(60_000), END_STREAM),
            id="a time to wait of 60,000 bytes",
        ),
        pytest.param(
            COMPRESSION_ERROR,
            long_head(b"\x8e" + b"\x90" * 60_000, END_STREAM),
            id="a failure with 60,000 fields",
        ),
        pytest.param(
            COMPRESSION_ERROR,
            frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x8e\xbe"),
            id="a failure with a head that cannot be read",
        ),
        pytest.param(
            PROTOCOL_ERROR,
            frame(HEADERS, END_HEADERS | END_STREAM, 1, block((":status", "100"))),
            id="interim end",
        ),
        pytest.param(
            CALM, 20_000 * frame(HEADERS, END_HEADERS, 1, block((":status", "103"))), id="interim answers"
        ),
        pytest.param(PROTOCOL_ERROR, HEAD + HEAD, id="two heads"),
        pytest.param(
            PROTOCOL_ERROR, frame(HEADERS, 0, 1, b"\x88") + frame(PING, 0, 0, bytes(8)), id="interrupted head"
        ),
        pytest.param(
            PROTOCOL_ERROR,
            frame(HEADERS, 0, 1, b"\x88") + frame(CONTINUATION, 4, 3),
            id="another stream's head",
        ),
        pytest.param(PROTOCOL_ERROR, frame(CONTINUATION, END_HEADERS, 1, b"\x88"), id="the end of no head"),
        pytest.param(CALM, frame(HEADERS, 0, 1) + 70 * frame(CONTINUATION, 0, 1), id="endless empty head"),
        pytest.param(
            CALM, frame(HEADERS, 0, 1) + 5 * frame(CONTINUATION, 0, 1, bytes(16_000)), id="huge head"
        ),
        pytest.param(
            PROTOCOL_ERROR, frame(HEADERS, END_HEADERS, 3, block((":status", "200"))), id="a stream not begun"
        ),
        pytest.param(PROTOCOL_ERROR, frame(DATA, 0, 2, b"x"), id="a stream of the server"),
        pytest.param(PROTOCOL_ERROR, frame(DATA, 0, 0, b"x"), id="a body of no stream"),
        pytest.param(PROTOCOL_ERROR, frame(PUSH, END_HEADERS, 1, b"\0\0\0\2\x82"), id="a push"),
        pytest.param(FRAME_SIZE_ERROR, b"\x00\x40\x01\0\0\0\0\0\1", id="a frame too large"),
        pytest.param(PROTOCOL_ERROR, frame(SETTINGS, 0, 0, b"\0\5\0\0\0\1"), id="tiny frames"),
        pytest.param(
            FLOW_CONTROL_ERROR, frame(SETTINGS, 0, 0, b"\0\4\xff\xff\xff\xff"), id="a window too large"
        ),
        pytest.param(FRAME_SIZE_ERROR, frame(SETTINGS, 0, 0, b"\0\4\0"), id="half a setting"),
        pytest.param(FRAME_SIZE_ERROR, frame(SETTINGS, ACK, 0, bytes(6)), id="a setting that is none"),
        pytest.param(PROTOCOL_ERROR, frame(SETTINGS, 0, 1), id="settings of a stream"),
        pytest.param(PROTOCOL_ERROR, frame(WINDOW, 0, 0, b"\0\0\0\0"), id="a window of nothing"),
        pytest.param(PROTOCOL_ERROR, frame(WINDOW, 0, 1, b"\0\0\0\0"), id="a stream's window of nothing"),
        pytest.param(
            FLOW_CONTROL_ERROR, frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff"), id="a window that overflows"
        ),
        pytest.param(FRAME_SIZE_ERROR, frame(WINDOW, 0, 0, b"\0"), id="half a window"),
        pytest.param(FRAME_SIZE_ERROR, frame(PING, 0, 0, b"1234"), id="half a ping"),
        pytest.param(PROTOCOL_ERROR, frame(PING, 0, 1, bytes(8)), id="a ping of a stream"),
        pytest.param(FRAME_SIZE_ERROR, frame(RST_STREAM, 0, 1, b"\0"), id="half a reset"),
        pytest.param(PROTOCOL_ERROR, frame(RST_STREAM, 0, 9, bytes(4)), id="reset of no stream"),
        pytest.param(FRAME_SIZE_ERROR, frame(GOAWAY, 0, 0, b"\0"), id="half a goodbye"),
        pytest.param(PROTOCOL_ERROR, frame(GOAWAY, 0, 1, b"\0\0\0\1\0\0\0\0"), id="the goodbye of a stream"),
        pytest.param(CALM, 20_000 * frame(PING, 0, 0, bytes(8)), id="ping flood"),
        pytest.param(CALM, 20_000 * frame(PING, ACK, 0, bytes(8)), id="flood of answers to pings"),
        pytest.param(CALM, 20_000 * frame(SETTINGS, 0, 0), id="settings flood"),
        pytest.param(CALM, 20_000 * frame(SETTINGS, ACK, 0), id="flood of answers to settings"),
        pytest.param(CALM, 20_000 * frame(WINDOW, 0, 1, b"\0\0\0\1"), id="flood of windows"),
        pytest.param(CALM, 20_000 * frame(PRIORITY, 0, 1, b"\0\0\0\1\0"), id="flood of priorities"),
        pytest.param(CALM, 20_000 * frame(77, 0, 0, b"?"), id="flood of unknown frames"),
        pytest.param(CALM, 20_000 * frame(GOAWAY, 0, 0, b"\0\0\0\1\0\0\0\0"), id="flood of goodbyes"),
        pytest.param(CALM, HEAD + 20_000 * frame(DATA, 0, 1), id="flood of empty pieces"),
        pytest.param(
            CALM, HEAD + 20_000 * frame(DATA, PADDED, 1, b"\x20x" + bytes(32)), id="flood of padding"
        ),
    ],
)
def test_what_is_no_http2_ends_the_connection_and_fails_what_is_under_way(code: int, text: bytes) -> None:
    async def test(connection: Http2Connection, link: Link) -> None:
        exchange = connection.send(GET)
        connection.data_received(text)
        with pytest.raises(LostError) as failure:
            await asyncio.wait_for(exchange.answer, PATIENCE)
        assert not isinstance(failure.value, UnprocessedError)
        assert link.ended
        assert not connection.is_usable
        assert frame(GOAWAY, 0, 0, bytes(7) + bytes((code,))) in link.written
        connection.data_received(HEAD)

    with_connection(test)


def test_frames_without_content_are_counted_between_two_answers_only() -> None:
    async def test(connection: Http2Connection, link: Link) -> None:
        for number in range(4):
            exchange = connection.send(GET)
            connection.data_received(6_000 * frame(WINDOW, 0, exchange.stream, b"\0\0\0\1"))
            connection.data_received(frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, b"\x88"))
            assert (await exchange.answer).status == 200

    with_connection(test)


def test_windows_that_the_settings_change_do_not_overflow() -> None:
    async def test(connection: Http2Connection, link: Link) -> None:
        exchange = connection.send(Message(COMMON, "/", b"b" * 100_000))
        connection.data_received(frame(WINDOW, 0, 1, b"\x7f\xff\0\0"))
        connection.data_received(frame(SETTINGS, 0, 0, b"\0\4\x7f\xff\xff\xff"))
        assert isinstance(failure_of(exchange), LostError)
        assert frame(GOAWAY, 0, 0, bytes(7) + bytes((FLOW_CONTROL_ERROR,))) in link.written

    with_connection(test, b"\0\4\0\0\0\x64")


@given(st.binary(max_size=60), st.lists(st.integers(0, 100), max_size=4))
def test_whatever_comes_is_taken_or_refused(text: bytes, places: list[int]) -> None:
    async def test(connection: Http2Connection, link: Link) -> None:
        exchange = connection.send(GET)
        for piece in cut(HEAD + text, places):
            connection.data_received(piece)
        connection.connection_lost(None)
        assert exchange.answer.done()

    with_connection(test)


@given(st.binary(max_size=60))
def test_whatever_a_header_block_is_it_can_be_read_or_not(text: bytes) -> None:
    for read in (lambda: hpack.value_of(text, b"retry-after"), lambda: hpack.status_of(text)):
        try:
            found = read()
        except hpack.HeaderError:
            continue
        assert found is None or isinstance(found, bytes) or 100 <= found <= 999


def failure_of(exchange: Exchange) -> LostError:
    error = exchange.answer.exception()
    assert isinstance(error, LostError)
    return error


def test_a_loss_tells_what_may_have_been_done() -> None:
    async def test(connection: Http2Connection, link: Link) -> None:
        served, answered, unanswered = (connection.send(GET) for _ in range(3))
        connection.data_received(frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x88"))
        connection.data_received(frame(HEADERS, END_HEADERS, 3, b"\x88"))
        await asyncio.sleep(0)
        unsent = connection.send(GET)
        connection.connection_lost(None)
        assert (await served.answer).status == 200
        lost = failure_of(answered)
        assert (lost.problem, lost.answered, lost.reused) == ("unexpected EOF", True, True)
        lost = failure_of(unanswered)
        assert (lost.problem, lost.answered, lost.reused) == ("EOF", False, True)
        assert not isinstance(lost, UnprocessedError)
        assert isinstance(failure_of(unsent), UnprocessedError)

    with_connection(test)


def test_after_goodbye_only_what_the_server_names_is_waited_for() -> None:
    async def test(connection: Http2Connection, link: Link) -> None:
        first, second = connection.send(GET), connection.send(GET)
        connection.data_received(frame(GOAWAY, 0, 0, b"\0\0\0\1\0\0\0\0later"))
        assert isinstance(failure_of(second), UnprocessedError)
        assert not first.answer.done()
        assert not connection.is_usable
        connection.data_received(frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x88"))
        assert (await first.answer).status == 200
        assert link.ended

    with_connection(test)


def test_what_comes_for_a_request_that_was_given_up_is_passed_over() -> None:
    async def test(connection: Http2Connection, link: Link) -> None:
        first, second = connection.send(GET), connection.send(GET)
        connection.give_up(first)
        connection.data_received(HEAD + frame(DATA, END_STREAM, 1, b"late"))
        connection.data_received(frame(HEADERS, END_HEADERS | END_STREAM, 3, b"\x88"))
        assert (await second.answer).status == 200
        await asyncio.sleep(0)
        assert connection.is_usable
        assert frame(RST_STREAM, 0, 1, b"\0\0\0\x08") in link.written

    with_connection(test)


def test_a_server_that_sends_for_ever_hears_that_its_words_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan.client.http.http2._WINDOW", 1000)

    async def test(connection: Http2Connection, link: Link) -> None:
        exchange = connection.send(GET)
        connection.data_received(HEAD)
        for _ in range(10):
            connection.data_received(frame(DATA, 0, 1, bytes(100)))
        await asyncio.sleep(0)
        more = b"\0\0\1\xf4"
        assert link.written.count(frame(WINDOW, 0, 0, more)) == 2
        assert link.written.count(frame(WINDOW, 0, 1, more)) == 2
        connection.data_received(frame(DATA, END_STREAM, 1))
        assert (await exchange.answer).size == 1000

    with_connection(test)


# Header blocks


def test_strings_are_coded_as_in_the_standard() -> None:
    """Appendix C.4 of RFC 7541."""
    assert hpack.huffman(b"www.example.com").hex() == "f1e3c2e5f23a6ba0ab90f4ff"
    assert hpack.huffman(b"no-cache").hex() == "a8eb10649cbf"
    assert hpack.unhuffman(bytes.fromhex("25a849e95bb8e8b4bf")) == b"custom-value"


@pytest.mark.parametrize(
    ("value", "prefix", "coded"),
    [
        (10, 5, "0a"),
        (30, 5, "1e"),
        (31, 5, "1f00"),
        (31 + 127, 5, "1f7f"),
        (31 + 128, 5, "1f8001"),
        (1337, 5, "1f9a0a"),
        (42, 8, "2a"),
        (127 + 128 * 128 - 1, 7, "7fff7f"),
        (127 + 128 * 128, 7, "7f808001"),
        (15 + (1 << 28) - 1, 4, "0fffffff7f"),
    ],
)
def test_numbers_are_coded_as_in_the_standard(value: int, prefix: int, coded: str) -> None:
    """Section 5.1 and appendix C.1 of RFC 7541: seven bits per byte behind the prefix, the lowest first."""
    assert hpack.number(value, prefix).hex() == coded


@pytest.mark.parametrize("size", [126, 127, 254, 255, 256, 1000])
def test_values_of_all_lengths_are_read(size: int) -> None:
    """The length of a value continues in further bytes from 127 on, and again from 255 on."""
    text = block((":status", "200"), ("date", "d" * size), ("etag", "e"), huffman=False)
    assert hpack.value_of(text, b"date") == b"d" * size
    assert hpack.value_of(text, b"etag") == b"e"


@given(st.binary(max_size=200))
def test_strings_are_coded_as_others_code_them(text: bytes) -> None:
    coded = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH).encode(text)
    assert hpack.huffman(text) == coded
    assert hpack.unhuffman(coded) == text


FIELDS = st.dictionaries(
    st.sampled_from(["date", "retry-after", "x-y", "etag"]), st.text("ab 1é", max_size=200)
)


@given(st.integers(100, 999), FIELDS, st.booleans())
def test_fields_are_read_as_others_write_them(status: int, fields: dict[str, str], huffman: bool) -> None:
    text = block((":status", str(status)), *fields.items(), huffman=huffman)
    assert hpack.status_of(text) == hpack.status_of(text) == status
    for name in ("date", "retry-after", "x-y", "etag"):
        wanted = fields.get(name)
        assert hpack.value_of(text, name.encode()) == (None if wanted is None else wanted.encode())
