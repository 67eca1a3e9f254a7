"""What is said to those who are not let in, or who ask for something that is not there."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from stowplan.gocompat.quoting import quote
from stowplan.serving.users import User

NOSNIFF: Final = {"X-Content-Type-Options": "nosniff"}

_HTML: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_JSON: Final = {"&": "\\u0026", "<": "\\u003c", ">": "\\u003e", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def unauthorized() -> web.Response:
    return _status(401, "Unauthorized", "Unauthorized")


def forbidden(user: User, verb: str, path: str, reason: str) -> web.Response:
    said = f"User {quote(user.name)} cannot {verb} path {quote(path)}".translate(_HTML)
    message = f"forbidden: {said}: {reason}" if reason else f"forbidden: {said}"
    return _status(403, "Forbidden", message, NOSNIFF, details={})


def not_found() -> web.Response:
    return _text(404, "404 page not found\n")


def internal_error(target: str, why: str) -> web.Response:
    return _text(500, f"Internal Server Error: {quote(target)}: {why}\n".translate(_HTML))


def too_many_requests() -> web.Response:
    answer = _text(429, "Too many requests, please try again later.\n")
    answer.headers["Retry-After"] = "1"
    return answer


def _text(code: int, text: str) -> web.Response:
    return web.Response(status=code, text=text, headers=NOSNIFF)


def _status(
    code: int, reason: str, message: str, headers: Mapping[str, str] | None = None, **more: Any
) -> web.Response:
    """A Status object, letter for letter as Go writes it."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **more,
        "code": code,
    }
    text = msgspec.json.encode(body).decode()
    for plain, escaped in _JSON.items():
        text = text.replace(plain, escaped)
    return web.Response(
        status=code, body=f"{text}\n".encode(), content_type="application/json", headers=headers
    )
