"""What the scheduler has to say about its work, for whoever keeps a log."""

from collections.abc import Callable, Mapping
from typing import Final

Sink = Callable[[int, str, Mapping[str, object]], None]
"""Takes a verbosity (PROBLEM for problems), a message and named values."""

PROBLEM: Final = -1
"""The level of messages about something that went wrong; they are always kept."""


def _nowhere(level: int, message: str, values: Mapping[str, object]) -> None:
    """Keep nothing."""


class Journal:
    """Messages with a verbosity: 0 is always shown, higher numbers are more and more detail.

    On the way of every pod ask `journal.shows(level)` first, so that a message nobody reads costs nothing.
    """

    def __init__(self, sink: Sink = _nowhere, verbosity: int = 0) -> None:
        self._sink = sink
        self.verbosity = verbosity
        self.problems = 0

    def shows(self, level: int) -> bool:
        return level <= self.verbosity

    def info(self, level: int, message: str, **values: object) -> None:
        if level <= self.verbosity:
            self._sink(level, message, values)

    def problem(self, message: str, **values: object) -> None:
        """Something went wrong; the scheduler goes on."""
        self.problems += 1
        self._sink(PROBLEM, message, values)
