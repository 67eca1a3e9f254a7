"""Answers that are remembered for a while."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from stowplan.clock import Clock

T = TypeVar("T")


class Remembered(Generic[T]):
    """Answers by key, each for its own time; the least recently used ones go first when there are too many.

    Who asks while the same question is under way waits for that answer. Failures are not remembered.
    """

    def __init__(self, clock: Clock, capacity: int) -> None:
        self._clock = clock
        self._capacity = capacity
        self._answers: OrderedDict[bytes, tuple[float, T]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        return len(self._answers)

    def holds(self, key: bytes) -> bool:
        """Whether there is an answer that is still good."""
        known = self._answers.get(key)
        return known is not None and self._clock.monotonic() < known[0]

    async def get(self, key: bytes, ask: Callable[[], Awaitable[T]], seconds: Callable[[T], float]) -> T:
        """The answer remembered for a key, else that of `ask`; `seconds` says how long to keep that one."""
        known = self._answers.get(key)
        if known is not None and self._clock.monotonic() < known[0]:
            self._answers.move_to_end(key)
            return known[1]
        task = self._asking.get(key)
        if task is None:
            task = asyncio.create_task(self._ask(key, ask, seconds))
            self._asking[key] = task
            task.add_done_callback(lambda done: self._answered(key, done))
        return await asyncio.shield(task)

    async def _ask(self, key: bytes, ask: Callable[[], Awaitable[T]], seconds: Callable[[T], float]) -> T:
        answer = await ask()
        lasting = seconds(answer)
        self._answers.pop(key, None)
        if lasting > 0:
            self._answers[key] = (self._clock.monotonic() + lasting, answer)
            if len(self._answers) > self._capacity:
                self._answers.popitem(last=False)
        return answer

    def _answered(self, key: bytes, task: "asyncio.Task[T]") -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()

    def forget(self) -> None:
        """Let go of everything, and of what is being asked."""
        self._answers.clear()
        for task in self._asking.values():
            task.cancel()
