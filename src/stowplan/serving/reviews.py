"""Asking the API server who somebody is and what they may do."""

import asyncio
import random
from collections.abc import Callable
from typing import Final

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.client import Writer
from stowplan.clock import Clock

TOKEN_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)

TIMEOUT: Final = 10.0
"""Seconds that an answer may take, with all attempts."""

_ATTEMPTS: Final = 5
_FIRST_PAUSE: Final = 0.5
_GROWTH: Final = 1.5
_JITTER: Final = 0.2


class ReviewError(Exception):
    """The API server gave no answer that can be used."""


class Reviewer:
    """Sends reviews; when the API server falters, again after growing pauses, but not for long.

    `answered` is told the status code of every answer, and how long it took.
    """

    def __init__(
        self, writer: Writer, rng: random.Random, clock: Clock, answered: Callable[[str, float], None]
    ) -> None:
        self._writer = writer
        self._rng = rng
        self._clock = clock
        self._answered = answered

    async def ask(self, resource: Resource, spec: Json, status: Json) -> Json:
        """What the API server says about a spec: the status of the review. Raises `ReviewError`."""
        body = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {},
            "spec": spec,
            "status": status,
        }
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = await self._create(resource, body)
        except TimeoutError:
            raise ReviewError(f"{resource.qualified}: no answer within {TIMEOUT:g} seconds") from None
        except ApiError as error:
            raise ReviewError(f"{resource.qualified}: {error.message}") from None
        said = answer.get("status")
        if not isinstance(said, dict):
            raise ReviewError(f"{resource.qualified}: the answer has no status")
        return said

    async def _create(self, resource: Resource, body: Json) -> Json:
        pause = _FIRST_PAUSE
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._send(resource, body)
            except ApiError as error:
                if not _may_pass(error):
                    raise
            await asyncio.sleep(pause * (1 + _JITTER * self._rng.random()))
            pause *= _GROWTH
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


def _may_pass(error: ApiError) -> bool:
    """Whether it makes sense to try again."""
    return error.code in (0, 429, 500, 504) or error.retry_after is not None
