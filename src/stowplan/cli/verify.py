"""`stowplan verify`: comparing this scheduler with recorded decisions of kube-scheduler."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from stowplan.cli.progress import Progress
from stowplan.verify.dispatch import replay
from stowplan.verify.recording import RecordingError, find_recordings
from stowplan.verify.report import FactCounts, Report, render_text

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
@click.pass_context
def verify_command(context: click.Context, files: tuple[str, ...], as_json: bool, limit: int) -> None:
    """Compare decisions with recorded ones.

    FILES are recordings of kube-scheduler (JSON lines, *.jsonl or *.jsonl.gz) or directories of them. The
    table counts, per recording and subject, the facts compared, equal, different, and those about features
    that are not built yet. Exit code 1: there are differences; 2: a recording cannot be read.
    """
    report = Report(keep=max(limit, 1))
    try:
        _replay_all(find_recordings(files), report)
    except RecordingError as error:
        raise _Unreadable(str(error)) from None
    click.echo(render_text(report, limit), nl=False)
    if as_json:
        click.echo(msgspec.json.encode(summary(report)).decode())
    if report.failed:
        context.exit(_DIFFERENT)


def _replay_all(paths: list[Path], report: Report) -> None:
    """Replay recordings one after the other; how far it is goes by the size of the files."""
    sizes = [path.stat().st_size // 1024 + 1 if path.exists() else 1 for path in paths]
    with Progress("replaying", sum(sizes), "KiB") as progress:
        for path, size in zip(paths, sizes, strict=True):
            replay(path, report, partial(progress.tick, path.name))
            progress.advance(size, path.name)


def summary(report: Report) -> dict[str, Any]:
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
