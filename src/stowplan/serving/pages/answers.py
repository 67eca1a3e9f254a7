"""Answers of the kinds that several pages give."""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

PLAIN: Final = "text/plain; charset=utf-8"
_NO_SNIFFING: Final = {"X-Content-Type-Options": "nosniff"}


def answer(
    body: str | bytes,
    content_type: str = PLAIN,
    *,
    status: int = 200,
    sniffed: bool = False,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """A whole answer. Unless it may be `sniffed`, browsers are told to believe the content type."""
    given = {"Content-Type": content_type, **({} if sniffed else _NO_SNIFFING), **(headers or {})}
    encoded = body.encode() if isinstance(body, str) else body
    return web.Response(body=encoded, status=status, headers=given)
