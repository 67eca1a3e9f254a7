"""Making connections: straight to a server or through a proxy, with TLS where that is asked for."""

import asyncio
import base64
import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final, TypeVar, cast
from urllib.parse import unquote

from stowplan.client.http.connection import Connection
from stowplan.client.http.securing import TlsLink
from stowplan.client.http.settings import AccessError, Address
from stowplan.client.http.tls import Tls
from stowplan.client.http.wire import LONGEST_HEAD, MalformedError, parse_head

P = TypeVar("P", bound=asyncio.BaseProtocol)

CONNECT_SECONDS: Final = 30.0
_NEXT_ADDRESS: Final = 0.25
"""Seconds until a name's next address is tried beside the first."""

_KEEPALIVE: Final = (
    ("TCP_KEEPIDLE", 15),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 30_000),
)


class DialError(Exception):
    """No connection could be made, so nothing was sent. `again`: it may be different next time."""

    def __init__(self, problem: str, *, again: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.again = again


class Dialer:
    """Makes connections to one server. Raises AccessError for a proxy nothing can be sent through."""

    def __init__(
        self, target: Address, tls: Tls | None, proxy: str = "", *, seconds: float = CONNECT_SECONDS
    ) -> None:
        self._target = target
        self._tls = tls
        self._seconds = seconds
        self._proxy = _proxy(proxy) if proxy else None
        self._under_way: dict[asyncio.Timeout, float] = {}

    @property
    def target_prefix(self) -> str:
        """What stands before the path in a request: a proxy that sees the request is told the host."""
        if self._proxy is None or self._target.is_tls:
            return ""
        return f"http://{self._target.authority}"

    @property
    def extra_headers(self) -> list[str]:
        """Header lines of every request, for a proxy that sees it."""
        return _authorization(self._proxy) if self._proxy is not None and not self._target.is_tls else []

    async def dial(self, lost: Callable[[Connection], None]) -> Connection:
        """A new connection. Raises DialError."""
        where = self._target if self._proxy is None else self._proxy
        try:
            async with asyncio.timeout(self._seconds) as limit:
                self._under_way[limit] = asyncio.get_running_loop().time()
                try:
                    return await self._connect(lost)
                finally:
                    was_cut = self._under_way.pop(limit, None) is None
        except TimeoutError:
            raise DialError(f"dial tcp {where.host_and_port}: i/o timeout", again=was_cut) from None
        except ssl.SSLCertVerificationError as error:
            raise DialError(f"tls: failed to verify certificate: {error.verify_message}") from None
        except ssl.SSLError as error:
            problem = (error.reason or str(error)).lower().replace("_", " ")
            raise DialError(f"tls: {problem}", again=True) from None
        except socket.gaierror:
            raise DialError(f"dial tcp: lookup {where.host}: no such host") from None
        except OSError as error:
            problem = _system_text(error)
            raise DialError(f"dial tcp {where.host_and_port}: connect: {problem}", again=True) from None
        except MalformedError as error:
            raise DialError(f"proxyconnect tcp: {error}") from None
        except AccessError as error:
            raise DialError(str(error)) from None

    def cut_short(self, before: float) -> None:
        """Give up attempts begun before a time: a system that repeats its first packet ever more rarely
        may take long to notice that the server is back. Whoever made them may try again at once.
        """
        for limit, began in list(self._under_way.items()):
            if began < before:
                del self._under_way[limit]
                limit.reschedule(asyncio.get_running_loop().time())

    async def _connect(self, lost: Callable[[Connection], None]) -> Connection:
        connection = Connection(lost)
        if self._tls is None:
            where = self._target if self._proxy is None else self._proxy
            await _open(lambda: connection, where, self._proxy)
            return connection
        link = TlsLink(connection, self._tls.context(), self._tls.server_name or self._target.host)
        if self._proxy is None:
            transport, _ = await _open(lambda: link, self._target)
        else:
            transport = await self._tunnel(self._proxy, link)
        try:
            await link.ready()
        except BaseException:
            transport.abort()
            raise
        return connection

    async def _tunnel(self, proxy: Address, link: TlsLink) -> asyncio.Transport:
        """A way through a proxy, with TLS begun on it."""
        transport, tunnel = await _open(_Tunnel, proxy, proxy)
        try:
            await tunnel.ask(self._target, _authorization(proxy))
        except BaseException:
            transport.abort()
            raise
        transport.set_protocol(link)
        link.connection_made(transport)
        return transport


class _Tunnel(asyncio.Protocol):
    """The beginning of a connection through a proxy: asks it to reach a server."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._begun = b""

    async def ask(self, target: Address, headers: list[str]) -> None:
        """Raises OSError or MalformedError if there is no way through."""
        place = target.host_and_port
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}", *headers, "", ""]
        assert self._transport is not None
        self._transport.write("\r\n".join(lines).encode())
        head = await self._answer
        if parse_head(head).status != 200:
            raise MalformedError(head.partition(b"\r\n")[0].decode("latin-1")[9:60])

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._begun += data
        end = self._begun.find(b"\r\n\r\n")
        if self._answer.done():
            return
        if end >= 0:
            self._answer.set_result(self._begun[:end])
        elif len(self._begun) > LONGEST_HEAD:
            self._answer.set_exception(MalformedError("malformed HTTP response"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(exc or MalformedError("EOF"))


def _proxy(text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError:
        shown = text.rpartition("@")[2]
        raise AccessError(f"proxy: expected an http or https address, got {shown!r}") from None


def _authorization(proxy: Address) -> list[str]:
    if not proxy.userinfo:
        return []
    encoded = base64.b64encode(unquote(proxy.userinfo).encode()).decode()
    return [f"Proxy-Authorization: Basic {encoded}"]


async def _open(
    make: Callable[[], P], where: Address, proxy: Address | None = None
) -> tuple[asyncio.Transport, P]:
    """A connection to an address, with TLS if that is a proxy that wants it."""
    secure = proxy is not None and proxy.is_tls
    transport, protocol = await asyncio.get_running_loop().create_connection(
        make,
        where.host,
        where.port,
        ssl=ssl.create_default_context() if secure else None,
        happy_eyeballs_delay=_NEXT_ADDRESS,
    )
    _keep_alive(transport)
    return transport, protocol


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the system notice within half a minute that the other side is gone without a word."""
    found: socket.socket | None = transport.get_extra_info("socket")
    if found is None:
        return
    with contextlib.suppress(OSError):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _system_text(error: OSError) -> str:
    """What the system says, in small letters as people know it from other clients."""
    if error.errno is None or error.errno not in errno.errorcode:
        return str(error) or type(error).__name__
    return os.strerror(error.errno).lower()
