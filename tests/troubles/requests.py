"""The command line's HTTP client, answered by the handlers of an API server in the same virtual time."""

import random
from collections.abc import Mapping

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict

from localcluster.controllers.stories.transports import request_by_hand
from stowplan.client.http import Address, HttpClient, Identity, Server, Trust, errors
from stowplan.client.http.body import Body
from stowplan.client.http.connection import HttpAnswer
from stowplan.localcluster.apiserver.handler import RequestHandler
from stowplan.localcluster.up import LocalCluster
from stowplan.runtime.clock import Clock


class _Pieces(AbstractStreamWriter):
    """Keeps an answer that is sent while it is made, as long lists are."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    async def write(self, chunk: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(chunk))

    async def write_eof(self, chunk: bytes = b"") -> None:
        self.written.append(chunk)

    async def write_headers(self, status_line: str, headers: "CIMultiDict[str]") -> None:
        """Nobody reads them."""

    async def drain(self) -> None:
        """There is always room."""

    def enable_compression(self, encoding: str = "deflate", strategy: int | None = None) -> None:
        """Stays as it is."""

    def enable_chunking(self) -> None:
        """Comes in one piece in the end."""


class _Handlers:
    """A transport for `HttpClient` without a socket."""

    def __init__(self, handler: RequestHandler, headers: Mapping[str, str]) -> None:
        self._handler = handler
        self._headers = {**headers, "Host": "troubles", "Accept": "application/json"}

    def url(self, path: str) -> str:
        return f"http://troubles{path}"

    def close(self) -> None:
        """Nothing is open."""

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = "",
        *,
        repeatable: bool = False,
        once: bool = False,
        taken: Body | None = None,
    ) -> HttpAnswer:
        headers = dict(self._headers)
        if body:
            headers |= {"Content-Type": content_type, "Content-Length": str(len(body))}
        pieces = _Pieces()
        response = await self._handler.respond(request_by_hand(method, path, headers, body, pieces))
        if isinstance(response, web.Response):
            assert response.body is None or isinstance(response.body, bytes)
            text = response.body or b""
        else:
            text = b"".join(pieces.written)
        answer = HttpAnswer(response.status, (text,), None)
        if not 200 <= response.status < 300:
            raise errors.refused(method, answer)
        if taken is not None:
            taken.feed(text)
        return answer


def client_of(cluster: LocalCluster, clock: Clock) -> HttpClient:
    """A client of a cluster that does not listen."""
    server = Server(Address("http", "troubles", 80), Trust(), Identity())
    client = HttpClient(server, clock=clock, rng=random.Random(0), qps=-1)
    headers = {"Authorization": f"Bearer {cluster.server.token}"}
    client._transport = _Handlers(cluster.server.handler, headers)  # type: ignore[assignment]
    return client
