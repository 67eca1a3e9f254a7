"""Commands that test and measure stowplan itself: `stowplan lab`, and `verify` and `bench` at the top, too.

A module per command, a folder for `bench`. They may import everything; the work is done in `stowplan.lab`.
"""

from typing import Final

import click

from stowplan.cli.lazy import Commands

COMMANDS: Final = {
    "bench": "stowplan.cli.lab.bench:bench",
    "chaos": "stowplan.cli.lab.chaos:chaos",
    "conformance": "stowplan.cli.lab.conformance:conformance",
    "fuzz": "stowplan.cli.lab.fuzz:fuzz",
    "software": "stowplan.cli.lab.software:software",
    "verify": "stowplan.cli.lab.verify:verify_command",
}


@click.group("lab", commands=Commands(COMMANDS))
def lab() -> None:
    """Test and measure stowplan: bench, chaos, fuzz, verify and more."""
