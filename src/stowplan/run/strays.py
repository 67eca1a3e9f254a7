"""What libraries have to say of trouble: lines of the log like all others, not text beside it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from stowplan.logs import Journal


class Strays(logging.Handler):
    """Takes messages of Python's own logging to the journal, one line each.

    asyncio reports this way of errors that nobody waited for, with the whole way through the code; of use to
    whoever reads the log are the first line and the error.
    """

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.WARNING)
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        tell = self._journal.problem if record.levelno >= logging.ERROR else self._journal.warning
        text = record.getMessage().partition("\n")[0]
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            tell(text, logger=record.name)
        else:
            tell(text, logger=record.name, err=f"{type(error).__name__}: {error}")


@contextmanager
def strays_caught(journal: Journal) -> Iterator[None]:
    """As long as the block takes, nothing that libraries report or warn of goes past the journal."""
    handler = Strays(journal)
    root = logging.getLogger()
    root.addHandler(handler)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(handler)
