"""Hostile connections: requests that are not HTTP, bodies that would grow, clients that do not read."""

import gzip
import re
import socket
from collections.abc import Iterator

import pytest

from localcluster.apiserver.served import PODS, Served, pod, serving
from stowplan.localcluster.apiserver.sending import SLICE, slices
from stowplan.localcluster.apiserver.watch import WatchResponse
from waiting import PATIENCE, until

HEAD = b"Host: x\r\nAuthorization: Bearer the-token\r\n"
POST = b"POST " + PODS.encode() + b" HTTP/1.1\r\n" + HEAD
SECOND = b"GET /version HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    with serving() as served:
        yield served


def connected(api: Served) -> socket.socket:
    host, port = api.server.url.split("//")[1].split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def answered(api: Served, sent: bytes) -> list[bytes]:
    """The status codes of what comes back until the server closes the connection."""
    received = b""
    with connected(api) as connection:
        connection.sendall(sent)
        while part := connection.recv(65536):
            received += part
    return re.findall(rb"HTTP/1\.[01] (\d+) ", received)


@pytest.mark.parametrize(
    "request_",
    [
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        POST + b"Content-Length: 2, 2\r\n\r\n{}",
        POST + b"Content-Length: +2\r\n\r\n{}",
        POST + b"Content-Length: -1\r\n\r\n{}",
        POST + b"Content-Length: 0x2\r\n\r\n{}",
        POST + b"Content-Length: 1_0\r\n\r\n{}",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        POST + b"X: a\r\n b\r\n\r\n",
        POST + b"X: a\rb\r\n\r\n",
        POST + b"X: a\x00b\r\n\r\n",
        POST + b"A b: c\r\n\r\n",
        POST + b"Host: y\r\n\r\n",
        b"POST /version HTTP/1.1\nHost: x\n\n",
        b"POST /version HTTP/9.9\r\n" + HEAD + b"\r\n",
        CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"2\n{}\n0\n\n",
        CHUNKED + b"2;a\nb\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"ffffffffffffffffffff2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"1\r\n{}\r\n0\r\n\r\n",
    ],
)
def test_a_request_whose_end_could_be_disputed_is_refused_and_the_connection_closed(
    api: Served, request_: bytes
) -> None:
    """The bytes behind it are not taken for a request, as it would be if a proxy saw another end."""
    assert answered(api, request_ + SECOND) == [b"400"]


def test_requests_one_after_another_are_answered_in_turn(api: Served) -> None:
    """The positive control: two requests in one go, with a body of a length and of chunks."""
    plain = POST + b"Content-Length: 2\r\n\r\n{}"
    assert answered(api, plain + SECOND) == [b"422", b"200"]
    assert answered(api, CHUNKED + b"2\r\n{}\r\n0\r\n\r\n" + SECOND) == [b"422", b"200"]


def test_a_request_for_no_path_is_a_bad_request(api: Served) -> None:
    assert answered(api, b"CONNECT a:1 HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n") == [b"400"]


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"zstd"])
def test_bodies_are_not_inflated(api: Served, encoding: bytes) -> None:
    """As with kube-apiserver: so a few bytes cannot become many."""
    body = gzip.compress(b'{"metadata":{"name":"' + b"x" * 10_000_000 + b'"}}')
    head = b"Content-Encoding: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (encoding, len(body))
    assert answered(api, POST + head + body) == [b"400"]


def test_connections_without_a_request_are_limited_in_time(api: Served) -> None:
    runner = api.server._runner
    assert runner is not None
    assert runner.server is not None
    with connected(api):
        until(lambda: bool(runner.server.connections))  # type: ignore[union-attr]
        assert {one._keepalive_timeout for one in runner.server.connections} == {90.0}


@pytest.mark.parametrize(
    "sizes", [[], [1], [SLICE], [SLICE + 1], [10, SLICE, 10], [3 * SLICE, 5], [7] * 99_999]
)
def test_slices_are_the_pieces_in_order_and_none_is_large(sizes: list[int]) -> None:
    pieces = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    made = list(slices(pieces))
    assert b"".join(made) == b"".join(pieces)
    assert all(0 < len(one) <= SLICE for one in made)
    assert len(made) <= 2 * sum(sizes) // SLICE + 2


def test_watches_that_are_not_read_share_what_waits_and_the_transport_has_little_of_it() -> None:
    with serving() as api:
        idle = [connected(api) for _ in range(20)]
        for connection in idle:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(f"GET {PODS}?watch=true HTTP/1.1\r\n".encode() + HEAD + b"\r\n")
        reads = api.server.handler.reads
        until(lambda: len(reads._watches) == len(idle))
        for number in range(40):
            api.create_pod(pod(f"big-{number}", annotations={"note": "x" * 200_000}))

        def held() -> tuple[int, int, int]:
            watches: list[WatchResponse] = list(reads._watches)
            lines = [line for watch in watches for line in watch._waiting]
            transports = [watch._transport for watch in watches if watch._transport is not None]
            buffered = max(transport.get_write_buffer_size() for transport in transports)
            return len(lines), sum(map(len, {id(line): line for line in lines}.values())), buffered

        lines, different, buffered = api.run(lambda store: held())
        assert lines > 20 * 5
        assert different < 40 * 250_000
        assert buffered < 4 * SLICE
        for connection in idle:
            connection.close()
        until(lambda: not reads._watches)


def test_a_long_answer_that_is_not_read_waits_outside_the_transport() -> None:
    with serving() as api:
        for number in range(30):
            api.create_pod(pod(f"big-{number}", annotations={"note": "x" * 200_000}))
        with connected(api) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(f"GET {PODS} HTTP/1.1\r\n".encode() + HEAD + b"\r\n")
            connection.recv(15)
            runner = api.server._runner
            assert runner is not None
            assert runner.server is not None
            (protocol,) = runner.server.connections
            assert protocol.transport is not None
            assert protocol.transport.get_write_buffer_size() < 4 * SLICE
        answer = api.ask("GET", PODS)
        assert (answer.code, len(answer.body["items"])) == (200, 30)
