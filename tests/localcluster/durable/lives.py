"""Stores that live in a folder one after another, and what they are compared by."""

import random
from pathlib import Path
from typing import Any

from localcluster.store.stores import HandClock
from stowplan.api.catalogue import Catalogue, Resource
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.durable import GroupCommit
from stowplan.localcluster.durable.database import Database
from stowplan.localcluster.store import Store, StoreChange

Seen = list[tuple[str, int, Json, Json | None]] | int


class Life:
    """A store that is kept in a folder, until it is ended in good order or killed.

    `log` and `fold` are small, so that little suffices to have the log folded.
    """

    def __init__(
        self,
        folder: Path,
        *,
        log: int = 20,
        fold: int = 4,
        retry: float = 0.02,
        seed: int = 1,
        **options: Any,
    ) -> None:
        self.store = Store(HandClock(), random.Random(seed), catalogue=Catalogue(), **options)
        self.database = Database(folder, log=log, fold=fold)
        kept = self.database.load(self.store.catalogue)
        self.store.restore(kept)
        self.log = GroupCommit(self.database, kept.version, retry=retry)
        self.store.write_ahead_log = self.log

    def end(self) -> None:
        self.log.close()

    def kill(self) -> None:
        """End as a killed process does, when everything was kept: without a word that all is well."""
        closing = self.database.close
        self.database.close = lambda *, clean: closing(clean=False)  # type: ignore[method-assign]
        self.log.close()


def everything(store: Store) -> dict[str, list[Json]]:
    """All objects by resource."""
    return {resource.dotted: store.list(resource).items for resource in store.catalogue}


def seen_since(store: Store, resource: Resource, version: int) -> Seen:
    """Events of a watch that resumes from a version, or the code it is refused with."""
    try:
        watcher = store.watch(resource, _ignore, since=version)
    except ApiError as error:
        return error.code
    watcher.close()
    return [(change.type, change.version, change.object, change.previous) for change in watcher.backlog]


def _ignore(change: StoreChange) -> None:
    """A sink."""
