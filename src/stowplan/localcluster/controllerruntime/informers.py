"""Shared informers: one cache of each resource for all controllers, with indexes."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Final

from stowplan.api.catalogue import Resource
from stowplan.api.meta import AnyObject
from stowplan.api.requests import EVERY_OBJECT, Json, Selection
from stowplan.client import Reader, Reflector
from stowplan.localcluster.objects.fields import controller_of, namespace_of, owners_of
from stowplan.runtime.clock import Clock

EventHandler = Callable[[Json | None, Json | None], None]
"""Called with an object as it was (None if new) and as it is (None if deleted)."""

Values = Callable[[Json], Sequence[str]]
"""Index keys of an object."""

_NONE: Final[Mapping[str, Json]] = {}

OWN_WRITE_TIMEOUT: Final = 5.0
"""Seconds to wait for own writes to show in the cache before going on without."""


class Index:
    """Objects by something they say of themselves."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._found: dict[str, dict[str, Json]] = {}

    def __getitem__(self, value: str) -> Mapping[str, Json]:
        """Objects by key."""
        return self._found.get(value, _NONE)

    def put(self, key: str, old: Json | None, new: Json | None) -> None:
        now: Sequence[str] = ()
        if new is not None:
            now = self._values(new)
            for value in now:
                held = self._found.get(value)
                if held is None:
                    self._found[value] = {key: new}
                else:
                    held[key] = new
        if old is not None:
            was = self._values(old)
            if was != now:
                for value in was:
                    if value not in now:
                        self._remove(value, key)

    def _remove(self, value: str, key: str) -> None:
        held = self._found.get(value)
        if held is not None:
            held.pop(key, None)
            if not held:
                del self._found[value]


class Informer:
    """The cache of one resource, and the event handlers of its changes."""

    def __init__(
        self,
        reader: Reader,
        resource: Resource,
        *,
        clock: Clock,
        rng: Random,
        report: Callable[[str], None],
        selection: Selection = EVERY_OBJECT,
    ) -> None:
        self.resource = resource
        self.objects: dict[str, Json] = {}
        self._known_indexes: dict[Values, Index] = {}
        self._indexes: list[Index] = []
        self._handlers: list[EventHandler] = []
        self._owner_handlers: dict[str, Callable[[str], None]] = {}
        self._orphan_handlers: list[Callable[[str], None]] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._seen = 0
        self.reflector = Reflector(
            reader,
            resource,
            AnyObject,
            self,
            clock=clock,
            rng=rng,
            report=report,
            selection=selection,
            without="controllers see none of them",
        )

    def __iter__(self) -> Iterator[Json]:
        return iter(self.objects.values())

    def get(self, key: str) -> Json | None:
        return self.objects.get(key)

    def add_handler(self, handler: EventHandler) -> None:
        self._handlers.append(handler)

    def add_owner_handler(
        self, owner_kind: str, handler: Callable[[str], None], orphan_handler: Callable[[str], None]
    ) -> None:
        """Call with the key of the controlling owner of a changed object, or with an orphan's namespace.

        Most objects matter to one kind of controller only: the others need not look at them.
        """
        self._owner_handlers[owner_kind] = handler
        self._orphan_handlers.append(orphan_handler)

    @property
    def by_owner(self) -> Index:
        return self.index(owner_uids)

    @property
    def orphans(self) -> Index:
        return self.index(_namespace_of_orphan)

    @property
    def in_namespace(self) -> Index:
        return self.index(_namespace)

    @property
    def on_node(self) -> Index:
        return self.index(_node_of)

    def index(self, values: Values) -> Index:
        """The objects by some value; kept up to date from when it is first asked for."""
        index = self._known_indexes.get(values)
        if index is None:
            index = self._known_indexes[values] = Index(values)
            self._indexes.append(index)
            for key, obj in self.objects.items():
                index.put(key, None, obj)
        return index

    async def reached(self, version: int) -> None:
        """Wait until the cache is at least of this version, but not for ever."""
        if self._version() >= version:
            return
        shown: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((version, shown))
        try:
            async with asyncio.timeout(OWN_WRITE_TIMEOUT):
                await shown
        except TimeoutError:
            self._waiting = [one for one in self._waiting if one[1] is not shown]

    def added(self, new: AnyObject) -> None:
        self._store(new.key, new.data, new.metadata.resource_version)

    def updated(self, old: AnyObject, new: AnyObject) -> None:
        self._store(new.key, new.data, new.metadata.resource_version)

    def deleted(self, last: AnyObject) -> None:
        self._store(last.key, None, last.metadata.resource_version)

    def _store(self, key: str, new: Json | None, version: str) -> None:
        old = self.objects.get(key)
        if new is None:
            self.objects.pop(key, None)
        else:
            if "kind" not in new:
                new = {"apiVersion": self.resource.api_version, "kind": self.resource.kind, **new}
            self.objects[key] = new
        for index in self._indexes:
            index.put(key, old, new)
        self._seen = max(self._seen, _number(version))
        if self._waiting:
            self._release()
        for handler in self._handlers:
            handler(old, new)
        if self._owner_handlers:
            self._notify_owners(old, new)

    def _notify_owners(self, old: Json | None, new: Json | None) -> None:
        for obj in (new, old):
            if obj is None:
                continue
            owner = controller_of(obj)
            if owner is not None:
                handler = self._owner_handlers.get(owner.get("kind", ""))
                if handler is not None:
                    handler(f"{namespace_of(obj)}/{owner.get('name', '')}")
            elif obj is new:
                for handler in self._orphan_handlers:
                    handler(namespace_of(obj))
            if old is not None and new is not None and owners_of(old) is owners_of(new):
                return

    def _release(self) -> None:
        version = self._version()
        for wanted, shown in self._waiting:
            if wanted <= version and not shown.done():
                shown.set_result(None)
        self._waiting = [one for one in self._waiting if one[0] > version]

    def _version(self) -> int:
        return max(self._seen, _number(self.reflector.resource_version))


class ControllerInformers:
    """The informers of one process, made when they are first asked for."""

    def __init__(self, reader: Reader, *, clock: Clock, rng: Random, report: Callable[[str], None]) -> None:
        self._reader = reader
        self._clock = clock
        self._rng = rng
        self._report = report
        self._informers: dict[Resource, Informer] = {}

    def of(self, resource: Resource, selection: Selection = EVERY_OBJECT) -> Informer:
        """The informer of a kind. The first to ask says which of its objects are of interest.

        That a custom kind cannot be watched is not told: its definition may go at any time.
        """
        found = self._informers.get(resource)
        if found is None:
            found = self._informers[resource] = Informer(
                self._reader,
                resource,
                clock=self._clock,
                rng=Random(self._rng.getrandbits(64)),
                report=_tell_nobody if resource.custom else self._report,
                selection=selection,
            )
        return found

    def drop(self, resource: Resource) -> None:
        """Forget a kind that is served no more."""
        self._informers.pop(resource, None)

    def known(self, resource: Resource) -> Informer | None:
        return self._informers.get(resource)

    def __iter__(self) -> Iterator[Informer]:
        return iter(self._informers.values())

    async def synced(self) -> None:
        """Wait until all caches have synced, but for resources that are refused."""
        for informer in self:
            await informer.reflector.wait_settled()


def _tell_nobody(problem: str) -> None:
    """For what is no problem."""


def owner_uids(obj: Json) -> Sequence[str]:
    """The uids of the owners of an object."""
    owners = obj["metadata"].get("ownerReferences")
    return [owner.get("uid", "") for owner in owners] if owners else ()


def _namespace_of_orphan(obj: Json) -> Sequence[str]:
    return () if controller_of(obj) else (namespace_of(obj),)


def _namespace(obj: Json) -> Sequence[str]:
    return (namespace_of(obj),)


def _node_of(pod: Json) -> Sequence[str]:
    node = pod.get("spec", {}).get("nodeName")
    return (node,) if node else ()


def _number(version: str) -> int:
    return int(version) if version.isdigit() else 0
