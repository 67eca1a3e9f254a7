"""Watchers: who is told of which changes, and how a change looks through a selection."""

from collections.abc import Callable, Sequence

from stowplan.api.requests import Json
from stowplan.embedded.store.changes import ADDED, BOOKMARK, DELETED, MODIFIED, Change
from stowplan.embedded.store.selecting import Predicate

Sink = Callable[[Change], None]


class Watcher:
    """One who is told of a resource's changes from some version on.

    `backlog` is what it has to be shown first: the initial state, or what happened since the version it
    resumes from. Later changes go to the sink as they happen. A watcher made while changes are being told
    is not told again of those its backlog has.
    """

    __slots__ = ("_leave", "_predicate", "_sink", "_told", "_wants_bookmarks", "backlog", "is_open")

    def __init__(
        self,
        sink: Sink,
        predicate: Predicate | None,
        leave: Callable[["Watcher"], None],
        *,
        version: int,
        backlog: Sequence[Change],
        bookmarks: bool,
    ) -> None:
        self._sink = sink
        self._predicate = predicate
        self._leave = leave
        self._told = version
        self._wants_bookmarks = bookmarks
        self.backlog = backlog
        self.is_open = True

    def tell(self, change: Change) -> None:
        if not self.is_open:
            return
        if change.type == BOOKMARK:
            if self._wants_bookmarks and change.version >= self._told:
                self._sink(change)
        elif change.version > self._told:
            seen = change if self._predicate is None else seen_through(self._predicate, change)
            if seen is not None:
                self._sink(seen)

    def close(self) -> None:
        """Be told of nothing more. Closing twice does no harm."""
        if self.is_open:
            self.is_open = False
            self._leave(self)


def seen_through(predicate: Predicate, change: Change) -> Change | None:
    """A change as it looks to somebody who sees selected objects only, None if it does not show.

    An object that begins to match is added, one that no longer matches is deleted.
    """
    before = change.previous is not None and predicate(change.previous)
    after = change.type != DELETED and predicate(change.object)
    if not after:
        return _gone(change) if before else None
    type_ = MODIFIED if before else ADDED
    return change if type_ == change.type else Change(type_, change.version, change.object, change.previous)


def _gone(change: Change) -> Change:
    """The object as it was when it was last seen, with the version of the change that took it away."""
    if change.type == DELETED:
        return change
    assert change.previous is not None
    last: Json = change.previous
    metadata = {**last["metadata"], "resourceVersion": str(change.version)}
    return Change(DELETED, change.version, {**last, "metadata": metadata}, last)
