"""An API server without validation: it lists and watches bodies as they are, as undecoded text.

The embedded API server refuses objects it could not handle itself, so objects at the limits of another server
never reach a scheduler through it. This one has them in its lists and watches byte by byte. It sets the
scheduler's name of pods and binds them, accepts every other write without effect, and knows nothing else of
the API.
"""

import asyncio
import contextlib
from collections import defaultdict
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from stowplan.api.catalogue import PODS, Resource
from stowplan.lab.fuzz.extremes import Json

_SYNCED: Final = {"k8s.io/initial-events-end": "true"}


class _Event(NamedTuple):
    version: int
    type: str
    text: bytes

    @property
    def line(self) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (self.type.encode(), self.text)


class RecordedServer:
    """Serves on a free port of the loopback interface; `async with` begins and ends it."""

    def __init__(self) -> None:
        self._objects: defaultdict[str, dict[str, Json]] = defaultdict(dict)
        self._events: defaultdict[str, list[_Event]] = defaultdict(list)
        self._version = 1
        self._changed = asyncio.Event()
        self._runner: web.ServerRunner | None = None
        self.url = ""
        self.bound: dict[str, str] = {}
        """The node of every pod that was bound, by namespace and name."""
        self.endless: str | None = None
        """The plural of a resource whose lists do not end."""
        self.sent = 0
        """Bytes of the longest list without end that a client has read."""

    async def __aenter__(self) -> "RecordedServer":
        self._runner = web.ServerRunner(web.Server(self._answer), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    # Objects

    def put(self, resource: Resource, key: str, body: Json) -> None:
        """Add or replace an object with any body; `key` is unique within its kind."""
        collection = _path_of(resource)
        kind = "MODIFIED" if key in self._objects[collection] else "ADDED"
        self._version += 1
        described: Json = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        if resource == PODS and isinstance(described.get("spec"), dict):
            described["spec"] = {"schedulerName": "default-scheduler", **described["spec"]}
        metadata = described.get("metadata")
        if isinstance(metadata, dict):
            described["metadata"] = {"uid": f"uid-{key}", **metadata, "resourceVersion": str(self._version)}
        self._objects[collection][key] = described
        self._tell(collection, kind, described)

    def delete(self, resource: Resource, key: str) -> None:
        """Take an object away."""
        collection = _path_of(resource)
        gone = self._objects[collection].pop(key, None)
        if gone is not None:
            self._version += 1
            self._tell(collection, "DELETED", gone)

    def _tell(self, collection: str, kind: str, body: Json) -> None:
        self._events[collection].append(_Event(self._version, kind, msgspec.json.encode(body)))
        self._changed.set()
        self._changed = asyncio.Event()

    # Requests

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET":
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            response.enable_chunked_encoding()
            with contextlib.suppress(ConnectionError):
                if request.query.get("watch") == "true":
                    await self._watch(request, response)
                elif self.endless is not None and request.path.endswith(f"/{self.endless}"):
                    await self._without_end(request, response)
                else:
                    return self._list(request)
            return response
        body = await request.read()
        if request.path.endswith("/binding"):
            self._bind(request.path, body)
        return _json(b'{"kind":"Status","apiVersion":"v1","status":"Success"}', 201)

    def _list(self, request: web.BaseRequest) -> web.Response:
        texts = b",".join(msgspec.json.encode(body) for body in self._objects[request.path].values())
        head = b'{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%b]}'
        return _json(head % (self._version, texts))

    async def _watch(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        await response.prepare(request)
        events = self._events[request.path]
        seen = int(request.query.get("resourceVersion") or 0)
        if request.query.get("sendInitialEvents") == "true":
            seen = self._version
            for body in list(self._objects[request.path].values()):
                await response.write(_Event(seen, "ADDED", msgspec.json.encode(body)).line)
            metadata = {"resourceVersion": str(seen), "annotations": _SYNCED}
            await response.write(_Event(seen, "BOOKMARK", msgspec.json.encode({"metadata": metadata})).line)
        while True:
            changed = self._changed
            for event in [event for event in events if event.version > seen]:
                await response.write(event.line)
                seen = event.version
            await changed.wait()

    async def _without_end(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """A list whose first item has an endless name."""
        await response.prepare(request)
        piece, sent = b"x" * (1 << 20), 0
        await response.write(b'{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"')
        while sent < MOST_SENT:
            await response.write(piece)
            sent += len(piece)
            self.sent = max(self.sent, sent)

    def _bind(self, path: str, body: bytes) -> None:
        *_, namespace, _, name, _ = path.split("/")
        key = f"{namespace}/{name}"
        node: str = msgspec.json.decode(body)["target"]["name"]
        known = self._objects[_path_of(PODS)].get(key)
        if known is not None:
            self.bound[key] = node
            self.put(PODS, key, {**known, "spec": {**known["spec"], "nodeName": node}})


MOST_SENT: Final = 64 << 20
"""Bytes after which even a list without end breaks off."""


def _path_of(resource: Resource) -> str:
    return f"{resource.prefix}/{resource.plural}"


def _json(text: bytes, status: int = 200) -> web.Response:
    return web.Response(body=text, status=status, content_type="application/json")
