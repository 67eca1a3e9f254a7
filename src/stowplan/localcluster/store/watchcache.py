"""The watch cache: the objects of each resource, their recent changes, and who watches them.

A watch resumes from any version whose later changes are still in the history; an older one is answered with
410 and its client lists anew.
"""

import asyncio
import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, takewhile
from typing import Final

import msgspec

from stowplan.api import status
from stowplan.api.catalogue import Catalogue, Resource
from stowplan.api.meta import seconds_of
from stowplan.api.requests import Json
from stowplan.localcluster.apply import plain_json
from stowplan.localcluster.store.objects import Key

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation on the bookmark that ends the initial state of a watch."""


class StoreChange(msgspec.Struct, frozen=True, gc=False):
    """A change of one object, as a watcher sees it.

    `previous` is the object as it was before, None where there was none. A deleted object is shown in its
    last state, with the version of its deletion.
    """

    type: str
    version: int
    object: Json
    previous: Json | None = None

    @property
    def ends_initial_state(self) -> bool:
        """True if everything that existed when the watch began has been shown."""
        annotations = self.object["metadata"].get("annotations") or {}
        return self.type == BOOKMARK and annotations.get(INITIAL_EVENTS_END) == "true"


def bookmark(resource: Resource, version: int, *, ends_initial_state: bool = False) -> StoreChange:
    """Says only how far the watch has come."""
    metadata: Json = {"resourceVersion": str(version)}
    if ends_initial_state:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    shown = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return StoreChange(BOOKMARK, version, shown)


class Compacted(msgspec.Struct, frozen=True):
    """Versions of an earlier process that a watch cannot resume from.

    Changes up to `version` cannot be resumed from. Versions strictly within one of `gaps` may have been seen
    by clients, but their changes were lost.
    """

    version: int = 0
    gaps: tuple[tuple[int, int], ...] = ()

    def lacks(self, version: int) -> bool:
        return version < self.version or any(before < version < after for before, after in self.gaps)


NOTHING_COMPACTED: Final = Compacted()


HISTORY_BYTES: Final = 32 * 1024 * 1024
"""Bytes of objects, as JSON, in the history of one resource."""

OLD_HISTORY_BYTES: Final = 2 * 1024 * 1024
"""The same when the oldest of its changes are no longer fresh."""

FRESH: Final = 75.0
"""Seconds within which clients resume watches and read the next page, as in kube-apiserver's watch cache."""

_encode: Final = msgspec.json.Encoder(enc_hook=plain_json).encode


class _Measured(msgspec.Struct, frozen=True, gc=False):
    """Size of a change, and the monotonic time at which it was measured."""

    version: int
    size: int
    time: float


class ChangeHistory:
    """The last changes of one resource, oldest first, with a maximum number and, by `compact`, size.

    One more is kept than can be resumed from: of the oldest only the version counts.
    """

    __slots__ = ("_changes", "_compacted", "_measured", "_size", "append")

    def __init__(self, capacity: int, compacted: Compacted = NOTHING_COMPACTED) -> None:
        self._changes: deque[StoreChange] = deque(maxlen=capacity + 1)
        self._compacted = compacted
        self._measured: deque[_Measured] = deque()
        self._size = 0
        self.append: Final = self._changes.append

    def compact(self, now: float) -> int:
        """Drop the oldest changes while their objects are too large. Returns the number of dropped bytes.

        `now` is monotonic. A change is measured once, here rather than in the write.
        """
        changes, measured = self._changes, self._measured
        if not changes:
            return 0
        while measured and measured[0].version < changes[0].version:
            self._size -= measured.popleft().size
        last = measured[-1].version if measured else -1
        new = takewhile(lambda change: change.version > last, reversed(changes))
        for version, size in [(change.version, len(_encode(change.object))) for change in new][::-1]:
            measured.append(_Measured(version, size, now))
            self._size += size
        before = self._size
        while measured and self._size > (
            OLD_HISTORY_BYTES if measured[0].time <= now - FRESH else HISTORY_BYTES
        ):
            oldest = measured.popleft()
            changes.popleft()
            self._size -= oldest.size
            self._compacted = Compacted(oldest.version, self._compacted.gaps)
        return before - self._size

    @property
    def compacted(self) -> int:
        """The version of the last change that cannot be given any more."""
        changes = self._changes
        return changes[0].version if len(changes) == changes.maxlen else self._compacted.version

    def since(self, version: int) -> list[StoreChange]:
        """The changes after a version. Raises `ApiError` 410 if some of them are compacted."""
        if version < self.compacted or self._compacted.lacks(version):
            raise status.expired(f"too old resource version: {version} ({self.compacted})")
        first = bisect_right(self._changes, version, key=lambda change: change.version)
        return list(islice(self._changes, first, None))


Predicate = Callable[[Json], bool]
Sink = Callable[[StoreChange], None]


class Watcher:
    """Receives the changes of a resource from some version on.

    `backlog` is what it has to be shown first: the initial state, or what happened since the version it
    resumes from. Later changes go to the sink as they happen. A watcher made while changes are delivered
    does not get those again that its backlog has.
    """

    __slots__ = (
        "_leave",
        "_predicate",
        "_seen_version",
        "_sink",
        "_wants_bookmarks",
        "backlog",
        "is_open",
        "on_end",
    )

    def __init__(
        self,
        sink: Sink,
        predicate: Predicate | None,
        leave: Callable[["Watcher"], None],
        *,
        version: int,
        backlog: Sequence[StoreChange],
        bookmarks: bool,
    ) -> None:
        self._sink = sink
        self._predicate = predicate
        self._leave = leave
        self._seen_version = version
        self._wants_bookmarks = bookmarks
        self.backlog = backlog
        self.is_open = True
        self.on_end: Callable[[], None] | None = None
        """Called when the server ends the watch, because what is watched is served no more."""

    def deliver(self, change: StoreChange) -> None:
        if not self.is_open:
            return
        if change.type == BOOKMARK:
            if self._wants_bookmarks and change.version >= self._seen_version:
                self._sink(change)
        elif change.version > self._seen_version:
            seen = change if self._predicate is None else selected_change(self._predicate, change)
            if seen is not None:
                self._sink(seen)

    def catch_up(self, changes: Iterable[StoreChange], version: int) -> None:
        """Receive changes that the backlog does not have, up to a version."""
        for change in changes:
            self.deliver(change)
        self._seen_version = max(self._seen_version, version)

    def close(self) -> None:
        """Receive nothing more. Closing twice does no harm."""
        if self.is_open:
            self.is_open = False
            self._leave(self)

    def end(self) -> None:
        """Close it, and let its owner know."""
        self.close()
        if self.on_end is not None:
            self.on_end()


def selected_change(predicate: Predicate, change: StoreChange) -> StoreChange | None:
    """A change as a watcher of selected objects sees it, None if it does not.

    An object that begins to match is added, one that no longer matches is deleted.
    """
    before = change.previous is not None and predicate(change.previous)
    after = change.type != DELETED and predicate(change.object)
    if not after:
        return _deselected(change) if before else None
    type_ = MODIFIED if before else ADDED
    return (
        change if type_ == change.type else StoreChange(type_, change.version, change.object, change.previous)
    )


def _deselected(change: StoreChange) -> StoreChange:
    """The object as it was when it was last seen, with the version of the change that took it away."""
    if change.type == DELETED:
        return change
    assert change.previous is not None
    last: Json = change.previous
    metadata = {**last["metadata"], "resourceVersion": str(change.version)}
    return StoreChange(DELETED, change.version, {**last, "metadata": metadata}, last)


class WatchStream:
    """Changes to iterate over, for one consumer.

    Unconsumed changes are kept up to a limit; a consumer that falls further behind is disconnected
    (`cut_off`): the stream ends, and its consumer resumes from the last version it saw or lists again. The
    objects that existed at the beginning do not count against the limit.
    """

    def __init__(self, watch: Callable[[Sink], Watcher], limit: int) -> None:
        self.cut_off = False
        self._limit = limit
        self._live: deque[StoreChange] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._watcher = watch(self._arrived)
        self._watcher.on_end = self._wake_consumer
        self._backlog = deque(self._watcher.backlog)
        self._watcher.backlog = ()

    def __aiter__(self) -> "WatchStream":
        return self

    async def __anext__(self) -> StoreChange:
        while True:
            waiting = self._backlog or self._live
            if waiting:
                return waiting.popleft()
            if not self._watcher.is_open:
                raise StopAsyncIteration
            self._wake = wake = asyncio.get_running_loop().create_future()
            try:
                await wake
            finally:
                self._wake = None

    def ready(self, limit: int) -> list[StoreChange]:
        """At most `limit` changes that can be consumed without waiting."""
        waiting = self._backlog or self._live
        if len(waiting) > limit:
            return [waiting.popleft() for _ in range(limit)]
        found = list(waiting)
        waiting.clear()
        return found

    def close(self) -> None:
        """End the stream after what is waiting to be consumed."""
        self._watcher.close()
        self._wake_consumer()

    def _arrived(self, change: StoreChange) -> None:
        live = self._live
        live.append(change)
        if len(live) > self._limit:
            self.cut_off = True
            self._backlog.clear()
            live.clear()
            self._watcher.close()
        if self._wake is not None:
            self._wake_consumer()

    def _wake_consumer(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None and not wake.done():
            wake.set_result(None)


class _Expiry(msgspec.Struct, frozen=True, gc=False):
    time: float
    key: Key
    uid: str


class Collection:
    """The objects of one resource by namespace and name."""

    __slots__ = ("_expiries", "_order", "history", "objects", "resource", "watchers")

    def __init__(self, resource: Resource, history: int, compacted: Compacted = NOTHING_COMPACTED) -> None:
        self.resource = resource
        self.objects: dict[Key, Json] = {}
        self.history = ChangeHistory(history, compacted)
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

    def apply(self, key: Key, change: StoreChange) -> None:
        """Make a change the current state and remember it."""
        if change.type == DELETED:
            del self.objects[key]
            self._order = None
        else:
            if change.previous is None:
                self._order = None
            self.objects[key] = change.object
        self.history.append(change)

    def put(self, key: Key, obj: Json | None) -> None:
        """Have another object, or none, for a key; nothing is remembered of it."""
        if obj is None:
            del self.objects[key]
            self._order = None
        else:
            if key not in self.objects:
                self._order = None
            self.objects[key] = obj

    def restore(self, key: Key, obj: Json) -> None:
        """Have an object again that an earlier process stored; watchers do not see it as a change."""
        self.objects[key] = obj
        self._order = None

    def add_watcher(self, watcher: Watcher) -> None:
        self.watchers = (*self.watchers, watcher)

    def remove_watcher(self, watcher: Watcher) -> None:
        self.watchers = tuple(other for other in self.watchers if other is not watcher)

    def schedule_expiry(self, key: Key, uid: str, now: float, limit: int = sys.maxsize) -> bool:
        """Note when a new object expires, if objects of its kind do (events).

        True if the time of any is over, or there are too many: see `expired`.
        """
        expiries, lifetime = self._expiries, self.resource.lifetime
        if lifetime is not None:
            expiries.append(_Expiry(now + lifetime, key, uid))
        return len(expiries) > limit or (bool(expiries) and expiries[0].time <= now)

    def schedule_all_expiries(self) -> None:
        """Note the same of every object, in the order of creation."""
        created = [
            (seconds_of(obj["metadata"]["creationTimestamp"]), key) for key, obj in self.objects.items()
        ]
        for time, key in sorted(created):
            self.schedule_expiry(key, self.objects[key]["metadata"]["uid"], time)

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
    """The collections by resource. Those of the catalogue's resources are created on first use.

    Any other is an `ApiError` 404. A custom resource may also be read by its served address alone, without
    the kind of its objects.
    """

    def __init__(self, catalogue: Catalogue, history: int) -> None:
        super().__init__()
        self._catalogue = catalogue
        self._history = history
        self.compacted = NOTHING_COMPACTED

    def restart_after(self, compacted: Compacted) -> None:
        """Start empty, with the versions that an earlier process has compacted."""
        self.compacted = compacted
        self.clear()

    def __missing__(self, resource: Resource) -> Collection:
        if resource.custom and not resource.kind:
            resource = self._catalogue.named(resource.dotted) or resource
        if resource not in self._catalogue:
            raise status.unknown_resource()
        if resource not in self:
            self[resource] = Collection(resource, self._history, self.compacted)
        return self[resource]

    def share(self, stored: Resource, served: Iterable[Resource], version: int) -> None:
        """Have the versions of a custom resource be the same objects.

        Their collection stays the one it was, under the name it was first stored by. A new one has no
        history before the present `version` of the store.
        """
        mine = {known: self[known] for known in self if _is_version_of(known, stored)}
        found = next((one for one in mine.values() if one.objects), None) or next(iter(mine.values()), None)
        if found is None:
            found = Collection(stored, self._history, Compacted(version))
        for known in mine:
            del self[known]
        found.resource = msgspec.structs.replace(stored, version=found.resource.version)
        for resource in (stored, *served):
            self[resource] = found

    def drop(self, stored: Resource) -> None:
        """Forget a custom resource in all its versions, and end its watches."""
        for known in [known for known in self if _is_version_of(known, stored)]:
            for watcher in self.pop(known).watchers:
                watcher.end()


def _is_version_of(known: Resource, other: Resource) -> bool:
    return known.defined and (known.group, known.plural) == (other.group, other.plural)
