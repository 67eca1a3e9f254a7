"""Common options of the benchmarks, JSON on the last line, and the limit of a turn of the loop."""

from typing import Any, Final

import click
import msgspec

from stowplan.cli.values import AtLeast
from stowplan.runtime.clock.watchdog import LIMIT

AT_LEAST_ONE: Final = AtLeast(1)
NOT_NEGATIVE: Final = AtLeast(0)
JSON: Final = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as one JSON object on the last line."
)
SEED: Final = click.option(
    "--seed", type=NOT_NEGATIVE, default=0, show_default=True, help="Seed of every random choice."
)


def echo_json(values: dict[str, Any]) -> None:
    """The last line of a benchmark's output."""
    click.echo(msgspec.json.encode(values).decode())


def check_hold(milliseconds: float, held_by: str) -> None:
    """Fail if the event loop was held for too long: everything else it serves was late by that."""
    if milliseconds > LIMIT * 1e3:
        click.echo(f"Error: the event loop was held for {milliseconds:,.0f} ms by {held_by}", err=True)
        raise SystemExit(1)
