"""A candidate: it waits for the lock, holds it as long as it can, and gives it back."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NoReturn

from stowplan.clock import Clock
from stowplan.election.announcing import Announcer
from stowplan.election.claim import Claim, CoordinatedClaim
from stowplan.election.locks import Lock
from stowplan.election.timing import JITTER, Timing
from stowplan.logs import Journal

DEFAULT_NAME: Final = "kube-scheduler"
"""The election's name in metrics and messages, whatever its lock is called."""

_DEADLINE: Final = "context deadline exceeded"


class LeaseLostError(Exception):
    """We do not lead any more; whatever only a leader may do has to end at once.

    `may_return`: the server could not be reached and, as far as we know, nobody else leads, so we may take
    part in the election again.
    """

    def __init__(self, message: str, *, may_return: bool = False) -> None:
        super().__init__(message)
        self.may_return = may_return


async def _always_reachable() -> bool:
    return True


class Elector:
    """One candidate of an election.

    A host awaits `acquire`, then does its work beside `hold`, which ends only with `LeaseLostError`, and
    calls `release` in any case. `is_leader` can be asked at any time and is right also when the process was
    held up: by the time anybody else leads, it has become false.

    With `coordinated` the server picks the leader among those who offer themselves (see `Candidate`).
    `pause` waits before the next try, and may be cut short when a server that was gone is back;
    `is_reachable` finds out whether it is gone.
    """

    def __init__(
        self,
        lock: Lock,
        timing: Timing,
        *,
        clock: Clock,
        rng: random.Random,
        journal: Journal | None = None,
        announcer: Announcer | None = None,
        name: str = DEFAULT_NAME,
        coordinated: bool = False,
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
        self._journal = Journal() if journal is None else journal
        self._claim = (CoordinatedClaim if coordinated else Claim)(lock, timing, clock, self._journal)
        self._announcer = announcer
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
        """Who leads as far as we know; empty if nobody does."""
        return self._claim.observed.record.holder

    @property
    def is_leader(self) -> bool:
        """Whether we may act as the leader at this moment."""
        tenure = self._claim.tenure
        return self._is_leading and self._claim.is_ours and tenure is not None and tenure.is_valid

    @property
    def _is_taken(self) -> bool:
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
        """What is wrong if we should have stopped leading so many seconds ago and have not; else nothing."""
        if not self._is_leading or not self._claim.is_ours:
            return ""
        if (
            self._clock.monotonic() - self._claim.observed.at
            > self._timing.lease_duration.seconds + tolerance
        ):
            return f"failed election to renew leadership on lease {self.name}"
        return ""

    async def acquire(self, *, again: bool = False) -> None:
        """Come back when we lead. It never gives up; failures are said and tried again.

        With `again`, for somebody who has led before: raises `LeaseLostError` if another one leads now.
        """
        where = self._lock.description
        self._journal.info(0, "Attempting to acquire leader lease...", lock=where)
        while not await self._claim.attempt():
            self._report_leader()
            self._journal.info(4, "Failed to acquire lease", lock=where)
            if again and self._is_taken:
                raise LeaseLostError(f"lease {where} was taken by {self.leader}")
            await self._wait(self._pause())
        self._is_leading = self._has_led = True
        self._report_leader()
        self._announce("became leader")
        self._journal.info(0, "Successfully acquired lease", lock=where)

    async def hold(self) -> NoReturn:
        """Renew the lease until that fails for too long: then raises `LeaseLostError`."""
        where = self._lock.description
        while True:
            renewed = await self._renew()
            self._report_leader()
            if not renewed:
                break
            self._journal.info(5, "Successfully renewed lease", lock=where)
            await self._wait(self._timing.retry_period.seconds)
        self._is_leading = False
        self._journal.info(0, "Failed to renew lease", lock=where, err=_DEADLINE)
        may_return = not self._is_taken and not await self._is_reachable()
        if may_return:
            self._announce("stopped leading")
        raise LeaseLostError(f"lease {where} could not be renewed in time", may_return=may_return)

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
                return await self._claim.give_back()
        except TimeoutError:
            self._journal.problem("Failed to release lease", err=_DEADLINE, lock=self._lock.description)
            return False
        finally:
            self._announce("stopped leading")

    def _pause(self) -> float:
        """Until the next attempt: by chance, lest all candidates come at once; not past the lease's end."""
        pause = self._timing.retry_period.seconds * (1 + JITTER * self._rng.random())
        left = self._claim.observed.expires_in(self._clock.monotonic())
        return left if 0 < left < pause else pause

    async def _renew(self) -> bool:
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
                while not await self._claim.attempt():
                    if not tenure.is_valid:
                        return False
                    now = self._clock.monotonic()
                    tick = max(tick + period, begun + (now - begun) // period * period)
                    await self._wait(max(tick - now, 0))
                return True
        return False

    def _announce(self, what: str) -> None:
        if self._announcer is not None:
            for reference in self._lock.references():
                self._announcer.announce(reference, f"{self._lock.identity} {what}")

    def _report_leader(self) -> None:
        """Say once who leads now."""
        leader = self.leader
        if leader == self._reported:
            return
        self._reported = leader
        self._journal.info(2, "New leader observed", lock=self._lock.description, holder=leader)
        if self._on_new_leader is not None:
            self._on_new_leader(leader)
