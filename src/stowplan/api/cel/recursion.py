"""Room for deep recursions, and only while they go on.

Python's recursion limit is one for the whole process, and it also guards the parsers of hostile input. So it
is raised where something that is known to be bounded needs it, and for as long as that takes.
"""

import sys
from threading import Lock
from types import TracebackType
from typing import ClassVar, Final

EXPRESSION: Final = 10_000
"""Levels that parsing, checking or evaluating the deepest expression needs."""

_AROUND: Final = 500
"""Levels reserved for the caller."""


class DeepStack:
    """A `with` block in which functions may be nested to this depth.

    Blocks may overlap, within each other or in other threads: the limit is reset when the last one ends.
    """

    __slots__ = ("_needed",)

    _lock: ClassVar[Lock] = Lock()
    _open: ClassVar[int] = 0
    _before: ClassVar[int] = 0

    def __init__(self, levels: int) -> None:
        self._needed = levels + _AROUND

    def __enter__(self) -> None:
        with DeepStack._lock:
            limit = sys.getrecursionlimit()
            if not DeepStack._open:
                DeepStack._before = limit
            DeepStack._open += 1
            if self._needed > limit:
                sys.setrecursionlimit(self._needed)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with DeepStack._lock:
            DeepStack._open -= 1
            if not DeepStack._open and sys.getrecursionlimit() > DeepStack._before:
                sys.setrecursionlimit(DeepStack._before)
