"""`stowplan lab software`: manifests of other projects, each on a fresh cluster."""

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path

import click
import msgspec

from stowplan.cli.output import say
from stowplan.cli.values import AtLeast, Seconds, SomeOf
from stowplan.lab.software import (
    ExpectationError,
    Expected,
    Installed,
    differences,
    install,
    ours,
    projects_in,
    read_expected,
    report_of,
)
from stowplan.localcluster.objects.addons import AddOn
from stowplan.localcluster.up.manifests import LoadError

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("software")
@click.argument("folder", type=_FOLDER, metavar="DIR")
@click.option("--only", metavar="NAME", multiple=True, help="Install only this project. Can be repeated.")
@click.option(
    "--expect",
    type=_FILE,
    help="YAML file of what is expected, by project; by default our list for public projects.",
)
@click.option("--nodes", type=AtLeast(1), default=6, show_default=True, help="Nodes of each cluster.")
@click.option(
    "--timeout", type=Seconds(), default="60s", show_default=True, help="Time for a project to become ready."
)
@click.option("--with", "add_ons", type=SomeOf(AddOn), default=(), help="As in `stowplan up`.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def software(
    folder: Path,
    only: tuple[str, ...],
    expect: Path | None,
    nodes: int,
    timeout: float,
    add_ons: tuple[str, ...],
    as_json: bool,
) -> None:
    """Install projects from manifests, each on a fresh cluster.

    Every file and every folder in DIR is a project, with all YAML and JSON files in it. Its objects are
    created in a fresh cluster like that of `stowplan up`, and everything should be applied and become ready,
    except for what --expect names. The exit code is 1 if something differs from that.
    """
    try:
        expected = ours() if expect is None else read_expected(expect)
    except ExpectationError as error:
        raise click.ClickException(f"--expect: {error}") from None
    projects = [one for one in projects_in(folder) if not only or one.name in only]
    if not projects:
        what = f" named {', '.join(only)}" if only else ""
        raise click.ClickException(f"{folder}: expected files or folders with manifests{what}")
    found: list[Installed] = []
    for project in projects:
        try:
            done = asyncio.run(
                install(project, nodes=nodes, timeout=timeout, add_ons=tuple(map(AddOn, add_ons)))
            )
        except LoadError as error:
            done = Installed(project.name, refused={"manifests": str(error)})
        found.append(done)
        say(f"{project.name}: {done.applied} of {done.objects} objects applied", err=True)
    _show(found, expected, as_json=as_json)
    sys.exit(int(any(differences(one, expected) for one in found)))


def _show(found: list[Installed], expected: dict[str, Expected], *, as_json: bool) -> None:
    if as_json:
        data = [{**asdict(one), "differences": differences(one, expected)} for one in found]
        click.echo(msgspec.json.format(msgspec.json.encode(data)).decode())
        return
    for line in report_of(found, expected):
        say(line)
