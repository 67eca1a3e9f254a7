"""All objects of one resource, the history of their changes, and who watches them."""

import sys
from collections import deque

import msgspec

from stowplan.api import status
from stowplan.api.catalogue import Catalogue, Resource
from stowplan.api.meta import seconds_of
from stowplan.api.requests import Json
from stowplan.embedded.store.changes import DELETED, NO_PAST, Change, History, Past
from stowplan.embedded.store.objects import Key
from stowplan.embedded.store.selecting import Predicate
from stowplan.embedded.store.watching import Watcher


class _Expiry(msgspec.Struct, frozen=True, gc=False):
    time: float
    key: Key
    uid: str


class Collection:
    """The objects of one resource by namespace and name."""

    __slots__ = ("_expiries", "_order", "history", "objects", "resource", "watchers")

    def __init__(self, resource: Resource, history: int, past: Past = NO_PAST) -> None:
        self.resource = resource
        self.objects: dict[Key, Json] = {}
        self.history = History(history, past)
        self.watchers: tuple[Watcher, ...] = ()
        self._expiries: deque[_Expiry] = deque()
        self._order: list[Key] | None = []

    def get(self, key: Key) -> Json:
        """The object. Raises `ApiError` 404."""
        obj = self.objects.get(key)
        if obj is None:
            raise status.not_found(self.resource, key[1])
        return obj

    def selected(self, predicate: Predicate | None) -> list[Json]:
        """The objects that match, ordered by namespace and name."""
        objects = self.objects
        ordered = [objects[key] for key in self.order()]
        return ordered if predicate is None else [obj for obj in ordered if predicate(obj)]

    def order(self) -> list[Key]:
        """The keys of all objects, by namespace and name. The list is kept: it must not be changed."""
        if self._order is None:
            self._order = sorted(self.objects)
        return self._order

    def state_at(self, version: int) -> dict[Key, Json]:
        """The objects as they were at a version. Raises `ApiError` 410 if that is no longer known."""
        later = self.history.since(version)
        if not later:
            return self.objects
        state = dict(self.objects)
        for change in reversed(later):
            metadata = change.object["metadata"]
            key = (metadata.get("namespace", ""), metadata["name"])
            if change.previous is None:
                state.pop(key, None)
            else:
                state[key] = change.previous
        return state

    def apply(self, key: Key, change: Change) -> None:
        """Make a change the current state and remember it."""
        if change.type == DELETED:
            del self.objects[key]
            self._order = None
        else:
            if change.previous is None:
                self._order = None
            self.objects[key] = change.object
        self.history.append(change)

    def put_back(self, key: Key, obj: Json) -> None:
        """Have an object from an earlier life, of which nobody is told."""
        self.objects[key] = obj
        self._order = None

    def join(self, watcher: Watcher) -> None:
        self.watchers = (*self.watchers, watcher)

    def leave(self, watcher: Watcher) -> None:
        self.watchers = tuple(other for other in self.watchers if other is not watcher)

    def expect_expiry(self, key: Key, uid: str, now: float, limit: int = sys.maxsize) -> bool:
        """Remember when a new object is to be forgotten, if its kind is forgotten at all.

        True if the time of any is over, or there are too many: see `expired`.
        """
        expiries, lifetime = self._expiries, self.resource.lifetime
        if lifetime is not None:
            expiries.append(_Expiry(now + lifetime, key, uid))
        return len(expiries) > limit or (bool(expiries) and expiries[0].time <= now)

    def expect_all_to_expire(self) -> None:
        """Remember the same of everything there is, in the order in which it was created."""
        born = [(seconds_of(obj["metadata"]["creationTimestamp"]), key) for key, obj in self.objects.items()]
        for time, key in sorted(born):
            self.expect_expiry(key, self.objects[key]["metadata"]["uid"], time)

    def expired(self, now: float, limit: int) -> list[Key]:
        """Objects whose time is over, and the oldest of those that are too many."""
        due: list[Key] = []
        expiries = self._expiries
        while expiries and (expiries[0].time <= now or len(expiries) > limit):
            entry = expiries.popleft()
            obj = self.objects.get(entry.key)
            if obj is not None and obj["metadata"]["uid"] == entry.uid:
                due.append(entry.key)
        return due


class Collections(dict[Resource, Collection]):
    """The collections by resource. One of a resource that the catalogue has comes into being when asked for.

    Any other is an `ApiError` 404. Who only knows where a custom resource is served, and not the kind of its
    objects, may read it too.
    """

    def __init__(self, catalogue: Catalogue, history: int) -> None:
        super().__init__()
        self._catalogue = catalogue
        self._history = history
        self.past = NO_PAST

    def begin_after(self, past: Past) -> None:
        """Start anew, after an earlier life."""
        self.past = past
        self.clear()

    def __missing__(self, resource: Resource) -> Collection:
        if resource.custom and not resource.kind:
            resource = self._catalogue.named(resource.dotted) or resource
        if resource not in self._catalogue:
            raise status.ApiError(404, "NotFound", "the server could not find the requested resource")
        if resource not in self:
            self[resource] = Collection(resource, self._history, self.past)
        return self[resource]
