"""The current state, its versions and its history: every change goes through here and is told from here."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stowplan.api import status
from stowplan.api.catalogue import Catalogue, Resource
from stowplan.api.requests import EVERY_OBJECT, Json, Selection
from stowplan.embedded.store.changes import ADDED, DELETED, MODIFIED, Change, bookmark
from stowplan.embedded.store.collection import Collection, Collections
from stowplan.embedded.store.journal import Journal, Kept, change_of
from stowplan.embedded.store.objects import Key, with_metadata
from stowplan.embedded.store.selecting import Predicate, predicate
from stowplan.embedded.store.watching import Sink, Watcher, seen_through


class Ledger:
    """Collections of objects under one version counter.

    A change is told to all watchers of its resource before the writer goes on. A watcher may write in turn:
    what it changes is told when everybody has been told of the present change, so all watchers see one
    order. A watcher that raises is shut out and does not cost the others anything; the writer gets its
    exception when everybody has been told.
    """

    def __init__(self, catalogue: Catalogue, history: int) -> None:
        self.catalogue = catalogue
        self.version = 0
        self.journal: Journal | None = None
        self._collections = Collections(catalogue, history)
        self._collection: Callable[[Resource], Collection] = self._collections.__getitem__
        self._untold: deque[tuple[Collection, Change]] = deque()
        self._telling = False
        self._rehearsing = False

    def restore(self, kept: Kept) -> None:
        """Go on where an earlier life ended. Only for a ledger in which nothing has been written."""
        self._collections.begin_after(kept.past)
        for entry in kept.objects:
            if entry.object is not None:
                self._collection(entry.resource).put_back(entry.key, entry.object)
        for entry in kept.changes:
            collection = self._collection(entry.resource)
            collection.apply(entry.key, change_of(entry, collection.objects.get(entry.key)))
        self.version = kept.version

    async def settled(self) -> status.ApiError | None:
        """Wait until all that is written is kept, if it is kept; gives back what went wrong, if anything.

        Who answers somebody outside this process waits here first: then nothing anybody was told gets lost
        with the process. Within it there is no need to wait, because changes are kept in their order.
        """
        return None if self.journal is None else await self.journal.settled(self.version)

    @contextmanager
    def rehearsal(self, rehearsing: bool = True) -> Iterator[None]:
        """Writes within do everything but write: they are judged, and give back what would have been."""
        before, self._rehearsing = self._rehearsing, rehearsing
        try:
            yield
        finally:
            self._rehearsing = before

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
    ) -> Watcher:
        """Have a function told of changes, from a version on or (without one) from now on.

        The watcher's backlog is the caller's to go through first: it has what happened since that version,
        or, with `initial_events`, everything that exists and a bookmark at its end.
        Raises `ApiError`: 410 if the version is too old, 504 if it has not been reached.
        """
        collection = self._collection(resource)
        chosen = predicate(resource, namespace, selection)
        if since is not None and since > self.version:
            raise status.too_large_version(since, self.version)
        backlog: list[Change] = []
        if initial_events:
            backlog = self._initial_state(collection, chosen)
        elif since is not None:
            changes = collection.history.since(since)
            shown = changes if chosen is None else (seen_through(chosen, change) for change in changes)
            backlog = [change for change in shown if change is not None]
        watcher = Watcher(
            sink, chosen, collection.leave, version=self.version, backlog=backlog, bookmarks=bookmarks
        )
        collection.join(watcher)
        return watcher

    def send_bookmarks(self) -> None:
        """Tell every watcher who wants to know how far the store has come."""
        for collection in self._collections.values():
            if collection.watchers:
                self._untold.append((collection, bookmark(collection.resource, self.version)))
        if not self._telling:
            self._tell()

    def _initial_state(self, collection: Collection, chosen: Predicate | None) -> list[Change]:
        """Everything there is, as if it were added now, and the bookmark that says that this was all."""
        added = [
            Change(ADDED, int(obj["metadata"]["resourceVersion"]), obj) for obj in collection.selected(chosen)
        ]
        return [*added, bookmark(collection.resource, self.version, ends_initial_state=True)]

    def _rewrite(self, collection: Collection, key: Key, obj: Json, old: Json) -> Json:
        """Replace an object by one that may share its metadata with others; gives back the one written."""
        if not self._rehearsing:
            obj = with_metadata(obj)
            self._change(collection, key, MODIFIED, obj, old)
        return obj

    def _remove(self, collection: Collection, key: Key, obj: Json) -> Json:
        """Remove the object of a key; gives back its last state with the version of its removal."""
        if self._rehearsing:
            return obj
        gone = with_metadata(obj)
        self._change(collection, key, DELETED, gone, obj)
        return gone

    def _change(self, collection: Collection, key: Key, type_: str, obj: Json, old: Json | None) -> None:
        """Give an object the next version, keep what happened, and have it told. Not to be rehearsed.

        The object must be the store's own, metadata and all, and not given out yet.
        """
        journal = self.journal
        if journal is not None:
            journal.admit()
        self.version = version = self.version + 1
        obj["metadata"]["resourceVersion"] = str(version)
        change = Change(type_, version, obj, old)
        collection.apply(key, change)
        if journal is not None:
            journal.record(collection.resource, key, change)
        if collection.watchers:
            self._untold.append((collection, change))
            if not self._telling:
                self._tell()

    def _tell(self) -> None:
        """Tell everybody of what they have not been told of, in its order."""
        self._telling = True
        failure: Exception | None = None
        while self._untold:
            collection, change = self._untold.popleft()
            for watcher in collection.watchers:
                try:
                    watcher.tell(change)
                except Exception as error:  # noqa: BLE001 - raised below, when all have been told
                    watcher.close()
                    failure = failure or error
        self._telling = False
        if failure is not None:
            raise failure
