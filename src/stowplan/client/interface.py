"""The interface of an API server as the scheduler needs it. Every failure is an `ApiError`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from stowplan.api.catalogue import Resource
from stowplan.api.meta import Object, Struct
from stowplan.api.requests import EVERY_OBJECT, ORDINARY_DELETION, DeleteOptions, Json, PatchType, Selection
from stowplan.api.writes import Binding

T = TypeVar("T", bound=Object)
T_co = TypeVar("T_co", bound=Object, covariant=True)

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"

ANY_VERSION: Final = "0"
"""For a list: any version that the server has cached, which may be a little old."""

Body = Mapping[str, Any] | Struct
"""An object or a patch to send: data or a typed object."""


class Unreadable(msgspec.Struct, frozen=True):
    """An object that could not be decoded: which one, as far as that is known, and what is wrong with it."""

    key: str
    problem: str
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """Objects as they were at a version, and those that could not be read.

    It may be a part of a list; if that had to be begun `anew`, parts that came before do not count.
    """

    items: Sequence[T]
    resource_version: str
    unreadable: Sequence[Unreadable] = ()
    anew: bool = False


class WatchEvent(msgspec.Struct, Generic[T_co], frozen=True, gc=False):
    """One thing seen in a watch.

    A bookmark has no object, and neither has an event whose object could not be decoded (`problem` says
    why). `synced` marks the bookmark after everything that existed when the watch began.
    """

    type: str
    key: str
    resource_version: str
    object: T_co | None = None
    problem: str = ""
    synced: bool = False
    uid: str = ""
    """That of an object which could not be decoded."""


class Watch(Protocol[T_co]):
    """A running watch: it ends when the server ends it, and has to be closed otherwise."""

    def __aiter__(self) -> AsyncIterator[WatchEvent[T_co]]: ...

    def __anext__(self) -> Awaitable[WatchEvent[T_co]]: ...

    def ready(self, limit: int) -> Sequence[WatchEvent[T_co]]:
        """At most `limit` further events that need no waiting."""
        ...

    def aclose(self) -> Awaitable[object]: ...


class GeneratorWatch(Generic[T]):
    """A watch made of an async generator: nothing is ready before it is waited for."""

    def __init__(self, events: AsyncGenerator[WatchEvent[T], None]) -> None:
        self._events = events

    def __aiter__(self) -> AsyncIterator[WatchEvent[T]]:
        return self._events

    def __anext__(self) -> Awaitable[WatchEvent[T]]:
        return anext(self._events)

    def ready(self, limit: int) -> Sequence[WatchEvent[T]]:
        return ()

    async def aclose(self) -> None:
        await self._events.aclose()


class Reader(Protocol):
    """Reading objects of any resource as typed objects."""

    def streams(self, resource: Resource) -> bool:
        """True if existing objects are better read from a watch with `initial_events` than from a list."""
        return False

    async def is_reachable(self) -> bool:
        """True if the server can be reached, after a probe if that is in doubt."""
        return True

    async def pause(self, seconds: float) -> None:
        """Wait before asking again; less long if the server was gone and is back."""
        await asyncio.sleep(seconds)

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        """One object with all its fields, also those no type declares: what an update starts from."""
        ...

    async def list(
        self,
        resource: Resource,
        cls: type[T],
        *,
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        not_older_than: str = "",
    ) -> Listing[T]:
        """All objects at one version, which is the latest or at least the one given."""
        ...

    async def parts(
        self,
        resource: Resource,
        cls: type[T],
        *,
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        not_older_than: str = "",
    ) -> AsyncGenerator[Listing[T], None]:
        """The same in parts, as they come. The last one has the version."""
        yield await self.list(
            resource, cls, namespace=namespace, selection=selection, not_older_than=not_older_than
        )

    def watch(
        self,
        resource: Resource,
        cls: type[T],
        *,
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        since: str = "",
        initial_events: bool = False,
    ) -> Watch[T]:
        """Changes since a version, with bookmarks.

        With `initial_events` everything that exists is added first (at a version not older than `since`),
        then comes a bookmark that says so. Failures show when iterating: 410 if the version is too old.
        """
        ...


class Writer(Protocol):
    """Writing objects. The result is the object as written; it must not be changed."""

    async def create(self, resource: Resource, body: Body, *, namespace: str = "") -> Json: ...

    async def create_unseen(self, resource: Resource, body: Body, *, namespace: str = "") -> None:
        """Create an object without reading the result, such as an event: it is not decoded then."""
        await self.create(resource, body, namespace=namespace)

    async def update(self, resource: Resource, body: Body, *, subresource: str = "") -> Json:
        """Replace an object, or only its status. It has to be whole: fields left out are gone."""
        ...

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Body | Sequence[Any],
        kind: PatchType = PatchType.STRATEGIC,
        *,
        subresource: str = "",
    ) -> Json: ...

    async def patch_unseen(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Body | Sequence[Any],
        kind: PatchType = PatchType.STRATEGIC,
        *,
        subresource: str = "",
    ) -> None:
        """Patch an object without reading the result, such as a status: it is not decoded then."""
        await self.patch(resource, namespace, name, patch, kind, subresource=subresource)

    async def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions = ORDINARY_DELETION
    ) -> None: ...

    async def bind(self, binding: Binding) -> None:
        """Put the pod that a binding's metadata names (and whose uid it has) on its target."""
        ...


class Client(Reader, Writer, Protocol):
    """All the scheduler does with an API server."""
