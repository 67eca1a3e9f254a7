"""Progress of everything that takes longer than two seconds, on a terminal: count, rate, remaining time."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self, TextIO

from stowplan.explain.layout import WIDTH, middle, span

QUIET_FOR: Final = 2.0
"""Seconds before anything is shown."""
EVERY: Final = 0.2
"""Seconds between two pictures."""
_BAR: Final = 24
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """A line on standard error that says how far something is; nothing where that is no terminal.

    `total` None: it is not known how much there is. To be used in a `with` block; the line goes at its end.
    """

    def __init__(
        self,
        about: str,
        total: int | None = None,
        unit: str = "",
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._about = about
        self._total = total
        self._unit = unit
        self._stream = sys.stderr if stream is None else stream
        self.is_shown = self._stream.isatty()
        self._clock = clock
        self._began = clock()
        self._drawn = 0.0
        self._visible = False
        self.done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def advance(self, count: int = 1, detail: str = "") -> None:
        """So much more is done; `detail` says what is at hand."""
        self.done += count
        self.tick(detail)

    def reach(self, done: int, detail: str = "") -> None:
        """So much is done altogether."""
        self.advance(done - self.done, detail)

    def tick(self, detail: str = "") -> None:
        """Show the line again if it is time for that."""
        if not self.is_shown:
            return
        now = self._clock()
        if now - self._began < QUIET_FOR or now - self._drawn < EVERY:
            return
        self._drawn = now
        self._visible = True
        self._stream.write(_CLEAR + self.line(now - self._began, detail))
        self._stream.flush()

    def clear(self) -> None:
        """Take the line away, so that something else can be written."""
        if self._visible:
            self._visible = False
            self._stream.write(_CLEAR)
            self._stream.flush()

    def line(self, seconds: float, detail: str = "") -> str:
        """Progress line at this time."""
        rate = self.done / seconds if seconds > 0 else 0.0
        figures = f"{self.done:,}" if self._total is None else f"{self.done:,}/{self._total:,}"
        parts = [f"{figures} {self._unit}".rstrip()] if self.done or self._total else []
        if rate:
            parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
        parts.append(self._left(seconds, rate))
        bar = self._bar()
        text = f"{self._about} {bar}{' · '.join(parts)}"
        room = WIDTH - len(text) - 3
        return f"{text} · {middle(detail, room)}" if detail and room > 8 else text[:WIDTH]

    def _left(self, seconds: float, rate: float) -> str:
        if self._total is None or not rate:
            return span(seconds)
        return f"{span((self._total - self.done) / rate)} left"

    def _bar(self) -> str:
        if not self._total:
            return ""
        full = min(self.done * _BAR // self._total, _BAR)
        return f"[{'█' * full}{'·' * (_BAR - full)}] "


@contextmanager
def ticking(progress: Progress) -> Iterator[Progress]:
    """A line that continues while the work reports nothing: reading, parsing or waiting."""
    with progress:
        if not progress.is_shown:
            yield progress
            return
        ended = Event()

        def tick() -> None:
            while not ended.wait(EVERY):
                progress.tick()

        thread = Thread(target=tick, name="progress", daemon=True)
        thread.start()
        try:
            yield progress
        finally:
            ended.set()
            thread.join()


@contextmanager
def elapsed(about: str) -> Iterator[None]:
    """A line that says for how long something has been going on that cannot tell how far it is."""
    with ticking(Progress(about)):
        yield
