"""Long searches: attempts that are put aside so that other pods do not wait for them.

A filter with a long computation (devices for claims) returns it as steps (framework/budget.py). The
attempt of the pod runs them in slices of the event loop. If that takes too long, the pod is put aside:
it stays in flight, its search continues in the background, and the scheduling loop takes the next pod. When
the search is done, or its budget is spent, the scheduling cycle of the pod starts again and finds the answers
there. Whatever changed in the meantime is searched again then; the budget covers the whole attempt.

kube-scheduler lets all pods wait instead. So a pod that was created later may get a node earlier here.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stowplan.runtime.logs import Ref
from stowplan.scheduler.cycle.context import CycleContext
from stowplan.scheduler.framework.budget import Budget, Work
from stowplan.scheduler.queue.queued_pod import QueuedPod

MOST: Final = 16
"""Pods that are put aside at a time, and groups. The attempt of another one whose search is long is ended as
if its time were up: it is tried again after its backoff."""


class PutAsideError(Exception):
    """The scheduling cycle of a pod is given up for now."""


@dataclass(slots=True)
class PutAside:
    """A pod that was put aside, its budget, what is left to be searched, and since when it waits."""

    queued: QueuedPod
    budget: Budget
    work: Work
    since: float


class LongSearches:
    """The attempts that are put aside. The driver runs their searches in the background.

    `put_back` returns a pod to the queue when scheduling ends.
    """

    def __init__(self, context: CycleContext, put_back: Callable[[QueuedPod], None]) -> None:
        self._context = context
        self._put_back = put_back
        self.line: deque[PutAside] = deque()
        """The attempts with unfinished searches, the next one to continue first."""
        self._ready: deque[QueuedPod] = deque()
        self.begin: Callable[[], None] = lambda: None
        """Called when there is something to search in the background."""
        self._pauses = lambda: context.slice.is_over
        self._resumed: tuple[str, Budget] | None = None
        """Uid and budget of the attempt that is being resumed."""
        self.aside: dict[str, Budget] = {}
        """The budgets of the attempts that are put aside, by the uid of the pod."""
        self.ends_at: str | None = None
        """The node at which the next attempt runs out of time, where a recorded one is repeated."""

    def budget(self, uid: str, began: float) -> Budget:
        """Budget of an attempt that begins now, or is resumed."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None and resumed[0] == uid:
            budget = resumed[1]
        else:
            budget = Budget(self._context.timer, None, began=began, pauses=self._pauses)
        if self.ends_at is not None:
            budget.end(self.ends_at)
            self.ends_at = None
        return budget

    def put_aside_or_end(self, queued: QueuedPod, budget: Budget, work: Work) -> None:
        """Other pods have waited long enough. Raises PutAsideError, or ends the search if too many are."""
        if len(self.aside) >= MOST:
            work.close()
            budget.end()
            return
        context = self._context
        self.aside[queued.uid] = budget
        self.line.append(PutAside(queued, budget, work, context.timer()))
        context.logger.info(
            2, "The search for devices takes long; other pods are scheduled meanwhile", pod=Ref(queued.key)
        )
        self.begin()
        raise PutAsideError

    def done(self) -> None:
        """The first search is done: the cycle of its pod may begin anew."""
        self._ready.append(self.line.popleft().queued)
        self._context.wake()

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
        for attempt in self.line:
            if attempt.queued.uid == uid:
                self.line.remove(attempt)
                attempt.work.close()
                self._ready.appendleft(attempt.queued)
                return self.next_ready()
        return None

    def give_up(self) -> None:
        """Scheduling ends: put all pods back into the queue."""
        left = [*self._ready, *[attempt.queued for attempt in self.line]]
        for attempt in self.line:
            attempt.work.close()
        self._ready.clear()
        self.line.clear()
        self.aside.clear()
        for queued in left:
            self._put_back(queued)
