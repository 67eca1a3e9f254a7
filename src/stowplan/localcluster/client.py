"""The client interface over a store in this process: no network, no waiting, typed objects."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.decode import DecodeError, convert
from stowplan.api.meta import AnyObject, Object
from stowplan.api.requests import EVERY_OBJECT, ORDINARY_DELETION, DeleteOptions, Json, PatchType, Selection
from stowplan.api.writes import Binding
from stowplan.client.interface import BOOKMARK, Body, Client, Listing, Unreadable, WatchEvent
from stowplan.localcluster.store import Store, StoreChange, Watcher, WatchStream
from stowplan.localcluster.store.attempts import FIRST_ATTEMPT, UnansweredError, carried_out
from stowplan.localcluster.store.conversion import from_served, stored_as
from stowplan.localcluster.store.watchcache import Sink
from stowplan.localcluster.store.writer import component

T = TypeVar("T", bound=Object)

BUFFER: Final = 8192
"""Number of changes a watch may lag behind before it is closed."""

PAGE: Final = 500
"""Number of objects of a list after which other tasks get a turn."""


class InProcessClient(Client):
    """A `Client` of one store. Objects that are given out belong to the store and must not be changed.

    `name` is the component that writes with it, as managed fields show it. A kind that is served in several
    versions is read and written in the form it is stored in, whichever of them is named.
    """

    def __init__(self, store: Store, *, name: str = "stowplan", buffer: int = BUFFER) -> None:
        self._store = store
        self._by = component(name)._replace(attempts=FIRST_ATTEMPT)
        self._buffer = buffer

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        return self._store.get(stored_as(resource), namespace, name)

    async def list(
        self,
        resource: Resource,
        cls: type[T],
        *,
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        not_older_than: str = "",
    ) -> Listing[T]:
        oldest = _version(not_older_than)
        if oldest is not None and oldest > self._store.version:
            raise status.too_large_version(oldest, self._store.version)
        found = self._store.list(stored_as(resource), namespace, selection)
        items: list[T] = []
        unreadable: list[Unreadable] = []
        read = _reading(cls)
        for number, obj in enumerate(found.items, start=1):
            try:
                items.append(read(obj))
            except DecodeError as error:
                unreadable.append(Unreadable(_key(obj), str(error)))
            if number % PAGE == 0:
                await asyncio.sleep(0)
        return Listing(items, str(found.version), unreadable)

    def watch(
        self,
        resource: Resource,
        cls: type[T],
        *,
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        since: str = "",
        initial_events: bool = False,
    ) -> "InProcessWatch[T]":
        def begin(sink: Sink) -> Watcher:
            return self._store.watch(
                stored_as(resource),
                sink,
                namespace=namespace,
                selection=selection,
                since=_version(since),
                initial_events=initial_events,
                bookmarks=True,
            )

        return InProcessWatch(begin, cls, self._buffer)

    async def create(self, resource: Resource, body: Body, *, namespace: str = "") -> Json:
        stored = stored_as(resource)
        written = _written(resource, stored, body)
        try:
            return self._store.create(stored, written, namespace, by=self._by)
        except UnansweredError:
            return await self._carried_out(self._store.create, stored, written, namespace)

    async def update(self, resource: Resource, body: Body, *, subresource: str = "") -> Json:
        stored = stored_as(resource)
        written = _written(resource, stored, body)
        try:
            return self._store.update(stored, written, subresource=subresource, by=self._by)
        except UnansweredError:
            return await self._carried_out(self._store.update, stored, written, subresource=subresource)

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Body | Sequence[Any],
        kind: PatchType = PatchType.STRATEGIC,
        *,
        subresource: str = "",
    ) -> Json:
        stored = self._written(resource)
        if stored is not resource and isinstance(patch, dict):
            patch = from_served(resource, patch)
        try:
            return self._store.patch(
                stored, namespace, name, patch, kind, subresource=subresource, by=self._by
            )
        except UnansweredError:
            return await self._carried_out(
                self._store.patch, stored, namespace, name, patch, kind, subresource=subresource
            )

    async def _carried_out(self, write: Callable[..., Json], *arguments: Any, **options: Any) -> Json:
        """The result of a write that has to wait for others, such as webhooks."""
        by = self._by._replace(attempts=None)
        return await carried_out(lambda by: write(*arguments, **options, by=by), by)

    def _written(self, resource: Resource) -> Resource:
        """Resource in which objects are stored; a custom resource may be named by its served address
        alone."""
        stored = stored_as(resource)
        if stored.custom and not stored.kind:
            return self._store.catalogue.named(stored.dotted) or stored
        return stored

    async def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions = ORDINARY_DELETION
    ) -> None:
        stored = stored_as(resource)
        try:
            self._store.delete(stored, namespace, name, options, by=self._by)
        except UnansweredError:
            await self._carried_out(self._store.delete, stored, namespace, name, options)

    async def bind(self, binding: Binding) -> None:
        named = binding.metadata
        try:
            self._store.bind(named.namespace, named.name, binding, by=self._by)
        except UnansweredError:
            await self._carried_out(self._store.bind, named.namespace, named.name, binding)


def _written(resource: Resource, stored: Resource, body: Body) -> Body:
    """A body in the form that it is stored in."""
    if stored is resource or not isinstance(body, Mapping):
        return body
    return from_served(resource, dict(body))


class InProcessWatch(Generic[T]):
    """A watch of the store with typed objects. It begins when it is first asked for an event."""

    def __init__(self, begin: Callable[[Sink], Watcher], cls: type[T], buffer: int) -> None:
        self._begin = begin
        self._typed = _reading(cls)
        self._buffer = buffer
        self._stream: WatchStream | None = None
        self._ended = False

    def __aiter__(self) -> "InProcessWatch[T]":
        return self

    async def __anext__(self) -> WatchEvent[T]:
        if self._stream is None:
            if self._ended:
                raise StopAsyncIteration
            self._stream = WatchStream(self._begin, self._buffer)
        [event] = self._events((await anext(self._stream),))
        return event

    def ready(self, limit: int) -> Sequence[WatchEvent[T]]:
        """At most `limit` events that have arrived already."""
        return () if self._stream is None else self._events(self._stream.ready(limit))

    async def aclose(self) -> None:
        self.end()

    def end(self) -> None:
        """End the watch as a server would; what has happened so far can still be read."""
        self._ended = True
        if self._stream is not None:
            self._stream.close()

    def _events(self, changes: Iterable[StoreChange]) -> list[WatchEvent[T]]:
        """Changes with typed objects; many at a time, because everything that happens comes by here."""
        typed, events = self._typed, []
        for change in changes:
            obj, type_ = change.object, change.type
            version = obj["metadata"]["resourceVersion"]
            event: WatchEvent[T]
            if type_ == BOOKMARK:
                event = WatchEvent(BOOKMARK, "", version, synced=change.ends_initial_state)
            else:
                try:
                    event = WatchEvent(type_, _key(obj), version, typed(obj))
                except DecodeError as error:
                    event = WatchEvent(type_, _key(obj), version, problem=str(error))
            events.append(event)
        return events


def typed(obj: Json, cls: type[T]) -> T:
    """A stored object as a typed one."""
    return _reading(cls)(obj)


def _reading(cls: type[T]) -> Callable[[Json], T]:
    """Function that converts stored objects to typed ones; nulls are dropped only if they are in the way."""
    if issubclass(cls, AnyObject):
        return cls.of

    def read(obj: Json) -> T:
        try:
            return msgspec.convert(obj, cls)
        except msgspec.ValidationError:
            return convert(obj, cls)

    return read


def _key(obj: Json) -> str:
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _version(text: str) -> int | None:
    """A version as a number, None if there is none."""
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise status.bad_request(f"resourceVersion: expected a number, got {text!r}")
    return int(text)
