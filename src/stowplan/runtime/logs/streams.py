"""Log output, written by a thread so that a slow reader does not block the process."""

import os
import select
import sys
import threading
from collections.abc import Callable
from typing import Final

Write = Callable[[bytes], None]
"""Writes all of something, however long that takes. Raises OSError or ValueError."""

DEFAULT_PAUSE: Final = 0.05
"""Seconds between a line and its write where no flag says otherwise."""

MAX_BUFFERED: Final = 4 * 1024 * 1024
"""Maximum number of characters waiting to be written. Lines beyond that are dropped, and counted."""


class LogStream:
    """Collects lines, and has a thread write them a little later, many at once.

    It writes `pause` seconds after the first line of a batch, earlier if more than `held` characters wait. A
    reader that is slow, stuck or gone costs lines, never the scheduler: `lost` counts them. `put` may be
    interrupted by another `put` in the same thread, when garbage collection logs something.
    """

    def __init__(
        self, write: Write, pause: float = DEFAULT_PAUSE, held: int = 0, room: int = MAX_BUFFERED
    ) -> None:
        self._write = write
        self._pause = pause
        self._held = held if held > 0 else room
        self._room = room
        self._state = threading.Condition()
        self._lines: list[str] = []
        self._size = 0
        self._writing = False
        self._hurry = False
        self._ending = False
        self._thread: threading.Thread | None = None
        self.lost = 0

    def put(self, line: str) -> None:
        with self._state:
            size = self._size + len(line)
            if size > self._room and self._lines:
                self.lost += 1
                return
            self._size = size
            self._lines.append(line)
            if size > self._held:
                self._hurry = True
                self._state.notify_all()
            elif len(self._lines) == 1:
                self._begin()

    def take_lost(self) -> int:
        """Number of lines lost since the last call, if there is room to report it; else 0."""
        with self._state:
            if self._size > self._room // 2:
                return 0
            lost, self.lost = self.lost, 0
            return lost

    def flush(self, timeout: float) -> bool:
        """Wait until all that was put is written, or the time is up; returns whether it is."""
        with self._state:
            self._hurry = bool(self._lines)
            self._state.notify_all()
            return self._state.wait_for(lambda: not self._lines and not self._writing, timeout)

    def close(self, timeout: float) -> None:
        """Flush, and end the thread if that was done in time. Later lines are still written."""
        if not self.flush(timeout) or self._thread is None:
            return
        with self._state:
            self._ending = True
            self._state.notify_all()
        self._thread.join(timeout)
        with self._state:
            self._ending = False
            if not self._thread.is_alive():
                self._thread = None

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="log", daemon=True)
            self._thread.start()
        else:
            self._state.notify_all()

    def _run(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._lines or self._ending)
                self._state.wait_for(lambda: self._hurry or self._ending, self._pause)
                lines, self._lines = self._lines, []
                if not lines:
                    return
                self._hurry = False
                self._writing = True
            lost = self._write_all(lines)
            with self._state:
                self._size = sum(map(len, self._lines))
                self.lost += lost
                self._writing = False
                self._state.notify_all()

    def _write_all(self, lines: list[str]) -> int:
        """Write lines; returns how many were lost for it.

        Halves of surrogate pairs, which no encoding has, become escapes that JSON knows, too.
        """
        try:
            self._write("".join(lines).encode("utf-8", "backslashreplace"))
        except (OSError, ValueError):
            return len(lines)
        return 0


def to_descriptor(number: int) -> Write:
    """Writes to a file descriptor, also to one that does not block."""

    def write(data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(number, rest) :]
            except BlockingIOError:
                select.select([], [number], [], 1.0)

    return write


def standard_error() -> Write:
    return to_descriptor(2) if _is_there(sys.stderr) else _discard


def standard_output() -> Write:
    return to_descriptor(1) if _is_there(sys.stdout) else _discard


def _is_there(stream: object) -> bool:
    """True if the process was started with it. If not, its number may belong to any other file by now."""
    return stream is not None


def _discard(data: bytes) -> None:
    """There is nowhere to write to."""
