"""Bearer tokens: the API server says whose they are."""

import hashlib
import random
from collections.abc import Mapping
from typing import Final

from stowplan.api.requests import Json
from stowplan.client import Writer
from stowplan.clock import Clock
from stowplan.serving.observer import UNOBSERVED, AccessObserver
from stowplan.serving.remembered import Remembered
from stowplan.serving.reviews import TOKEN_REVIEWS, Reviewer, ReviewError
from stowplan.serving.users import CredentialsError, User, readable

_CAPACITY: Final = 4096


def bearer_token(headers: Mapping[str, str]) -> str:
    """The token of a request, empty if there is none."""
    parts = headers.get("Authorization", "").strip().split(" ", 2)
    return readable(parts[1]) if len(parts) > 1 and parts[0].lower() == "bearer" else ""


class TokenReviews:
    """Finds the owner of a token. Answers are kept by the token's hash, so tokens do not stay in memory."""

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
        self._reviewer = Reviewer(writer, rng, clock, observer.token_reviewed)
        self._ttl = ttl
        self._known: Remembered[User | None] = Remembered(clock, _CAPACITY)

    async def owner(self, token: str) -> User:
        """Raises `CredentialsError` if it is nobody's, or nobody can say."""
        key = hashlib.sha256(token.encode()).digest()
        hit, began = self._known.holds(key), self._clock.monotonic()
        self._observer.fetching("blocked", 0 if hit else 1)
        try:
            owner = await self._known.get(key, lambda: self._fetch(token), lambda _: self._ttl)
        except ReviewError as error:
            raise CredentialsError(f"Failed to make webhook authenticator request: {error}") from None
        finally:
            self._observer.fetching("blocked", 0 if hit else -1)
            self._observer.looked_up(hit, self._clock.monotonic() - began)
        if owner is None:
            raise CredentialsError("invalid bearer token")
        return owner

    def forget(self) -> None:
        self._known.forget()

    async def _fetch(self, token: str) -> User | None:
        owner = None
        self._observer.fetching("in_flight", 1)
        try:
            owner = await self._review(token)
            return owner
        finally:
            self._observer.fetching("in_flight", -1)
            self._observer.fetched(owner is not None)

    async def _review(self, token: str) -> User | None:
        status = await self._reviewer.ask(TOKEN_REVIEWS, {"token": token}, {"user": {}})
        if status.get("authenticated") is not True:
            if status.get("error"):
                raise CredentialsError(str(status["error"]))
            return None
        return _user(status)


def _user(status: Json) -> User:
    user = status.get("user")
    if not isinstance(user, dict) or not isinstance(user.get("username"), str):
        raise ReviewError(f"{TOKEN_REVIEWS.qualified}: the answer names no user")
    extra = {str(key): _texts(values) for key, values in (user.get("extra") or {}).items()}
    return User(user["username"], str(user.get("uid") or ""), _texts(user.get("groups")), extra)


def _texts(values: object) -> tuple[str, ...]:
    return tuple(map(str, values)) if isinstance(values, list | tuple) else ()
