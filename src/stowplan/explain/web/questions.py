"""Questions by POST: checks of the request before anything is read, and who answers.

The engine that answers is above this package (`stowplan.simulate.questions`): the host of the page brings it.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from aiohttp import web

from stowplan.api.status import ApiError
from stowplan.explain.web.access import Viewer
from stowplan.explain.web.documents import Inspection

QUESTIONS: Final = ("fit", "whatif", "explain", "compare")
"""Questions by the last part of their path."""
JSON: Final = "application/json"
YAML: Final = "application/yaml"
_BROWSERS: Final = frozenset(("Cookie", "Origin", "Sec-Fetch-Site"))
"""Headers of browsers; they send an origin with each POST."""
MOST_BYTES: Final = 1 << 20
"""Size of a body."""


class Asked(NamedTuple):
    """A question: its body is read by who answers, with all its limits."""

    question: str
    body: bytes
    media: str


class Answered(NamedTuple):
    """A status code and JSON."""

    code: int
    body: bytes
    retry_after: int = 0
    """Seconds after which a refused question may be asked again."""


class Questions(Protocol):
    """Answers questions on copies of the cluster."""

    async def answer(
        self, asked: Asked, inspection: Inspection, viewer: Viewer, gone: Callable[[], bool]
    ) -> Answered:
        """The answer, with the rights of the viewer. Work ends when `gone`. Raises ApiError."""
        ...

    def close(self) -> None:
        """End all work."""
        ...


async def read_question(request: web.BaseRequest, question: str) -> Asked:
    """The question of a request. Raises ApiError.

    A page of somebody else can have a browser send a POST with its user's cookie or certificate, but not with
    this content type, and not without its own origin. `kubectl create --raw` names no content type.
    """
    is_typed = "Content-Type" in request.headers or not _BROWSERS.isdisjoint(request.headers)
    media = request.content_type if is_typed else JSON
    if media not in (JSON, YAML):
        shown = request.headers.get("Content-Type", "none")[:80]
        raise ApiError(415, "UnsupportedMediaType", f"Content-Type: expected {JSON} or {YAML}, got {shown!r}")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("Host"):
        raise ApiError(403, "Forbidden", "Origin: expected a request of the page that this server serves")
    if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        raise ApiError(403, "Forbidden", "Sec-Fetch-Site: expected same-origin")
    if "Content-Encoding" in request.headers:
        raise ApiError(415, "UnsupportedMediaType", "Content-Encoding: expected none")
    if (request.content_length or 0) > MOST_BYTES:
        raise _too_large()
    parts, size = [], 0
    while part := await request.content.readany():
        size += len(part)
        if size > MOST_BYTES:
            raise _too_large()
        parts.append(part)
    return Asked(question, b"".join(parts), media)


def _too_large() -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"body: expected at most {MOST_BYTES >> 10} KiB")
