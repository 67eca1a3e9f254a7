"""`stowplan run` from its arguments to its exit code.

What can be answered from the arguments alone (help, version, mistakes) is answered before anything of the
scheduler is loaded.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from stowplan.gocompat.quoting import quote
from stowplan.run.flags.parser import FlagError, Parsed, parse
from stowplan.run.flags.table import GROUPS
from stowplan.run.flags.usage import PROGRAM, help_text, usage_text
from stowplan.run.version import version_answer

if TYPE_CHECKING:
    from stowplan.logs import LogSettings, ProcessJournal
    from stowplan.logs.streams import Write
    from stowplan.run.starting import Run


def main(
    arguments: Sequence[str],
    run: "Run",
    *,
    environ: Mapping[str, str] = os.environ,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """The exit code: 0 if all went well, 1 for every mistake."""
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
    """A way for the log to write to a stream that is not the process's own."""

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
    from stowplan.clock import RealClock
    from stowplan.logs import journal_for
    from stowplan.run.starting import start

    clock = RealClock()

    def open_journal(settings: "LogSettings") -> "ProcessJournal":
        return journal_for(settings, now=clock.now, stderr=log)

    def say(line: str) -> None:
        stdout.write(f"{line}\n")

    def complain(line: str) -> None:
        stderr.write(f"{line}\n")

    return start(parsed, run, clock, open_journal=open_journal, environ=environ, say=say, complain=complain)


def _width(stream: TextIO) -> int:
    """The width of a terminal; 0 where there is none."""
    return shutil.get_terminal_size().columns if stream.isatty() else 0
