"""Keeping changes somewhere else than in memory: what the store asks of whoever does that."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.embedded.store.changes import ADDED, DELETED, MODIFIED, NO_PAST, Change, Past
from stowplan.embedded.store.objects import Key, with_metadata


class Journal(Protocol):
    """Keeps every change. The store never waits for it; whoever answers others can."""

    def admit(self) -> None:
        """Raises `ApiError` 503 while nothing can be kept: then nothing is to be changed."""
        ...

    def record(self, resource: Resource, key: Key, change: Change) -> None:
        """Keep a change, soon. Changes come in the order of their versions."""
        ...

    async def settled(self, version: int) -> ApiError | None:
        """Wait until all changes up to a version are kept; gives back what went wrong, if anything did."""
        ...


class Entry(NamedTuple):
    """An object as it was kept at a version, None if it was deleted with that version."""

    resource: Resource
    key: Key
    version: int
    object: Json | None


class Kept(NamedTuple):
    """What was kept of an earlier life: a state, the changes since, and the last version given out."""

    version: int = 0
    past: Past = NO_PAST
    objects: Sequence[Entry] = ()
    changes: Iterable[Entry] = ()


def change_of(entry: Entry, previous: Json | None) -> Change:
    """The change that an entry was made for. Raises ValueError if there cannot have been one."""
    if entry.object is not None:
        return Change(ADDED if previous is None else MODIFIED, entry.version, entry.object, previous)
    if previous is None:
        raise ValueError(f"version {entry.version} deletes {'/'.join(entry.key)}, which does not exist")
    return Change(
        DELETED, entry.version, with_metadata(previous, resourceVersion=str(entry.version)), previous
    )
