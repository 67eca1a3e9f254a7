"""A candidate of an election: it acquires the lease, renews it for as long as it can, and releases it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NoReturn, TypeVar

from stowplan.api import status
from stowplan.api.status import ApiError
from stowplan.client.election.events import ElectionEvents
from stowplan.client.election.locks import LOCK_ERRORS, Lock
from stowplan.client.election.record import JITTER, Observation, Record, Tenure, Timing
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger

R = TypeVar("R")

_RELEASED_SECONDS: Final = 1


class Claim:
    """Takes the lock if it is free or has run out, renews it if it is ours.

    `observed` is the record as last seen or written, `tenure` how long our last write lets us lead,
    `slow_paths` how often the lock had to be read before it could be renewed.
    """

    def __init__(
        self, lock: Lock, timing: Timing, clock: Clock, logger: Logger, *, retry_release: bool = True
    ) -> None:
        self._retry_release = retry_release
        self._lock = lock
        self._timing = timing
        self._clock = clock
        self._logger = logger
        self.observed = Observation()
        self.tenure: Tenure | None = None
        self.slow_paths = 0

    @property
    def is_ours(self) -> bool:
        """True if the lock was ours when it was last seen."""
        return self.observed.record.holder == self._lock.identity

    async def try_acquire_or_renew(self) -> bool:
        """Take or renew the lock if that is allowed; True if it is ours now.

        A leader writes without reading first: the write is refused if another client wrote in between.
        """
        began = self._clock.monotonic()
        record = self._wanted()
        if self.is_ours and self.observed.is_valid(began):
            record = record.continuing(self.observed.record)
            error = await self._write(self._lock.update, record, began)
            if error is None:
                return True
            self._log(2, "Failed to update lease optimistically, falling back to slow path", err=error)
        try:
            await self.look()
        except LOCK_ERRORS as failure:
            if not _is_not_found(failure):
                return self._failed("Error retrieving lease lock", failure)
            error = await self._write(self._lock.create, record, began)
            return self._succeeded("Error initially creating lease lock", error)
        found = self.observed.record
        if self.is_ours:
            self.slow_paths += 1
            record = record.continuing(found)
        elif found.holder and self.observed.is_valid(began):
            self._log(4, "Lease is held by and has not yet expired", holder=found.holder)
            return False
        else:
            record = self._wanted(record.renewed).succeeding(found)
        return self._succeeded("Failed to update lease", await self._write(self._lock.update, record, began))

    async def look(self) -> Record:
        """Read the lock; if it has changed, its time begins anew."""
        record, raw = await self._with_timeout(self._lock.get())
        if raw != self.observed.raw:
            self.observed = Observation(record, raw, self._clock.monotonic())
        return record

    async def release(self) -> bool:
        """Clear the lock if it is ours; True if it is not ours any more.

        With `retry_release` it is retried as long as other writes interfere, such as a renewal of ours that
        was under way. Releases before 1.37 give up then.
        """
        while True:
            try:
                found = await self.look()
            except LOCK_ERRORS as failure:
                if not _is_not_found(failure):
                    return self._failed("error retrieving resource lock", failure)
                self._log(0, "lease lock not found")
                return True
            if found.holder != self._lock.identity:
                return True
            began, now = self._clock.monotonic(), self._clock.now()
            free = Record("", _RELEASED_SECONDS, now, now, found.transitions)
            error = await self._write(self._lock.update, free, began)
            if not self._retry_release or not isinstance(error, ApiError) or not error.is_conflict:
                return self._succeeded("Failed to release lease", error)
            self._log(4, "Conflict when releasing lease, retrying")

    def _wanted(self, date: float | None = None) -> Record:
        """The record of a new leader."""
        now = self._clock.now() if date is None else date
        return Record(self._lock.identity, self._timing.validity, now, now)

    async def _write(
        self, write: Callable[[Record], Awaitable[None]], record: Record, began: float
    ) -> Exception | None:
        """Write the lock. If that works we may lead, counted from `began`: before the record was dated."""
        tenure = Tenure(self._clock, record, began, self.tenure)
        try:
            await self._with_timeout(write(record))
        except LOCK_ERRORS as error:
            return error
        self.tenure = tenure
        self.observed = Observation(record, None, self._clock.monotonic())
        return None

    async def _with_timeout(self, request: Awaitable[R]) -> R:
        """Response within the time limit; a server that hangs counts as unreachable."""
        limit = self._timing.request_timeout
        try:
            async with asyncio.timeout(limit.seconds):
                return await request
        except TimeoutError:
            where = self._lock.description
            raise status.unreachable(f"lock {where}: no answer came within {limit}") from None

    def _log(self, level: int, message: str, **values: object) -> None:
        self._logger.info(level, message, lock=self._lock.description, **values)

    def _failed(self, message: str, error: Exception) -> bool:
        self._logger.error(message, err=error, lock=self._lock.description)
        return False

    def _succeeded(self, message: str, error: Exception | None) -> bool:
        return error is None or self._failed(message, error)


class CoordinatedClaim(Claim):
    """Renews a lock that the server gives to the candidate of its choice; it never takes one by itself."""

    async def try_acquire_or_renew(self) -> bool:
        began = self._clock.monotonic()
        record = self._wanted()
        try:
            found = await self.look()
        except LOCK_ERRORS as failure:
            if not _is_not_found(failure):
                return self._failed("Error retrieving lease lock", failure)
            self._log(0, "Lease lock not found", err=failure)
            return False
        if not self.observed.is_valid(began):
            self._log(0, "Lease has expired")
            return False
        if not self.is_ours:
            self._log(6, "Lease is held and has not yet expired", holder=found.holder)
            return False
        if found.preferred:
            self._log(4, "Lease is marked as 'end of term'")
            return False
        self.slow_paths += 1
        record = record.continuing(found, strategy=found.strategy)
        return self._succeeded("Failed to update lock", await self._write(self._lock.update, record, began))


def _is_not_found(failure: Exception) -> bool:
    return isinstance(failure, ApiError) and failure.is_not_found


# The candidate


DEFAULT_NAME: Final = "kube-scheduler"
"""The election's name in metrics and messages, regardless of the lock's name."""

_DEADLINE: Final = "context deadline exceeded"


class LeaseLostError(Exception):
    """We do not lead any more; all work that only a leader may do has to end at once.

    `may_rejoin`: the server could not be reached and, as far as we know, there is no other leader, so we may
    take part in the election again.
    """

    def __init__(self, message: str, *, may_rejoin: bool = False) -> None:
        super().__init__(message)
        self.may_rejoin = may_rejoin


async def _always_reachable() -> bool:
    return True


class Elector:
    """One candidate of an election.

    A host awaits `acquire`, then does its work concurrently with `renew`, which ends only with
    `LeaseLostError`, and calls `release` in any case. `is_leader` is correct at any time, even after the
    process was suspended: by the time another candidate leads, it has become false.

    With `coordinated` the server picks the leader among the registered candidates (see `Candidate`).
    `retry_release`: a release that conflicted with another write is retried. `pause` waits before the next
    try, and may be cut short when a server that was gone is back; `is_reachable` checks if it is gone.
    """

    def __init__(
        self,
        lock: Lock,
        timing: Timing,
        *,
        clock: Clock,
        rng: random.Random,
        logger: Logger | None = None,
        events: ElectionEvents | None = None,
        name: str = DEFAULT_NAME,
        coordinated: bool = False,
        retry_release: bool = True,
        on_new_leader: Callable[[str], None] | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        is_reachable: Callable[[], Awaitable[bool]] = _always_reachable,
    ) -> None:
        self._wait = pause
        self._is_reachable = is_reachable
        self._lock = lock
        self._timing = timing
        self._clock = clock
        self._rng = rng
        self._logger = Logger() if logger is None else logger
        claim = CoordinatedClaim if coordinated else Claim
        self._claim = claim(lock, timing, clock, self._logger, retry_release=retry_release)
        self._events = events
        self._on_new_leader = on_new_leader
        self._is_leading = False
        self._has_led = False
        self._reported = ""
        self.name = name

    @property
    def identity(self) -> str:
        return self._lock.identity

    @property
    def leader(self) -> str:
        """Current leader as far as we know; empty if there is none."""
        return self._claim.observed.record.holder

    @property
    def is_leader(self) -> bool:
        """True if we may act as the leader at this moment."""
        tenure = self._claim.tenure
        return self._is_leading and self._claim.is_ours and tenure is not None and tenure.is_valid

    @property
    def _is_held_by_another(self) -> bool:
        return self.leader not in ("", self.identity)

    @property
    def master_status(self) -> int:
        """1 from winning the election until losing or leaving it, for the metric of that name."""
        return int(self._is_leading)

    @property
    def slow_paths(self) -> int:
        """How often the lease could not be renewed without reading it first, for the metric of that name."""
        return self._claim.slow_paths

    def problem(self, tolerance: float) -> str:
        """Error if we should have stopped leading `tolerance` seconds ago and have not; else empty."""
        if not self._is_leading or not self._claim.is_ours:
            return ""
        if (
            self._clock.monotonic() - self._claim.observed.at
            > self._timing.lease_duration.seconds + tolerance
        ):
            return f"failed election to renew leadership on lease {self.name}"
        return ""

    async def acquire(self, *, again: bool = False) -> None:
        """Return when we lead. It never gives up; failures are logged and retried.

        With `again`, for a former leader: raises `LeaseLostError` if another one leads now.
        """
        where = self._lock.description
        self._logger.info(0, "Attempting to acquire leader lease...", lock=where)
        while not await self._claim.try_acquire_or_renew():
            self._report_leader()
            self._logger.info(4, "Failed to acquire lease", lock=where)
            if again and self._is_held_by_another:
                raise LeaseLostError(f"lease {where} was taken by {self.leader}")
            await self._wait(self._pause())
        self._is_leading = self._has_led = True
        self._report_leader()
        self._record_event("became leader")
        self._logger.info(0, "Successfully acquired lease", lock=where)

    async def renew(self) -> NoReturn:
        """Renew the lease until that fails for too long: then raises `LeaseLostError`."""
        where = self._lock.description
        while True:
            renewed = await self._try_renew()
            self._report_leader()
            if not renewed:
                break
            self._logger.info(5, "Successfully renewed lease", lock=where)
            await self._wait(self._timing.retry_period.seconds)
        self._is_leading = False
        self._logger.info(0, "Failed to renew lease", lock=where, err=_DEADLINE)
        may_rejoin = not self._is_held_by_another and not await self._is_reachable()
        if may_rejoin:
            self._record_event("stopped leading")
        raise LeaseLostError(f"lease {where} could not be renewed in time", may_rejoin=may_rejoin)

    async def release(self, seconds: float | None = None) -> bool:
        """Stop leading and let others have the lock at once; whether it is not ours any more.

        Takes no longer than `seconds`, or else the renew deadline. The work of a leader must have ended.
        """
        self._is_leading = False
        if not self._has_led:
            return True
        self._has_led = False
        try:
            async with asyncio.timeout(self._timing.renew_deadline.seconds if seconds is None else seconds):
                return await self._claim.release()
        except TimeoutError:
            self._logger.error("Failed to release lease", err=_DEADLINE, lock=self._lock.description)
            return False
        finally:
            self._record_event("stopped leading")

    def _pause(self) -> float:
        """Until the next attempt: by chance, lest all candidates come at once; not past the lease's end."""
        pause = self._timing.retry_period.seconds * (1 + JITTER * self._rng.random())
        left = self._claim.observed.expires_in(self._clock.monotonic())
        return left if 0 < left < pause else pause

    async def _try_renew(self) -> bool:
        """Try to renew until it works or time is up: by the settings, or because the lease has run out.

        A lease that ran out before this began, as on a machine that was suspended, is tried for once.
        """
        tenure, period = self._claim.tenure, self._timing.retry_period.seconds
        if tenure is None:
            return False
        begun = tick = self._clock.monotonic()
        left = min(self._timing.renew_deadline.seconds, tenure.end - begun)
        with suppress(TimeoutError):
            async with asyncio.timeout(left if left > 0 else self._timing.request_timeout.seconds):
                while not await self._claim.try_acquire_or_renew():
                    if not tenure.is_valid:
                        return False
                    now = self._clock.monotonic()
                    tick = max(tick + period, begun + (now - begun) // period * period)
                    await self._wait(max(tick - now, 0))
                return True
        return False

    def _record_event(self, what: str) -> None:
        if self._events is not None:
            for reference in self._lock.references():
                self._events.record(reference, f"{self._lock.identity} {what}")

    def _report_leader(self) -> None:
        """Say once who leads now."""
        leader = self.leader
        if leader == self._reported:
            return
        self._reported = leader
        self._logger.info(2, "New leader observed", lock=self._lock.description, holder=leader)
        if self._on_new_leader is not None:
            self._on_new_leader(leader)


# Health check


CHECK_NAME: Final = "leaderElection"
TOLERANCE: Final = 20.0
"""Seconds past the end of its lease for which a leader is not called unwell."""


class ElectionHealth:
    """Can be asked before there is an elector: nothing is wrong then."""

    name: Final = CHECK_NAME

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        self._tolerance = tolerance
        self._elector: Elector | None = None

    def watch(self, elector: Elector) -> None:
        """From now on say how this elector is."""
        self._elector = elector

    def problem(self) -> str:
        """Problem of the election; empty if there is none."""
        return "" if self._elector is None else self._elector.problem(self._tolerance)
