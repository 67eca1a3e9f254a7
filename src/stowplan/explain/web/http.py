"""The API and the page over HTTP: on a port that others serve, or on one of its own on loopback.

A port of its own is plain HTTP on loopback, opened by an address with a token in it. The token buys a session
cookie once, so that the address that stays in the browser's history is worth nothing.
"""

import hmac
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec
from aiohttp import web

from stowplan.api.status import ApiError
from stowplan.explain.report.page import FOLDER
from stowplan.explain.web.access import EVERYTHING, MayRead, Viewer
from stowplan.explain.web.questions import QUESTIONS, read_question
from stowplan.explain.web.routes import PREFIX, Routes

PAGE: Final = "/stowplan/"
STREAM: Final = f"{PREFIX}/stream"
LINK: Final = f"{PREFIX}/link"
"""The link for others, told only to the one who shares."""
_STYLE: Final = f"{PAGE}base.css"
"""Served to everybody: the page that asks to sign in uses it."""
COOKIE: Final = "stowplan"

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def serves(path: str) -> bool:
    """True if a path belongs to the API or the page."""
    return path == PREFIX or path.startswith((f"{PREFIX}/", PAGE)) or path == PAGE.rstrip("/")


async def respond(routes: Routes, request: web.BaseRequest, viewer: Viewer) -> web.StreamResponse:
    """Answer a request of somebody who is known."""
    path = request.path
    question = path.removeprefix(f"{PREFIX}/")
    if question in QUESTIONS:
        return await _question(routes, request, viewer, question)
    if request.method not in ("GET", "HEAD"):
        return status_answer(405, "MethodNotAllowed", "only GET is supported")
    if path == STREAM:
        return await _stream(routes, request, viewer)
    if path == PREFIX or path.startswith(f"{PREFIX}/"):
        answer = await routes.answer(path, request.query, viewer)
        return json_answer(answer.code, answer.document)
    return _file(path.removeprefix(PAGE.rstrip("/")).strip("/"))


async def _question(
    routes: Routes, request: web.BaseRequest, viewer: Viewer, question: str
) -> web.StreamResponse:
    """Answer a question by POST."""
    if request.method != "POST":
        return status_answer(405, "MethodNotAllowed", f"{question}: only POST is supported")

    def gone() -> bool:
        return request.transport is None or request.transport.is_closing()

    try:
        found = await routes.ask(await read_question(request, question), viewer, gone)
    except ApiError as error:
        return json_answer(error.code, error.status())
    headers = {**_HEADERS, "Content-Type": "application/json"}
    if found.retry_after:
        headers["Retry-After"] = str(found.retry_after)
    return web.Response(status=found.code, body=found.body, headers=headers)


def json_answer(code: int, document: object) -> web.Response:
    headers = {**_HEADERS, "Content-Type": "application/json"}
    return web.Response(status=code, body=msgspec.json.encode(document), headers=headers)


def status_answer(code: int, reason: str, message: str) -> web.Response:
    """An error as a Kubernetes Status."""
    status = {"status": "Failure", "message": message, "reason": reason, "code": code}
    return json_answer(code, {"kind": "Status", "apiVersion": "v1", "metadata": {}, **status})


async def _stream(routes: Routes, request: web.BaseRequest, viewer: Viewer) -> web.StreamResponse:
    response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
    await response.prepare(request)
    with suppress(ConnectionError):
        async for one in routes.inspection.feed.events(viewer, await _about(request, viewer)):
            await response.write(one)
    return response


async def _about(request: web.BaseRequest, viewer: Viewer) -> str:
    """The pod, node or group whose changes are told, too: `pod/shop/web-1`, if the viewer may see it."""
    about = request.query.get("about", "")
    kind, *rest = about.split("/")
    if kind == "node" and len(rest) == 1:
        return about if await viewer.may_see_nodes() else ""
    if kind in ("pod", "podgroup", "compositepodgroup") and len(rest) == 2:
        return about if await viewer.may_see(rest[0]) else ""
    return ""


def _file(name: str) -> web.Response:
    """A file of the page; every place of the page that is no file is the page itself."""
    suffix = name[name.rfind(".") :] if "." in name else ""
    if suffix not in _TYPES:
        name, suffix = "index.html", ".html"
    found = None if "/" in name else next((one for one in _folders(name) if one.is_file()), None)
    if found is None:
        return status_answer(404, "NotFound", "no such file")
    return web.Response(body=found.read_bytes(), headers={**_HEADERS, "Content-Type": _TYPES[suffix]})


def _folders(name: str) -> Iterator[Traversable]:
    """Where a file may be: of the page alone, or shared with reports."""
    for folder in (files(__package__).joinpath("page"), FOLDER):
        yield folder.joinpath(name)


_ENDED: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>stowplan: not signed in</title><link rel="stylesheet" href="/stowplan/base.css"></head>
<body><main class="empty"><h1>Not signed in</h1>
<p>An address that stowplan prints works in one browser, once; its session ends with the process.</p>
<p>For a new one, run</p><code>stowplan view</code>
<p>with the kubeconfig of the cluster, and open the address that it prints.</p></main></body></html>
"""


def refused(request: web.BaseRequest, why: str) -> web.Response:
    """401: with words for people who open a page in a browser, a Status for programs."""
    if "text/html" in request.headers.get("Accept", ""):
        headers = {**_HEADERS, "Content-Type": _TYPES[".html"]}
        return web.Response(status=401, text=_ENDED, headers=headers)
    return status_answer(401, "Unauthorized", why)


def signed_in(request: web.BaseRequest, cookie: str, session: str) -> bool:
    """True if a request has a session as its cookie, or as its bearer token."""
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    given = request.cookies.get(cookie, "") or token
    return hmac.compare_digest(given.encode("utf-8", "replace"), session.encode())


class Extension:
    """The API and the page as part of an API server."""

    def __init__(self, routes: Routes, *, page: bool = True) -> None:
        self._routes = routes
        self._page = page

    def serves(self, path: str) -> bool:
        return serves(path) and (self._page or path.startswith(PREFIX))

    async def respond(self, request: web.BaseRequest, may_read: MayRead) -> web.StreamResponse:
        return await respond(self._routes, request, Viewer(may_read))


class PageServer:
    """The API and the page on a loopback port of their own, for whoever has the address with the token.

    `shared` gives the link for others, if there is one.
    """

    def __init__(
        self, routes: Routes, port: int = 0, shared: Callable[[], str | None] = lambda: None
    ) -> None:
        self._routes = routes
        self._wanted = port
        self._shared = shared
        self._token: str | None = secrets.token_urlsafe(24)
        self._session = secrets.token_urlsafe(24)
        self._runner: web.ServerRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """The address to open; its token is good for one browser."""
        return f"http://127.0.0.1:{self.port}{PAGE}?token={self._token or ''}"

    async def __aenter__(self) -> "PageServer":
        self._runner = web.ServerRunner(web.Server(self._handle))
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._wanted)
        await site.start()
        address = self._runner.addresses[0]
        self.port = int(address[1])
        return self

    async def __aexit__(self, *exc: object) -> None:
        # Streams first: the runner waits for requests under way, and a stream has no end of its own.
        self._routes.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Host", "").rpartition(":")[0] not in ("127.0.0.1", "localhost"):
            return status_answer(403, "Forbidden", "expected a request to 127.0.0.1")
        if request.path == "/":
            return web.Response(status=302, headers={"Location": PAGE})
        if "token" in request.query and request.path == PAGE:
            return self._sign_in(request, request.query["token"])
        if not signed_in(request, COOKIE, self._session) and request.path != _STYLE:
            return refused(request, "open the address that stowplan printed")
        if not serves(request.path):
            return status_answer(404, "NotFound", "the server could not find the requested resource")
        if request.path == LINK:
            return json_answer(200, {"link": self._shared()})
        return await respond(self._routes, request, EVERYTHING)

    def _sign_in(self, request: web.BaseRequest, token: str) -> web.Response:
        if signed_in(request, COOKIE, self._session):
            return web.Response(status=302, headers={"Location": PAGE})
        if self._token is None or not hmac.compare_digest(token.encode(), self._token.encode()):
            return refused(request, "this token is not valid, or was used before")
        self._token = None
        response = web.Response(status=302, headers={"Location": PAGE})
        response.set_cookie(COOKIE, self._session, httponly=True, samesite="Strict", path="/")
        return response
