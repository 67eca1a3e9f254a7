"""Tasks that run concurrently with the scheduling loop, and the time slice of the loop."""

import asyncio
from collections.abc import Callable, Coroutine
from math import inf
from typing import Any, Final

from stowplan.runtime.clock import LoopWatchdog
from stowplan.runtime.clock.virtual import VirtualTimeLoop
from stowplan.scheduler.cycle.table_freeze import TableFreeze
from stowplan.scheduler.framework.budget import Step

SLICE: Final = 0.01
"""Seconds that the scheduling loop may work before everybody else gets a turn of the event loop."""

PATIENCE: Final = 0.2
"""Seconds that other pods wait for the long search of one; then it is put aside (cycle/long_searches.py)."""


class Tasks:
    """Tasks that run concurrently with the scheduling loop. An unexpected error in one ends the scheduler."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._running: dict[asyncio.Task[None], bool] = {}

    def __len__(self) -> int:
        """Number of running tasks."""
        return len(self._running)

    @property
    def is_running(self) -> bool:
        """True if tasks can be started."""
        return self._group is not None

    def begin(self, group: asyncio.TaskGroup) -> None:
        """Let tasks belong to a group from now on."""
        self._group = group

    def start(
        self, work: Coroutine[Any, Any, None], name: str, *, lasting: bool = False
    ) -> "asyncio.Task[None]":
        """Start a task. One that is `lasting` runs until it is cancelled; all others end by themselves."""
        if self._group is None:
            work.close()
            raise RuntimeError("the scheduler is not running")
        task = self._group.create_task(work, name=name)
        self._running[task] = lasting
        task.add_done_callback(self._running.pop)
        return task

    async def settled(self) -> None:
        """Wait for everything that ends by itself."""
        while unfinished := [task for task, lasting in self._running.items() if not lasting]:
            await asyncio.wait(unfinished)

    def stop(self) -> None:
        """Cancel all of them, and accept no more."""
        self._group = None
        for task in self._running:
            task.cancel()


class TimeSlice:
    """Says when a long computation has to let others run. Virtual time stands still meanwhile: then never."""

    def __init__(self, seconds: float = SLICE) -> None:
        self._seconds = seconds
        self._end = 0.0
        self._patience = inf
        self._time: Callable[[], float] = lambda: inf
        self.paused = 0.0
        """Seconds that others had so far, while a computation paused for them."""

    def another(self) -> "TimeSlice":
        """A new time slice of the same kind."""
        return type(self)(self._seconds)

    def begin(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._end = self._time() + self._seconds

    @property
    def is_over(self) -> bool:
        return self._time() >= self._end

    async def pause_if_over(self) -> None:
        """Let others run if it is time for that."""
        if self.is_over:
            began = self._time()
            await asyncio.sleep(0)
            self.begin()
            if began < inf:
                self.paused += self._end - self._seconds - began

    async def take(self, step: Step) -> None:
        """Do a step of a search, and let others run if it is time for that."""
        if step is not None:
            await self.compute(step)
        await self.pause_if_over()

    async def compute(self, step: Callable[[], None]) -> None:
        """Do a long computation in another thread, which leaves the interpreter to others again and again."""
        if isinstance(asyncio.get_running_loop(), VirtualTimeLoop):
            step()
        else:
            await asyncio.to_thread(step)
            self.begin()

    def begin_patience(self) -> None:
        """From now on other pods wait for a search."""
        self._patience = self._time() + PATIENCE

    @property
    def is_out_of_patience(self) -> bool:
        """True if other pods have waited long enough."""
        return self._time() >= self._patience


class WatchedSlice(TimeSlice):
    """Time slices of a run in virtual time, which are never over: it stands still during a computation.

    So up to 32 attempts come in a row. Where a scheduler would look whether its slice is over, and let others
    run if it is, the watchdog begins a new turn: what it finds are stretches without such a place.
    """

    def __init__(self, watchdog: LoopWatchdog) -> None:
        super().__init__()
        self._watchdog = watchdog

    def another(self) -> TimeSlice:
        return WatchedSlice(self._watchdog)

    @property
    def is_over(self) -> bool:
        self._watchdog.could_yield()
        return False


async def released(freeze: TableFreeze) -> None:
    """Wait until no cycle keeps the table as it is."""
    while freeze.held:
        told = asyncio.Event()
        freeze.when_released(told.set)
        await told.wait()
