"""A network on a bad day: proxies before an API server.

`MisbehavingProxy` breaks, delays and repeats requests, by repeatable chance. Unlike `faults`, which makes a
client's calls fail, it stands between two real sockets with TLS on both sides: what a client does with bytes
that stop in the middle of a line is seen only here. `OutageProxy` passes bytes on as they are, until the
server is to seem gone.
"""

import asyncio
import contextlib
import random
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

from stowplan.localcluster.apiserver.server import kubeconfig, self_signed
from stowplan.runtime.clock import Clock, RealClock
from stowplan.server.serving.certificates import Certificate

_LIMIT: Final = 1 << 20
_BUSY: Final = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","reason":"TooManyRequests",'
    b'"code":429}'
)
_BROKEN: Final = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","reason":"InternalError",'
    b'"code":500}'
)


@dataclass
class WireFaults:
    """Probability of each fault, from 0 to 1, and durations in seconds.

    For a request: `reset` breaks the connection before the server gets it, `lost` after the server has
    processed it, `stalled` leaves it without an answer for `stall` seconds, `busy` answers 429 and `broken`
    500, `slow` delays the answer by up to `delay` seconds, `twice` sends it to the server twice. For a watch,
    for each piece of it: `cut` ends it in the middle of a line, `silent` forwards nothing more though the
    connection stays. `overtaken` delays a connection by up to `delay`, so that later ones come first.
    """

    reset: float = 0.0
    lost: float = 0.0
    stalled: float = 0.0
    busy: float = 0.0
    broken: float = 0.0
    slow: float = 0.0
    twice: float = 0.0
    cut: float = 0.0
    silent: float = 0.0
    overtaken: float = 0.0
    delay: float = 0.2
    stall: float = 5.0

    def stop(self) -> None:
        """From now on all is well."""
        for one in fields(self):
            if one.name not in ("delay", "stall"):
                setattr(self, one.name, 0.0)


class _Request(NamedTuple):
    head: bytes
    body: bytes

    @property
    def is_watch(self) -> bool:
        return b"watch=true" in self.head.partition(b"\r\n")[0]


class _Line(NamedTuple):
    """A connection, from one side."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class MisbehavingProxy:
    """A proxy for the server at `port` of this machine, whose certificate is `certificate`.

    `async with` begins and ends it. `struck` counts its faults, by the names in `WireFaults`.
    """

    def __init__(
        self,
        port: int,
        certificate: bytes | None,
        faults: WireFaults,
        rng: random.Random,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._port = port
        self._trust = _trusting(certificate)
        self.faults = faults
        self._rng = rng
        self._certificate: Certificate = self_signed([], (clock or RealClock()).now())
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.struck: Counter[str] = Counter()
        self.url = ""

    async def __aenter__(self) -> "MisbehavingProxy":
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, ssl=self._certificate.context(), limit=_LIMIT
        )
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def connections(self) -> int:
        """Number of connected clients."""
        return len(self._tasks)

    def kubeconfig(self, token: str | None) -> str:
        """How clients get in through the proxy."""
        return kubeconfig(self.url, self._certificate.certificate, token)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        client = _Line(reader, writer)
        server: _Line | None = None
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, OSError, _BrokenError):
                if self._strikes("overtaken"):
                    await self._wait()
                server = await self._dial()
                while True:
                    await self._pass_on(await _request(reader), client, server)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            for line in (client, server):
                if line is not None:
                    line.writer.close()
            self._tasks.discard(task)

    async def _dial(self) -> _Line:
        name = "localhost" if self._trust is not None else None
        made = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._trust, server_hostname=name, limit=_LIMIT
        )
        return _Line(*made)

    async def _pass_on(self, request: _Request, client: _Line, server: _Line) -> None:
        """One request and its answer, or what becomes of them."""
        if self._strikes("reset"):
            raise _broken(client)
        if self._strikes("busy"):
            client.writer.write(_answer(b"429 Too Many Requests\r\nRetry-After: 1", _BUSY))
            return
        if self._strikes("broken"):
            client.writer.write(_answer(b"500 Internal Server Error", _BROKEN))
            return
        if self._strikes("stalled"):
            if self._rng.random() < 0.5 and not request.is_watch:
                await self._exchange(request, server)
            await asyncio.sleep(self.faults.stall)
            raise _broken(client)
        if request.is_watch:
            await self._watch(request, client, server)
            return
        if self._strikes("twice"):
            await self._exchange(request, server)
        head, body = await self._exchange(request, server)
        if self._strikes("lost"):
            raise _broken(client)
        if self._strikes("slow"):
            await self._wait()
        client.writer.write(head + body)
        await client.writer.drain()

    async def _exchange(self, request: _Request, server: _Line) -> tuple[bytes, bytes]:
        server.writer.write(request.head + request.body)
        head = await server.reader.readuntil(b"\r\n\r\n")
        pieces: list[bytes] = []
        if _is_chunked(head):

            async def keep(piece: bytes) -> None:
                pieces.append(piece)

            await _chunks(server, keep)
            pieces.append(_chunk(b""))
        else:
            pieces.append(await server.reader.readexactly(_length(head)))
        return head, b"".join(pieces)

    async def _watch(self, request: _Request, client: _Line, server: _Line) -> None:
        server.writer.write(request.head + request.body)
        head = await server.reader.readuntil(b"\r\n\r\n")
        client.writer.write(head)
        if not _is_chunked(head):
            client.writer.write(await server.reader.readexactly(_length(head)))
            return

        async def forward(piece: bytes) -> None:
            if self._strikes("silent"):
                await asyncio.Event().wait()
            if self._strikes("cut"):
                await self._cut(piece, client)
            client.writer.write(piece)
            await client.writer.drain()

        ended = asyncio.ensure_future(client.reader.read())
        copying = asyncio.ensure_future(_chunks(server, forward))
        try:
            await asyncio.wait([ended, copying], return_when=asyncio.FIRST_COMPLETED)
            if ended.done() and not copying.done():
                raise _BrokenError
            copying.result()
            client.writer.write(_chunk(b""))
        finally:
            for task in (ended, copying):
                task.cancel()
            await asyncio.gather(ended, copying, return_exceptions=True)

    async def _cut(self, chunk: bytes, client: _Line) -> None:
        """Send the beginning of a piece as if that were all, then end the answer properly or not at all."""
        _, _, data = chunk[:-2].partition(b"\r\n")
        client.writer.write(_chunk(data[: self._rng.randrange(1, max(2, len(data)))]))
        if self._rng.random() < 0.5:
            client.writer.write(_chunk(b""))
            client.writer.close()
            raise _BrokenError
        await client.writer.drain()
        raise _broken(client)

    def _strikes(self, name: str) -> bool:
        probability: float = getattr(self.faults, name)
        struck = probability > 0 and self._rng.random() < probability
        self.struck[name] += struck
        return struck

    async def _wait(self) -> None:
        await asyncio.sleep(self._rng.random() * self.faults.delay)


class OutageProxy:
    """Passes bytes on to the server at `port` of this machine, and can make it seem gone in two ways.

    `refuse` closes all connections and refuses new ones. `vanish` is a half-open network: connections stay
    established and new ones can be made, but nothing comes through. `restore` lets new connections through;
    those from before a `vanish` stay dead, as behind a firewall that has lost its state.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._lives = asyncio.Event()
        self._lives.set()
        self._age = 0
        self.port = 0
        self.accepted = 0

    async def __aenter__(self) -> "OutageProxy":
        await self._listen()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def refuse(self) -> None:
        """Be gone as a process that has ended is: connections are reset, new ones refused."""
        self._close()
        for writer in list(self._writers):
            writer.transport.abort()

    def vanish(self) -> None:
        """Be gone without a word."""
        self._age += 1
        self._lives.clear()

    async def restore(self) -> None:
        """Be there again."""
        self._lives.set()
        if self._server is None:
            await self._listen()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.accepted += 1
        try:
            if self._lives.is_set():
                with contextlib.suppress(OSError):
                    await self._forward(_Line(reader, writer))
            else:
                await _swallow(reader)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.close()
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _forward(self, client: _Line) -> None:
        server = _Line(*await asyncio.open_connection("127.0.0.1", self._target))
        copies = [
            asyncio.ensure_future(self._copy(client.reader, server.writer, self._age)),
            asyncio.ensure_future(self._copy(server.reader, client.writer, self._age)),
        ]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
            server.writer.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, age: int) -> None:
        """Pass bytes on for as long as the connection is not older than the last time all vanished."""
        while data := await reader.read(1 << 16):
            if age == self._age:
                writer.write(data)
                await writer.drain()
        if age != self._age:
            await asyncio.Event().wait()


async def _swallow(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(1 << 16):
            continue


class _BrokenError(Exception):
    """A connection that has been dealt with."""


def _broken(line: _Line) -> _BrokenError:
    line.writer.transport.abort()
    return _BrokenError()


async def _request(reader: asyncio.StreamReader) -> _Request:
    head = await reader.readuntil(b"\r\n\r\n")
    return _Request(head, await reader.readexactly(_length(head)))


async def _chunks(server: _Line, forward: Callable[[bytes], Awaitable[None]]) -> None:
    """Every chunk of an answer, as it stands on the wire, without the last."""
    while True:
        line = await server.reader.readline()
        size = int(line, 16)
        data = await server.reader.readexactly(size + 2)
        if not size:
            return
        await forward(line + data)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _answer(status: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        status,
        len(body),
        body,
    )


def _length(head: bytes) -> int:
    given = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
    return int(given) if given else 0


def _is_chunked(head: bytes) -> bool:
    return b"\r\ntransfer-encoding: chunked" in head.lower()


def _trusting(certificate: bytes | None) -> ssl.SSLContext | None:
    return None if certificate is None else ssl.create_default_context(cadata=certificate.decode())
