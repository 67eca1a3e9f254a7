"""The logger: messages with a verbosity and named values."""

from collections.abc import Callable, Mapping
from typing import Final

Sink = Callable[[int, str, Mapping[str, object]], None]
"""Takes a verbosity (below zero: a severity), a message and named values."""

ERROR: Final = -1
"""The level of errors; they are always logged."""
WARNING: Final = -2
"""The level of warnings; they are always logged, too."""
FATAL: Final = -3
"""The level of errors that end the process."""

PLAIN: Final[Mapping[str, object]] = {}
"""The values of a message that is a line of text and nothing else; sinks know it by identity."""


class Ref(str):
    """The name of an object, `namespace/name` or `name`. Logs in JSON show its parts."""

    __slots__ = ()


def _discard(level: int, message: str, values: Mapping[str, object]) -> None:
    """Log nothing."""


class Logger:
    """Messages with a verbosity: 0 is always shown, higher numbers are more and more detail.

    In code that runs for every pod check `logger.enabled(level)` first, or read `level`, the highest one that
    is shown, so that a hidden message costs nothing. A value called `logger` names the component that logs;
    it is shown from verbosity 4 on, and with errors. `highest` is the highest level that a sink wants to see
    beyond the verbosity, because it shows some modules in more detail than others (`--vmodule`).
    """

    def __init__(self, sink: Sink = _discard, verbosity: int = 0, highest: int = 0) -> None:
        self._sink = sink
        self._highest = highest
        self.errors = 0
        self.verbosity = 0
        self.level = 0
        self.set_verbosity(verbosity)

    def set_verbosity(self, verbosity: int) -> None:
        """Show more or less from now on."""
        self.verbosity = verbosity
        self.level = max(verbosity, self._highest)

    def enabled(self, level: int) -> bool:
        return level <= self.level

    def info(self, level: int, message: str, /, **values: object) -> None:
        if level <= self.level:
            self._sink(level, message, values)

    def plain(self, level: int, line: str, /) -> None:
        """A line without values, shown as it is."""
        if level <= self.level:
            self._sink(level, line, PLAIN)

    def error(self, message: str, /, **values: object) -> None:
        """An error; the scheduler continues."""
        self.errors += 1
        self._sink(ERROR, message, values)

    def warning(self, message: str, /, **values: object) -> None:
        """Something is not as it should be, or not done as asked; nothing has gone wrong."""
        self._sink(WARNING, message, values)

    def fatal(self, message: str, /, **values: object) -> None:
        """Something went wrong, and the process is going to end for it."""
        self.errors += 1
        self._sink(FATAL, message, values)
