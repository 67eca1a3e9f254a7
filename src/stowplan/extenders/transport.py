"""One POST per question over connections that are kept; what fails is told in kube-scheduler's words."""

import asyncio
import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import aiohttp
from yarl import URL

import stowplan
from stowplan.config.types import Extender
from stowplan.extenders import failures
from stowplan.extenders.interface import ExtenderError
from stowplan.extenders.proxies import proxy_for
from stowplan.extenders.tls import ClientTls, TlsSettingsError
from stowplan.gocompat.quoting import quote

_KEEP_ALIVE_SECONDS = 90
_CONNECT_SECONDS = 30
_MOST_REDIRECTS = 10
_HEADERS = {
    "Content-Type": "application/json",
    "Accept-Encoding": "gzip",
    "User-Agent": f"stowplan/{stowplan.__version__}",
}


class _Progress:
    """How far a request came, and whether its connection had been used before."""

    def __init__(self) -> None:
        self.reused = False
        self.answered = False


class Transport:
    """Requests to one extender. Connections are opened with the first, in the event loop that makes it."""

    def __init__(self, config: Extender, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._tls = ClientTls(config)
        seconds = config.http_timeout.seconds
        self._timeout = seconds if seconds > 0 else None
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str, verb: str, body: bytes, *, once: bool = False) -> bytes:
        """Send a request and give the body of the answer. Raises ExtenderError.

        The other side may have closed a kept connection just now. Then the question is put again on another
        one, unless it may be sent only `once`.
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
                raise ExtenderError(failures.WHILE_READING) from None
            raise ExtenderError(failures.posting(url, failures.WHILE_WAITING)) from None
        except (aiohttp.ClientError, OSError) as error:
            problem = failures.describe(error)
            raise ExtenderError(problem if progress.answered else failures.posting(url, problem)) from error

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _exchange(
        self, url: str, verb: str, body: bytes, options: Mapping[str, Any], progress: _Progress
    ) -> bytes:
        request = self._opened().post(data=body, trace_request_ctx=progress, **options)
        async with request as response:
            progress.answered = True
            if response.status != 200:
                raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
            return await response.read()

    def _options(self, url: str) -> dict[str, Any]:
        """Where and how a request is sent. Raises ExtenderError for an address nothing can be sent to."""
        target = _target(url)
        options: dict[str, Any] = {"url": target, "max_redirects": _MOST_REDIRECTS}
        proxy = proxy_for(target, self._environ)
        if proxy is not None:
            if not proxy.startswith(("http://", "https://")):
                raise ExtenderError(
                    failures.posting(url, f"proxy {proxy}: expected an http or https address")
                )
            options["proxy"] = proxy
        if target.scheme == "https":
            try:
                options["ssl"] = self._tls.context()
            except TlsSettingsError as failure:
                raise ExtenderError(failures.posting(url, str(failure))) from None
            options["server_hostname"] = self._tls.server_name
        return options

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                headers=_HEADERS,
                trace_configs=[_noting_reuse()],
            )
        return self._session


def _noting_reuse() -> aiohttp.TraceConfig:
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
        raise ExtenderError(failures.posting(url, f"unsupported protocol scheme {quote(target.scheme)}"))
    if not target.host or port == 0:
        raise ExtenderError(failures.posting(url, "http: no Host in request URL"))
    return target
