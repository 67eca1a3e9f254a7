"""The pages Prometheus reads."""

import asyncio
import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from aiohttp import web

from stowplan.serving.pages.accepting import accepted
from stowplan.serving.pages.answers import answer
from stowplan.serving.routing import Page

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
MESSAGES: Final = (
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; "
    "escaping=underscores"
)
_MESSAGES: Final = "application/vnd.google.protobuf"
_FAMILY: Final = "io.prometheus.client.MetricFamily"
_QUICK: Final = 1
_GZIP: Final = 16 + zlib.MAX_WBITS


class Figures(Protocol):
    """Metrics that can be shown and started anew."""

    def text(self) -> bytes: ...

    def delimited(self) -> bytes: ...

    def reset(self) -> None: ...


def metrics_page(figures: Figures, started: float) -> Page:
    """The page of some metrics: DELETE starts them anew, everything else shows them."""
    start = _start(started)

    async def page(request: web.Request) -> web.StreamResponse:
        if request.method == "DELETE":
            figures.reset()
            return answer("metrics reset\n", sniffed=True)
        wants_messages = _wants_messages(request)
        body = figures.delimited() if wants_messages else figures.text()
        headers = {**start}
        if _takes_gzip(request):
            headers["Content-Encoding"] = "gzip"
            body = gzip.compress(body, _QUICK)
        return answer(body, MESSAGES if wants_messages else TEXT, sniffed=True, headers=headers)

    return page


def resources_page(pieces: Callable[[], Iterator[bytes]], leads: Callable[[], bool], started: float) -> Page:
    """The page of what pods ask for: only who leads shows anything.

    It can be a hundred megabytes, so it is sent while it is made, and everybody else gets a turn in between.
    """
    start = _start(started)

    async def page(request: web.Request) -> web.StreamResponse:
        if not leads():
            return web.Response()
        if request.method == "DELETE":
            return answer("metrics reset\n", sniffed=True)
        zipped = _takes_gzip(request)
        headers = {"Content-Type": TEXT, **start, **({"Content-Encoding": "gzip"} if zipped else {})}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        for piece in _zipped(pieces()) if zipped else pieces():
            if piece:
                await response.write(piece)
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    return page


def _zipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    zipping = zlib.compressobj(_QUICK, wbits=_GZIP)
    for piece in pieces:
        yield zipping.compress(piece)
    yield zipping.flush()


def _start(started: float) -> dict[str, str]:
    return {"Process-Start-Time-Unix": str(int(started))}


def _takes_gzip(request: web.Request) -> bool:
    offered = request.headers.get("Accept-Encoding", "")
    return any(part.split(";")[0].strip() == "gzip" for part in offered.split(","))


def _wants_messages(request: web.Request) -> bool:
    """Whether protobuf messages are wanted rather than text; other forms are answered with text."""
    for clause in accepted(request.headers.get("Accept", "")):
        if clause.matches("text/plain") and clause.type != "*":
            return False
        if f"{clause.type}/{clause.subtype}" == _MESSAGES:
            said = clause.parameters
            if said.get("proto") == _FAMILY and said.get("encoding") == "delimited":
                return True
    return False
