"""Long searches: attempts that are put aside so that other pods do not wait for them.

A filter that has long work to do (devices for claims) hands it back as steps (framework/budget.py). The
attempt of the pod goes on with it in slices of the event loop. If that takes too long, the pod is put aside:
it stays in flight, its search goes on in the background, and the scheduling loop takes the next pod. When the
search is done, or its budget is spent, the scheduling cycle of the pod begins anew and finds the answers
there. What has changed in the meantime is searched again then; the budget is that of the whole attempt.

kube-scheduler lets all pods wait instead. So a pod that was created later may get a node earlier here.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stowplan.runtime.logs import Ref
from stowplan.scheduler.context import SLICE, Context, TimeSlice
from stowplan.scheduler.framework.budget import Budget, Work
from stowplan.scheduler.queue.queued_pod import QueuedPod

MOST: Final = 16
"""Pods that are put aside at a time. The attempt of another one whose search is long is ended as if its time
were up: it is tried again after its backoff."""


class PutAsideError(Exception):
    """The scheduling cycle of a pod is given up for now."""


@dataclass(slots=True)
class _Attempt:
    """A pod that was put aside, its budget, what is left to be searched, and since when it waits."""

    queued: QueuedPod
    budget: Budget
    work: Work
    since: float


class LongSearches:
    """The attempts that are put aside. One search goes on at a time, for half of the time at most.

    `put_back` returns a pod to the queue when scheduling ends.
    """

    def __init__(self, context: Context, put_back: Callable[[QueuedPod], None]) -> None:
        self._context = context
        self._put_back = put_back
        self._line: deque[_Attempt] = deque()
        self._ready: deque[QueuedPod] = deque()
        self._task: asyncio.Task[None] | None = None
        self._pauses = lambda: context.slice.is_over
        self._resumed: tuple[str, Budget] | None = None
        """The uid and the budget of the attempt that goes on now."""
        self.aside: dict[str, Budget] = {}
        """The budgets of the attempts that are put aside, by the uid of the pod."""
        self.ends_at: str | None = None
        """The node at which the next attempt runs out of time, where a recorded one is repeated."""

    def budget(self, uid: str, began: float) -> Budget:
        """The budget of an attempt that begins now, or goes on."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None and resumed[0] == uid:
            budget = resumed[1]
        else:
            budget = Budget(self._context.timer, None, began=began, pauses=self._pauses)
        if self.ends_at is not None:
            budget.end(self.ends_at)
            self.ends_at = None
        return budget

    async def work(self, queued: QueuedPod, budget: Budget, work: Work) -> None:
        """Search in slices, while the other pods wait. Raises PutAsideError if they wait too long."""
        time_slice = self._context.slice
        time_slice.begin_patience()
        for step in work:
            await time_slice.take(step)
            if time_slice.is_out_of_patience:
                if len(self.aside) < MOST:
                    self._put_aside(queued, budget, work)
                    raise PutAsideError
                work.close()
                budget.end()

    def _put_aside(self, queued: QueuedPod, budget: Budget, work: Work) -> None:
        context = self._context
        self.aside[queued.uid] = budget
        self._line.append(_Attempt(queued, budget, work, context.timer()))
        context.logger.info(
            2, "The search for devices takes long; other pods are scheduled meanwhile", pod=Ref(queued.key)
        )
        is_given = context.turns is not None and context.turns.are_given
        if self._task is None and not is_given:
            self._task = context.tasks.start(self._search(), "long searches", lasting=True)

    async def _search(self) -> None:
        """Do what is left to do for one pod after the other."""
        context = self._context
        time_slice = context.slice.another()
        try:
            while self._line:
                attempt = self._line[0]
                attempt.budget.put_off(context.timer() - attempt.since)
                time_slice.begin()
                await self._do(attempt, time_slice)
                self._line.popleft()
                self._ready.append(attempt.queued)
                context.wake()
        finally:
            self._task = None

    async def _do(self, attempt: _Attempt, time_slice: TimeSlice) -> None:
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

    def next_ready(self) -> QueuedPod | None:
        """A pod whose search is done and that is to be scheduled now, if there is one.

        It is taken as it is now. One that is gone meanwhile is forgotten.
        """
        context = self._context
        while self._ready:
            queued = self._ready.popleft()
            self._resumed = (queued.uid, self.aside.pop(queued.uid))
            now = context.find(queued.key)
            if now is not None and now.metadata.uid == queued.uid:
                if now is not queued.pod.pod:
                    queued.update(context.cache.table.info(now))
                return queued
            context.queue.done(queued.uid)
        return None

    def has(self, uid: str) -> bool:
        """True if the attempt of a pod is put aside."""
        return uid in self.aside

    def taken_up(self, uid: str) -> QueuedPod | None:
        """A pod that is to be scheduled although its search may not be done, as a replay wants it."""
        for attempt in self._line:
            if attempt.queued.uid == uid:
                self._line.remove(attempt)
                attempt.work.close()
                self._ready.appendleft(attempt.queued)
                return self.next_ready()
        return None

    def give_up(self) -> None:
        """Scheduling ends: put all pods back into the queue."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        left = [*self._ready, *[attempt.queued for attempt in self._line]]
        for attempt in self._line:
            attempt.work.close()
        self._ready.clear()
        self._line.clear()
        self.aside.clear()
        for queued in left:
            self._put_back(queued)
