"""Responses that several pages and filters give, and the Accept header that chooses among them."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import web

from stowplan.gocompat.quoting import quote
from stowplan.server.serving.clientcertificates import CertificateUser

PLAIN: Final = "text/plain; charset=utf-8"
_NOSNIFF: Final = {"X-Content-Type-Options": "nosniff"}

_HTML_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_JSON_ESCAPES: Final = {
    "&": "\\u0026",
    "<": "\\u003c",
    ">": "\\u003e",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


def response(
    body: str | bytes,
    content_type: str = PLAIN,
    *,
    status: int = 200,
    sniffed: bool = False,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """A response. Unless it may be `sniffed`, it has `X-Content-Type-Options: nosniff`."""
    given = {"Content-Type": content_type, **({} if sniffed else _NOSNIFF), **(headers or {})}
    encoded = body.encode() if isinstance(body, str) else body
    return web.Response(body=encoded, status=status, headers=given)


# Errors


def unauthorized() -> web.Response:
    return _status_response(401, "Unauthorized", "Unauthorized")


def forbidden(user: CertificateUser, verb: str, path: str, reason: str) -> web.Response:
    sentence = f"User {quote(user.name)} cannot {verb} path {quote(path)}".translate(_HTML_ESCAPES)
    message = f"forbidden: {sentence}: {reason}" if reason else f"forbidden: {sentence}"
    return _status_response(403, "Forbidden", message, _NOSNIFF, details={})


def not_found() -> web.Response:
    return _text_response(404, "404 page not found\n")


def internal_error(target: str, why: str) -> web.Response:
    return _text_response(500, f"Internal Server Error: {quote(target)}: {why}\n".translate(_HTML_ESCAPES))


def too_many_requests() -> web.Response:
    answer = _text_response(429, "Too many requests, please try again later.\n")
    answer.headers["Retry-After"] = "1"
    return answer


def _text_response(code: int, text: str) -> web.Response:
    return web.Response(status=code, text=text, headers=_NOSNIFF)


def _status_response(
    code: int, reason: str, message: str, headers: Mapping[str, str] | None = None, **more: Any
) -> web.Response:
    """A Status object, byte for byte as Go encodes it."""
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
    for plain, escaped in _JSON_ESCAPES.items():
        text = text.replace(plain, escaped)
    return web.Response(
        status=code, body=f"{text}\n".encode(), content_type="application/json", headers=headers
    )


# Content negotiation


class AcceptClause(NamedTuple):
    """A media range of an Accept header with its parameters: `application/json;as=Statusz`."""

    type: str
    subtype: str
    parameters: Mapping[str, str]
    weight: float = 1.0

    def matches(self, media_type: str) -> bool:
        kind, _, subtype = media_type.partition("/")
        return (self.type == "*" and self.subtype == "*") or (
            self.type == kind and self.subtype in (subtype, "*")
        )


def parse_accept(header: str) -> list[AcceptClause]:
    """The clauses of an Accept header by preference; malformed ones are skipped."""
    clauses = [clause for part in header.split(",") if (clause := _accept_clause(part)) is not None]
    return sorted(clauses, key=lambda one: (-one.weight, one.type == "*", one.subtype == "*"))


def _accept_clause(text: str) -> AcceptClause | None:
    media, *rest = (piece.strip() for piece in text.split(";"))
    kind, slash, subtype = ("*", "/", "*") if media == "*" else media.partition("/")
    if not slash or not kind or not subtype:
        return None
    parameters = {
        name.strip(): value.strip().strip('"') for name, equals, value in map(_parameter, rest) if equals
    }
    return AcceptClause(kind.strip(), subtype.strip(), parameters, _weight(parameters.pop("q", "")))


def _parameter(parameter: str) -> tuple[str, str, str]:
    return parameter.partition("=")


def _weight(text: str) -> float:
    try:
        return float(text) if text else 1.0
    except ValueError:
        return 1.0
