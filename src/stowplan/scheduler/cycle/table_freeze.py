"""The table stands still while a cycle that looks at it waits."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class TableFreeze:
    """Keeps the table unchanged while a scheduling cycle waits, for an extender or to let others run.

    A scheduling cycle looks at the live table. As long as it does not wait nothing can change under it; when
    it has to, everything that would change the table waits for its end.
    """

    def __init__(self) -> None:
        self.held = False
        self._deferred: deque[Callable[[], None]] = deque()
        self._waiting: list[Callable[[], None]] = []

    @property
    def is_in_the_way(self) -> bool:
        """True if anything waits for the table to be released."""
        return bool(self._deferred or self._waiting)

    def defer(self, change: Callable[[], None]) -> None:
        """Make a change as soon as the table is released, in order."""
        self._deferred.append(change)

    def when_released(self, tell: Callable[[], None]) -> None:
        """Call this once, after the deferred changes are made."""
        self._waiting.append(tell)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Freeze the table for as long as the block takes. Does nothing within another such block."""
        if self.held:
            yield
            return
        self.held = True
        try:
            yield
        finally:
            self.held = False
            waiting, self._waiting = self._waiting, []
            try:
                while self._deferred:
                    self._deferred.popleft()()
            finally:
                for tell in waiting:
                    tell()
