"""How the player reaches a cluster: by its handler within this process, or over HTTP."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Protocol

import aiohttp
import msgspec
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpVersion11, RawRequestMessage
from aiohttp.streams import StreamReader
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from stowplan.api.catalogue import Catalogue, Resource
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.handler import RequestHandler
from stowplan.localcluster.store import Store, StoreChange

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

Hears = Callable[[str, Json], None]
Answer = tuple[int, Json]

_GROUPS = {
    "apps/v1": "deployments replicasets statefulsets daemonsets controllerrevisions",
    "batch/v1": "jobs cronjobs",
    "discovery.k8s.io/v1": "endpointslices",
    "policy/v1": "poddisruptionbudgets",
    "autoscaling/v2": "horizontalpodautoscalers",
    "resource.k8s.io/v1": "resourceclaims resourceclaimtemplates deviceclasses resourceslices",
    "coordination.k8s.io/v1": "leases",
    "storage.k8s.io/v1": "storageclasses volumeattachments",
    "scheduling.k8s.io/v1": "priorityclasses",
}
API_VERSION = {plural: version for version, plurals in _GROUPS.items() for plural in plurals.split()}
_CLUSTER_WIDE = frozenset(
    [
        "nodes",
        "persistentvolumes",
        "namespaces",
        "storageclasses",
        "volumeattachments",
        "deviceclasses",
        "resourceslices",
        "priorityclasses",
    ]
)


def path_of(plural: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    version = API_VERSION.get(plural, "v1")
    parts = ["apis" if "/" in version else "api", version]
    if namespace and plural not in _CLUSTER_WIDE:
        parts += ["namespaces", namespace]
    return "/" + "/".join([*parts, plural, *filter(None, (name, subresource))])


class Transport(Protocol):
    """The player's interface to a cluster."""

    async def call(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> Answer:
        """One request: the status code and the decoded body."""
        ...

    async def follow(self, plural: str, hears: Hears) -> None:
        """Report every change of a resource; ends when all that exists has been reported."""
        ...


class _NoConnection(BaseProtocol):
    """The part of a connection that a request uses."""

    ssl_context = None
    peername = sockname = ("127.0.0.1", 0)


def request_by_hand(
    method: str, path: str, headers: dict[str, str], text: bytes, writer: Any = None
) -> web.BaseRequest:
    """A request that came by no connection; `writer` takes an answer that is sent in pieces."""
    loop = asyncio.get_running_loop()
    connection: Any = _NoConnection(loop)
    payload = StreamReader(connection, 2**16, loop=loop)
    payload.feed_data(text)
    payload.feed_eof()
    named = CIMultiDictProxy(CIMultiDict(headers))
    message = RawRequestMessage(method, path, HttpVersion11, named, (), False, None, False, False, URL(path))
    task: Any = asyncio.current_task()
    return web.BaseRequest(message, payload, connection, writer, task, loop, client_max_size=2**22)


class HandlerTransport:
    """Requests go through the API server's handler chain without a socket, so virtual time can pass."""

    def __init__(self, handler: RequestHandler, store: Store, headers: dict[str, str]) -> None:
        self._handler = handler
        self._store = store
        self._headers = headers

    async def call(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> Answer:
        headers = {**self._headers, "Host": "stories", "Accept": JSON}
        text = b"" if body is None else msgspec.json.encode(body)
        if body is not None:
            headers |= {"Content-Type": content_type, "Content-Length": str(len(text))}
        response = await self._handler.respond(request_by_hand(method, path, headers, text))
        assert isinstance(response, web.Response)
        shown = response.body
        assert isinstance(shown, bytes)
        return response.status, msgspec.json.decode(shown) if shown else {}

    async def follow(self, plural: str, hears: Hears) -> None:
        resource = _resource(self._store.catalogue, plural)
        if resource is None:
            return

        def sink(change: StoreChange) -> None:
            if change.type != "BOOKMARK":
                hears(change.type, change.object)

        for obj in self._store.list(resource).items:
            hears("ADDED", obj)
        self._store.watch(resource, sink, since=self._store.version)


def _resource(catalogue: Catalogue, plural: str) -> Resource | None:
    group, _, version = API_VERSION.get(plural, "v1").rpartition("/")
    return catalogue.named(f"{plural}.{version}.{group}")


class HttpTransport:
    """Requests to a server. `async with` opens and closes its connections."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}
        self._watches: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "HttpTransport":
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        patience = aiohttp.ClientTimeout(total=None, sock_connect=30)
        self._session = aiohttp.ClientSession(
            self._url, headers=self._headers, connector=connector, timeout=patience
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        await self._session.close()

    async def call(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> Answer:
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": content_type, "Accept": JSON}
        async with self._session.request(method, path, data=data, headers=headers) as response:
            text = await response.read()
            return response.status, msgspec.json.decode(text) if text else {}

    async def follow(self, plural: str, hears: Hears) -> None:
        code, found = await self.call("GET", path_of(plural))
        if code != 200:
            return
        for item in found["items"]:
            hears("ADDED", item)
        watch = self._watch(plural, found["metadata"]["resourceVersion"], hears)
        self._watches.add(asyncio.create_task(watch))

    async def _watch(self, plural: str, version: str, hears: Hears) -> None:
        query = {"watch": "true", "resourceVersion": version}
        async with self._session.get(path_of(plural), params=query) as response:
            pending = b""
            async for chunk in response.content.iter_any():
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    event = msgspec.json.decode(line)
                    assert event["type"] != "ERROR", event
                    hears(event["type"], event["object"])
