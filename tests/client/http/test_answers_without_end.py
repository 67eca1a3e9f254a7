"""Answers larger than any object end with one clear error, long before they fill the memory."""

import asyncio
import random
from itertools import chain, repeat
from typing import Any, Final

import pytest

from client.http.http2peer import Http2Server
from client.http.nastyserver import Act, NastyServer, answer
from stowplan.api.catalogue import NODES
from stowplan.api.node import Node
from stowplan.api.status import ApiError
from stowplan.client import Reflector
from stowplan.client.http import HttpClient, connection, decoder, http2, watch
from stowplan.runtime.clock import RealClock
from waiting import eventually

LIMIT: Final = 512 * 1024
FAR: Final = 64 * 1024 * 1024
"""Bytes a server could send over a connection whose ends buffer some megabytes, if it were read for ever."""

LIST: Final = b'{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":['
TOO_LARGE: Final = "the limit of one object"


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (connection, decoder, http2, watch):
        monkeypatch.setattr(module, "LARGEST_OBJECT", LIMIT)


def endless(first: bytes, more: bytes, sent: list[int], head: str = "Transfer-Encoding: chunked") -> Act:
    """An answer that continues as long as it is read; notes the bytes sent."""

    async def act(writer: asyncio.StreamWriter) -> None:
        sent.append(0)
        writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode())
        for piece in chain([first], repeat(more * (16_384 // len(more)))):
            if not piece:
                continue
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if "chunked" in head else piece)
            await writer.drain()
            sent[-1] += len(piece)
            assert sent[-1] < FAR

    return act


async def got(client: HttpClient) -> None:
    await client.get_path("/version")


async def listed(client: HttpClient) -> None:
    await client.list(NODES, Node)


async def watched(client: HttpClient) -> None:
    async for _ in client.watch(NODES, Node, since="1"):
        pass


@pytest.mark.parametrize(
    ("ask", "first", "more"),
    [
        (got, b'{"a":"', b"x"),
        (got, b"", b" "),
        (listed, b'{"a":"', b"x"),
        (listed, b"", b" "),
        (listed, LIST + b'{"metadata":{"name":"', b"x"),
        (listed, LIST + b'{"metadata":{"managedFields":[', b"["),
        (listed, LIST + b'{"metadata":{}}],"more":[{"metadata":"', b'},{"metadata":'),
        (watched, b'{"type":"ADDED","object":{"metadata":{"name":"', b"x"),
        (watched, b'{"type":"ADDED","object":', b"["),
    ],
)
@pytest.mark.parametrize("head", ["Transfer-Encoding: chunked", "Connection: close"])
def test_an_answer_without_end_is_given_up(ask: Any, first: bytes, more: bytes, head: str) -> None:
    sent: list[int] = []

    async def run() -> None:
        async with NastyServer(endless(first, more, sent, head)) as server, server.client() as client:
            with pytest.raises(ApiError, match=TOO_LARGE) as failure:
                await ask(client)
            assert failure.value.is_unreachable
            await eventually(lambda: all(one < FAR for one in sent))

    asyncio.run(run())
    assert sent


def test_an_answer_that_says_that_it_is_too_long_is_not_read() -> None:
    async def run() -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {300 * 1024 * 1024}\r\n\r\n".encode()
        async with NastyServer(head) as server, server.client() as client:
            with pytest.raises(ApiError, match=TOO_LARGE):
                await client.get_path("/version")

    asyncio.run(run())


def test_over_http2_one_answer_is_given_up_and_the_connection_goes_on() -> None:
    async def run() -> None:
        large, small = answer("200 OK", b" " * (2 * LIMIT)), answer("200 OK", b'{"a":1}')
        scripts = [large, large, large, large, small]
        async with Http2Server(*scripts) as server, server.client() as client:
            with pytest.raises(ApiError, match=TOO_LARGE):
                await client.get_path("/version")
            assert await client.get_path("/version") == {"a": 1}
            assert server.connections == 1

    asyncio.run(run())


def test_interim_answers_without_end_are_given_up() -> None:
    async def run() -> None:
        text = b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000
        async with NastyServer(text) as server, server.client() as client:
            with pytest.raises(ApiError, match="too many 1xx"):
                await client.get_path("/version")

    asyncio.run(run())


def test_a_list_of_any_length_is_read_while_its_objects_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is one of objects, not of lists, also where items are written in another way than usual."""

    async def run(text: bytes, count: int) -> None:
        async with NastyServer(answer("200 OK", text)) as server, server.client() as client:
            found = await client.list(NODES, Node)
            assert [one.name for one in found.items] == [f"n{number}" for number in range(count)]

    count = 4 * LIMIT // 1_000
    filling = b"x" * 1_000
    items = [
        b'{"metadata":{"name":"n%d","labels":{"a":"%b"}}}' % (number, filling) for number in range(count)
    ]
    asyncio.run(run(LIST + b",".join(items) + b"]}", count))
    spaced = (
        LIST.replace(b":[", b" : [ ") + b" ,\n ".join(items).replace(b'{"metadata"', b'{ "metadata" ') + b"]}"
    )
    asyncio.run(run(spaced, count))


def test_a_server_that_never_ends_its_answers_is_asked_again_later() -> None:
    """One line of log for each attempt, pauses that grow, and all is well as soon as the server is."""
    sent: list[int] = []
    good = answer("200 OK", LIST + b'{"metadata":{"name":"n"}}]}')
    reports: list[str] = []

    async def run() -> None:
        async with (
            NastyServer(endless(LIST, b'{"metadata":[', sent), good) as server,
            server.client() as client,
        ):
            reflector: Reflector[Node] = Reflector(
                client, NODES, Node, Silent(), clock=RealClock(), rng=random.Random(1), report=reports.append
            )
            running = asyncio.create_task(reflector.run())
            await eventually(lambda: reflector.objects)
            running.cancel()

    asyncio.run(run())
    assert sum(TOO_LARGE in one for one in reports) == 1


class Silent:
    def added(self, new: Node) -> None: ...
    def updated(self, old: Node, new: Node) -> None: ...
    def deleted(self, last: Node) -> None: ...
