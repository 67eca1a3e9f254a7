"""Options of every command with a scheduler in it."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def feature_gates_option(command: _Command) -> _Command:
    """The option that switches feature gates, for every command with a scheduler in it."""
    option = click.option(
        "--feature-gates",
        metavar="GATE=BOOL,…",
        multiple=True,
        help="Feature gates, such as GenericWorkload=true. Can be repeated.",
    )
    return option(command)


def plugins_option(command: _Command) -> _Command:
    """The option that brings plugins from outside the tree."""
    option = click.option(
        "--plugin",
        "plugins",
        metavar="MODULE:CLASS",
        multiple=True,
        help="Out-of-tree plugin, as module:Class or file.py:Class. Can be repeated.",
    )
    return option(command)
