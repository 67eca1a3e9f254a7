"""Writing a recording: files that are rotated. A thread writes, so that a slow disk does not block
scheduling.

Under virtual time a thread would lag by an amount that differs from run to run, and with it the places where
files end. There blocks are written at once (`in_background=False`).
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

from stowplan.scheduler.recording.files import Header, encode_block, first_bytes

DEFAULT_SIZE: Final = 1 << 30
"""Bytes that a recording takes at most, all its files together."""

FILES: Final = 4
"""Maximum number of files of a recording: each new one replaces the oldest."""

_LONGEST_QUEUE: Final = 64 << 20
"""Bytes that may wait for the disk. A recording with a gap could not be replayed, so beyond that it ends."""


class _Block(NamedTuple):
    """A block of entries that waits to be written."""

    entries: bytes
    length: int
    ends_state: bool


class Recording:
    """The files of a recording. The newest has its name, older ones have `.1`, `.2` and so on after it.

    A file that is there already becomes the first of the older ones. Raises OSError if it cannot be written.
    """

    def __init__(self, path: Path, *, size: int = DEFAULT_SIZE, in_background: bool = True) -> None:
        self.path = path
        self._in_background = in_background
        self.file_size = max(size // FILES, 1)
        self.id = os.urandom(8).hex()
        self._number = 0
        self._sessions = 0
        path.open("ab").close()
        if not path.stat().st_size:
            path.unlink()

    def new_session(self) -> int:
        """The number of one more scheduler."""
        self._sessions += 1
        return self._sessions - 1

    def next_file(self, header: Header, failed: Callable[[str], None]) -> "SegmentWriter":
        """Begin a new file. Raises OSError."""
        self._rotate()
        header.recording, header.number = self.id, self._number
        self._number += 1
        return SegmentWriter(self.path, header, failed, in_background=self._in_background)

    def _rotate(self) -> None:
        if not self.path.exists():
            return
        oldest = 0
        while self._older(oldest + 1).exists():
            oldest += 1
        for place in range(oldest, 0, -1):
            if place >= FILES - 1:
                self._older(place).unlink()
            else:
                self._older(place).rename(self._older(place + 1))
        self.path.rename(self._older(1))

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


class SegmentWriter:
    """Compresses and writes the blocks of one file. `failed` is called once when nothing more can be
    written."""

    def __init__(
        self, path: Path, header: Header, failed: Callable[[str], None], *, in_background: bool
    ) -> None:
        self._file = path.open("xb", buffering=0)
        self._path = path
        self._failed = failed
        self._blocks: SimpleQueue[_Block | None] = SimpleQueue()
        self._queued = 0
        self._size = 0
        self._state_size: int | None = None if header.has_state else 0
        self.is_over = False
        self._append(first_bytes(header))
        self._thread: threading.Thread | None = None
        if in_background:
            self._thread = threading.Thread(target=self._work, name="recording", daemon=True)
            self._thread.start()

    @property
    def size_after_state(self) -> int:
        """Bytes written after the state that the file begins with; 0 until all of the state is written."""
        return 0 if self._state_size is None else self._size - self._state_size

    def put(self, entries: bytes, count: int, *, ends_state: bool = False) -> None:
        """Append a block of entries; `ends_state` says that the state is complete with it."""
        if self.is_over:
            return
        block = _Block(entries, count, ends_state)
        if self._thread is None:
            self._write(block)
            return
        self._queued += len(entries)
        if self._queued > _LONGEST_QUEUE:
            self._fail(f"{self._path}: the disk is too slow: {self._queued} bytes wait to be written")
            return
        self._blocks.put(block)

    def close(self) -> None:
        """Write what waits, and close the file."""
        if self._thread is not None:
            self._blocks.put(None)
            self._thread.join()
        self._file.close()

    def _work(self) -> None:
        while (block := self._blocks.get()) is not None:
            if not self.is_over:
                self._write(block)
            self._queued -= len(block.entries)

    def _write(self, block: _Block) -> None:
        try:
            self._append(encode_block(block.entries, block.length))
        except OSError as error:
            self._fail(f"{self._path}: {error.strerror}")
            return
        if block.ends_state:
            self._state_size = self._size

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self._size += len(data)

    def _fail(self, why: str) -> None:
        self.is_over = True
        self._failed(why)
