"""`stowplan snapshot`: a cluster as one compact file."""

import asyncio
from collections import Counter
from pathlib import Path

import click

from stowplan.cli.explain.explain import connect
from stowplan.cli.explain.offline import read_dump, read_lists
from stowplan.cli.output import say
from stowplan.simulate.snapshot import Redactor, Snapshot, write_snapshot

_AGENT = "stowplan-snapshot"


@click.command("snapshot")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Kubeconfig of the cluster [default: as kubectl].",
)
@click.option("--context", default="", help="Context of the kubeconfig to use.")
@click.option(
    "--from",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    help="File, directory or tar archive written by `kubectl get … -o yaml`, instead of a cluster; or -.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File to write.",
)
@click.option("--redact", is_flag=True, help="Replace names, labels and images, consistently.")
def snapshot(
    kubeconfig: Path | None, context: str, files: tuple[Path, ...], output: Path, redact: bool
) -> None:
    """Write a cluster to one compact file.

    The file has only objects that scheduling depends on: no secrets, config maps or logs. Every command with
    --from reads it. With --redact you can share it: names, labels and images are replaced consistently, so
    the scheduler decides as before.
    """
    found = read_dump(files) if files else asyncio.run(_listed(kubeconfig, context))
    if redact:
        found = Redactor().snapshot(found)
    size = write_snapshot(found, output)
    for note in found.notes:
        say(f"note: {note}", err=True)
    counts = Counter(type(obj).__name__ for obj in found.objects)
    said = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    shown = f"{size / 1_000_000:.1f} MB" if size >= 100_000 else f"{size / 1000:.1f} kB"
    say(f"{output}: {shown}, {said or 'nothing'}")


async def _listed(kubeconfig: Path | None, context: str) -> Snapshot:
    async with connect(kubeconfig, context, _AGENT) as (client, address, _):
        return await read_lists(client, address)
