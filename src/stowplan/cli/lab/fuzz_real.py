"""`stowplan lab fuzz --real`: the corpus on a real API server, and the table of what came of it."""

import asyncio
import os
import shutil
import signal
from collections.abc import Coroutine, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from stowplan.cli.output import say
from stowplan.cli.progress import Progress
from stowplan.explain.layout import table
from stowplan.lab.fuzz.cases import FuzzCase
from stowplan.lab.fuzz.real.controlplane import StartError
from stowplan.lab.fuzz.real.run import Measured, RealRun, run_real, seconds

_OURS = "stowplan"


class Binaries(NamedTuple):
    """The programs of a run, all of which can be executed."""

    apiserver: Path
    etcd: Path
    scheduler: Path | None


def binaries(apiserver: Path | None, etcd: Path | None, scheduler: Path | None) -> Binaries:
    """The programs that were given. Raises ClickException for one that is missing or cannot be run."""
    if apiserver is None or etcd is None:
        missing = "--apiserver" if apiserver is None else "--etcd"
        raise click.ClickException(f"{missing}: expected the path of a binary with --real")
    return Binaries(
        _program("--apiserver", apiserver),
        _program("--etcd", etcd),
        None if scheduler is None else _program("--scheduler", scheduler),
    )


def _program(option: str, path: Path) -> Path:
    found = shutil.which(path)
    if found is None:
        why = "is not executable" if os.path.isfile(path) else "no such program"
        raise click.ClickException(f"{option}: {path}: {why}")
    return Path(found).absolute()


def run_real_command(programs: Binaries, nodes: int, cases: Sequence[FuzzCase], as_json: bool) -> None:
    """Run the cases and print the table; exits with 1 if a bound of stowplan's is broken."""
    run = RealRun(programs.etcd, programs.apiserver, programs.scheduler, nodes)
    with Progress("running", len(cases) * len(run.commands), "cases") as progress:

        def show(row: Measured) -> None:
            progress.advance(detail=f"{row.scheduler}: {row.case}")
            if not progress.is_shown:
                say(f"{row.scheduler}: {row.case}: {seconds(row.during)}", err=True)

        try:
            rows = _interruptible(run_real(run, cases, show))
        except StartError as error:
            raise click.ClickException(str(error)) from None
    say("\n".join(_table(rows)))
    broken = [(row, problem) for row in rows if row.scheduler == _OURS for problem in row.broken()]
    for row, problem in broken:
        say(f"{row.case}: {problem}")
    for message in _refusals(rows):
        say(message)
    failed = len({row.case for row, _ in broken})
    say(f"{len(cases):,} cases, {failed:,} failed")
    if as_json:
        document = {"cases": len(cases), "rows": [{**asdict(row), "broken": row.broken()} for row in rows]}
        click.echo(msgspec.json.encode(document).decode())
    if broken:
        raise SystemExit(1)


def _interruptible(main: Coroutine[Any, Any, list[Measured]]) -> list[Measured]:
    """Run to the end, or until SIGINT or SIGTERM: then everything that was started is ended first."""

    async def run() -> list[Measured]:
        task = asyncio.ensure_future(main)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await task

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None


def _table(rows: Sequence[Measured]) -> list[str]:
    """A line for each case and scheduler, cases in order."""
    headings = (
        "case",
        "admitted",
        "scheduler",
        "without",
        "with",
        "/livez failed",
        "MiB before",
        "after",
        "exits",
    )
    order = {name: number for number, name in enumerate(dict.fromkeys(row.case for row in rows))}
    lines: list[tuple[str, ...]] = []
    for row in sorted(rows, key=lambda row: (order[row.case], row.scheduler != _OURS)):
        refused = sum(row.refusals.values())
        lines.append(
            (
                row.case if row.scheduler == _OURS or not lines or lines[-1][0] != row.case else "",
                f"{row.admitted:,} of {row.admitted + refused:,}",
                row.scheduler,
                seconds(row.without),
                seconds(row.during),
                f"{row.livez_failed:,} of {row.livez_asked:,}",
                f"{row.memory_before >> 20:,}",
                f"{row.memory_after >> 20:,}",
                str(len(row.exits)) if row.exits else "",
            )
        )
    return table(headings, lines, numeric=range(3, len(headings)))


def _refusals(rows: Sequence[Measured]) -> list[str]:
    """Refusals of the API server, each once: such a case says nothing about schedulers."""
    found: dict[str, None] = {}
    for row in rows:
        for message, times in row.refusals.items():
            found.setdefault(f"{row.case}: the API server refused {times:,} writes: {message}")
    return list(found)
