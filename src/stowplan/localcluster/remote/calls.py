"""JSON over HTTPS to servers outside of this process, within limits of time and size.

The server is the one of the given URL and no other: redirects are not followed, proxies are not used.
"""

import asyncio
import contextlib
import ssl
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import msgspec

from stowplan.gocompat.jsontext import TextError, parse_json
from stowplan.localcluster.remote.services import Address, ServiceAddresses, ServiceKey
from stowplan.localcluster.store.registry import Lookup

RESPONSE_LIMIT: Final = 6 * 1024 * 1024
"""Bytes of an answer: an object of the largest size, and a patch with it in base64."""

MOST_NESTED: Final = 100
"""Levels of maps and lists in an answer; no object is nested deeper."""

_MOST_CONTEXTS: Final = 64
_SHOWN: Final = 200


class CallError(Exception):
    """A call without a usable answer, in words that Go's client would use."""


class Target(NamedTuple):
    """A server to call: its URL, the certificates that it is trusted by (PEM, empty for those of the
    machine), and where it is reached if not at the host of the URL."""

    url: str
    trusted: bytes = b""
    address: Address | None = None


class HttpsCaller:
    """Calls servers, and keeps connections to them open."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._contexts: OrderedDict[bytes, ssl.SSLContext] = OrderedDict()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, target: Target, body: bytes, seconds: float) -> Any:
        """The JSON that a server answers. Raises `CallError`."""
        parts = urlsplit(target.url)
        query = f"{target.url}?timeout={max(1, -(-int(seconds * 1000) // 1000))}s"
        where = f'Post "{query}"'
        connect = query
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers["Accept-Encoding"] = "identity"
        if target.address is not None:
            connect = f"https://{target.address}{parts.path}?{query.rpartition('?')[2]}"
            headers["Host"] = parts.netloc
        try:
            async with (
                asyncio.timeout(seconds),
                self._open_session().post(
                    connect,
                    data=body,
                    headers=headers,
                    ssl=self._context(target.trusted),
                    server_hostname=parts.hostname,
                    allow_redirects=False,
                ) as response,
            ):
                text = await _read(response)
                _check_status(response.status, text)
        except TimeoutError:
            raise CallError(f"{where}: context deadline exceeded") from None
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            raise CallError(f"{where}: {_in_words(error)}") from None
        return _decoded(text)

    def _open_session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            # Connections belong to one event loop; tests have several, one after the other.
            self._loop = loop
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=None),
                auto_decompress=False,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session

    def _context(self, trusted: bytes) -> ssl.SSLContext:
        context = self._contexts.get(trusted)
        if context is None:
            context = ssl.create_default_context() if not trusted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if trusted:
                context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
                try:
                    context.load_verify_locations(cadata=trusted.decode("ascii"))
                except (ssl.SSLError, UnicodeDecodeError):
                    text = "unable to load root certificates: unable to parse bytes as PEM block"
                    raise ValueError(text) from None
            self._contexts[trusted] = context
            if len(self._contexts) > _MOST_CONTEXTS:
                self._contexts.popitem(last=False)
        return context


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """Where the user says that services are reached, and if all others are missed (`strict`)."""

    services: Mapping[ServiceKey, Address] = field(default_factory=dict)
    strict: bool = False


class RemoteServers:
    """The servers that one API server calls."""

    def __init__(self, lookup: Lookup, settings: RemoteSettings | None = None) -> None:
        settings = RemoteSettings() if settings is None else settings
        self.services = ServiceAddresses(lookup, settings.services)
        self.caller = HttpsCaller()
        self.strict = settings.strict


async def _read(response: aiohttp.ClientResponse) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_chunked(64 * 1024):
        pieces.append(piece)
        size += len(piece)
        if size > RESPONSE_LIMIT:
            raise CallError(f"the response is longer than {RESPONSE_LIMIT} bytes")
    return b"".join(pieces)


def _check_status(code: int, text: bytes) -> None:
    """Raises `CallError` unless the answer is a success, in the words of Kubernetes' client."""
    if 200 <= code < 300:
        return
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        found = msgspec.json.decode(text)
        if isinstance(found, dict) and found.get("kind") == "Status" and found.get("message"):
            raise CallError(str(found["message"])[:_SHOWN])
    shown = " ".join(text[:_SHOWN].decode("utf-8", "replace").split())
    if code == 404:
        raise CallError("the server could not find the requested resource")
    if code in (401, 403):
        words = {401: "the server has asked for the client to provide credentials", 403: "unknown"}
        raise CallError(words[code] if code == 401 or not shown else shown)
    if code >= 500:
        said = shown or "unknown"
        quoted = said.replace('"', '\\"')
        raise CallError(f'an error on the server ("{quoted}") has prevented the request from succeeding')
    raise CallError(f"the server rejected our request for an unknown reason (HTTP {code})")


def _decoded(text: bytes) -> Any:
    try:
        found = msgspec.json.decode(text)
    except RecursionError:
        raise CallError(f"the response is nested more than {MOST_NESTED} levels deep") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CallError(
            f"couldn't get version/kind; json parse error: {_syntax_error(text, error)}"
        ) from None
    if is_nested_deeper(found, MOST_NESTED):
        raise CallError(f"the response is nested more than {MOST_NESTED} levels deep")
    return found


def _syntax_error(text: bytes, error: Exception) -> str:
    """The error of text that is not JSON, in Go's words."""
    try:
        parse_json(text)
    except TextError as found:
        return str(found)
    return str(error)


def is_nested_deeper(data: Any, levels: int) -> bool:
    """True if maps and lists are nested deeper than the limit."""
    level: list[Any] = [data]
    for _ in range(levels):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _in_words(error: Exception) -> str:
    """An error of a connection as Go's client words it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: x509: {_certificate_problem(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return "tls: first record does not look like a TLS handshake"
    if isinstance(error, aiohttp.ClientConnectorError):
        address = Address(error.host, error.port or 443)
        if isinstance(error.os_error, ConnectionRefusedError):
            return f"dial tcp {address}: connect: connection refused"
        return f"dial tcp {address}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "unexpected EOF"
    return " ".join(str(error).split()) or type(error).__name__


def _certificate_problem(error: Exception) -> str:
    reason = getattr(error, "verify_message", "") or str(error)
    if "Hostname mismatch" in reason or "IP address mismatch" in reason:
        return f"certificate is not valid for this name: {reason}"
    if "self-signed" in reason or "unable to get" in reason or "self signed" in reason:
        return "certificate signed by unknown authority"
    if "expired" in reason:
        return "certificate has expired or is not yet valid"
    return reason
