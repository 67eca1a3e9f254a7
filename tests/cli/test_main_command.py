"""The command `stowplan` as a whole: its parts, its version, its way of saying no."""

import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from stowplan import __version__
from stowplan.api.decode import DecodeError
from stowplan.cli.main import OneLineErrors, stowplan
from stowplan.config import ConfigError
from stowplan.scheduler.framework.status import ProfileError


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(stowplan, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"stowplan {__version__}\n")


def test_help_names_every_command_with_its_own_summary() -> None:
    help_text = CliRunner().invoke(stowplan, ["--help"]).stdout
    listed = dict(
        re.findall(r"^  ([a-z]+) +(\S.*)$", help_text.partition("Run a scheduler")[2], re.MULTILINE)
    )
    assert listed == {name: one.get_short_help_str(200) for name, one in stowplan.commands.items()}


def groups(command: click.Command = stowplan, name: str = "stowplan") -> Iterator[tuple[str, click.Group]]:
    """The group of all commands, and every group in it."""
    if isinstance(command, click.Group):
        yield name, command
        for inner in command.commands:
            yield from groups(command.commands[inner], f"{name} {inner}")


def options() -> Iterator[tuple[str, click.Option]]:
    """Every option of every command, but for those of `run`, which has its own help."""
    for name, group in groups():
        for inner, command in group.commands.items():
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    yield f"{name} {inner} {parameter.opts[0]}", parameter


@pytest.mark.parametrize(
    ("name", "group"), list(groups()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_no_line_of_a_list_of_commands_is_cut_short(name: str, group: click.Group) -> None:
    help_text = CliRunner().invoke(group, ["--help"]).stdout
    assert "..." not in help_text.partition("--help")[2], name
    for inner, command in group.commands.items():
        assert command.help
        assert command.help.split("\n")[0].endswith("."), inner


def test_every_option_says_what_it_does() -> None:
    assert [name for name, option in options() if not (option.help or "").endswith((".", "]."))] == []


def test_the_package_can_be_run_as_a_module() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "stowplan", "--version"], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, f"stowplan {__version__}\n", "")


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


@pytest.mark.parametrize(
    "arguments", [["lab\x1b[2J"], ["version", "\x1b[2Jx"], ["config", "\x1b[2J"], ["version", "a\u202eb"]]
)
def test_words_that_are_refused_are_printed_without_what_terminals_act_upon(arguments: list[str]) -> None:
    """Also where click makes the message."""
    done = CliRunner().invoke(stowplan, arguments)
    assert done.exit_code == 2
    assert "\\x1b[2J" in done.output or "\\u202e" in done.output
    assert not {"\x1b", "\u202e"} & set(done.output)


def test_what_is_no_mistake_of_the_user_is_not_hidden() -> None:
    group = OneLineErrors("program", commands={"fail": click.Command("fail", callback=lambda: [][0])})
    assert isinstance(CliRunner().invoke(group, ["fail"]).exception, IndexError)


@pytest.mark.parametrize("name", ["chaos", "fuzz"])
def test_a_command_that_moved_names_its_new_place_in_one_line(name: str) -> None:
    result = CliRunner().invoke(stowplan, [name, "--seeds", "3"])
    assert result.exit_code == 1
    assert result.output == f"Error: `stowplan {name}` is `stowplan lab {name}` now\n"


def test_the_lab_has_the_commands_that_users_know_from_the_top() -> None:
    lab = stowplan.commands["lab"]
    assert isinstance(lab, click.Group)
    assert list(lab.commands) == ["bench", "chaos", "conformance", "fuzz", "software", "verify"]
    assert all(lab.commands[name] is stowplan.commands[name] for name in ("bench", "verify"))
