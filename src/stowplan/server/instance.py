"""A scheduler instance: one scheduler from its first list of the cluster to its end."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from stowplan.runtime.logs import Logger
from stowplan.scheduler import Scheduler

CONFIRMED_WITHIN: Final = 2.0
"""Seconds within which the watch should have confirmed the last binding."""

CAUGHT_UP_WITHIN: Final = 10.0
"""Seconds that the watch of a new instance is given to reach the version of the old one."""

_POLL: Final = 0.02


class SchedulerInstance:
    """A scheduler that watches from `start` to `stop`, and schedules while it is enabled.

    When the configuration changes, a new instance is started next to the old one. It syncs its caches first,
    then takes over, as a process does that wins an election.
    """

    def __init__(self, scheduler: Scheduler, logger: Logger) -> None:
        self.scheduler = scheduler
        self.is_synced = False
        self.is_scheduling = False
        self._logger = logger
        self._stop = asyncio.Event()
        self._started = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def task(self) -> "asyncio.Task[None]":
        """The task that watches: it ends after `stop`, or with the error that ended it."""
        assert self._task is not None
        return self._task

    def start(self) -> None:
        """Start watching."""
        self._task = asyncio.create_task(self._run(), name="scheduler")

    async def wait_synced(self) -> None:
        """Wait until the caches have synced, or the instance has ended. Raises what it failed with."""
        if self.is_synced:
            return
        synced = asyncio.ensure_future(self._wait_synced())
        try:
            await asyncio.wait({synced, self.task}, return_when=asyncio.FIRST_COMPLETED)
            await (synced if synced.done() else self.task)
        finally:
            synced.cancel()

    def begin_scheduling(self) -> None:
        """Schedule from now on, for the first time or again."""
        if self.is_scheduling:
            return
        self._ending = None
        self.scheduler.begin_scheduling()
        self.is_scheduling = True

    async def end_scheduling(self, grace: float) -> None:
        """Let binding cycles finish within `grace` seconds, undo the rest, and log which pods that concerns.

        Concurrent calls wait for the same end.
        """
        if self._ending is None or (self._ending.done() and self.is_scheduling):
            self._ending = asyncio.create_task(self._end_scheduling(grace), name="end of scheduling")
        await asyncio.shield(self._ending)

    async def wait_caught_up_with(self, other: "SchedulerInstance") -> None:
        """Wait until this instance has seen everything that another one, which has ended, wrote."""
        await _within(CONFIRMED_WITHIN, lambda: not other.scheduler.context.cache.sizes()["assumed_pods"])
        seen = _version(other.scheduler)
        if not await _within(CAUGHT_UP_WITHIN, lambda: _version(self.scheduler) >= seen):
            self._logger.warning("The watch of pods is behind; bindings may be refused for a while")

    async def stop(self) -> None:
        """Stop watching. Does not raise: awaiting the task raises its error."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _end_scheduling(self, grace: float) -> None:
        if not self.is_scheduling or self.task.done():
            return
        unbound = await self.scheduler.end_scheduling(grace)
        for pod in unbound.given_up:
            self._logger.info(0, "Binding was given up because the scheduler is stopping", pod=pod)
        for pod in unbound.unknown:
            self._logger.info(0, "Outcome of binding is unknown because the scheduler is stopping", pod=pod)
        self.is_scheduling = False

    async def _run(self) -> None:
        async with self.scheduler.watching():
            self._started.set()
            await self._stop.wait()

    async def _wait_synced(self) -> None:
        await self._started.wait()
        await self.scheduler.synced()
        self.is_synced = True


def _version(scheduler: Scheduler) -> int:
    version = scheduler.informers.pods.resource_version
    return int(version) if version.isdigit() else 0


async def _within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Poll a condition; False if it does not become true in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not holds():
                await asyncio.sleep(_POLL)
            return True
    return False
