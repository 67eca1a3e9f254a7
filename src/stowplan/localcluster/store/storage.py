"""Storage under one version counter: every write goes through here, to the watch caches and to a log."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypedDict, TypeVar, Unpack, cast

from stowplan.api import status
from stowplan.api.catalogue import Catalogue, Resource
from stowplan.api.requests import EVERY_OBJECT, Json, Selection
from stowplan.api.status import ApiError
from stowplan.localcluster.store.objects import Key, with_metadata
from stowplan.localcluster.store.selection import predicate
from stowplan.localcluster.store.watchcache import (
    ADDED,
    DELETED,
    MODIFIED,
    NOTHING_COMPACTED,
    Collection,
    Collections,
    Compacted,
    Predicate,
    Sink,
    StoreChange,
    Watcher,
    bookmark,
    selected_change,
)
from stowplan.localcluster.store.writer import WriteContext


class WriteAheadLog(Protocol):
    """Keeps every change on disk. The store never waits for it; servers that answer clients can."""

    def admit(self) -> None:
        """Raises `ApiError` 503 while nothing can be saved: then nothing is to be changed."""
        ...

    def record(self, resource: Resource, key: Key, change: StoreChange) -> None:
        """Keep a change, soon. Changes come in the order of their versions."""
        ...

    async def settled(self, version: int) -> ApiError | None:
        """Wait until all changes up to a version are kept; gives back what went wrong, if anything did."""
        ...

    async def kept(self, version: int) -> None:
        """Wait until all changes up to a version are kept, however long that takes."""
        ...

    def uncommitted(self) -> tuple[int, Sequence["UncommittedChange"]]:
        """The last version that is kept, and the changes since, oldest first."""
        ...


class UncommittedChange(NamedTuple):
    """A change that waits to be kept. The data it refers to is immutable, so any thread may read it."""

    resource: Resource
    key: Key
    change: StoreChange


T = TypeVar("T")


class WatchOptions(TypedDict, total=False):
    """The options of a watch."""

    namespace: str
    selection: Selection
    since: int | None
    initial_events: bool
    bookmarks: bool
    waits: bool


class LogEntry(NamedTuple):
    """An object as it was kept at a version, None if it was deleted with that version."""

    resource: Resource
    key: Key
    version: int
    object: Json | None


class SavedState(NamedTuple):
    """Stored data of an earlier process: a state, the changes since, and the last assigned version."""

    version: int = 0
    compacted: Compacted = NOTHING_COMPACTED
    objects: Sequence[LogEntry] = ()
    changes: Iterable[LogEntry] = ()


def change_of(entry: LogEntry, previous: Json | None) -> StoreChange:
    """The change that an entry was made for. Raises ValueError if there cannot have been one."""
    if entry.object is not None:
        return StoreChange(ADDED if previous is None else MODIFIED, entry.version, entry.object, previous)
    if previous is None:
        raise ValueError(f"version {entry.version} deletes {'/'.join(entry.key)}, which does not exist")
    return StoreChange(
        DELETED, entry.version, with_metadata(previous, resourceVersion=str(entry.version)), previous
    )


class ObjectStorage:
    """Collections of objects under one version counter.

    A change is delivered to all watchers of its resource before the writer continues. A watcher may write in
    turn: its changes are delivered after the current one has reached all watchers, so all see one order. A
    watcher that raises is closed and the others continue; the writer gets its exception when the change has
    reached all of them.
    """

    def __init__(self, catalogue: Catalogue, history: int) -> None:
        self.catalogue = catalogue
        self.version = 0
        self.write_ahead_log: WriteAheadLog | None = None
        self._collections = Collections(catalogue, history)
        self._collection: Callable[[Resource], Collection] = self._collections.__getitem__
        self._undelivered: deque[tuple[Collection, StoreChange]] = deque()
        self._delivering = False

    def restore(self, saved: SavedState) -> None:
        """Continue from what an earlier process stored. Only while nothing has been written."""
        self._collections.restart_after(saved.compacted)
        for entry in saved.objects:
            if entry.object is not None:
                self._collection(entry.resource).restore(entry.key, entry.object)
        for entry in saved.changes:
            collection = self._collection(entry.resource)
            collection.apply(entry.key, change_of(entry, collection.objects.get(entry.key)))
        self.version = saved.version

    async def settled(self) -> status.ApiError | None:
        """Wait until every write so far is in the write-ahead log, if there is one; gives its error.

        Whoever answers a client outside this process waits here first: then no answered write is lost with
        the process. Within it there is no need to wait, because the log keeps the order of changes.
        """
        return None if self.write_ahead_log is None else await self.write_ahead_log.settled(self.version)

    async def kept(self) -> None:
        """Wait until every write so far is in the write-ahead log, also while that cannot be written."""
        if self.write_ahead_log is not None:
            await self.write_ahead_log.kept(self.version)

    def admit_writes(self) -> None:
        """Raises `ApiError` 503 while nothing can be saved."""
        if self.write_ahead_log is not None:
            self.write_ahead_log.admit()

    async def read_committed(self, read: Callable[[], T]) -> T:
        """The result of a read, once everything it saw is in the write-ahead log.

        If it cannot be written at present, as on a full disk, the function reads the committed state: no
        client outside this process sees a change that might be lost. Raises the function's exceptions.
        """
        if self.write_ahead_log is None:
            return read()
        found: T | None = None
        refusal: ApiError | None = None
        try:
            found = read()
        except ApiError as error:
            refusal = error
        if await self.settled() is not None:
            with self._as_committed():
                return read()
        if refusal is not None:
            raise refusal
        return cast(T, found)

    @contextmanager
    def _as_committed(self) -> Iterator[Sequence[UncommittedChange]]:
        """Take back the changes that are not in the write-ahead log, for as long as something reads.

        Gives the changes that were taken back. Objects of a custom resource that is served no more are not
        there in either state. Nothing may be awaited meanwhile: everybody would see the store as it was.
        """
        assert self.write_ahead_log is not None
        version, changes = self.write_ahead_log.uncommitted()
        known = [one for one in changes if one.resource in self._collections]
        now, self.version = self.version, version
        for one in reversed(known):
            self._collections[one.resource].put(one.key, one.change.previous)
        try:
            yield changes
        finally:
            for one in known:
                gone = one.change.type == DELETED
                self._collections[one.resource].put(one.key, None if gone else one.change.object)
            self.version = now

    def watch_committed(self, resource: Resource, sink: Sink, **options: Unpack[WatchOptions]) -> Watcher:
        """As `watch`, with a backlog of what is in the write-ahead log alone; the rest goes to the sink."""
        if self.write_ahead_log is None:
            return self.watch(resource, sink, **options)
        with self._as_committed() as later:
            watcher = self.watch(resource, sink, **options)
        collection = self._collection(resource)
        watcher.catch_up(
            [one.change for one in later if self._collections.get(one.resource) is collection], self.version
        )
        return watcher

    def watch(
        self,
        resource: Resource,
        sink: Sink,
        *,
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        since: int | None = None,
        initial_events: bool = False,
        bookmarks: bool = False,
        waits: bool = False,
    ) -> Watcher:
        """Have a function called with changes, from a version on or (without one) from now on.

        The watcher's backlog is the caller's to go through first: it has what happened since that version,
        or, with `initial_events`, everything that exists and a bookmark at its end.
        Raises `ApiError`: 410 if the version is too old, 504 if it has not been reached, unless the watcher
        `waits` for that.
        """
        collection = self._collection(resource)
        chosen = predicate(resource, namespace, selection)
        if since is not None and since > self.version and not waits:
            raise status.too_large_version(since, self.version)
        backlog: list[StoreChange] = []
        if initial_events:
            backlog = self._initial_state(collection, chosen)
        elif since is not None:
            changes = [one for one in collection.history.since(since) if one.version <= self.version]
            shown = changes if chosen is None else (selected_change(chosen, change) for change in changes)
            backlog = [change for change in shown if change is not None]
        watcher = Watcher(
            sink,
            chosen,
            collection.remove_watcher,
            version=max(self.version, since or 0),
            backlog=backlog,
            bookmarks=bookmarks,
        )
        collection.add_watcher(watcher)
        return watcher

    def send_bookmarks(self) -> None:
        """Send a bookmark with the current version to every watcher that asked for bookmarks."""
        for collection in dict.fromkeys(self._collections.values()):
            if collection.watchers:
                self._undelivered.append((collection, bookmark(collection.resource, self.version)))
        if not self._delivering:
            self._deliver()

    def compact_history(self, now: float) -> int:
        """Limit the size of the changes that watches can resume from. Returns the number of dropped bytes."""
        return sum(one.history.compact(now) for one in dict.fromkeys(self._collections.values()))

    def _initial_state(self, collection: Collection, chosen: Predicate | None) -> list[StoreChange]:
        """Everything there is, as if it were added now, and the bookmark that says that this was all."""
        added = [
            StoreChange(ADDED, int(obj["metadata"]["resourceVersion"]), obj)
            for obj in collection.selected(chosen)
        ]
        return [*added, bookmark(collection.resource, self.version, ends_initial_state=True)]

    def _rewrite(self, collection: Collection, key: Key, obj: Json, old: Json, by: WriteContext) -> Json:
        """Replace an object by one that may share its metadata with others; gives back the one written."""
        if not by.dry_run:
            obj = with_metadata(as_stored(collection, obj))
            self._change(collection, key, MODIFIED, obj, old)
        return obj

    def _remove(self, collection: Collection, key: Key, obj: Json, by: WriteContext) -> Json:
        """Remove the object of a key; gives back its last state with the version of its removal."""
        if by.dry_run:
            return obj
        gone = with_metadata(obj)
        self._change(collection, key, DELETED, gone, obj)
        return gone

    def _change(self, collection: Collection, key: Key, type_: str, obj: Json, old: Json | None) -> None:
        """Give an object the next version, log the change and deliver it. Not for dry runs.

        The object must be the store's own, metadata and all, and not given out yet.
        """
        log = self.write_ahead_log
        if log is not None:
            log.admit()
        self.version = version = self.version + 1
        obj["metadata"]["resourceVersion"] = str(version)
        change = StoreChange(type_, version, obj, old)
        collection.apply(key, change)
        if log is not None:
            log.record(collection.resource, key, change)
        if collection.watchers:
            self._undelivered.append((collection, change))
            if not self._delivering:
                self._deliver()

    def _deliver(self) -> None:
        """Deliver what has not been delivered yet, in its order.

        A watch that cannot take a change ends: its client watches again and gets it then.
        """
        self._delivering = True
        failure: Exception | None = None
        while self._undelivered:
            collection, change = self._undelivered.popleft()
            for watcher in collection.watchers:
                try:
                    watcher.deliver(change)
                except Exception as error:  # noqa: BLE001 - raised below, when everybody has it
                    watcher.end()
                    failure = failure or error
        self._delivering = False
        if failure is not None:
            raise failure


def as_stored(collection: Collection, obj: Json) -> Json:
    """An object under the version its collection is stored in: custom resources may be written in any."""
    if collection.resource.keeps_versions:
        return obj
    stored = collection.resource.api_version
    return obj if obj["apiVersion"] == stored else {**obj, "apiVersion": stored}
