"""Authentication of requests: front proxy headers, client certificate, bearer token, or anonymous."""

import hashlib
import random
import ssl
from collections.abc import Mapping
from typing import Final

from aiohttp import web

from stowplan.api.requests import Json
from stowplan.client import Writer
from stowplan.runtime.clock import Clock
from stowplan.server.serving.clientca import ClientCAs
from stowplan.server.serving.clientcertificates import (
    ANONYMOUS_USER,
    CertificateUser,
    CredentialsError,
    presented_chain,
    user_from_certificate,
    valid_utf8,
)
from stowplan.server.serving.reviews import (
    TOKEN_REVIEWS,
    UNOBSERVED,
    AccessObserver,
    ReviewCache,
    ReviewClient,
    ReviewError,
)

_CACHE_SIZE: Final = 4096


def bearer_token(headers: Mapping[str, str]) -> str:
    """The bearer token of a request, empty if there is none."""
    parts = headers.get("Authorization", "").strip().split(" ", 2)
    return valid_utf8(parts[1]) if len(parts) > 1 and parts[0].lower() == "bearer" else ""


class TokenAuthenticator:
    """Authenticates bearer tokens by TokenReviews. The cache key is the token's hash: tokens are not kept."""

    def __init__(
        self,
        writer: Writer,
        clock: Clock,
        rng: random.Random,
        ttl: float,
        observer: AccessObserver = UNOBSERVED,
    ) -> None:
        self._clock = clock
        self._observer = observer
        self._client = ReviewClient(writer, rng, clock, observer.token_reviewed)
        self._ttl = ttl
        self._cache: ReviewCache[CertificateUser | None] = ReviewCache(clock, _CACHE_SIZE)

    async def authenticate(self, token: str) -> CertificateUser:
        """The user of a token. Raises `CredentialsError` if the token is invalid or cannot be reviewed."""
        key = hashlib.sha256(token.encode()).digest()
        hit, began = self._cache.contains(key), self._clock.monotonic()
        self._observer.fetching("blocked", 0 if hit else 1)
        try:
            user = await self._cache.get(key, lambda: self._fetch(token), lambda _: self._ttl)
        except ReviewError as error:
            raise CredentialsError(f"Failed to make webhook authenticator request: {error}") from None
        finally:
            self._observer.fetching("blocked", 0 if hit else -1)
            self._observer.looked_up(hit, self._clock.monotonic() - began)
        if user is None:
            raise CredentialsError("invalid bearer token")
        return user

    def clear(self) -> None:
        self._cache.clear()

    async def _fetch(self, token: str) -> CertificateUser | None:
        user = None
        self._observer.fetching("in_flight", 1)
        try:
            user = await self._review(token)
            return user
        finally:
            self._observer.fetching("in_flight", -1)
            self._observer.fetched(user is not None)

    async def _review(self, token: str) -> CertificateUser | None:
        status = await self._client.create(TOKEN_REVIEWS, {"token": token}, {"user": {}})
        if status.get("authenticated") is not True:
            if status.get("error"):
                raise CredentialsError(str(status["error"]))
            return None
        return _user(status)


def _user(status: Json) -> CertificateUser:
    user = status.get("user")
    if not isinstance(user, dict) or not isinstance(user.get("username"), str):
        raise ReviewError(f"{TOKEN_REVIEWS.qualified}: the answer names no user")
    given = user.get("extra")
    extra = {key: _strings(values) for key, values in given.items()} if isinstance(given, dict) else {}
    return CertificateUser(user["username"], str(user.get("uid") or ""), _strings(user.get("groups")), extra)


def _strings(values: object) -> tuple[str, ...]:
    return tuple(map(str, values)) if isinstance(values, list | tuple) else ()


class DelegatedAuthenticator:
    """Tries front proxy headers, client certificate and bearer token in turn.

    Invalid credentials fail a request only if no other authenticator succeeds, but then even for paths that
    need no authorization.
    """

    def __init__(
        self,
        client_cas: ClientCAs,
        tokens: TokenAuthenticator | None,
        clock: Clock,
        observer: AccessObserver = UNOBSERVED,
    ) -> None:
        self._observer = observer
        self._client_cas = client_cas
        self._tokens = tokens
        self._clock = clock

    async def authenticate(self, request: web.BaseRequest) -> CertificateUser:
        """Raises `CredentialsError`."""
        user, problems = self._by_certificate(request)
        token = bearer_token(request.headers) if user is None else ""
        if token and self._tokens is not None:
            try:
                user = await self._tokens.authenticate(token)
            except CredentialsError as error:
                problems.append(str(error))
        if user is not None:
            return user.with_authenticated_group()
        if problems:
            raise CredentialsError("; ".join(problems))
        return ANONYMOUS_USER

    def _by_certificate(self, request: web.BaseRequest) -> tuple[CertificateUser | None, list[str]]:
        users, front_proxy, now = self._client_cas.users, self._client_cas.front_proxy, self._clock.now()
        connection: ssl.SSLObject | None = request.get_extra_info("ssl_object")
        problems: list[str] = []
        try:
            chain = presented_chain(connection)
        except ValueError as error:
            return None, [f"unreadable client certificate: {error}"]
        if not chain:
            return None, problems
        if front_proxy is not None:
            try:
                user = front_proxy.user(chain, request.headers, now)
            except CredentialsError as error:
                problems.append(str(error))
            else:
                if user is not None:
                    return user, problems
        if users is not None:
            try:
                users.verify(chain, now)
                self._observer.certificate_shown(chain[0].not_valid_after_utc.timestamp() - now)
                return user_from_certificate(chain[0]), problems
            except CredentialsError as error:
                problems.append(str(error))
        return None, problems
