"""From what went wrong to an `ApiError`, in the words people know from other clients."""

from typing import Final

import msgspec

from stowplan.api import status
from stowplan.api.decode import UNDECODABLE, undecodable
from stowplan.api.pruning import WHOLE, Shape, at_once, pruned
from stowplan.api.status import ApiError
from stowplan.client.http.connection import HttpAnswer
from stowplan.gocompat.quoting import quote

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_SHOWN: Final = 200
"""Number of characters shown of an answer that is not a Status."""


class _Status(msgspec.Struct):
    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: dict[str, object] | None = None


_WITHOUT_DETAILS: Final = Shape(dict.fromkeys((b"kind", b"code", b"reason", b"message"), WHOLE))


def refused(method: str, answer: HttpAnswer) -> ApiError:
    """The error an answer stands for: the server's own Status, or what can be said without one."""
    found = _status(answer.body)
    if found.kind == "Status":
        error = ApiError(found.code or answer.status, found.reason, found.message, found.details)
    else:
        reason = _REASONS.get(answer.status, "")
        if answer.status == 409 and method == "POST":
            reason = "AlreadyExists"
        error = ApiError(answer.status, reason, _text(answer))
    if answer.retry_after is not None:
        error.details.setdefault("retryAfterSeconds", answer.retry_after)
    return error


def unreachable(method: str, url: str, problem: str) -> ApiError:
    """No answer, or only a part of one."""
    return status.unreachable(f"{method.capitalize()} {quote(url)}: {problem}")


def unreadable(method: str, url: str, error: Exception) -> ApiError:
    """An answer that says it is good but cannot be read: what became of the request is unknown."""
    return unreachable(method, url, f"the answer cannot be read: {undecodable(error)}")


def _status(body: bytes) -> _Status:
    """The Status that a body is, without details that cannot be read; an empty one if it is none."""
    try:
        return msgspec.json.decode(body, type=_Status)
    except UNDECODABLE:
        try:
            return msgspec.json.decode(at_once(pruned(body, _WITHOUT_DETAILS)), type=_Status)
        except UNDECODABLE:
            return _Status()


def _text(answer: HttpAnswer) -> str:
    text = " ".join(answer.body[: 4 * _SHOWN].decode("utf-8", "replace").split())
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"the server answered with code {answer.status}" + (f": {shown}" if shown else "")
