"""Keeping the table as it is while an attempt waits for somebody outside.

An attempt looks at the live table. As long as it does not wait nobody can change anything under its hands.
When it has to wait, for an extender, everything that would change the table waits for its end.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StandStill:
    """At most one attempt holds the table at a time."""

    def __init__(self) -> None:
        self.held = False
        self._deferred: deque[Callable[[], None]] = deque()
        self._released: asyncio.Event | None = None

    def do(self, change: Callable[[], None]) -> None:
        """Make a change now, or as soon as the table is released, in order."""
        if self.held:
            self._deferred.append(change)
        else:
            change()

    async def free(self) -> None:
        """Wait until nobody holds the table."""
        while self.held:
            if self._released is None:
                self._released = asyncio.Event()
            await self._released.wait()

    @contextmanager
    def hold(self) -> Iterator[None]:
        self.held = True
        try:
            yield
        finally:
            self.held = False
            released, self._released = self._released, None
            while self._deferred:
                self._deferred.popleft()()
            if released is not None:
                released.set()
