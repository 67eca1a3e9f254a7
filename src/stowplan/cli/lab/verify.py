"""`stowplan verify`: comparing this scheduler with recorded decisions of kube-scheduler."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from stowplan.api.releases import RELEASES, Release, UnknownReleaseError
from stowplan.api.releases import release as release_of
from stowplan.cli.output import say
from stowplan.cli.progress import Progress
from stowplan.lab.verify.differences import Comparer, render_differences
from stowplan.lab.verify.dispatch import replay
from stowplan.lab.verify.recording import VerifyError, find_recordings, read_lines
from stowplan.lab.verify.report import FactCounts, VerifyReport, render_text

_DIFFERENT = 1
_UNREADABLE = 2


class _Unreadable(click.ClickException):
    exit_code = _UNREADABLE


@click.command("verify")
@click.argument("files", metavar="FILES…", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object on the last line.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Number of differences to print in full.",
)
@click.option(
    "--emulated-version",
    metavar="VERSION",
    help="Replay as this release (1.36 or 1.37), whatever release a line was recorded from.",
)
@click.option(
    "--differences",
    is_flag=True,
    help="Replay the inputs as 1.36 and as 1.37, and list the differences and the changes that explain them.",
)
@click.pass_context
def verify_command(
    context: click.Context,
    files: tuple[str, ...],
    as_json: bool,
    limit: int,
    emulated_version: str | None,
    differences: bool,
) -> None:
    """Compare decisions with recorded ones.

    FILES are recordings of kube-scheduler (JSON lines, *.jsonl or *.jsonl.gz) or directories of them. The
    table counts, per recording and subject, the facts compared, equal, different, and those about features
    that are missing. Exit code 1: there are differences; 2: a recording cannot be read.

    With --differences the recorded decisions are ignored: both releases decide the same inputs, and the
    result is a list of changes with the facts that differ because of them. Exit code 1: no documented change
    explains a difference.
    """
    if differences and emulated_version is not None:
        raise click.UsageError("--differences replays as both releases: leave out --emulated-version")
    release = None if emulated_version is None else _release(emulated_version)
    try:
        paths = find_recordings(files)
        failed = (
            _compare_releases(paths, as_json, limit)
            if differences
            else _compare_with_recorded(paths, as_json, limit, release)
        )
    except VerifyError as error:
        raise _Unreadable(str(error)) from None
    if failed:
        context.exit(_DIFFERENT)


def _release(version: str) -> Release:
    try:
        return release_of(version.removeprefix("kube="))
    except UnknownReleaseError as error:
        raise click.BadParameter(str(error), param_hint="--emulated-version") from None


def _compare_with_recorded(paths: list[Path], as_json: bool, limit: int, release: Release | None) -> bool:
    report = VerifyReport(keep=max(limit, 1))
    for path, tick in _in_turn(paths):
        replay(path, report, tick, release)
    say(render_text(report, limit), nl=False)
    if as_json:
        click.echo(msgspec.json.encode(summary(report)).decode())
    return report.failed


def _compare_releases(paths: list[Path], as_json: bool, limit: int) -> bool:
    old, new = RELEASES.values()
    comparer = Comparer(old, new)
    for path, tick in _in_turn(paths):
        for line in read_lines(path):
            comparer.compare(line)
            tick()
    found = comparer.found
    say(render_differences(found, old, new, limit), nl=False)
    if as_json:
        told = {"facts": found.stated, "differing": found.differing, "changes": found.by_change}
        told |= {"unexplained": found.unexplained, "undocumented": found.undocumented}
        click.echo(msgspec.json.encode(told).decode())
    return found.failed


def _in_turn(paths: list[Path]) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Recordings one after the other; how far it is goes by the size of the files."""
    sizes = [path.stat().st_size // 1024 + 1 if path.exists() else 1 for path in paths]
    with Progress("replaying", sum(sizes), "KiB") as progress:
        for path, size in zip(paths, sizes, strict=True):
            yield path, partial(progress.tick, path.name)
            progress.advance(size, path.name)


def summary(report: VerifyReport) -> dict[str, Any]:
    """The report as plain data: counts by family and subject, their total, and the differences kept."""
    families: dict[str, dict[str, Any]] = {}
    for (family, subject), counted in sorted(report.counts.items()):
        families.setdefault(family, {})[subject] = _figures(counted)
    differences = [
        {"family": family, "subject": subject, **asdict(difference)}
        for (family, subject), kept in sorted(report.differences.items())
        for difference in kept
    ]
    return {"total": _figures(report.total), "families": families, "differences": differences}


def _figures(counted: FactCounts) -> dict[str, int]:
    return {
        "compared": counted.compared,
        "equal": counted.equal,
        "different": counted.different,
        "notBuilt": counted.not_built,
    }
