"""Our claim to a lock: what we know of it, and one attempt at taking or renewing it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from stowplan.api import status
from stowplan.api.status import ApiError
from stowplan.clock import Clock
from stowplan.election.locks import FAILURES, Lock
from stowplan.election.observation import Observation, Tenure
from stowplan.election.record import Record
from stowplan.election.timing import Timing
from stowplan.logs import Journal

R = TypeVar("R")

_RELEASED_SECONDS: Final = 1


class Claim:
    """Takes the lock if it is free or has run out, renews it if it is ours.

    `observed` is the record as last seen or written, `tenure` how long our last write lets us lead,
    `slow_paths` how often the lock had to be read before it could be renewed.
    """

    def __init__(self, lock: Lock, timing: Timing, clock: Clock, journal: Journal) -> None:
        self._lock = lock
        self._timing = timing
        self._clock = clock
        self._journal = journal
        self.observed = Observation()
        self.tenure: Tenure | None = None
        self.slow_paths = 0

    @property
    def is_ours(self) -> bool:
        """Whether the lock was ours when it was last seen."""
        return self.observed.record.holder == self._lock.identity

    async def attempt(self) -> bool:
        """Take or renew the lock if that is allowed; whether it is ours now.

        A leader writes without reading first, relying on being refused if anybody else wrote.
        """
        began = self._clock.monotonic()
        record = self._wanted()
        if self.is_ours and self.observed.is_valid(began):
            record = record.continuing(self.observed.record)
            error = await self._write(self._lock.update, record, began)
            if error is None:
                return True
            self._say(2, "Failed to update lease optimistically, falling back to slow path", err=error)
        try:
            await self.look()
        except FAILURES as failure:
            if not _is_not_found(failure):
                return self._failed("Error retrieving lease lock", failure)
            error = await self._write(self._lock.create, record, began)
            return self._succeeded("Error initially creating lease lock", error)
        found = self.observed.record
        if self.is_ours:
            self.slow_paths += 1
            record = record.continuing(found)
        elif found.holder and self.observed.is_valid(began):
            self._say(4, "Lease is held by and has not yet expired", holder=found.holder)
            return False
        else:
            record = self._wanted(record.renewed).succeeding(found)
        return self._succeeded("Failed to update lease", await self._write(self._lock.update, record, began))

    async def look(self) -> Record:
        """Read the lock; if it has changed, its time begins anew."""
        record, raw = await self._bounded(self._lock.get())
        if raw != self.observed.raw:
            self.observed = Observation(record, raw, self._clock.monotonic())
        return record

    async def give_back(self) -> bool:
        """Clear the lock if it is ours; whether it is not ours any more.

        Once more if somebody wrote meanwhile: that may have been a renewal of ours that was under way.
        """
        error: Exception | None = None
        for _ in range(2):
            try:
                found = await self.look()
            except FAILURES as failure:
                if not _is_not_found(failure):
                    return self._failed("error retrieving resource lock", failure)
                self._say(0, "lease lock not found")
                return True
            if found.holder != self._lock.identity:
                return True
            began, now = self._clock.monotonic(), self._clock.now()
            free = Record("", _RELEASED_SECONDS, now, now, found.transitions, found.strategy)
            error = await self._write(self._lock.update, free, began)
            if not isinstance(error, ApiError) or not error.is_conflict:
                break
        return self._succeeded("Failed to release lease", error)

    def _wanted(self, date: float | None = None) -> Record:
        """The record of somebody who begins to lead."""
        now = self._clock.now() if date is None else date
        return Record(self._lock.identity, self._timing.validity, now, now)

    async def _write(
        self, write: Callable[[Record], Awaitable[None]], record: Record, began: float
    ) -> Exception | None:
        """Write the lock. If that works we may lead, counted from `began`: before the record was dated."""
        tenure = Tenure(self._clock, record, began, self.tenure)
        try:
            await self._bounded(write(record))
        except FAILURES as error:
            return error
        self.tenure = tenure
        self.observed = Observation(record, None, self._clock.monotonic())
        return None

    async def _bounded(self, request: Awaitable[R]) -> R:
        """What a server answers in time; a server that hangs is one that cannot be reached."""
        limit = self._timing.request_timeout
        try:
            async with asyncio.timeout(limit.seconds):
                return await request
        except TimeoutError:
            where = self._lock.description
            raise status.unreachable(f"lock {where}: no answer came within {limit}") from None

    def _say(self, level: int, message: str, **values: object) -> None:
        self._journal.info(level, message, lock=self._lock.description, **values)

    def _failed(self, message: str, error: Exception) -> bool:
        self._journal.problem(message, err=error, lock=self._lock.description)
        return False

    def _succeeded(self, message: str, error: Exception | None) -> bool:
        return error is None or self._failed(message, error)


class CoordinatedClaim(Claim):
    """Renews a lock that the server gives to the candidate of its choice; it never takes one by itself."""

    async def attempt(self) -> bool:
        began = self._clock.monotonic()
        record = self._wanted()
        try:
            found = await self.look()
        except FAILURES as failure:
            if not _is_not_found(failure):
                return self._failed("Error retrieving lease lock", failure)
            self._say(0, "Lease lock not found", err=failure)
            return False
        if not self.observed.is_valid(began):
            self._say(0, "Lease has expired")
            return False
        if not self.is_ours:
            self._say(6, "Lease is held and has not yet expired", holder=found.holder)
            return False
        if found.preferred:
            self._say(4, "Lease is marked as 'end of term'")
            return False
        self.slow_paths += 1
        record = record.continuing(found, strategy=found.strategy)
        return self._succeeded("Failed to update lock", await self._write(self._lock.update, record, began))


def _is_not_found(failure: Exception) -> bool:
    return isinstance(failure, ApiError) and failure.is_not_found
