"""A small scripted server, which can also answer in ways no server should."""

import asyncio
import contextlib
import random
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from stowplan.client.http import Address, HttpClient, Identity, Server
from stowplan.runtime.clock import RealClock

Act = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(status: str, body: bytes = b"{}", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def chunked(*pieces: bytes, status: str = "200 OK", end: bool = True) -> bytes:
    head = f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    text = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return head + text + (b"0\r\n\r\n" if end else b"")


OK = answer("200 OK")
CREATED = answer("201 Created")


async def drop(writer: asyncio.StreamWriter) -> None:
    """Close without a word."""
    writer.transport.abort()


async def silence(writer: asyncio.StreamWriter) -> None:
    """Take the request and never answer."""
    await asyncio.Event().wait()


def then_drop(text: bytes) -> Act:
    async def act(writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()
        writer.close()

    return act


def bit_by_bit(text: bytes, size: int = 1, pause: float = 0.0) -> Act:
    """Write pieces of a size, each on its own."""

    async def act(writer: asyncio.StreamWriter) -> None:
        for at in range(0, len(text), size):
            writer.write(text[at : at + size])
            await writer.drain()
            await asyncio.sleep(pause)

    return act


def not_before(holds: Callable[[], object], text: bytes) -> Act:
    """Write a line of the head after the other until something holds, then the rest: it is never silent."""

    async def act(writer: asyncio.StreamWriter) -> None:
        first, end, rest = text.partition(b"\r\n")
        writer.write(first + end)
        while not holds():
            writer.write(b"Wait: still\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)
        writer.write(rest)

    return act


class NastyServer:
    """Answers requests by its scripts, one after the other; the last one serves for all that follow.

    Probes of a client that is in doubt about its server are answered well, and counted apart.
    """

    def __init__(self, *scripts: bytes | Act, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._scripts = list(scripts)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None
        self.requests: list[bytes] = []
        self.times: list[float] = []
        self.connections = 0
        self.probes = 0

    async def __aenter__(self) -> "NastyServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def client(self, **options: Any) -> HttpClient:
        server = Server(Address.parse(self.url), identity=options.pop("identity", Identity()))
        given = {"clock": RealClock(), "rng": random.Random(1), "qps": -1, "environ": {}}
        return HttpClient(server, **{**given, **options})

    def _script_for(self, head: bytes) -> bytes | Act:
        return self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = False
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                if head.partition(b" HTTP/1.1")[0].endswith(b"/readyz"):
                    self.probes += 1
                    writer.write(OK)
                    continue
                self.connections += not served
                served = True
                length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
                body = await reader.readexactly(int(length)) if length else b""
                self.requests.append(head + body)
                self.times.append(asyncio.get_running_loop().time())
                script = self._script_for(head)
                if isinstance(script, bytes):
                    writer.write(script)
                else:
                    await script(writer)
        writer.close()
        self._tasks.discard(task)


class ChoosingServer(NastyServer):
    """Chooses its script by the method and the target of a request."""

    def __init__(self, choose: Callable[[str, str], bytes | Act], tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls=tls)
        self._choose = choose

    def _script_for(self, head: bytes) -> bytes | Act:
        method, target, _ = head.decode().split(" ", 2)
        return self._choose(method, target)
