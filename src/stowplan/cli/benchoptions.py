"""What the commands of `stowplan bench` have in common."""

from typing import Any, Final

import click
import msgspec

from stowplan.cli.values import AtLeast

AT_LEAST_ONE: Final = AtLeast(1)
NOT_NEGATIVE: Final = AtLeast(0)
JSON: Final = click.option(
    "--json", "as_json", is_flag=True, help="End with one line that holds one JSON object."
)


def echo_json(values: dict[str, Any]) -> None:
    """The last line of a benchmark's output."""
    click.echo(msgspec.json.encode(values).decode())
