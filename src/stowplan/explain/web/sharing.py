"""The page for colleagues: over TLS, read-only, behind a link that ends.

The link has a token that opens the page in any number of browsers until its time is over: it is sent around
in chats, where previews may open it first. The page shows all that the one who shares it may read, so the
YAML of objects, which may contain passwords, is left out, and nothing can be tried.
"""

import asyncio
import hmac
import secrets
import socket
import ssl
from typing import Final, NamedTuple

from aiohttp import web

from stowplan.explain.web.access import Viewer
from stowplan.explain.web.http import (
    LINK,
    PAGE,
    json_answer,
    refused,
    respond,
    serves,
    signed_in,
    status_answer,
)
from stowplan.explain.web.routes import Routes
from stowplan.runtime.clock import Clock

COOKIE: Final = "stowplan-shared"
"""Not the cookie of the page on loopback: browsers send cookies to all ports of a host."""


class Sharing(NamedTuple):
    """Address, certificate and end of a shared page. `host` is the name in the link."""

    bind: str
    port: int
    host: str
    tls: ssl.SSLContext
    seconds: float


class SharedPage:
    """Serves the page on an address of the network until the link has ended."""

    def __init__(self, routes: Routes, sharing: Sharing, clock: Clock) -> None:
        self._routes = routes
        self._sharing = sharing
        self._clock = clock
        self._token = secrets.token_urlsafe(24)
        self._session = secrets.token_urlsafe(24)
        self._runner: web.ServerRunner | None = None
        self.ends = clock.now() + sharing.seconds
        self.port = 0

    @property
    def url(self) -> str | None:
        """The link; None once it has ended."""
        host = self._sharing.host
        shown = f"[{host}]" if ":" in host else host
        return f"https://{shown}:{self.port}{PAGE}?token={self._token}" if self._left > 0 else None

    @property
    def _left(self) -> float:
        return self.ends - self._clock.now()

    async def __aenter__(self) -> "SharedPage":
        self._runner = web.ServerRunner(web.Server(self._handle))
        await self._runner.setup()
        sharing = self._sharing
        await web.TCPSite(self._runner, sharing.bind, sharing.port, ssl_context=sharing.tls).start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._routes.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            return status_answer(405, "MethodNotAllowed", "a shared page is read-only")
        if self._left <= 0:
            return refused(request, "this link has ended; ask for a new one")
        if "token" in request.query and request.path == PAGE:
            return self._sign_in(request, request.query["token"])
        if not signed_in(request, COOKIE, self._session):
            return refused(request, "open the link that you were sent")
        if not serves(request.path):
            return status_answer(404, "NotFound", "the server could not find the requested resource")
        if request.path == LINK:
            return json_answer(200, {"link": self.url})
        try:
            async with asyncio.timeout(self._left):
                return await respond(self._routes, request, Viewer(self._may_read, objects=False))
        except TimeoutError:
            # Streams end with the link, too: the browser asks again, and is refused.
            if request.transport is not None:
                request.transport.close()
            return web.Response(status=401)

    async def _may_read(self, plural: str, namespace: str) -> bool:
        return self._left > 0

    def _sign_in(self, request: web.BaseRequest, token: str) -> web.Response:
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return refused(request, "this link is not valid, or has ended")
        response = web.Response(status=302, headers={"Location": PAGE})
        # Lax: a link in a chat in the browser is followed from another site.
        response.set_cookie(
            COOKIE,
            self._session,
            httponly=True,
            secure=True,
            samesite="Lax",
            path=PAGE,
            max_age=int(self._left) + 1,
        )
        return response


def own_address(host: str, port: int) -> str:
    """The address by which this machine reaches another: that of the network both are in."""
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])
