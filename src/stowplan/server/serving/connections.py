"""TCP connections of the secure port: accepted, upgraded to TLS, and closed when they stall."""

import asyncio
import contextlib
import fcntl
import socket
import ssl
import sys
import termios
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from stowplan.runtime.logs import Logger
from stowplan.server.serving.settings import Limits

SERVER: Final = "stowplan"

_HANDLER_STARTS_WITHIN: Final = 0.5
"""Seconds after which a request whose head is complete is certainly being handled."""

_HTTP_METHODS: Final = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")
_PLAIN_HTTP_RESPONSE: Final = (
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
)
_TLS_SHUTDOWN_TIMEOUT: Final = 2.0
"""Seconds to wait for the client's close_notify."""

_ACCEPT_RETRY_DELAY: Final = 0.1
_HANDSHAKE_ERROR_VERBOSITY: Final = 5


class ConnectionHandler(web.RequestHandler):
    """aiohttp's handler of one connection, with two rules added.

    A client that sends more than `max_unread` bytes without completing the head of a request is disconnected:
    aiohttp limits the size and number of headers, not their sum. Responses to malformed requests tell nothing
    but the status.
    """

    __slots__ = ("_close_timer", "_handling", "_max_unread", "_unread")

    def __init__(self, manager: web.Server, *, max_unread: int, **options: Any) -> None:
        super().__init__(manager, **options)
        self._max_unread = max_unread
        self._unread = 0
        self._handling = False
        self._close_timer: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def handling(self) -> Iterator[None]:
        """While a request is handled, arriving data is its body or the next request."""
        self._handling = True
        self._forget_unread()
        try:
            yield
        finally:
            self._handling = False
            self._forget_unread()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._handling:
            return
        self._unread += len(data)
        if self._unread > self._max_unread and self._close_timer is None:
            loop = asyncio.get_running_loop()
            self._close_timer = loop.call_later(_HANDLER_STARTS_WITHIN, self.force_close)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._forget_unread()
        super().connection_lost(exc)

    def _forget_unread(self) -> None:
        self._unread = 0
        if self._close_timer is not None:
            self._close_timer.cancel()
            self._close_timer = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("the response has begun already")
        text = f"{status} {HTTPStatus(status).phrase}"
        answer = web.Response(status=status, text=text, headers={"Server": SERVER})
        answer.force_close()
        return answer


class PortConnection:
    """One connection, and whether it makes progress."""

    def __init__(self, protocol: ConnectionHandler, now: float) -> None:
        self.protocol = protocol
        self.handshake: asyncio.Task[None] | None = None
        self.request: web.BaseRequest | None = None
        self.since = now
        self._unsent = 0
        self._unsent_since = now

    @property
    def is_closed(self) -> bool:
        return self.handshake is None and self.protocol.transport is None

    def is_stalled(self, now: float, limits: Limits) -> bool:
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

    def abort(self) -> None:
        if self.handshake is not None:
            self.handshake.cancel()
        elif isinstance(self.protocol.transport, asyncio.WriteTransport):
            self.protocol.transport.abort()


class PortConnections:
    """Accepts connections from a listening socket and hands them to aiohttp.

    `context` gives the current TLS context for the local address. At the limit the connection that has been
    idle longest is closed for a new one.
    """

    def __init__(
        self,
        listener: socket.socket,
        factory: Callable[[], ConnectionHandler],
        context: Callable[[str], ssl.SSLContext],
        limits: Limits,
        logger: Logger,
    ) -> None:
        self._listener = listener
        self._factory = factory
        self._context = context
        self._limits = limits
        self._logger = logger
        self._open: dict[web.RequestHandler, PortConnection] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        return len(self._open)

    def start(self) -> None:
        self._listener.setblocking(False)
        self._tasks = [asyncio.create_task(self._accept()), asyncio.create_task(self._sweep())]

    async def stop(self) -> None:
        """Stop accepting, and abort TLS handshakes."""
        handshakes = [one.handshake for one in self._open.values() if one.handshake is not None]
        for task in (*self._tasks, *handshakes):
            task.cancel()
        await asyncio.gather(*self._tasks, *handshakes, return_exceptions=True)
        self._listener.close()

    @contextlib.contextmanager
    def busy(self, request: web.BaseRequest) -> Iterator[None]:
        """While a request is handled its connection is not idle."""
        connection = self._open.get(request.protocol)
        if connection is None:
            yield
            return
        loop = asyncio.get_running_loop()
        connection.request, connection.since = request, loop.time()
        try:
            with connection.protocol.handling():
                yield
        finally:
            connection.request, connection.since = None, loop.time()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, address = await loop.sock_accept(self._listener)
            except OSError as error:
                self._logger.error("Cannot take in a connection", err=str(error))
                await asyncio.sleep(_ACCEPT_RETRY_DELAY)
                continue
            if not self._make_room():
                client.close()
                continue
            connection = PortConnection(self._factory(), loop.time())
            self._open[connection.protocol] = connection
            connection.handshake = asyncio.create_task(self._upgrade(client, address, connection))

    def _make_room(self) -> bool:
        self._drop_closed()
        if len(self._open) < self._limits.connections:
            return True
        idle = [one for one in self._open.values() if one.request is None]
        if not idle:
            return False
        silent = min(idle, key=lambda one: one.since)
        silent.abort()
        del self._open[silent.protocol]
        return True

    async def _upgrade(
        self, client: socket.socket, address: tuple[str, int], connection: PortConnection
    ) -> None:
        loop = asyncio.get_running_loop()
        seconds = self._limits.handshake
        try:
            async with asyncio.timeout(seconds):
                start = await _peek(client)
                if start.startswith(_HTTP_METHODS):
                    _refuse_plain_http(client)
                    return
                await loop.connect_accepted_socket(
                    lambda: connection.protocol,
                    client,
                    ssl=self._context(client.getsockname()[0]),
                    ssl_handshake_timeout=seconds,
                    ssl_shutdown_timeout=_TLS_SHUTDOWN_TIMEOUT,
                )
        except (OSError, TimeoutError) as error:
            if self._logger.enabled(_HANDSHAKE_ERROR_VERBOSITY):
                why = f"http: TLS handshake error from {address[0]}:{address[1]}: {error}"
                self._logger.info(_HANDSHAKE_ERROR_VERBOSITY, why)
        finally:
            connection.handshake, connection.since = None, loop.time()
            if connection.protocol.transport is None:
                self._open.pop(connection.protocol, None)
                client.close()

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._limits.sweep_interval)
            self._drop_closed()
            for connection in list(self._open.values()):
                if connection.is_stalled(loop.time(), self._limits):
                    connection.abort()

    def _drop_closed(self) -> None:
        for connection in [one for one in self._open.values() if one.is_closed]:
            del self._open[connection.protocol]


def _unacknowledged(transport: asyncio.BaseTransport) -> int:
    """Bytes in the socket's send queue that the client has not acknowledged."""
    connection = transport.get_extra_info("socket")
    number = -1 if connection is None else connection.fileno()
    return 0 if number < 0 else int.from_bytes(fcntl.ioctl(number, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


async def _peek(client: socket.socket) -> bytes:
    """The first bytes of a client, left in the socket."""
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(client, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(client)
    return client.recv(5, socket.MSG_PEEK)


def _refuse_plain_http(client: socket.socket) -> None:
    """Answer a plain HTTP request. It is read first: closing with unread data would reset the connection."""
    client.recv(1 << 16)
    client.send(_PLAIN_HTTP_RESPONSE)
    client.shutdown(socket.SHUT_WR)
