"""Group commit: a thread that keeps what has changed meanwhile, and those who wait for it."""

import asyncio
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final

from stowplan.api.catalogue import Resource
from stowplan.api.status import ApiError
from stowplan.embedded.durable.database import Database, DataDirError
from stowplan.embedded.durable.rows import Recorded, row_of
from stowplan.embedded.store import Change, Store
from stowplan.embedded.store.objects import Key

RETRY: Final = 1.0
"""Seconds between two attempts to keep what could not be kept."""

PENDING: Final = 65_536
"""Changes that may wait to be kept; who writes more without ever waiting is held up."""

_CLOSED: Final = "the data directory is closed"


def keep_in(store: Store, folder: Path) -> "Keeper":
    """Have an empty store go on where the one kept in a folder ended, and keep what changes from now on.

    Raises DataDirError if the folder cannot be used.
    """
    database = Database(folder)
    try:
        kept = database.load(store.catalogue)
        store.restore(kept)
    except DataDirError:
        database.close(clean=False)
        raise
    except (ValueError, KeyError) as error:
        database.close(clean=False)
        raise DataDirError(f"{folder}: what is kept there contradicts itself: {error}") from None
    keeper = Keeper(database, kept.version)
    store.write_ahead_log = keeper
    return keeper


class Keeper:
    """The journal of a store in a database.

    While nothing can be kept (a full disk) no change is admitted, what is waiting is tried again and again,
    and as soon as that works changes are admitted anew. A change that could not be kept at once has happened
    in memory and may yet be kept: its writer is told so, as after a timeout.
    """

    def __init__(
        self, database: Database, version: int, *, retry: float = RETRY, pending: int = PENDING
    ) -> None:
        self._database = database
        self._retry = retry
        self._limit = pending
        self._turn = threading.Condition()
        self._pending: list[Recorded] = []
        self._closing = False
        self._kept = version
        self._stuck = ""
        self._refusal = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[tuple[int, asyncio.Future[ApiError | None]]] = deque()
        self._thread = threading.Thread(target=self._work, name="stowplan-keeper", daemon=True)
        self._thread.start()

    def admit(self) -> None:
        if self._refusal:
            raise ApiError(503, "ServiceUnavailable", f"nothing can be written at present: {self._refusal}")

    def record(self, resource: Resource, key: Key, change: Change) -> None:
        with self._turn:
            while len(self._pending) >= self._limit and not self._stuck:
                self._turn.wait()
            self._pending.append(Recorded(resource, key, change))
            if len(self._pending) == 1:
                self._turn.notify_all()

    async def settled(self, version: int) -> ApiError | None:
        if self._kept >= version:
            return None
        loop = asyncio.get_running_loop()
        self._loop = loop
        waiter: asyncio.Future[ApiError | None] = loop.create_future()
        self._waiting.append((version, waiter))
        if self._kept >= version or self._stuck:
            self._wake()
        return await waiter

    def close(self) -> None:
        """Keep what is waiting and let the folder go. Raises DataDirError if some of it cannot be kept."""
        with self._turn:
            self._closing = True
            self._turn.notify_all()
        self._thread.join()
        self._refusal = _CLOSED
        self._database.close(clean=not self._stuck)
        if self._stuck:
            raise DataDirError(f"the last changes could not be kept: {self._stuck}")

    def _work(self) -> None:
        while batch := self._next_batch():
            self._keep(batch)

    def _next_batch(self) -> list[Recorded]:
        """What has changed meanwhile; nothing when this is the end."""
        with self._turn:
            while not self._pending and not self._closing:
                self._turn.wait()
            batch, self._pending = self._pending, []
            self._turn.notify_all()
        return batch

    def _keep(self, batch: list[Recorded]) -> None:
        while not self._kept_now(batch):
            with self._turn:
                self._turn.notify_all()
                if self._closing or self._turn.wait_for(lambda: self._closing, self._retry):
                    self._pending = []
                    return

    def _kept_now(self, batch: list[Recorded]) -> bool:
        try:
            self._database.append(
                [row_of(recorded) for recorded in batch], [recorded.resource for recorded in batch]
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing more may be promised
            self._stuck = " ".join(str(error).split()) or type(error).__name__
        else:
            self._kept = batch[-1].change.version
            self._stuck = ""
        self._tell_loop()
        return not self._stuck

    def _tell_loop(self) -> None:
        """Have those who wait told by their loop, between two steps of whoever writes.

        Where no loop is known nobody waits: whoever begins to wait looks first.
        """
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._wake)
                return
        self._refusal = self._stuck

    def _wake(self) -> None:
        """Tell those who wait what has become of their changes."""
        self._refusal = self._stuck
        waiting, self._waiting = self._waiting, deque()
        for version, waiter in waiting:
            if waiter.done():
                continue
            if self._kept >= version:
                waiter.set_result(None)
            elif self._stuck:
                waiter.set_result(_not_kept(self._stuck))
            else:
                self._waiting.append((version, waiter))


def _not_kept(why: str) -> ApiError:
    return ApiError(
        500, "InternalError", f"Internal error occurred: the change may be lost, it was not stored: {why}"
    )
