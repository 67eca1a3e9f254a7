"""What happens to a request: who asks, may they, and which page answers."""

import asyncio
from typing import Final

from aiohttp import web

from stowplan.clock import Clock
from stowplan.logs import Journal
from stowplan.serving import answers
from stowplan.serving.authentication import Authenticator
from stowplan.serving.authorization import Authorizer
from stowplan.serving.observer import UNOBSERVED, AccessObserver
from stowplan.serving.reviews import ReviewError
from stowplan.serving.routing import Pages, Router
from stowplan.serving.users import CredentialsError

CACHE_CONTROL: Final = "no-cache, private"
_LOGGED_AT: Final = 3


class Gate:
    """Lets requests through to pages. At most `most_requests` are looked at at the same time.

    Paths that are always allowed do not count: somebody's flood must not make a kubelet believe that the
    scheduler is dead.
    """

    def __init__(
        self,
        pages: Pages,
        authenticator: Authenticator,
        authorizer: Authorizer,
        *,
        most_requests: int,
        clock: Clock,
        journal: Journal,
        observer: AccessObserver = UNOBSERVED,
    ) -> None:
        self._observer = observer
        self._router = Router(pages)
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._most_requests = most_requests
        self._under_way = 0
        self._clock = clock
        self._journal = journal

    async def answer(self, request: web.Request) -> web.StreamResponse:
        began = self._clock.monotonic()
        if self._authorizer.always_allows(request.path):
            response = await self._admit(request)
        elif self._under_way >= self._most_requests:
            response = answers.too_many_requests()
        else:
            self._under_way += 1
            try:
                response = await self._admit(request)
            finally:
                self._under_way -= 1
        if self._journal.shows(_LOGGED_AT):
            self._log(request, response, self._clock.monotonic() - began)
        return response

    async def _admit(self, request: web.Request) -> web.StreamResponse:
        path, verb = request.path, request.method.lower()
        now, observer = self._clock.monotonic, self._observer
        began = now()
        try:
            user = await self._authenticator.user(request)
        except CredentialsError as error:
            observer.authenticated("error", now() - began)
            self._journal.problem("Unable to authenticate the request", err=str(error))
            return answers.unauthorized()
        known_at = now()
        observer.authenticated("success", known_at - began, user.name)
        try:
            verdict = await self._authorizer.verdict(user, verb, path)
        except ReviewError as error:
            observer.authorized("error", now() - known_at)
            self._journal.problem("Failed to make webhook authorizer request", err=str(error))
            return answers.internal_error(request.raw_path, str(error))
        observer.authorized("allowed" if verdict.allowed else "no-opinion", now() - known_at)
        if not verdict.allowed:
            self._journal.info(4, "Forbidden", URI=request.raw_path, reason=verdict.reason)
            return answers.forbidden(user, verb, path, verdict.reason)
        return await self._page(request)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        page = self._router.page(request.path)
        if page is None:
            return answers.not_found()
        try:
            return await page(request)
        except (web.HTTPException, asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 (a page that fails must not take the others with it)
            self._journal.problem("A page failed", path=request.path, err=f"{type(error).__name__}: {error}")
            return answers.internal_error(request.raw_path, "the page failed, see the log")

    def _log(self, request: web.Request, response: web.StreamResponse, seconds: float) -> None:
        peer = request.get_extra_info("peername") or ("", 0)
        self._journal.info(
            _LOGGED_AT,
            "HTTP",
            verb=request.method,
            URI=request.raw_path,
            latency=f"{seconds * 1000:.3f}ms",
            userAgent=request.headers.get("User-Agent", ""),
            **{"audit-ID": ""},
            srcIP=f"{peer[0]}:{peer[1]}",
            resp=response.status,
        )


async def dress(request: web.Request, response: web.StreamResponse) -> None:
    """Headers that all answers have, or must not have."""
    response.headers.setdefault("Cache-Control", CACHE_CONTROL)
    response.headers.popall("Server", None)
