"""Those who hold a place, send too much, or do not take what they asked for."""

import ast
import asyncio
import contextlib
import inspect
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from server.serving.secureports import Caller, eventually, page, port, trusting_all
from stowplan.server.serving import AuthorizationSettings, Limits, SecureServer, connections
from waiting import PATIENCE

OPEN = AuthorizationSettings(always_allow_paths=("*",))
LOST = (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)


async def reading(request: web.Request) -> web.StreamResponse:
    return web.Response(text=str(len(await request.read())))


async def large(request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"x" * 32_000_000)


def limited(folder: Path, **limits: Any) -> SecureServer:
    pages = {"/healthz": page(), "/read": reading, "/large": large}
    return port(folder, pages, authorization=OPEN, limits=Limits(**{"sweep_interval": 0.05, **limits}))


async def raw(server: SecureServer, data: bytes) -> bytes:
    """All that comes back, until the port closes the connection."""
    reader, writer = await Caller(server.port).connect()
    writer.write(data)
    try:
        async with asyncio.timeout(PATIENCE):
            return await reader.read()
    finally:
        writer.close()


async def is_cut(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(PATIENCE):
        try:
            assert await reader.read() == b""
        except LOST:
            return


@pytest.mark.parametrize("said", [b"", b"GET /healthz HT", b"\x16\x03\x01"])
def test_who_connects_and_does_not_go_on_is_cut_off(tmp_path: Path, said: bytes) -> None:
    async def run() -> None:
        async with limited(tmp_path, handshake=0.2) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(said)
            async with asyncio.timeout(PATIENCE):
                answer = await reader.read()
            writer.close()
            assert answer.startswith(b"HTTP/1.0 400") if said.startswith(b"GET") else b"HTTP" not in answer
            await eventually(lambda: answers(server))

    asyncio.run(run())


async def answers(server: SecureServer) -> bool:
    """True if it answers; on a slow machine even a good handshake may time out once."""
    try:
        return (await Caller(server.port).get("/healthz")).code == 200
    except LOST:
        return False


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        (b"", {"idle": 0.2}),
        (b"GET /healthz HTTP/1.1\r\nHost:", {"idle": 0.2}),
        (b"PUT /read HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", {"request": 0.2}),
    ],
    ids=["silent", "half a head", "half a body"],
)
def test_a_secure_connection_that_does_not_move_is_cut_off(
    tmp_path: Path, said: bytes, limits: dict[str, float]
) -> None:
    async def run() -> None:
        async with limited(tmp_path, **limits) as server:
            reader, writer = await Caller(server.port).connect()
            writer.write(said)
            await is_cut(reader)
            writer.close()

    asyncio.run(run())


def test_who_does_not_take_the_answer_is_cut_off(tmp_path: Path) -> None:
    async def run() -> None:
        async with limited(tmp_path, stalled=0.3) as server:
            sock = socket.create_connection(("127.0.0.1", server.port))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            loop = asyncio.get_running_loop()
            secure = await loop.run_in_executor(None, trusting_all().wrap_socket, sock)
            secure.send(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            await eventually(lambda: counts(server, 1))
            await eventually(lambda: counts(server, 0))
            secure.close()

    asyncio.run(run())


async def counts(server: SecureServer, number: int) -> bool:
    return server.open_connections == number


def test_when_all_places_are_taken_the_longest_silent_one_goes(tmp_path: Path) -> None:
    async def run() -> None:
        async with limited(tmp_path, connections=3) as server:
            caller = Caller(server.port)
            held = [await caller.connect() for _ in range(3)]
            assert (await caller.ask(*held[0], "/healthz")).code == 200
            assert (await caller.get("/healthz")).code == 200
            await is_cut(held[1][0])
            assert (await caller.ask(*held[0], "/healthz")).code == 200
            assert (await caller.ask(*held[2], "/healthz")).code == 200
            for _, writer in held:
                writer.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 20_000 + b"\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 100 + b"\r\n", 400),
        (
            b"PUT /read HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1500000\r\n\r\n"
            + b"x" * 1_500_000,
            413,
        ),
        (
            b"PUT /read HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde",
            200,
        ),
    ],
    ids=["long line", "long header", "many headers", "long body", "what is allowed"],
)
def test_what_is_too_large_is_refused(tmp_path: Path, data: bytes, code: int) -> None:
    async def run() -> bytes:
        async with limited(tmp_path) as server:
            return await raw(server, data)

    assert asyncio.run(run()).split()[1] == str(code).encode()


def test_large_headers_do_not_add_up(tmp_path: Path) -> None:
    async def run() -> None:
        async with limited(tmp_path) as server:
            reader, writer = await Caller(server.port).connect()
            writer.write(b"GET /healthz HTTP/1.1\r\n")
            with contextlib.suppress(*LOST):
                for _ in range(8):
                    writer.write(b"A: " + b"b" * 10_000 + b"\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.01)
            await is_cut(reader)
            writer.close()

    asyncio.run(run())


def test_a_large_body_does_not_count_as_a_large_head(tmp_path: Path) -> None:
    async def late(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(1.0)
        return await reading(request)

    async def run() -> bytes:
        body = b"x" * 900_000
        first = b"PUT /late HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n" + body
        pages = {"/late": late}
        async with port(
            tmp_path, pages, authorization=OPEN, limits=Limits(sweep_interval=0.05, head=3000)
        ) as server:
            return await raw(server, first + first.replace(b"Host: x", b"Host: x\r\nConnection: close"))

    assert asyncio.run(run()).count(b"\r\n\r\n900000") == 2


def test_nothing_private_of_aiohttp_is_used() -> None:
    """Its minor releases may change that without a word."""
    hidden = {name for name in web.RequestHandler.__slots__ if name.startswith("_")}
    source = ast.parse(inspect.getsource(connections))
    used = {node.attr for node in ast.walk(source) if isinstance(node, ast.Attribute)}
    assert used & (hidden - set(connections.ConnectionHandler.__slots__)) == set()


def test_many_requests_on_one_connection_are_not_added_up(tmp_path: Path) -> None:
    async def run() -> None:
        async with limited(tmp_path, head=3000) as server:
            caller = Caller(server.port, headers={"A": "b" * 1000})
            reader, writer = await caller.connect()
            for _ in range(10):
                assert (await caller.ask(reader, writer, "/healthz")).code == 200
            writer.close()
            many = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 200
            last = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            assert (await raw(server, many + last)).count(b"HTTP/1.1 200 OK") == 201

    asyncio.run(run())


def test_what_cannot_be_read_is_not_repeated_and_nothing_is_told_of_the_server(tmp_path: Path) -> None:
    async def run() -> bytes:
        async with limited(tmp_path) as server:
            return await raw(server, b"RUBBISH <script> HTTP/1.1\r\n\r\n")

    head, _, body = asyncio.run(run()).partition(b"\r\n\r\n")
    assert body == b"400 Bad Request"
    assert b"aiohttp" not in head


def test_requests_under_way_may_finish_when_the_port_closes(tmp_path: Path) -> None:
    began = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        began.set()
        await asyncio.sleep(0.3)
        return web.Response(text="done")

    async def run() -> None:
        server = port(tmp_path, {"/slow": slow}, authorization=OPEN)
        await server.start()
        asking = asyncio.create_task(Caller(server.port).get("/slow"))
        _, idle = await Caller(server.port).connect()
        await began.wait()
        await server.stop()
        assert (await asking).body == "done"
        idle.close()
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await Caller(server.port).connect()

    asyncio.run(run())
