"""A real HTTP server on this machine that plays an extender, and what tests need around it."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from stowplan.config.types import Extender
from stowplan.gocompat.durations import Duration
from stowplan.scheduler.extenders.http import HttpExtender
from waiting import PATIENCE

Answer = Callable[[str, Any], Any]


@dataclass
class Heard:
    """A request as it arrived."""

    method: str
    verb: str
    headers: dict[str, str]
    body: Any
    connection: object


@dataclass
class Server:
    """A running server: its address, what it has heard, and what it answers by verb and body."""

    answer: Answer
    url: str = ""
    heard: list[Heard] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        verb = request.path.rpartition("/")[2]
        text = await request.read() or b"null"
        headers = dict(request.headers)
        self.heard.append(Heard(request.method, verb, headers, json.loads(text), request.transport))
        answer = self.answer(verb, json.loads(text))
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, web.StreamResponse):
            return answer
        if isinstance(answer, bytes):
            return web.Response(body=answer)
        return web.json_response(answer)


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server for the duration of a test."""
    server = Server(answer)
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/ext"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_server(reply: bytes, *, close: bool = True) -> AsyncIterator[str]:
    """A server that reads a request and sends exactly these bytes."""

    open_ends: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_ends.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()
        if close:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/ext"
    finally:
        for writer in open_ends:
            writer.close()
        server.close()
        await server.wait_closed()


def config(url: str, **changes: Any) -> Extender:
    """An extender with all verbs."""
    settings: dict[str, Any] = {
        "url_prefix": url,
        "filter_verb": "filter",
        "prioritize_verb": "prioritize",
        "preempt_verb": "preempt",
        "bind_verb": "bind",
        "weight": 1,
        "node_cache_capable": True,
        "http_timeout": Duration.of_seconds(5),
    }
    return Extender(**{**settings, **changes})


@asynccontextmanager
async def extender(url: str, **changes: Any) -> AsyncIterator[HttpExtender]:
    """An extender that is closed in the end."""
    made = HttpExtender(config(url, **changes), environ={})
    try:
        yield made
    finally:
        await made.close()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test in real time, with a limit."""

    async def limited() -> None:
        async with asyncio.timeout(PATIENCE):
            await main

    asyncio.run(limited())
