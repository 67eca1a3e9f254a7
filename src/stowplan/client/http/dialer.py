"""Making connections: directly to a server or through a proxy, with TLS if requested."""

import asyncio
import base64
import contextlib
import errno
import ipaddress
import os
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar, cast
from urllib.parse import unquote

from stowplan.client.http.connection import (
    LONGEST_HEAD,
    SILENT,
    Connection,
    LostError,
    MalformedError,
    parse_head,
)
from stowplan.client.http.http2 import Http2Connection
from stowplan.client.http.settings import AccessError, Address
from stowplan.client.http.tls import Tls

_Ip = ipaddress.IPv4Address | ipaddress.IPv6Address


def proxy_for(target: Address, environ: Mapping[str, str]) -> str:
    """The proxy for an address, "" for none. Addresses on this machine never use a proxy."""
    proxy = _setting(environ, f"{target.scheme}_proxy")
    host = target.host.rstrip(".").lower()
    ip = _ip(host)
    if not proxy or host == "localhost" or (ip is not None and ip.is_loopback):
        return ""
    rules = _setting(environ, "no_proxy").lower().split(",")
    if any(_excludes(rule.strip(), host, ip, target.port) for rule in rules):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _setting(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _excludes(rule: str, host: str, ip: _Ip | None, port: int) -> bool:
    """True if an entry of NO_PROXY applies to a host.

    `*` applies to all, `10.0.0.0/8` to addresses, `example.com` to the domain and all in it, and
    `.example.com` only to its subdomains. An entry with a port applies to that port.
    """
    if rule in ("", "*"):
        return rule == "*"
    if ip is not None and "/" in rule:
        return _in_network(ip, rule)
    name, wanted_port = _split_port(rule)
    if wanted_port and wanted_port != str(port):
        return False
    rule_ip = _ip(name)
    if rule_ip is not None:
        return rule_ip == ip
    if name.startswith(("*.", ".")):
        return host.endswith(name.removeprefix("*"))
    return host == name or host.endswith(f".{name}")


def _split_port(rule: str) -> tuple[str, str]:
    if _ip(rule) is not None:
        return rule, ""
    name, colon, port = rule.rpartition(":")
    return (name, port) if colon and port.isdigit() else (rule, "")


def _in_network(ip: _Ip, rule: str) -> bool:
    try:
        return ip in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False


def _ip(text: str) -> _Ip | None:
    try:
        return ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


_PIECE: Final = 16 * 1024
"""Bytes of the largest record of TLS."""


class Inner(Protocol):
    """Protocol on top of TLS."""

    def connection_made(self, link: "TlsLink", /) -> None: ...

    def data_received(self, data: bytes, /) -> None: ...

    def connection_lost(self, exc: Exception | None, /) -> None: ...


class TlsLink(asyncio.Protocol):
    """A protocol towards the socket, and a transport towards an inner one once the handshake is done.

    `protocols` are offered to the server, the best first; `inner` returns the protocol for the one it chose
    ("" if it did not choose).
    """

    def __init__(
        self,
        inner: Callable[[str], Inner],
        context: ssl.SSLContext,
        server_name: str,
        protocols: Sequence[str],
    ) -> None:
        self._inner_for = inner
        self.inner: Inner
        self._context = context
        self._server_name = server_name
        self._protocols = protocols
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject
        self._transport: asyncio.Transport | None = None
        self._shaken = False
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(_noticed)

    async def ready(self) -> None:
        """Wait for the handshake. Raises ssl.SSLError or OSError."""
        await self._ready

    # Transport for the inner protocol

    def write(self, data: bytes) -> None:
        try:
            written = self._tls.write(data)
            while written < len(data):
                written += self._tls.write(memoryview(data)[written:])
        except ssl.SSLError as error:
            self._end(error)
            return
        self._flush()

    @property
    def backlog(self) -> int:
        """Bytes that the system has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def close(self) -> None:
        if self._transport is None:
            return
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            self._flush()
        self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    # A protocol for the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._context.set_alpn_protocols(self._protocols)
        self._tls = self._context.wrap_bio(self._incoming, self._outgoing, server_hostname=self._server_name)
        self._shake()

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        if not self._shaken:
            self._shake()
            if not self._shaken:
                return
        texts, problem, is_over = self._read()
        if texts:
            self.inner.data_received(texts[0] if len(texts) == 1 else b"".join(texts))
        if problem is not None:
            self._end(problem)
        elif is_over:
            self.close()
        else:
            self._flush()

    def _read(self) -> tuple[list[bytes], ssl.SSLError | None, bool]:
        """The contents of all records that have come, what went wrong after them, and whether more come."""
        texts: list[bytes] = []
        read, incoming, pending = self._tls.read, self._incoming, self._tls.pending
        try:
            while incoming.pending or pending():
                text = read(_PIECE)
                if not text:
                    return texts, None, True
                texts.append(text)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            return texts, error, False
        return texts, None, False

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._shaken:
            self.inner.connection_lost(exc)
        elif not self._ready.done():
            self._ready.set_exception(exc or ConnectionResetError("EOF"))

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._flush()
            self._end(error)
            return
        self._shaken = True
        self._flush()
        self.inner = self._inner_for(self._tls.selected_alpn_protocol() or "")
        self.inner.connection_made(self)
        if not self._ready.done():
            self._ready.set_result(None)

    def _end(self, error: ssl.SSLError) -> None:
        if not self._shaken and not self._ready.done():
            self._ready.set_exception(error)
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if self._shaken:
            self.inner.connection_lost(error)
            self._shaken = False

    def _flush(self) -> None:
        if self._outgoing.pending and self._transport is not None:
            self._transport.write(self._outgoing.read())


def _noticed(future: "asyncio.Future[Any]") -> None:
    """Retrieve the exception of a dial that was given up, since no caller will."""
    if not future.cancelled():
        future.exception()


P = TypeVar("P", bound=asyncio.BaseProtocol)

_HTTP1: Final = "http/1.1"
_HTTP2: Final = "h2"

CONNECT_SECONDS: Final = 30.0
_NEXT_ADDRESS: Final = 0.25
"""Seconds until a name's next address is tried in parallel with the first."""

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
        self,
        target: Address,
        tls: Tls | None,
        proxy: str = "",
        *,
        seconds: float = CONNECT_SECONDS,
        offers_http2: bool = False,
    ) -> None:
        self._target = target
        self._tls = tls
        self._seconds = seconds
        self.offers_http2 = offers_http2 and tls is not None
        """True if a connection for requests may turn out to be one for many at a time."""
        self._proxy = _proxy(proxy) if proxy else None
        self._under_way: dict[asyncio.Timeout, float] = {}

    @property
    def target_prefix(self) -> str:
        """Prefix of the path in a request: a proxy that sees the request needs the host."""
        if self._proxy is None or self._target.is_tls:
            return ""
        return f"http://{self._target.authority}"

    @property
    def extra_headers(self) -> list[tuple[str, str]]:
        """Header fields of every request, for a proxy that sees it."""
        return _authorization(self._proxy) if self._proxy is not None and not self._target.is_tls else []

    async def dial(self, lost: Callable[[Connection], None]) -> Connection:
        """A new connection that speaks HTTP/1.1. Raises DialError."""
        connection = Connection(lost)
        await self._dial(lambda _: connection, [_HTTP1])
        return connection

    async def dial_for_requests(
        self, lost: Callable[[Connection | Http2Connection], None]
    ) -> Connection | Http2Connection:
        """A new connection, for many requests at a time if the server likes that. Raises DialError."""
        if not self.offers_http2:
            return await self.dial(lost)
        made: list[Connection | Http2Connection] = []

        def speaking(protocol: str) -> Connection | Http2Connection:
            made.append(Http2Connection(lost) if protocol == _HTTP2 else Connection(lost))
            return made[0]

        await self._dial(speaking, [_HTTP2, _HTTP1])
        return made[0]

    async def _dial(
        self, inner: Callable[[str], Connection | Http2Connection], protocols: Sequence[str]
    ) -> None:
        where = self._target if self._proxy is None else self._proxy
        try:
            async with asyncio.timeout(self._seconds) as limit:
                self._under_way[limit] = asyncio.get_running_loop().time()
                try:
                    await self._connect(inner, protocols)
                finally:
                    was_cut = self._under_way.pop(limit, None) is None
        except TimeoutError:
            problem = SILENT if was_cut else f"dial tcp {where.host_and_port}: i/o timeout"
            raise DialError(problem, again=was_cut) from None
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
        except LostError as error:
            raise DialError(f"dial tcp {where.host_and_port}: {error.problem}", again=True) from None
        except MalformedError as error:
            raise DialError(f"proxyconnect tcp: {error}") from None
        except AccessError as error:
            raise DialError(str(error)) from None

    def cut_short(self, before: float) -> None:
        """Give up attempts begun before a time: a system that repeats its first packet ever more rarely
        may take long to notice that the server is back. Their callers may retry at once.
        """
        for limit, began in list(self._under_way.items()):
            if began < before:
                del self._under_way[limit]
                limit.reschedule(asyncio.get_running_loop().time())

    async def _connect(
        self, inner: Callable[[str], Connection | Http2Connection], protocols: Sequence[str]
    ) -> None:
        if self._tls is None:
            where = self._target if self._proxy is None else self._proxy
            await _open(lambda: cast(Connection, inner(_HTTP1)), where, self._proxy)
            return
        name = self._tls.server_name or self._target.host
        link = TlsLink(inner, self._tls.context(), name, protocols)
        if self._proxy is None:
            transport, _ = await _open(lambda: link, self._target)
        else:
            transport = await self._tunnel(self._proxy, link)
        try:
            await link.ready()
            if isinstance(link.inner, Http2Connection):
                await link.inner.ready()
        except BaseException:
            transport.abort()
            raise

    async def _tunnel(self, proxy: Address, link: TlsLink) -> asyncio.Transport:
        """A way through a proxy, with TLS begun on it."""
        transport, tunnel = await _open(_Tunnel, proxy, proxy)
        try:
            await tunnel.ask(self._target, [f"{name}: {value}" for name, value in _authorization(proxy)])
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
        self._answer.add_done_callback(_noticed)
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


def _authorization(proxy: Address) -> list[tuple[str, str]]:
    if not proxy.userinfo:
        return []
    encoded = base64.b64encode(unquote(proxy.userinfo).encode()).decode()
    return [("Proxy-Authorization", f"Basic {encoded}")]


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
    """Error text of the system, in small letters as other clients print it."""
    if error.errno is None or error.errno not in errno.errorcode:
        return str(error) or type(error).__name__
    return os.strerror(error.errno).lower()
