"""/metrics, /metrics/slis and /metrics/resources."""

import asyncio
import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from aiohttp import web

from stowplan.server.serving.filters import Page
from stowplan.server.serving.responses import parse_accept, response

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
PROTOBUF: Final = (
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; "
    "escaping=underscores"
)
_PROTOBUF_TYPE: Final = "application/vnd.google.protobuf"
_PROTOBUF_MESSAGE: Final = "io.prometheus.client.MetricFamily"
_GZIP_LEVEL: Final = 1
_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS


class MetricsSource(Protocol):
    """Metrics in both exposition formats."""

    def text(self) -> bytes: ...

    def delimited(self) -> bytes: ...

    def reset(self) -> None: ...


def metrics_page(metrics: MetricsSource, started: float) -> Page:
    """A page of metrics; DELETE resets them."""
    start = _start_time(started)

    async def page(request: web.Request) -> web.StreamResponse:
        if request.method == "DELETE":
            metrics.reset()
            return response("metrics reset\n", sniffed=True)
        protobuf = _prefers_protobuf(request)
        body = metrics.delimited() if protobuf else metrics.text()
        headers = {**start}
        if _accepts_gzip(request):
            headers["Content-Encoding"] = "gzip"
            body = gzip.compress(body, _GZIP_LEVEL)
        return response(body, PROTOBUF if protobuf else TEXT, sniffed=True, headers=headers)

    return page


def resources_page(chunks: Callable[[], Iterator[bytes]], leads: Callable[[], bool], started: float) -> Page:
    """The page of pods' resource requests and limits; empty unless this instance leads.

    It can be a hundred megabytes, so it is streamed, and other tasks run between the chunks.
    """
    start = _start_time(started)

    async def page(request: web.Request) -> web.StreamResponse:
        if not leads():
            return web.Response()
        if request.method == "DELETE":
            return response("metrics reset\n", sniffed=True)
        zipped = _accepts_gzip(request)
        headers = {"Content-Type": TEXT, **start, **({"Content-Encoding": "gzip"} if zipped else {})}
        streamed = web.StreamResponse(headers=headers)
        await streamed.prepare(request)
        if request.method == "HEAD":
            return streamed
        for chunk in _gzipped(chunks()) if zipped else chunks():
            if chunk:
                await streamed.write(chunk)
            await asyncio.sleep(0)
        await streamed.write_eof()
        return streamed

    return page


def _gzipped(chunks: Iterator[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WBITS)
    for chunk in chunks:
        yield compressor.compress(chunk)
    yield compressor.flush()


def _start_time(started: float) -> dict[str, str]:
    return {"Process-Start-Time-Unix": str(int(started))}


def _accepts_gzip(request: web.Request) -> bool:
    offered = request.headers.get("Accept-Encoding", "")
    return any(part.split(";")[0].strip() == "gzip" for part in offered.split(","))


def _prefers_protobuf(request: web.Request) -> bool:
    """True if protobuf is preferred over text; other formats get text."""
    for clause in parse_accept(request.headers.get("Accept", "")):
        if clause.matches("text/plain") and clause.type != "*":
            return False
        if f"{clause.type}/{clause.subtype}" == _PROTOBUF_TYPE:
            parameters = clause.parameters
            if parameters.get("proto") == _PROTOBUF_MESSAGE and parameters.get("encoding") == "delimited":
                return True
    return False
