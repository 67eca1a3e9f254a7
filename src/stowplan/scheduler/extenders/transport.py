"""POST requests to an extender over kept connections: TLS, proxies, and errors in kube-scheduler's words."""

import asyncio
import contextlib
import errno
import os
import re
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
from yarl import URL

import stowplan
from stowplan.client.http import dialer
from stowplan.client.http.certfiles import FileStamp, file_stamp, load_key_pair, load_key_pair_files
from stowplan.client.http.settings import Address
from stowplan.config.types import Extender, ExtenderTLS
from stowplan.gocompat.quoting import path_error, quote
from stowplan.scheduler.extenders.requests import ExtenderError

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)

HEADERS_TIMEOUT = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
BODY_TIMEOUT = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"

_UNTRUSTED = frozenset((18, 19, 20, 21))
_EXPIRED = frozenset((9, 10))

_KEEP_ALIVE_SECONDS = 90
_CONNECT_SECONDS = 30
_MAX_REDIRECTS = 10
LARGEST_ANSWER = 4 << 20
_TIMES_THE_REQUEST = 4
"""Bytes of an answer: this many, and four times the request, which has the nodes that it is about."""
_LONGEST_PROBLEM = 200
_HEADERS = {
    "Content-Type": "application/json",
    "Accept-Encoding": "gzip",
    "User-Agent": f"stowplan/{stowplan.__version__}",
}


# TLS


class TlsSettingsError(ValueError):
    """TLS settings that have become invalid since the configuration was validated."""


class ClientTls:
    """The TLS settings of one extender.

    Without a CA, `enableHTTPS` means that any server certificate is accepted. A client certificate in files
    is reloaded when they change, and used for new connections.
    """

    def __init__(self, extender: Extender) -> None:
        self._settings = extender.tls_config or ExtenderTLS()
        has_ca = bool(self._settings.ca_data or self._settings.ca_file)
        self._verify = not (self._settings.insecure or (extender.enable_https and not has_ca))
        self._context: ssl.SSLContext | None = None
        self._loaded: tuple[FileStamp, ...] = ()

    @property
    def server_name(self) -> str | None:
        """The name the server's certificate must have, None for that of its address."""
        return self._settings.server_name or None

    def context(self) -> ssl.SSLContext:
        """The context for connections, always the same object. Raises TlsSettingsError."""
        try:
            if self._context is None:
                self._context = self._make()
            self._reload(self._context)
        except ssl.SSLError as error:
            raise TlsSettingsError(_tls_problem(error)) from None
        except OSError as error:
            raise TlsSettingsError(path_error(error, str(error.filename))) from None
        return self._context

    def _make(self) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        context.hostname_checks_common_name = False
        if not self._verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif settings.ca_data or settings.ca_file:
            _add_ca_bundle(context, settings.ca_data or Path(settings.ca_file).read_bytes())
        else:
            context.load_default_certs()
        if self._has_certificate and not self._from_files:
            certificate = settings.cert_data or Path(settings.cert_file).read_bytes()
            key = settings.key_data or Path(settings.key_file).read_bytes()
            load_key_pair(context, certificate, key)
        return context

    @property
    def _has_certificate(self) -> bool:
        settings = self._settings
        return bool((settings.cert_file or settings.cert_data) and (settings.key_file or settings.key_data))

    @property
    def _from_files(self) -> bool:
        return self._has_certificate and not (self._settings.cert_data or self._settings.key_data)

    def _reload(self, context: ssl.SSLContext) -> None:
        if not self._from_files:
            return
        files = self._settings.cert_file, self._settings.key_file
        stamps = tuple(map(file_stamp, files))
        if stamps != self._loaded:
            load_key_pair_files(context, *files)
            self._loaded = stamps


def _tls_problem(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "tls: private key does not match public key"
    return f"tls: failed to parse certificate or private key: {(error.reason or str(error)).lower()}"


def _add_ca_bundle(context: ssl.SSLContext, pem: bytes) -> None:
    """Trust every certificate of a bundle; broken ones are skipped."""
    for block in _CERTIFICATE.findall(pem):
        with contextlib.suppress(ssl.SSLError):
            context.load_verify_locations(cadata=block.decode("ascii", "replace"))


def proxy_of(url: URL, environ: Mapping[str, str]) -> str | None:
    """The proxy for a URL, None for none; the rules are those of the API client."""
    target = Address(url.scheme, url.host or "", url.port or 0)
    return dialer.proxy_for(target, environ) or None


# Errors, in the words of kube-scheduler's events


def post_error(url: str, problem: str) -> str:
    """The error of a request. A password in the URL is hidden."""
    return f"Post {quote(_without_password(url))}: {problem}"


def describe_error(error: Exception) -> str:
    """The message of a transport error."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _certificate_problem(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return _connect_problem(error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "unexpected EOF"
    if isinstance(error, aiohttp.TooManyRedirects):
        return "stopped after 10 redirects"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return error.message
    if isinstance(error, aiohttp.ClientResponseError):
        return f"net/http: HTTP/1.x transport connection broken: {_one_line(error.message)}"
    if isinstance(error, OSError) and error.errno is not None:
        operation = "write" if error.errno == errno.EPIPE else "read"
        return f"{operation}: {_system_text(error.errno)}"
    return _one_line(str(error)) or type(error).__name__


def _one_line(problem: str) -> str:
    """The library quotes what came, over several lines."""
    return " ".join(problem.split())[:_LONGEST_PROBLEM]


def _connect_problem(error: aiohttp.ClientConnectorError) -> str:
    cause = error.os_error
    host = f"[{error.host}]" if ":" in error.host else error.host
    if isinstance(cause, ssl.SSLError):
        return f"tls: {(cause.reason or str(cause)).lower().replace('_', ' ')}"
    if isinstance(cause, socket.gaierror):
        return f"dial tcp: lookup {error.host}: no such host"
    what = _system_text(cause.errno) if cause.errno else str(cause)
    return f"dial tcp {host}:{error.port}: connect: {what}"


def _certificate_problem(cause: Exception) -> str:
    code = getattr(cause, "verify_code", 0)
    if code in _UNTRUSTED:
        problem = "certificate signed by unknown authority"
    elif code in _EXPIRED:
        problem = "certificate has expired or is not yet valid"
    else:
        problem = str(getattr(cause, "verify_message", "") or cause).rstrip(".")
    return f"tls: failed to verify certificate: x509: {problem}"


def _system_text(number: int) -> str:
    return os.strerror(number).lower()


def _without_password(url: str) -> str:
    if "@" not in url:
        return url
    parsed = URL(url)
    return str(parsed.with_password("***")) if parsed.password is not None else url


# Requests


class _Progress:
    """Progress of a request: if it got a response, and if its connection had been used before."""

    def __init__(self) -> None:
        self.reused = False
        self.answered = False


class Transport:
    """Requests to one extender. The session is opened by the first, in its event loop."""

    def __init__(self, config: Extender, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._tls = ClientTls(config)
        seconds = config.http_timeout.seconds
        self._timeout = seconds if seconds > 0 else None
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str, verb: str, body: bytes, *, once: bool = False) -> bytes:
        """Send a request; returns the body of the response. Raises ExtenderError.

        The server may just have closed a kept connection. Then the request is sent again on another one,
        unless it may be sent only `once`.
        """
        options = self._options(url)
        progress = _Progress()
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    progress = _Progress()
                    try:
                        return await self._exchange(url, verb, body, options, progress)
                    except (aiohttp.ServerDisconnectedError, ConnectionError):
                        if once or progress.answered or not progress.reused:
                            raise
        except TimeoutError:
            if progress.answered:
                raise ExtenderError(BODY_TIMEOUT) from None
            raise ExtenderError(post_error(url, HEADERS_TIMEOUT)) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # A ValueError is about the place that a redirection leads to.
            problem = describe_error(error)
            raise ExtenderError(problem if progress.answered else post_error(url, problem)) from error

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _exchange(
        self, url: str, verb: str, body: bytes, options: Mapping[str, Any], progress: _Progress
    ) -> bytes:
        request = self._open_session().post(data=body, trace_request_ctx=progress, **options)
        async with request as response:
            progress.answered = True
            if response.status != 200:
                raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
            return await _read(response, LARGEST_ANSWER + _TIMES_THE_REQUEST * len(body))

    def _options(self, url: str) -> dict[str, Any]:
        """Arguments of the session's post. Raises ExtenderError for an invalid URL."""
        target = _target(url)
        options: dict[str, Any] = {"url": target, "max_redirects": _MAX_REDIRECTS}
        proxy = proxy_of(target, self._environ)
        if proxy is not None:
            if not proxy.startswith(("http://", "https://")):
                raise ExtenderError(post_error(url, f"proxy {proxy}: expected an http or https address"))
            options["proxy"] = proxy
        if target.scheme == "https":
            try:
                options["ssl"] = self._tls.context()
            except TlsSettingsError as failure:
                raise ExtenderError(post_error(url, str(failure))) from None
            options["server_hostname"] = self._tls.server_name
        return options

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                headers=_HEADERS,
                trace_configs=[_trace_reuse()],
            )
        return self._session


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body of a response, decompressed piece by piece. Raises ExtenderError for one that is too large."""
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > most:
            raise ExtenderError(f"the answer has more than {most} bytes, the limit for this request")
        pieces.append(piece)
    return b"".join(pieces)


def _trace_reuse() -> aiohttp.TraceConfig:
    async def note(
        session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceConnectionReuseconnParams,
    ) -> None:
        context.trace_request_ctx.reused = True

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(note)
    return config


def _target(url: str) -> URL:
    try:
        target = URL(url)
        port = target.port
    except ValueError as error:
        raise ExtenderError(f"parse {quote(url)}: {error}") from None
    if target.scheme not in ("http", "https"):
        raise ExtenderError(post_error(url, f"unsupported protocol scheme {quote(target.scheme)}"))
    if not target.host or port == 0:
        raise ExtenderError(post_error(url, "http: no Host in request URL"))
    return target
