"""`stowplan version`: what is installed here, for a person and for a bug report."""

import platform
import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Any, Final

import click
import msgspec

from stowplan import __version__
from stowplan.api.releases import DEFAULT, NEWEST, OLDEST_EMULATED, RELEASES
from stowplan.server.version import MACHINES, VERSION

DEPENDENCIES: Final = (
    "aiohttp",
    "click",
    "cryptography",
    "msgspec",
    "multidict",
    "numpy",
    "prometheus-client",
    "PyYAML",
    "yarl",
)
"""Requirements in pyproject.toml."""


@click.command("version")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def version(output: str) -> None:
    """Show versions: stowplan, Kubernetes, dependencies."""
    found = versions()
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    kubernetes = found["kubernetes"]
    click.echo(f"stowplan     {found['stowplan']}")
    click.echo(f"Kubernetes   {kubernetes['version']}, as {kubernetes['gitVersion']}")
    emulated = kubernetes["emulated"]
    click.echo(f"             --emulated-version from {emulated['oldest']} to {emulated['newest']}")
    click.echo(f"Python       {found['python']} on {found['platform']}")
    width = max(map(len, DEPENDENCIES))
    for heading, (name, number) in zip(
        ("dependencies", *[""] * len(DEPENDENCIES)), found["dependencies"].items(), strict=False
    ):
        click.echo(f"{heading:12} {name:{width}} {number}")


def versions() -> dict[str, Any]:
    """The versions of everything that decides how this installation behaves."""
    machine = MACHINES.get(platform.machine(), platform.machine())
    return {
        "stowplan": __version__,
        "kubernetes": {
            "version": DEFAULT.version,
            "gitVersion": VERSION,
            "emulated": {
                "default": DEFAULT.name,
                "oldest": str(OLDEST_EMULATED),
                "newest": NEWEST.name,
                "releases": list(RELEASES),
            },
        },
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{sys.platform}/{machine}",
        "dependencies": {name: _installed(name) for name in DEPENDENCIES},
    }


def _installed(name: str) -> str:
    try:
        return installed_version(name)
    except PackageNotFoundError:
        return "not installed"
