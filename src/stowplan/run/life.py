"""One scheduler, from its first look at the cluster to its end."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from stowplan.logs import Journal
from stowplan.scheduler import Scheduler

CONFIRMED_WITHIN: Final = 2.0
"""Seconds after the last binding within which the watch should have told of it."""

CAUGHT_UP_WITHIN: Final = 10.0
"""Seconds a successor is given to hear of what its predecessor did."""

_POLL: Final = 0.02


class Life:
    """A scheduler that watches as long as it lives, and schedules when it is told to.

    When its configuration changes, another one is made beside it. That one first learns the cluster, then
    takes over, as a process does that wins an election.
    """

    def __init__(self, scheduler: Scheduler, journal: Journal) -> None:
        self.scheduler = scheduler
        self.is_synced = False
        self.is_scheduling = False
        self._journal = journal
        self._end = asyncio.Event()
        self._began = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def task(self) -> "asyncio.Task[None]":
        """The life itself: it ends when it is told to, or with what must not be survived."""
        assert self._task is not None
        return self._task

    def begin(self) -> None:
        """Start watching."""
        self._task = asyncio.create_task(self._live(), name="scheduler")

    async def synced(self) -> None:
        """Come back when the cluster is known, or this life is over. Raises what went wrong with it."""
        if self.is_synced:
            return
        known = asyncio.ensure_future(self._synced())
        try:
            await asyncio.wait({known, self.task}, return_when=asyncio.FIRST_COMPLETED)
            await (known if known.done() else self.task)
        finally:
            known.cancel()

    def begin_scheduling(self) -> None:
        """Schedule from now on, for the first time or again."""
        if self.is_scheduling:
            return
        self._ending = None
        self.scheduler.begin_scheduling()
        self.is_scheduling = True

    async def end_scheduling(self, grace: float) -> None:
        """Let what is under way end, undo the rest, and say whom that concerns.

        Whoever calls this while it is being done waits for the same end.
        """
        if self._ending is None or (self._ending.done() and self.is_scheduling):
            self._ending = asyncio.create_task(self._end_scheduling(grace), name="end of scheduling")
        await asyncio.shield(self._ending)

    async def caught_up_with(self, other: "Life") -> None:
        """Come back when this one knows of everything that another one, which has ended, did."""
        await _within(CONFIRMED_WITHIN, lambda: not other.scheduler.context.cache.sizes()["assumed_pods"])
        seen = _version(other.scheduler)
        if not await _within(CAUGHT_UP_WITHIN, lambda: _version(self.scheduler) >= seen):
            self._journal.warning("The watch of pods is behind; bindings may be refused for a while")

    async def end(self) -> None:
        """Stop watching. Raises nothing: how it ended is up to whoever waits for the task."""
        self._end.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _end_scheduling(self, grace: float) -> None:
        if not self.is_scheduling or self.task.done():
            return
        unbound = await self.scheduler.end_scheduling(grace)
        for pod in unbound.given_up:
            self._journal.info(0, "Binding was given up because the scheduler is stopping", pod=pod)
        for pod in unbound.unknown:
            self._journal.info(0, "Outcome of binding is unknown because the scheduler is stopping", pod=pod)
        self.is_scheduling = False

    async def _live(self) -> None:
        async with self.scheduler.watching():
            self._began.set()
            await self._end.wait()

    async def _synced(self) -> None:
        await self._began.wait()
        await self.scheduler.synced()
        self.is_synced = True


def _version(scheduler: Scheduler) -> int:
    version = scheduler.informers.pods.resource_version
    return int(version) if version.isdigit() else 0


async def _within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Wait until something holds; False if it does not come to hold in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not holds():
                await asyncio.sleep(_POLL)
            return True
    return False
