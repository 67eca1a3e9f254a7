"""Group commit: a thread that writes what has changed meanwhile in one transaction, and who waits for it."""

import asyncio
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final

from stowplan.api.catalogue import Resource
from stowplan.api.status import ApiError
from stowplan.localcluster.durable.database import Database, DataDirError, row_of
from stowplan.localcluster.store import Store, StoreChange
from stowplan.localcluster.store.objects import Key
from stowplan.localcluster.store.storage import UncommittedChange

RETRY: Final = 1.0
"""Seconds between two attempts to write what could not be written."""

PENDING: Final = 65_536
"""Changes that may wait to be committed; a writer of more than that is blocked."""

_CLOSED: Final = "the data directory is closed"


def open_data_dir(store: Store, folder: Path) -> "GroupCommit":
    """Restore an empty store from a data directory, and log every change there from now on.

    Raises DataDirError if the folder cannot be used.
    """
    database = Database(folder)
    try:
        saved = database.load(store.catalogue)
        store.restore(saved)
    except DataDirError:
        database.close(clean=False)
        raise
    except (ValueError, KeyError) as error:
        database.close(clean=False)
        raise DataDirError(f"{folder}: what is kept there contradicts itself: {error}") from None
    log = GroupCommit(database, saved.version)
    store.write_ahead_log = log
    store.definitions.resume()
    return log


class GroupCommit:
    """The write-ahead log of a store, in a database.

    While nothing can be kept (a full disk) no change is admitted, what is waiting is tried again and again,
    and as soon as that works changes are admitted anew. A change that could not be kept at once has happened
    in memory and may yet be stored: its writer gets an error that says so, as after a timeout of etcd.
    Clients of the API server do not see it before it is kept.
    """

    def __init__(
        self, database: Database, version: int, *, retry: float = RETRY, pending: int = PENDING
    ) -> None:
        self._database = database
        self._retry = retry
        self._limit = pending
        self._turn = threading.Condition()
        self._pending: list[UncommittedChange] = []
        self._committing: list[UncommittedChange] = []
        self._closing = False
        self._committed = version
        self._stuck = ""
        self._refusal = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[tuple[int, asyncio.Future[ApiError | None], bool]] = deque()
        """Versions and who waits for them, and whether also through failures."""
        self._thread = threading.Thread(target=self._work, name="stowplan-group-commit", daemon=True)
        self._thread.start()

    def admit(self) -> None:
        if self._refusal:
            raise ApiError(503, "ServiceUnavailable", f"nothing can be written at present: {self._refusal}")

    def record(self, resource: Resource, key: Key, change: StoreChange) -> None:
        with self._turn:
            while len(self._pending) >= self._limit and not self._stuck:
                self._turn.wait()
            self._pending.append(UncommittedChange(resource, key, change))
            if len(self._pending) == 1:
                self._turn.notify_all()

    async def settled(self, version: int) -> ApiError | None:
        return await self._wait(version, through_failures=False)

    async def kept(self, version: int) -> None:
        await self._wait(version, through_failures=True)

    def uncommitted(self) -> tuple[int, list[UncommittedChange]]:
        with self._turn:
            committed = self._committed
            changes = [*self._committing, *self._pending]
        return committed, [one for one in changes if one.change.version > committed]

    async def _wait(self, version: int, *, through_failures: bool) -> ApiError | None:
        if self._committed >= version:
            return None
        loop = asyncio.get_running_loop()
        self._loop = loop
        waiter: asyncio.Future[ApiError | None] = loop.create_future()
        self._waiting.append((version, waiter, through_failures))
        if self._committed >= version or self._stuck:
            self._wake()
        return await waiter

    def close(self) -> None:
        """Commit what is waiting and close the folder. Raises DataDirError if some of it is not written."""
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
            self._commit_until_done(batch)

    def _next_batch(self) -> list[UncommittedChange]:
        """Changes since the last batch; empty at the end."""
        with self._turn:
            while not self._pending and not self._closing:
                self._turn.wait()
            batch, self._pending = self._pending, []
            self._committing = batch
            self._turn.notify_all()
        return batch

    def _commit_until_done(self, batch: list[UncommittedChange]) -> None:
        while not self._commit(batch):
            with self._turn:
                self._turn.notify_all()
                if self._closing or self._turn.wait_for(lambda: self._closing, self._retry):
                    self._pending = []
                    return

    def _commit(self, batch: list[UncommittedChange]) -> bool:
        try:
            self._database.append(
                [row_of(recorded) for recorded in batch], [recorded.resource for recorded in batch]
            )
        except Exception as error:  # noqa: BLE001 - after any error nothing is durable any more
            self._stuck = " ".join(str(error).split()) or type(error).__name__
        else:
            self._committed = batch[-1].change.version
            self._stuck = ""
        self._notify_loop()
        return not self._stuck

    def _notify_loop(self) -> None:
        """Have the waiters resolved by their loop, between two steps of a writer.

        Without a loop there are no waiters: a new waiter checks the state first.
        """
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._wake)
                return
        self._refusal = self._stuck

    def _wake(self) -> None:
        """Resolve the waiters whose changes are committed or have failed."""
        self._refusal = self._stuck
        waiting, self._waiting = self._waiting, deque()
        for version, waiter, through_failures in waiting:
            if waiter.done():
                continue
            if self._committed >= version:
                waiter.set_result(None)
            elif self._stuck and not through_failures:
                waiter.set_result(_not_stored(self._stuck))
            else:
                self._waiting.append((version, waiter, through_failures))


def _not_stored(why: str) -> ApiError:
    return ApiError(
        500, "InternalError", f"Internal error occurred: the change may be lost, it was not stored: {why}"
    )
