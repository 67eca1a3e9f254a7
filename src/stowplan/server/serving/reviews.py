"""TokenReview and SubjectAccessReview requests to the API server, and a cache for their results."""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.client import Writer
from stowplan.runtime.clock import Clock

TOKEN_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)

TIMEOUT: Final = 10.0
"""Seconds for a review, with all attempts."""

_ATTEMPTS: Final = 5
_INITIAL_BACKOFF: Final = 0.5
_BACKOFF_FACTOR: Final = 1.5
_BACKOFF_JITTER: Final = 0.2

T = TypeVar("T")


class AccessObserver(Protocol):
    """Observes authentication and authorization of requests, for metrics. Durations are in seconds."""

    def authenticated(self, result: str, seconds: float, username: str = "") -> None:
        """A request was authenticated (`success`), or its credentials are invalid (`error`)."""
        return

    def authorized(self, result: str, seconds: float) -> None:
        """The authorizer's result: `allowed`, `no-opinion` or `error`."""
        return

    def looked_up(self, hit: bool, seconds: float) -> None:
        """A token was looked up in the cache."""
        return

    def fetching(self, status: str, change: int) -> None:
        """The number of TokenReviews `in_flight`, or of requests `blocked` by them, changed."""
        return

    def fetched(self, good: bool) -> None:
        """A TokenReview ended; `good` if the token is valid."""
        return

    def token_reviewed(self, code: str, seconds: float) -> None:
        """The status code of a TokenReview, `<error>` without a response."""
        return

    def access_reviewed(self, code: str, seconds: float) -> None:
        """The status code of a SubjectAccessReview, `<error>` without a response."""
        return

    def certificate_shown(self, good_for: float) -> None:
        """A client certificate was verified that expires in `good_for` seconds."""
        return


class _Unobserved(AccessObserver):
    """Does nothing."""


UNOBSERVED = _Unobserved()


class ReviewError(Exception):
    """The API server gave no usable answer."""


class ReviewClient:
    """Creates reviews, with retries and exponential backoff.

    `answered` is called with the status code and duration of every attempt.
    """

    def __init__(
        self, writer: Writer, rng: random.Random, clock: Clock, answered: Callable[[str, float], None]
    ) -> None:
        self._writer = writer
        self._rng = rng
        self._clock = clock
        self._answered = answered

    async def create(self, resource: Resource, spec: Json, status: Json) -> Json:
        """The status of a review with this spec. Raises `ReviewError`."""
        body = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {},
            "spec": spec,
            "status": status,
        }
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = await self._create_with_retries(resource, body)
        except TimeoutError:
            raise ReviewError(f"{resource.qualified}: no answer within {TIMEOUT:g} seconds") from None
        except ApiError as error:
            raise ReviewError(f"{resource.qualified}: {error.message}") from None
        result = answer.get("status")
        if not isinstance(result, dict):
            raise ReviewError(f"{resource.qualified}: the answer has no status")
        return result

    async def _create_with_retries(self, resource: Resource, body: Json) -> Json:
        delay = _INITIAL_BACKOFF
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._send(resource, body)
            except ApiError as error:
                if not _is_retriable(error):
                    raise
            await asyncio.sleep(delay * (1 + _BACKOFF_JITTER * self._rng.random()))
            delay *= _BACKOFF_FACTOR
        return await self._send(resource, body)

    async def _send(self, resource: Resource, body: Json) -> Json:
        began, code = self._clock.monotonic(), "<error>"
        try:
            answer = await self._writer.create(resource, body)
            code = "201"
            return answer
        except ApiError as error:
            code = str(error.code) if error.code else code
            raise
        finally:
            self._answered(code, self._clock.monotonic() - began)


def _is_retriable(error: ApiError) -> bool:
    """True if another attempt may succeed."""
    return error.code in (0, 429, 500, 504) or error.retry_after is not None


class ReviewCache(Generic[T]):
    """An LRU cache with a TTL per entry.

    Concurrent requests for one key share a single fetch. Errors are not cached.
    """

    def __init__(self, clock: Clock, capacity: int) -> None:
        self._clock = clock
        self._capacity = capacity
        self._entries: OrderedDict[bytes, tuple[float, T]] = OrderedDict()
        self._fetches: dict[bytes, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def contains(self, key: bytes) -> bool:
        """True if there is an entry that has not expired."""
        known = self._entries.get(key)
        return known is not None and self._clock.monotonic() < known[0]

    async def get(self, key: bytes, fetch: Callable[[], Awaitable[T]], ttl: Callable[[T], float]) -> T:
        """The cached value of a key, else that of `fetch`, cached for `ttl(value)` seconds."""
        known = self._entries.get(key)
        if known is not None and self._clock.monotonic() < known[0]:
            self._entries.move_to_end(key)
            return known[1]
        task = self._fetches.get(key)
        if task is None:
            task = asyncio.create_task(self._fetch(key, fetch, ttl))
            self._fetches[key] = task
            task.add_done_callback(lambda done: self._fetched(key, done))
        return await asyncio.shield(task)

    async def _fetch(self, key: bytes, fetch: Callable[[], Awaitable[T]], ttl: Callable[[T], float]) -> T:
        value = await fetch()
        seconds = ttl(value)
        self._entries.pop(key, None)
        if seconds > 0:
            self._entries[key] = (self._clock.monotonic() + seconds, value)
            if len(self._entries) > self._capacity:
                self._entries.popitem(last=False)
        return value

    def _fetched(self, key: bytes, task: "asyncio.Task[T]") -> None:
        del self._fetches[key]
        if not task.cancelled():
            task.exception()

    def clear(self) -> None:
        """Drop all entries and cancel fetches."""
        self._entries.clear()
        for task in self._fetches.values():
            task.cancel()
