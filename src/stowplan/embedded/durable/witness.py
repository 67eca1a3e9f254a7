"""A file that says which version was committed last.

SQLite takes a write-ahead log that is cut off or damaged for one that ends there, and one that is missing for
an empty one: commits would be gone and nobody would know. This file is written after each commit, so it never
says more than was committed; when the database has less than it says, something is lost. It is not synced: it
is a witness against lost files, not against lost power.
"""

import os
from pathlib import Path
from typing import Final

_FILE: Final = "committed"
_WIDTH: Final = 20


class Witness:
    """The version that a folder's file names; 0 where it names none."""

    def __init__(self, folder: Path) -> None:
        """Open the file, or make it. Raises OSError."""
        self.path = folder / _FILE
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        text = os.read(self._file, _WIDTH).strip()
        self.version = int(text) if text.isdigit() else 0

    def note(self, version: int) -> None:
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, f"{version:{_WIDTH - 1}d}\n".encode())

    def close(self) -> None:
        os.close(self._file)
