"""Connections: taken in, made secure, watched, and cut off when they only hold a place."""

import asyncio
import contextlib
import fcntl
import socket
import ssl
import sys
import termios
from collections.abc import Callable, Iterator
from typing import Final

from aiohttp import web

from stowplan.logs import Journal
from stowplan.serving.conversation import Conversation
from stowplan.serving.limits import Limits

_HTTP_BEGINNINGS: Final = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")
_PLAIN_ANSWER: Final = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
_GOODBYE: Final = 2.0
"""Seconds that a client is given to say goodbye to TLS."""

_BREATH: Final = 0.1
_HANDSHAKE_ERRORS_AT: Final = 5


class Connection:
    """One connection, with what is needed to see if it moves."""

    def __init__(self, protocol: Conversation, now: float) -> None:
        self.protocol = protocol
        self.handshake: asyncio.Task[None] | None = None
        self.request: web.BaseRequest | None = None
        self.since = now
        self._unsent = 0
        self._unsent_since = now

    @property
    def is_over(self) -> bool:
        return self.handshake is None and self.protocol.transport is None

    def is_stuck(self, now: float, limits: Limits) -> bool:
        transport = self.protocol.transport
        if self.handshake is not None or not isinstance(transport, asyncio.WriteTransport):
            return False
        unsent = transport.get_write_buffer_size() + _unacknowledged(transport)
        if unsent == 0 or unsent != self._unsent:
            self._unsent, self._unsent_since = unsent, now
        if now - self._unsent_since > limits.stalled:
            return True
        if self.request is None:
            return now - self.since > limits.idle
        return not self.request.content.is_eof() and now - self.since > limits.request

    def cut(self) -> None:
        if self.handshake is not None:
            self.handshake.cancel()
        elif isinstance(self.protocol.transport, asyncio.WriteTransport):
            self.protocol.transport.abort()


class Connections:
    """Takes connections from a listening socket and hands them to aiohttp.

    TLS begins with whatever `context` gives at that moment for the address that was called. When all places
    are taken, whoever has been silent for longest has to go.
    """

    def __init__(
        self,
        listener: socket.socket,
        factory: Callable[[], Conversation],
        context: Callable[[str], ssl.SSLContext],
        limits: Limits,
        journal: Journal,
    ) -> None:
        self._listener = listener
        self._factory = factory
        self._context = context
        self._limits = limits
        self._journal = journal
        self._open: dict[web.RequestHandler, Connection] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        return len(self._open)

    def start(self) -> None:
        self._listener.setblocking(False)
        self._tasks = [asyncio.create_task(self._accept()), asyncio.create_task(self._sweep())]

    async def stop(self) -> None:
        """Take in no more, and let go of those that are not secure yet."""
        handshakes = [one.handshake for one in self._open.values() if one.handshake is not None]
        for task in (*self._tasks, *handshakes):
            task.cancel()
        await asyncio.gather(*self._tasks, *handshakes, return_exceptions=True)
        self._listener.close()

    @contextlib.contextmanager
    def busy(self, request: web.BaseRequest) -> Iterator[None]:
        """While this lasts a connection is at work on a request."""
        connection = self._open.get(request.protocol)
        if connection is None:
            yield
            return
        loop = asyncio.get_running_loop()
        connection.request, connection.since = request, loop.time()
        try:
            with connection.protocol.answering():
                yield
        finally:
            connection.request, connection.since = None, loop.time()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, address = await loop.sock_accept(self._listener)
            except OSError as error:
                self._journal.problem("Cannot take in a connection", err=str(error))
                await asyncio.sleep(_BREATH)
                continue
            if not self._make_room():
                client.close()
                continue
            connection = Connection(self._factory(), loop.time())
            self._open[connection.protocol] = connection
            connection.handshake = asyncio.create_task(self._admit(client, address, connection))

    def _make_room(self) -> bool:
        self._drop_ended()
        if len(self._open) < self._limits.connections:
            return True
        idle = [one for one in self._open.values() if one.request is None]
        if not idle:
            return False
        silent = min(idle, key=lambda one: one.since)
        silent.cut()
        del self._open[silent.protocol]
        return True

    async def _admit(self, client: socket.socket, address: tuple[str, int], connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        seconds = self._limits.handshake
        try:
            async with asyncio.timeout(seconds):
                beginning = await _first_bytes(client)
                if beginning.startswith(_HTTP_BEGINNINGS):
                    _refuse(client)
                    return
                await loop.connect_accepted_socket(
                    lambda: connection.protocol,
                    client,
                    ssl=self._context(client.getsockname()[0]),
                    ssl_handshake_timeout=seconds,
                    ssl_shutdown_timeout=_GOODBYE,
                )
        except (OSError, TimeoutError) as error:
            if self._journal.shows(_HANDSHAKE_ERRORS_AT):
                why = f"http: TLS handshake error from {address[0]}:{address[1]}: {error}"
                self._journal.info(_HANDSHAKE_ERRORS_AT, why)
        finally:
            connection.handshake, connection.since = None, loop.time()
            if connection.protocol.transport is None:
                self._open.pop(connection.protocol, None)
                client.close()

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._limits.look)
            self._drop_ended()
            for connection in list(self._open.values()):
                if connection.is_stuck(loop.time(), self._limits):
                    connection.cut()

    def _drop_ended(self) -> None:
        for connection in [one for one in self._open.values() if one.is_over]:
            del self._open[connection.protocol]


def _unacknowledged(transport: asyncio.BaseTransport) -> int:
    """Bytes that the other side has not taken. What waits above the kernel grows only if these do not go."""
    connection = transport.get_extra_info("socket")
    number = -1 if connection is None else connection.fileno()
    return 0 if number < 0 else int.from_bytes(fcntl.ioctl(number, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


async def _first_bytes(client: socket.socket) -> bytes:
    """What a client says first, without taking it away."""
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(client, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(client)
    return client.recv(5, socket.MSG_PEEK)


def _refuse(client: socket.socket) -> None:
    """Tell somebody who does not speak TLS; what they sent is taken first, or they would not hear it."""
    client.recv(1 << 16)
    client.send(_PLAIN_ANSWER)
    client.shutdown(socket.SHUT_WR)
