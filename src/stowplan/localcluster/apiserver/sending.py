"""Bodies of responses, sent slice by slice to clients that may not read them.

The transport copies the data it gets and keeps the copy until the client has read it. So it gets a slice at a
time and the next one when that has been taken: a client that does not read costs the server a few slices,
regardless of its request, and no more than PATIENCE.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from aiohttp import web

SLICE: Final = 64 * 1024
"""Bytes that are handed to a transport at once, and that it may keep before the sender waits."""

PATIENCE: Final = 60.0
"""Seconds in which a client has to take a slice: kube-apiserver's limit for a whole request."""


def slices(pieces: Iterable[bytes]) -> Iterator[bytes | memoryview]:
    """Pieces in the same order, joined or cut into slices."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        if size + len(piece) <= SLICE:
            waiting.append(piece)
            size += len(piece)
            continue
        if waiting:
            yield b"".join(waiting)
        if len(piece) <= SLICE:
            waiting, size = [piece], len(piece)
            continue
        waiting, size = [], 0
        view = memoryview(piece)
        for begin in range(0, len(piece), SLICE):
            yield view[begin : begin + SLICE]
    if waiting:
        yield b"".join(waiting)


def limit_buffer(request: web.BaseRequest) -> None:
    """Have writers of this connection wait as soon as a slice has not been read."""
    if request.transport is not None:
        request.transport.set_write_buffer_limits(high=SLICE)


async def stream(
    request: web.BaseRequest,
    pieces: Iterable[bytes],
    *,
    code: int = 200,
    headers: Mapping[str, str],
    length: int | None = None,
) -> web.StreamResponse:
    """A response of pieces, each made when it can be sent and while others are served.

    A client that does not read in time is disconnected. `length` is that of all pieces together; without one
    the body is chunked.
    """
    response = web.StreamResponse(status=code, headers=headers)
    if length is None:
        response.enable_chunked_encoding()
    else:
        response.content_length = length
    await response.prepare(request)
    limit_buffer(request)
    try:
        for piece in slices(pieces):
            async with asyncio.timeout(PATIENCE):
                await response.write(piece)
                # write() waits only when it has to, and the next piece may take a while to make.
                await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    return response


async def sent(request: web.BaseRequest, response: web.StreamResponse) -> web.StreamResponse:
    """The response as it is if it is short, sent in slices otherwise."""
    body = response.body if isinstance(response, web.Response) else None
    if not isinstance(body, bytes) or len(body) <= SLICE or request.method == "HEAD":
        return response
    return await stream(request, [body], code=response.status, headers=response.headers, length=len(body))
