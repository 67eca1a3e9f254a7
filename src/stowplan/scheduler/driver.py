"""Drives the scheduling cycles: performs what they yield, and lets other tasks run while they work.

A cycle is a plain call as long as it need not wait for anything (scheduler/cycle). The rest of it then is
work in steps, done here: long searches in slices, requests to extenders, writes, and evictions.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Any, TypeVar

from stowplan.runtime.logs import Ref
from stowplan.scheduler.context import Context
from stowplan.scheduler.cycle.long_searches import LongSearches, PutAside
from stowplan.scheduler.cycle.requests import EvictForGroup, EvictForPod, LongSearch, Write
from stowplan.scheduler.extenders import Extender
from stowplan.scheduler.extenders.rounds import answer
from stowplan.scheduler.framework.budget import Request, Step, Work
from stowplan.scheduler.framework.pod_groups.placement import Waited
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.preemption import Preemption
from stowplan.scheduler.tasks import SLICE, TimeSlice
from stowplan.scheduler.turns import WRITING, on_behalf_of

T = TypeVar("T")
Wanted = Request | Step | Awaitable[Any]


async def drive(work: Generator[Any, Any, T], perform: Callable[[Wanted], Awaitable[object]]) -> T:
    """Run work in steps. An error in something that it yields is raised in the work."""
    step: Callable[[], Any] = partial(work.send, None)
    while True:
        try:
            wanted = step()
        except StopIteration as end:
            done: T = end.value
            return done
        try:
            found = await perform(wanted)
        except asyncio.CancelledError:
            # Nobody waits for the work any more: it puts back what it holds.
            work.close()
            raise
        except BaseException as failure:  # noqa: BLE001 - the work raises it again unless it can go on
            step = partial(work.throw, failure)
        else:
            step = partial(work.send, found)


async def asked(work: Waited[T], extenders: Sequence[Extender]) -> T:
    """The result of work that needs nothing but the answers of extenders."""

    async def perform(wanted: Wanted) -> object:
        return await answer(wanted, extenders) if isinstance(wanted, Request) else None

    return await drive(work, perform)


async def write_all(writes: Sequence[Callable[[], Awaitable[Status | None]]]) -> Status | None:
    """Write in order what plugins want written; returns the first status against it."""
    for write in writes:
        status = await write()
        if status is not None:
            return status
    return None


class Driver:
    """Performs what the cycles of one scheduler yield."""

    def __init__(self, context: Context, preemption: Preemption, searches: LongSearches) -> None:
        self._context = context
        self._preemption = preemption
        self._searches = searches
        self._task: asyncio.Task[None] | None = None
        searches.begin = self._search_in_background

    async def finish(self, rest: Waited[None]) -> None:
        """Do the rest of a scheduling cycle."""
        await drive(rest, self._perform)

    async def _perform(self, wanted: Wanted) -> object:
        context = self._context
        match wanted:
            case None:
                await context.slice.pause_if_over()
            case LongSearch(work):
                return await self._search(work)
            case Write(writes):
                # A replay goes by this turn: what was sent first is answered first.
                if context.turns is not None:
                    await context.turns.take(WRITING, on_behalf_of.get(), None)
                return await write_all(writes)
            case EvictForPod(pod, found):
                await self._preemption.prepare_for_pod(pod, found)
            case EvictForGroup(group, found):
                await self._preemption.prepare_for_group(group, found)
            case Request():
                return await answer(wanted, context.extenders)
            case _ if callable(wanted):
                await context.slice.take(wanted)
            case _:
                # A plugin may wait for something itself (`Waited`).
                return await wanted
        return None

    # Long searches

    async def _search(self, work: Work) -> bool:
        """Search in slices, while the other pods wait. False if they waited too long before it was done."""
        time_slice = self._context.slice
        time_slice.begin_patience()
        for step in work:
            await time_slice.take(step)
            if time_slice.is_out_of_patience:
                return False
        return True

    def _search_in_background(self) -> None:
        """Go on with the searches that are put aside: one at a time, for half of the time at most."""
        turns = self._context.turns
        # A replay takes up each search when its turn comes, done or not.
        if self._task is None and not (turns is not None and turns.are_given):
            self._task = self._context.tasks.start(self._search_on(), "long searches", lasting=True)

    async def _search_on(self) -> None:
        """Do what is left to do for one pod after the other."""
        context, searches = self._context, self._searches
        time_slice = context.slice.another()
        try:
            while searches.line:
                attempt = searches.line[0]
                attempt.budget.put_off(context.timer() - attempt.since)
                time_slice.begin()
                await self._do(attempt, time_slice)
                searches.done()
        finally:
            self._task = None

    async def _do(self, attempt: PutAside, time_slice: TimeSlice) -> None:
        timer, budget = self._context.timer, attempt.budget
        began = timer()
        try:
            for step in attempt.work:
                if step is not None:
                    await time_slice.compute(step)
                if time_slice.is_over:
                    budget.worked += timer() - began
                    await asyncio.sleep(SLICE)
                    time_slice.begin()
                    began = timer()
            budget.worked += timer() - began
        except Exception as cause:  # noqa: BLE001 - the pod's cycle comes to the same and fails with it
            about = Ref(attempt.queued.key)
            self._context.unexpected("Long search failed", cause, source="long_searches", pod=about)

    def give_up(self) -> None:
        """Scheduling ends: pods whose searches are not done go back to the queue."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._searches.give_up()
