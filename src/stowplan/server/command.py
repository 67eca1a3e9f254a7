"""`stowplan run` from its arguments to its exit code.

Everything that the arguments alone decide (help, version, mistakes) is done before loading the scheduler.
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TextIO

from stowplan.gocompat.quoting import quote, visible
from stowplan.runtime.gc_tuning import patient_collector, resting_collector
from stowplan.server.flags.parser import Flag, FlagError, FlagGroup, Parsed, parse
from stowplan.server.flags.table import GROUPS
from stowplan.server.version import version_answer

if TYPE_CHECKING:
    from stowplan.runtime.logs import LogSettings, ProcessLogger
    from stowplan.runtime.logs.streams import Write
    from stowplan.server.startup import Run

PROGRAM: Final = "stowplan run"
_DESCRIPTION: Final = (
    "stowplan run replaces kube-scheduler: it watches pods without a node and binds each to the best node.",
    "It takes kube-scheduler's flags and configuration file, holds the same lease and serves the same paths.",
    "Several instances can run with leader election, and several schedulers under different names.",
)
_KEPT: Final = "\t\n"
"""Characters that lines of the process may have."""
_INDENT: Final = 16
_NARROW: Final = 24


def main(
    arguments: Sequence[str],
    run: "Run",
    *,
    environ: Mapping[str, str] = os.environ,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """The exit code: 0 for success, 1 for every error."""
    log = None if stderr is None else _writer(stderr)
    stdout, stderr = stdout or sys.stdout, stderr or sys.stderr
    try:
        parsed = parse(arguments, GROUPS)
        if parsed.on("help"):
            stdout.write(help_text(GROUPS, _width(stdout)))
            return 0
        for flag in parsed.deprecated:
            stderr.write(f"Flag --{flag.name} has been deprecated, {flag.deprecated}\n")
        _refuse_arguments(parsed)
    except FlagError as error:
        if error.show_usage:
            stderr.write(usage_text(GROUPS, _width(stderr)) + "\n")
        stderr.write(f"Error: {error}\n")
        return 1
    answer = version_answer(parsed.text("version"))
    if answer and not parsed.given("feature-gates"):
        stdout.write(f"{answer}\n")
        return 0
    return _start(parsed, run, environ, log, stdout, stderr)


def _refuse_arguments(parsed: Parsed) -> None:
    if any(parsed.rest):
        shown = " ".join(map(quote, parsed.rest))
        raise FlagError(f"{quote(PROGRAM)} does not take any arguments, got [{shown}]", show_usage=False)


def _writer(stream: TextIO) -> "Write":
    """Has the log write to another stream than the process's stderr."""

    def write(data: bytes) -> None:
        stream.write(data.decode())

    return write


def _start(
    parsed: Parsed,
    run: "Run",
    environ: Mapping[str, str],
    log: "Write | None",
    stdout: TextIO,
    stderr: TextIO,
) -> int:
    with patient_collector():
        return _load_and_start(parsed, run, environ, log, stdout, stderr)


def _load_and_start(
    parsed: Parsed,
    run: "Run",
    environ: Mapping[str, str],
    log: "Write | None",
    stdout: TextIO,
    stderr: TextIO,
) -> int:
    with resting_collector():
        from stowplan.runtime.clock import RealClock
        from stowplan.runtime.logs import logger_for
        from stowplan.server.startup import start

    clock = RealClock()

    def open_logger(settings: "LogSettings") -> "ProcessLogger":
        return logger_for(settings, now=clock.now, stderr=log)

    def write_out(line: str) -> None:
        stdout.write(f"{visible(line, _KEPT)}\n")

    def write_error(line: str) -> None:
        stderr.write(f"{visible(line, _KEPT)}\n")

    return start(
        parsed,
        run,
        clock,
        open_logger=open_logger,
        environ=environ,
        write_out=write_out,
        write_error=write_error,
    )


def _width(stream: TextIO) -> int:
    """The width of the terminal; 0 without one."""
    return shutil.get_terminal_size().columns if stream.isatty() else 0


# Help


def help_text(groups: Iterable[FlagGroup], width: int = 0) -> str:
    """The output of --help."""
    about = (
        "\n".join(_DESCRIPTION) if not width else textwrap.fill(" ".join(_DESCRIPTION), max(width, _NARROW))
    )
    return f"{about}\n\n{usage_text(groups, width)}"


def usage_text(groups: Iterable[FlagGroup], width: int = 0) -> str:
    """All flags by group. Width 0: no wrapping, descriptions next to the flags."""
    parts = [f"Usage:\n  {PROGRAM} [flags]\n"]
    for group in groups:
        shown = (flag for flag in group.flags if not flag.deprecated)
        flags = sorted(shown, key=lambda flag: flag.name)
        lines = _wrapped(flags, width) if width > _NARROW else _side_by_side(flags)
        parts.append(f"{group.heading}:\n\n" + "".join(f"{line}\n" for line in lines))
    return "\n".join(parts)


def _side_by_side(flags: list[Flag]) -> Iterator[str]:
    starts = [_flag_column(flag) for flag in flags]
    column = max(map(len, starts)) + 3
    for flag, start in zip(flags, starts, strict=True):
        first, *others = _description(flag).split("\n")
        yield f"{start:<{column}}{first}"
        for line in others:
            yield " " * column + line


def _wrapped(flags: list[Flag], width: int) -> Iterator[str]:
    """On a terminal the description goes below its flag."""
    room = max(width - _INDENT, _NARROW)
    for flag in flags:
        yield _flag_column(flag)
        for line in _description(flag).split("\n"):
            for part in textwrap.wrap(line, room, break_on_hyphens=False) or [""]:
                yield " " * _INDENT + part


def _flag_column(flag: Flag) -> str:
    letter = f"  -{flag.shorthand}, " if flag.shorthand else " " * 6
    kind = f" {flag.kind.name}" if flag.kind.name else ""
    implied = f"[={flag.kind.implied}]" if flag.kind.implied and flag.kind.name else ""
    return f"{letter}--{flag.name}{kind}{implied}"


def _description(flag: Flag) -> str:
    """The help of a flag with its default, and why it has no effect if so."""
    text = flag.help
    if flag.ignored:
        text += f" Accepted without effect: {flag.ignored}."
    default = flag.kind.show(flag.default)
    if default not in flag.kind.zeros:
        text += f" (default {quote(default) if flag.kind.quoted else default})"
    return text
