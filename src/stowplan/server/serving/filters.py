"""The filter chain of a request: in-flight limit, authentication, authorization, then the page."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from aiohttp import web

from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger
from stowplan.server.serving.authentication import DelegatedAuthenticator
from stowplan.server.serving.authorization import Authorizer
from stowplan.server.serving.clientcertificates import CertificateUser, CredentialsError
from stowplan.server.serving.responses import (
    forbidden,
    internal_error,
    not_found,
    too_many_requests,
    unauthorized,
)
from stowplan.server.serving.reviews import UNOBSERVED, AccessObserver, ReviewError

Page: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
"""Handles authorized requests of any method."""

Pages: TypeAlias = Mapping[str, Page]
"""Pages by path. A path that ends in "/" is also a prefix."""

USER: Final = web.RequestKey("user", CertificateUser)
"""Under which a request has the user it was authenticated as."""

CACHE_CONTROL: Final = "no-cache, private"
_LOG_VERBOSITY: Final = 3


class Router:
    """Finds the page of a path: an exact match, else the longest prefix. Paths are not cleaned."""

    def __init__(self, pages: Pages) -> None:
        for path in pages:
            if not path.startswith("/"):
                raise ValueError(f"pages: {path!r} does not begin with a slash")
        self._pages = dict(pages)
        prefixes = [path for path in pages if path.endswith("/")]
        self._prefixes = sorted(prefixes, key=len, reverse=True)

    def page(self, path: str) -> Page | None:
        found = self._pages.get(path)
        if found is not None:
            return found
        prefix = next((prefix for prefix in self._prefixes if path.startswith(prefix)), None)
        return None if prefix is None else self._pages[prefix]


class FilterChain:
    """Authenticates and authorizes requests and dispatches them to pages, at most `max_in_flight` at a time.

    Paths that are always allowed do not count towards the limit: a flood of other requests must not fail
    liveness probes.
    """

    def __init__(
        self,
        pages: Pages,
        authenticator: DelegatedAuthenticator,
        authorizer: Authorizer,
        *,
        max_in_flight: int,
        clock: Clock,
        logger: Logger,
        observer: AccessObserver = UNOBSERVED,
    ) -> None:
        self._observer = observer
        self._router = Router(pages)
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._max_in_flight = max_in_flight
        self._in_flight = 0
        self._clock = clock
        self._logger = logger

    async def handle(self, request: web.Request) -> web.StreamResponse:
        began = self._clock.monotonic()
        if self._authorizer.always_allows(request.path):
            response = await self._authorize(request)
        elif self._in_flight >= self._max_in_flight:
            response = too_many_requests()
        else:
            self._in_flight += 1
            try:
                response = await self._authorize(request)
            finally:
                self._in_flight -= 1
        if self._logger.enabled(_LOG_VERBOSITY):
            self._log(request, response, self._clock.monotonic() - began)
        return response

    async def _authorize(self, request: web.Request) -> web.StreamResponse:
        path, verb = request.path, request.method.lower()
        now, observer = self._clock.monotonic, self._observer
        began = now()
        try:
            user = await self._authenticator.authenticate(request)
        except CredentialsError as error:
            observer.authenticated("error", now() - began)
            self._logger.error("Unable to authenticate the request", err=str(error))
            return unauthorized()
        authenticated_at = now()
        observer.authenticated("success", authenticated_at - began, user.name)
        try:
            decision = await self._authorizer.authorize(user, verb, path)
        except ReviewError as error:
            observer.authorized("error", now() - authenticated_at)
            self._logger.error("Failed to make webhook authorizer request", err=str(error))
            return internal_error(request.raw_path, str(error))
        observer.authorized("allowed" if decision.allowed else "no-opinion", now() - authenticated_at)
        if not decision.allowed:
            self._logger.info(4, "Forbidden", URI=request.raw_path, reason=decision.reason)
            return forbidden(user, verb, path, decision.reason)
        request[USER] = user
        return await self._dispatch(request)

    async def _dispatch(self, request: web.Request) -> web.StreamResponse:
        page = self._router.page(request.path)
        if page is None:
            return not_found()
        try:
            return await page(request)
        except (web.HTTPException, asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 (one failing page must not take down the port)
            self._logger.error("A page failed", path=request.path, err=f"{type(error).__name__}: {error}")
            return internal_error(request.raw_path, "the page failed, see the log")

    def _log(self, request: web.Request, response: web.StreamResponse, seconds: float) -> None:
        peer = request.get_extra_info("peername") or ("", 0)
        self._logger.info(
            _LOG_VERBOSITY,
            "HTTP",
            verb=request.method,
            URI=request.raw_path,
            latency=f"{seconds * 1000:.3f}ms",
            userAgent=request.headers.get("User-Agent", ""),
            **{"audit-ID": ""},
            srcIP=f"{peer[0]}:{peer[1]}",
            resp=response.status,
        )


async def set_common_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Headers that every response has, or must not have."""
    response.headers.setdefault("Cache-Control", CACHE_CONTROL)
    response.headers.popall("Server", None)
