"""The client interface over HTTP: any Kubernetes API server."""

import asyncio
import os
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar

import msgspec

import stowplan
from stowplan.api.catalogue import NODES, PODS, Resource
from stowplan.api.decode import UNDECODABLE, DecodeError, decoding_plain
from stowplan.api.meta import Object
from stowplan.api.pruning import at_once
from stowplan.api.requests import EVERY_OBJECT, ORDINARY_DELETION, DeleteOptions, Json, PatchType, Selection
from stowplan.api.status import ApiError
from stowplan.api.writes import Binding
from stowplan.client.http import errors
from stowplan.client.http.availability import ServerAvailability
from stowplan.client.http.body import Body
from stowplan.client.http.connection import HttpAnswer
from stowplan.client.http.decoder import MORE, Decoding, Page
from stowplan.client.http.dialer import CONNECT_SECONDS
from stowplan.client.http.pool import MOST_CONNECTIONS
from stowplan.client.http.requests import (
    body_of,
    collection_path,
    deletion_body,
    object_path,
    place_of,
    with_query,
)
from stowplan.client.http.settings import Server
from stowplan.client.http.transport import (
    ANSWER_SECONDS,
    DEFAULT_BURST,
    DEFAULT_QPS,
    JSON,
    Observer,
    RateLimit,
    Transport,
)
from stowplan.client.http.watch import HttpWatch
from stowplan.client.interface import ANY_VERSION, Client, Listing, Unreadable
from stowplan.client.interface import Body as Sent
from stowplan.gocompat.durations import Duration
from stowplan.gocompat.quoting import quote
from stowplan.runtime.clock import Clock

T = TypeVar("T", bound=Object)

PAGE: Final = 500
"""Objects of one page of a list."""

TURN: Final = 0.005
"""Seconds for which decoding a list may hold the event loop at a time."""

_LISTED: Final = (PODS, NODES)
"""Resources that clusters have many objects of."""

_BINDINGS: Final = Resource("", "v1", "bindings", "Binding")
_REPEATABLE_PATCHES: Final = (PatchType.STRATEGIC, PatchType.MERGE)
_SHORTEST_WATCH: Final = 300
_LONGEST_WATCH: Final = 600


class HttpClient(Client):
    """A `Client` of one API server. It has to be closed; `async with` does.

    `qps` and `burst` limit the requests it sends (a negative rate: no limit). Raises `AccessError` if the
    settings cannot be used. With a `timeout` the server is given a deadline for each answer, and the client
    does not wait any longer (except for watches).

    Requests that are refused for the moment are sent again, and so are reads. Writes whose answer was lost
    are repeated only if they are idempotent: bindings, and patches of maps. `observer` is notified of every
    request.

    `streams`: read existing objects through watch lists. By default pods and nodes are listed: a list of many
    objects takes an API server half the time, as JSON.

    Clients of one server share its `availability`. A `patient` client holds requests while the server is
    gone, those that have not been sent or may be sent again, and sends them when it is back. Writes are sent
    only while `may_write` returns True: a process that was suspended may find that another one leads.
    """

    def __init__(
        self,
        server: Server,
        *,
        clock: Clock,
        rng: random.Random,
        qps: float = DEFAULT_QPS,
        burst: int = DEFAULT_BURST,
        user_agent: str = f"stowplan/{stowplan.__version__}",
        streams: bool | None = None,
        connections: int = MOST_CONNECTIONS,
        answer_seconds: float = ANSWER_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
        timeout: Duration | None = None,
        environ: Mapping[str, str] = os.environ,
        observer: Observer | None = None,
        availability: ServerAvailability | None = None,
        patient: bool = False,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self._streams = streams
        self._rng = rng
        if timeout is not None:
            answer_seconds = min(answer_seconds, timeout.seconds)
            connect_seconds = min(connect_seconds, timeout.seconds)
        self._transport = Transport(
            server,
            clock=clock,
            rng=rng,
            limit=RateLimit(clock, qps, burst),
            user_agent=user_agent,
            environ=environ,
            connections=connections,
            answer_seconds=answer_seconds,
            connect_seconds=connect_seconds,
            announced="" if timeout is None else str(timeout),
            observer=observer,
            availability=availability or ServerAvailability(rng, name=str(server.address)),
            patient=patient,
            may_write=may_write,
        )
        self._decodings: dict[tuple[Resource, type[Object]], Decoding[Any]] = {}

    async def __aenter__(self) -> "HttpClient":
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; what is under way fails."""
        self._transport.close()

    # Reachability of the server

    @property
    def availability(self) -> ServerAvailability:
        return self._transport.availability

    async def is_reachable(self) -> bool:
        return await self._transport.availability.check()

    async def pause(self, seconds: float) -> None:
        await self._transport.availability.pause(seconds)

    # Reading

    def streams(self, resource: Resource) -> bool:
        return resource not in _LISTED if self._streams is None else self._streams

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        path = object_path(resource, namespace, name)
        return self._json("GET", path, await self._transport.request("GET", path))

    async def get_path(self, path: str) -> Json:
        """A document that is no object of the API: what the server says to a GET of a path, once."""
        return self._json("GET", path, await self._transport.request("GET", path, once=True))

    async def server_time(self) -> float | None:
        """The clock of the server, to the second; None if it does not tell."""
        date = (await self._transport.request("GET", "/version", once=True)).date
        try:
            return None if date is None else parsedate_to_datetime(date.decode("latin-1")).timestamp()
        except ValueError:
            return None

    async def list(
        self,
        resource: Resource,
        cls: type[T],
        *,
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        not_older_than: str = "",
    ) -> Listing[T]:
        items: list[T] = []
        unreadable: list[Unreadable] = []
        version = ""
        parts = self.parts(
            resource, cls, namespace=namespace, selection=selection, not_older_than=not_older_than
        )
        async with aclosing(parts):
            async for part in parts:
                if part.anew:
                    items, unreadable = [], []
                items += part.items
                unreadable += part.unreadable
                version = part.resource_version
        return Listing(items, version, unreadable)

    async def parts(
        self,
        resource: Resource,
        cls: type[T],
        *,
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        not_older_than: str = "",
    ) -> AsyncGenerator[Listing[T], None]:
        path = collection_path(resource, namespace)
        asked = {"resourceVersion": not_older_than}
        limit = str(PAGE) if not_older_than in ("", ANY_VERSION) else ""
        decoding = self._decoding(resource, cls)
        target, anew, version, rest = with_query(path, selection, limit=limit, **asked), False, "", ""
        while True:
            try:
                async with aclosing(self._page(decoding, target)) as pages:
                    async for page in pages:
                        version = version or page.resource_version
                        yield Listing(page.items, version, page.unreadable, anew)
                        anew, rest = False, page.rest
            except ApiError as error:
                if not (error.is_expired and rest):
                    raise
                target, anew, version, rest = with_query(path, selection, **asked), True, "", ""
                continue
            if not rest:
                return
            target = with_query(path, selection, limit=str(PAGE), **{"continue": rest})

    def watch(
        self,
        resource: Resource,
        cls: type[T],
        *,
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        since: str = "",
        initial_events: bool = False,
    ) -> HttpWatch[T]:
        seconds = self._rng.randrange(_SHORTEST_WATCH, _LONGEST_WATCH)
        asked = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeout": str(Duration.of_seconds(seconds)),
            "timeoutSeconds": str(seconds),
        }
        if initial_events:
            asked |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        path = with_query(collection_path(resource, namespace), selection, **asked)
        return HttpWatch(
            lambda stream: self._transport.stream(path, stream),
            self._decoding(resource, cls),
            self._transport.url(path),
            seconds,
            initial_events=initial_events,
        )

    # Writing

    async def create(self, resource: Resource, body: Sent, *, namespace: str = "") -> Json:
        path = collection_path(resource, namespace or place_of(body)[0])
        return self._json(
            "POST", path, await self._transport.request("POST", path, body_of(resource, body), JSON)
        )

    async def create_unseen(self, resource: Resource, body: Sent, *, namespace: str = "") -> None:
        path = collection_path(resource, namespace or place_of(body)[0])
        await self._transport.request("POST", path, body_of(resource, body), JSON)

    async def update(self, resource: Resource, body: Sent, *, subresource: str = "") -> Json:
        path = object_path(resource, *place_of(body), subresource)
        return self._json(
            "PUT", path, await self._transport.request("PUT", path, body_of(resource, body), JSON)
        )

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Sent | Sequence[Any],
        kind: PatchType = PatchType.STRATEGIC,
        *,
        subresource: str = "",
    ) -> Json:
        path = object_path(resource, namespace, name, subresource)
        return self._json("PATCH", path, await self._patch(path, patch, kind))

    async def patch_unseen(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Sent | Sequence[Any],
        kind: PatchType = PatchType.STRATEGIC,
        *,
        subresource: str = "",
    ) -> None:
        await self._patch(object_path(resource, namespace, name, subresource), patch, kind)

    async def _patch(self, path: str, patch: Sent | Sequence[Any], kind: PatchType) -> HttpAnswer:
        repeatable = kind in _REPEATABLE_PATCHES
        text = msgspec.json.encode(patch)
        return await self._transport.request("PATCH", path, text, kind.value, repeatable=repeatable)

    async def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions = ORDINARY_DELETION
    ) -> None:
        await self._transport.request(
            "DELETE", object_path(resource, namespace, name), deletion_body(options), JSON
        )

    async def evict(self, namespace: str, name: str) -> None:
        """Evict a pod. Raises `ApiError` 429 if a disruption budget does not allow it now."""
        path = object_path(PODS, namespace, name, "eviction")
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        await self._transport.request("POST", path, msgspec.json.encode(body), JSON)

    async def bind(self, binding: Binding) -> None:
        metadata = binding.metadata
        path = object_path(PODS, metadata.namespace, metadata.name, "binding")
        try:
            await self._transport.request("POST", path, body_of(_BINDINGS, binding), JSON, repeatable=True)
        except ApiError as error:
            if not (error.is_conflict and _says_bound_to(error, binding.target.name)):
                raise

    def _json(self, method: str, path: str, answer: HttpAnswer) -> Json:
        try:
            return at_once(decoding_plain(answer.body))
        except DecodeError as error:
            raise errors.unreadable(method, self._transport.url(path), error) from None

    async def _page(self, decoding: Decoding[T], path: str) -> AsyncGenerator[Page[T], None]:
        """A page, decoded while it comes; others get a turn whenever some milliseconds have passed."""
        body = Body()
        asking = asyncio.create_task(self._transport.request("GET", path, once=True, taken=body))
        asking.add_done_callback(body.asked)
        try:
            steps, step = decoding.parts(), None
            # The loop's time: in virtual time there is no wait for a turn.
            now = asyncio.get_running_loop().time
            began = now()
            while True:
                if step is MORE:
                    piece = await body.next()
                    if not piece and piece is not None:
                        await asking
                    began = now()
                elif now() - began >= TURN:
                    await asyncio.sleep(0)
                    began = now()
                try:
                    if step is not MORE:
                        step = next(steps)
                    elif piece is None:
                        steps, step = decoding.parts(), None
                    else:
                        step = steps.send(piece)
                except StopIteration:
                    return
                except UNDECODABLE as error:
                    raise errors.unreadable("GET", self._transport.url(path), error) from None
                if isinstance(step, Page):
                    body.is_given = True
                    yield step
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    def _decoding(self, resource: Resource, cls: type[T]) -> Decoding[T]:
        found = self._decodings.get((resource, cls))
        if found is None:
            found = self._decodings[resource, cls] = Decoding(resource, cls)
        return found


def _says_bound_to(error: ApiError, node: str) -> bool:
    """True if a binding is refused because it was done before, as when its answer was lost.

    A server compares uids first, so it is about the same pod.
    """
    return f"is already assigned to node {quote(node)}" in error.message
