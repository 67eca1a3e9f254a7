"""The command `stowplan` as a whole: its parts, its version, its way of saying no."""

import click
import pytest
from click.testing import CliRunner

from stowplan import __version__
from stowplan.api.decode import DecodeError
from stowplan.cli.main import OneLineErrors, stowplan
from stowplan.config import ConfigError
from stowplan.framework.status import ProfileError


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(stowplan, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"stowplan {__version__}\n")


def test_help_names_every_command() -> None:
    help_text = CliRunner().invoke(stowplan, ["--help"]).stdout
    assert stowplan.commands.keys() >= {"bench", "config", "demo", "verify"}
    for name, command in stowplan.commands.items():
        assert f"  {name} " in help_text
        assert command.help


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConfigError("decode", "profiles:\n  expected a list"), "profiles: expected a list"),
        (DecodeError("Pod: expected an object"), "Pod: expected an object"),
        (ProfileError("no bind plugin"), "no bind plugin"),
        (FileNotFoundError(2, "No such file or directory", "x.yaml"), "x.yaml: No such file or directory"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
    ],
)
def test_a_mistake_of_the_user_is_told_in_one_line(error: Exception, line: str) -> None:
    group = OneLineErrors("program")

    @group.command("fail")
    def fail() -> None:
        raise error

    result = CliRunner().invoke(group, ["fail"])
    assert (result.exit_code, result.stderr, result.stdout) == (1, f"Error: {line}\n", "")


def test_what_is_no_mistake_of_the_user_is_not_hidden() -> None:
    group = OneLineErrors("program", commands={"fail": click.Command("fail", callback=lambda: [][0])})
    assert isinstance(CliRunner().invoke(group, ["fail"]).exception, IndexError)
