"""The command `stowplan`."""

from typing import Any

import click

from stowplan import __version__
from stowplan.api.decode import DecodeError
from stowplan.cli.apiserver import apiserver
from stowplan.cli.bench import bench
from stowplan.cli.chaos import chaos
from stowplan.cli.config import config_group
from stowplan.cli.controllers import controllers
from stowplan.cli.demo import demo
from stowplan.cli.kubelets import kubelets
from stowplan.cli.up import up
from stowplan.cli.verify import verify_command
from stowplan.config import ConfigError
from stowplan.framework.errors import ProfileError


class OneLineErrors(click.Group):
    """A group that tells mistakes of its users in one line: `Error: …`, exit code 1, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ConfigError, DecodeError, ProfileError) as error:
            raise click.ClickException(" ".join(str(error).split())) from None
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            place = f"{error.filename}: " if error.filename else ""
            raise click.ClickException(f"{place}{error.strerror or error}") from None


@click.group("stowplan", cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="stowplan", message="stowplan %(version)s")
def stowplan() -> None:
    """A Kubernetes scheduler: a drop-in, a cluster in one process, and a simulator on one engine."""


for command in (apiserver, bench, chaos, config_group, controllers, demo, kubelets, up, verify_command):
    stowplan.add_command(command)


def main() -> None:
    """The console script."""
    stowplan()
