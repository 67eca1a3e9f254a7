"""Refused configurations as one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from stowplan.config import ConfigError
from stowplan.scheduler.framework.status import ProfileError


@contextmanager
def one_line_errors(place: str = "") -> Iterator[None]:
    """Turns a refused configuration into one line on stderr that begins with its place, and exit code 1."""
    try:
        yield
    except (ConfigError, ProfileError) as error:
        line = place + " ".join(part.strip() for part in str(error).splitlines())
        raise click.ClickException(f"{line} ({error.hint})" if error.hint else line) from None
