"""Noticing that files have changed."""

import os
from collections.abc import Sequence

_Stamp = tuple[int, int, int] | None


class FileStamps:
    """Remembers how files looked. A file behind a link counts as changed when the link points elsewhere."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = tuple(files)
        self._seen = self._look()

    def changed(self) -> bool:
        """Whether something is different from the last time this was asked."""
        before, self._seen = self._seen, self._look()
        return before != self._seen

    def _look(self) -> list[_Stamp]:
        return [_stamp(file) for file in self._files]


def _stamp(file: str) -> _Stamp:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
