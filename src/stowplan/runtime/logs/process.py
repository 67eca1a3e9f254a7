"""The logger of a process: the format and the streams that its flags ask for."""

import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Self

from stowplan.runtime.logs.formats import JsonFormat, LogFormat, Source, TextFormat, module_of, source_of
from stowplan.runtime.logs.logger import WARNING, Logger
from stowplan.runtime.logs.settings import JSON, LogSettings, Modules
from stowplan.runtime.logs.streams import DEFAULT_PAUSE, LogStream, Write, standard_error, standard_output

LOGGER_NAME_VERBOSITY: Final = 4
"""From this verbosity on lines name their logger."""

CLOSE_TIMEOUT: Final = 1.0
"""Seconds that a process which ends waits for its last lines to be written."""


class LineSink:
    """Formats messages, with the file and line they come from, and puts them on their stream.

    `warnings_apart`: warnings go with the errors, not with the rest.
    """

    def __init__(
        self,
        lines: LogFormat,
        info: LogStream,
        errors: LogStream,
        *,
        now: Callable[[], float],
        modules: Modules,
        warnings_apart: bool,
    ) -> None:
        self._lines = lines
        self._info = info
        self._errors = errors
        self._now = now
        self._modules = modules
        self._sources: dict[str, Source] = {}
        self._lowest_info = 0 if warnings_apart else WARNING
        self.verbosity = 0

    def __call__(self, level: int, message: str, values: Mapping[str, object]) -> None:
        frame = sys._getframe(2)
        path = frame.f_code.co_filename
        source = self._sources.get(path)
        if source is None:
            source = self._sources[path] = source_of(path, self._modules.level(module_of(path)))
        verbosity = self.verbosity
        if level > verbosity and level > source.level:
            return
        stream = self._info if level >= 0 or level == self._lowest_info else self._errors
        now = self._now()
        if stream.lost:
            self._report_lost(stream, source, frame.f_lineno, now)
        named = verbosity >= LOGGER_NAME_VERBOSITY
        stream.put(self._lines.line(level, message, values, source, frame.f_lineno, now, named))

    def _report_lost(self, stream: LogStream, source: Source, number: int, now: float) -> None:
        lost = stream.take_lost()
        if lost:
            values = {"lines": lost}
            stream.put(self._lines.line(WARNING, "Log lines were lost", values, source, number, now, False))


class ProcessLogger(Logger):
    """A logger that writes to streams. Leaving its `with` block flushes them."""

    def __init__(self, sink: LineSink, streams: tuple[LogStream, ...], verbosity: int, highest: int) -> None:
        self._lines = sink
        self._streams = streams
        super().__init__(sink, verbosity, highest)

    def set_verbosity(self, verbosity: int) -> None:
        super().set_verbosity(verbosity)
        self._lines.verbosity = verbosity

    def flush(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """Have everything written now; False if that was not done in time."""
        done = [stream.flush(timeout) for stream in self._streams]
        return all(done)

    def close(self) -> None:
        for stream in self._streams:
            stream.close(CLOSE_TIMEOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def logger_for(
    settings: LogSettings,
    *,
    now: Callable[[], float],
    stderr: Write | None = None,
    stdout: Write | None = None,
    pid: int | None = None,
) -> ProcessLogger:
    """A logger as settings want it, on the process's own streams unless others are given.

    `now` gives the time in seconds since the epoch (`Clock.now`).
    With split streams warnings go with the errors in text and with the rest in JSON, as they do for others.
    """
    routing = settings.routing
    modules = Modules(settings.vmodule)
    errors = LogStream(stderr or standard_error(), min(DEFAULT_PAUSE, settings.flush_frequency))
    info = errors
    if routing.split_stream:
        held = routing.info_buffer_size
        pause = settings.flush_frequency if held else min(DEFAULT_PAUSE, settings.flush_frequency)
        info = LogStream(stdout or standard_output(), pause, held)
    is_json = settings.format == JSON
    sink = LineSink(
        JsonFormat() if is_json else TextFormat(pid),
        info,
        errors,
        now=now,
        modules=modules,
        warnings_apart=not is_json,
    )
    streams = (errors,) if info is errors else (errors, info)
    return ProcessLogger(sink, streams, settings.verbosity, modules.highest)
