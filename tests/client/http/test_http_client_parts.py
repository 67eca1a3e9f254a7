"""The parts of the client by themselves: chunks, lines, the rate limit, proxies."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.http.nastyserver import OK, NastyServer, answer
from stowplan.api.catalogue import NODES
from stowplan.api.status import ApiError
from stowplan.client.http import AccessError, Address, HttpClient, Secret, Server, Trust
from stowplan.client.http.connection import Chunks, MalformedError, parse_head
from stowplan.client.http.dialer import proxy_for
from stowplan.client.http.transport import RateLimit
from stowplan.client.http.watch import WatchLines
from stowplan.localcluster.apiserver.server import self_signed
from stowplan.runtime.clock import RealClock, VirtualClock, run


def cut(text: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(text) + 1) for place in places} | {len(text)})
    return [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(0, 10_000), max_size=30))
def test_chunks_give_the_same_wherever_they_are_cut(contents: list[bytes], places: list[int]) -> None:
    text = b"".join(b"%x;ext=1\r\n%b\r\n" % (len(one), one) for one in contents) + b"0\r\nTrailer: x\r\n\r\n"
    chunks = Chunks()
    found = b"".join(chunks.feed(part) for part in cut(text, places))
    assert found == b"".join(contents)
    assert chunks.ended


@given(
    st.lists(
        st.tuples(
            st.binary(min_size=1, max_size=40),
            st.sampled_from(
                [b"%x\r\n%b\r\n", b"%X\r\n%b\r\n", b"00%x\r\n%b\r\n", b"%x;a=b\r\n%b\r\n", b"%x \n%b\r\n"]
            ),
        )
    ),
    st.lists(st.integers(0, 10_000), max_size=30),
)
def test_chunks_are_found_however_their_lengths_are_written(
    chunks: list[tuple[bytes, bytes]], places: list[int]
) -> None:
    text = b"".join(form % (len(content), content) for content, form in chunks) + b"0\r\n\r\n"
    taken = Chunks()
    found = b"".join(taken.feed(part) for part in cut(text, places))
    assert found == b"".join(content for content, _ in chunks)
    assert taken.ended


@pytest.mark.parametrize(
    "line", [b"+4", b"-4", b"0x4", b"4_0", b" 4 4", b"4g", b"", b"0000000000000004", b"\xb2"]
)
def test_a_chunk_whose_length_is_no_number_is_malformed(line: bytes) -> None:
    chunks = Chunks()
    with pytest.raises(MalformedError):
        chunks.feed(b"4\r\nabcd\r\n" + line + b"\r\nabcd\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 5\n\nX: y",
        b"no colon",
        b" folded: x",
        b"Content-Length : 5",
        b": x",
        b"A: b\rC: d",
        b"A: \0",
    ],
)
def test_a_head_whose_end_readers_disagree_on_is_malformed(lines: bytes) -> None:
    assert parse_head(b"HTTP/1.1 200 OK\r\nA:b\r\nX_y: \xe9 z").status == 200
    with pytest.raises(MalformedError, match="a malformed header"):
        parse_head(b"HTTP/1.1 200 OK\r\nDate: now\r\n" + lines + b"\r\nConnection: close")


@pytest.mark.parametrize("ending", [b"xx", b"\n\r", b"a\n", b"\r\r"])
def test_a_chunk_that_does_not_end_where_it_says_is_malformed(ending: bytes) -> None:
    chunks = Chunks()
    with pytest.raises(MalformedError):
        chunks.feed(b"4\r\nabcd\r\n4\r\nabcd" + ending + b"4\r\nabcd\r\n0\r\n\r\n")


@given(st.lists(st.text(alphabet="aé€\r ", max_size=20)), st.lists(st.integers(0, 10_000), max_size=30))
def test_lines_are_the_same_wherever_they_are_cut(texts: list[str], places: list[int]) -> None:
    wanted = [text.encode() for text in texts]
    lines = WatchLines()
    found: list[bytes] = []
    for piece in cut(b"".join(one + b"\n" for one in wanted) + b"unfinished", places):
        lines.feed(piece)
        while (line := lines.next()) is not None:
            found.append(bytes(line))
    assert found == wanted
    assert lines.size == len(b"unfinished")


def sending_times(qps: float, burst: int, count: int) -> list[float]:
    async def main(clock: VirtualClock) -> list[float]:
        limit = RateLimit(clock, qps, burst)
        began = clock.now()

        async def one() -> float:
            seconds = limit.reserve()
            if seconds:
                await limit.wait(seconds)
            return clock.now() - began

        return sorted(await asyncio.gather(*(one() for _ in range(count))))

    return run(main)


@pytest.mark.parametrize(
    ("qps", "burst", "times"),
    [
        (2.0, 3, [0, 0, 0, 0.5, 1.0, 1.5]),
        (-1.0, 0, [0, 0, 0, 0, 0, 0]),
        (0.0, 4, [0, 0, 0, 0, 0.2, 0.4]),
    ],
)
def test_a_burst_goes_at_once_and_the_rest_at_the_rate(qps: float, burst: int, times: list[float]) -> None:
    assert sending_times(qps, burst, len(times)) == pytest.approx(times, abs=1e-5)


def test_who_gives_up_waiting_gives_its_place_back() -> None:
    async def main(clock: VirtualClock) -> float:
        limit = RateLimit(clock, 1.0, 1)
        limit.reserve()
        waiting = asyncio.create_task(limit.wait(limit.reserve()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return limit.reserve()

    assert run(main) == 1.0


def test_requests_of_the_client_are_limited() -> None:
    async def main() -> None:
        began = asyncio.get_running_loop().time()
        async with NastyServer(OK) as server, server.client(qps=50, burst=1) as client:
            for _ in range(6):
                await client.get(NODES, "", "n")
            assert asyncio.get_running_loop().time() - began >= 0.09

    asyncio.run(main())


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://k8s.example:6443", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://k8s.example:6443", {"https_proxy": "p:1"}, "http://p:1"),
        ("https://k8s.example:6443", {"HTTP_PROXY": "http://p:1"}, ""),
        ("https://k8s.example:6443", {"HTTPS_PROXY": "p:1", "NO_PROXY": "example"}, ""),
        ("https://k8s.example:6443", {"HTTPS_PROXY": "p:1", "NO_PROXY": ".k8s.example"}, "http://p:1"),
        ("https://k8s.example:6443", {"HTTPS_PROXY": "p:1", "NO_PROXY": "k8s.example:1"}, "http://p:1"),
        ("https://10.1.2.3", {"HTTPS_PROXY": "p:1", "no_proxy": "10.0.0.0/8"}, ""),
        ("https://10.1.2.3", {"HTTPS_PROXY": "p:1", "NO_PROXY": "*"}, ""),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "p:1"}, ""),
    ],
)
def test_the_environment_says_which_proxy(url: str, environ: dict[str, str], proxy: str) -> None:
    assert proxy_for(Address.parse(url), environ) == proxy


class Tunnel:
    """A proxy that connects everything to one port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.heads: list[bytes] = []

    async def __aenter__(self) -> "Tunnel":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://user:p%40ss@127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        there, away = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_pump(reader, away), _pump(there, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


def client_through(address: str, proxy: str, trust: Trust | None = None) -> HttpClient:
    server = Server(Address.parse(address), trust or Trust(), proxy=proxy)
    return HttpClient(server, clock=RealClock(), rng=random.Random(1), qps=-1, environ={})


def test_a_server_with_tls_is_reached_through_a_tunnel() -> None:
    async def main() -> None:
        own = self_signed(["k8s.example"], RealClock().now())
        async with NastyServer(OK, tls=own.context()) as server, Tunnel(server.port) as tunnel:
            trust = Trust(Secret(own.certificate))
            async with client_through("https://k8s.example:6443", tunnel.url, trust) as client:
                assert await client.get(NODES, "", "n") == {}
                assert await client.get(NODES, "", "n") == {}
        (head,) = tunnel.heads
        assert head.startswith(b"CONNECT k8s.example:6443 HTTP/1.1\r\nHost: k8s.example:6443\r\n")
        assert b"Proxy-Authorization: Basic dXNlcjpwQHNz\r\n" in head
        assert b"Proxy-Authorization" not in server.requests[0]

    asyncio.run(main())


def test_a_server_without_tls_is_asked_for_by_its_whole_address() -> None:
    async def main() -> None:
        address = "http://k8s.example:8080/base"
        async with NastyServer(OK) as proxy, client_through(address, proxy.url) as client:
            assert await client.get(NODES, "", "n") == {}
        head = proxy.requests[0]
        assert head.startswith(b"GET http://k8s.example:8080/base/api/v1/nodes/n HTTP/1.1\r\n")
        assert b"Host: k8s.example:8080\r\n" in head

    asyncio.run(main())


def test_a_proxy_that_refuses_is_named() -> None:
    async def main() -> None:
        refusal = answer("407 Proxy Authentication Required")
        async with NastyServer(refusal) as proxy, client_through("https://k8s.example", proxy.url) as client:
            with pytest.raises(ApiError, match="proxyconnect tcp: 407 Proxy Authentication") as failure:
                await client.create(NODES, {"metadata": {"name": "n"}})
        assert failure.value.is_unreachable
        with pytest.raises(AccessError, match="proxy: expected an http or https address, got 'h:1'"):
            client_through("https://k8s.example", "socks5://secret@h:1")

    asyncio.run(main())


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: 5\r\nX: y\r\ncontent-length: 6",
        b"Content-Length: -1",
        b"Content-Length: +5",
        b"Content-Length: 5, 6",
        b"Content-Length: 0x10",
        b"Content-Length: 99999999999999999999",
        b"Content-Length: \xc2\xb2",
        b"Content-Length:\r\n 5",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding: xchunked",
    ],
)
def test_an_answer_whose_end_can_be_read_in_two_ways_is_refused(fields: bytes) -> None:
    with pytest.raises(MalformedError):
        parse_head(b"HTTP/1.1 200 OK\r\n" + fields)


def test_nothing_is_sent_after_an_answer_with_a_length_and_chunks() -> None:
    head = parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked")
    assert head.chunked
    assert head.closes
    assert not parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5").closes
