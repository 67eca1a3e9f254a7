"""Answers: JSON bytes, errors as Status objects, warnings."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from stowplan.api.status import ApiError

_MOST_WARNINGS: Final = 30
_LONGEST_WARNING: Final = 200
JSON: Final = "application/json"
_encode: Final = msgspec.json.Encoder().encode


def answer(
    raw: bytes, code: int = 200, *, content_type: str = JSON, warnings: Sequence[str] = ()
) -> web.Response:
    """An answer whose body is there already."""
    response = web.Response(body=raw, status=code, content_type=content_type)
    for warning in warnings[:_MOST_WARNINGS]:
        response.headers.add("Warning", f'299 - "{_escaped(warning[:_LONGEST_WARNING])}"')
    return response


def json_answer(data: Any, code: int = 200) -> web.Response:
    return answer(_encode(data), code)


def refusal(error: ApiError) -> web.Response:
    """An error as the API shows it."""
    response = json_answer(error.status(), error.code or 500)
    if error.code in (429, 503, 504) and error.retry_after:
        response.headers["Retry-After"] = str(int(error.retry_after))
    if error.code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def success(code: int = 200, **details: Any) -> web.Response:
    """A Status that says only that it is done."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        body["details"] = details
    return json_answer(body, code)


def _escaped(text: str) -> str:
    """Text as it may stand in a header between quotes."""
    plain = "".join(character if " " <= character <= "~" else "?" for character in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
