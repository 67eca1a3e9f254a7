"""The help has every flag of kube-scheduler, in its group, with its default."""

import re
import subprocess
import sys

import pytest

from observed.files import recorded
from server.flags.commands import call
from stowplan.api.releases import DEFAULT
from stowplan.server.command import help_text, usage_text
from stowplan.server.flags.table import GROUPS
from waiting import PATIENCE

_LINE = re.compile(r"  (?:-(?P<letter>\w), |    )--(?P<name>[\w-]+)(?: (?P<type>[^ ]+))?(?:   |$)")


def listed(text: str) -> dict[str, dict[str, str]]:
    """The flags of a help text, as the recording lists them."""
    found: dict[str, dict[str, str]] = {}
    group = ""
    for line in text.splitlines():
        if heading := re.fullmatch(r"(\w[\w ]*) flags:", line):
            group = heading[1]
        elif match := _LINE.match(line):
            default = re.search(r" \(default (.*)\)$", line)
            found[match["name"]] = {
                "group": group,
                "name": match["name"],
                "shorthand": match["letter"] or "",
                "type": match["type"] or "",
                "default": default[1] if default else "",
            }
    return found


def test_every_flag_of_kube_scheduler_is_there_with_its_group_type_and_default() -> None:
    ours = listed(help_text(GROUPS))
    assert [ours.get(flag["name"]) for flag in recorded("cli/flags")] == recorded("cli/flags")


def test_only_flags_of_our_own_and_of_earlier_releases_come_on_top() -> None:
    theirs = {flag["name"] for flag in recorded("cli/flags")}
    assert {flag["group"] for name, flag in listed(help_text(GROUPS)).items() if name not in theirs} == {
        "Stowplan",
        "Legacy",
    }


def test_every_flag_says_what_it_does() -> None:
    for group in GROUPS:
        for flag in group.flags:
            assert flag.help.endswith((".", ")")) or "\n" in flag.help, flag.name
            assert not flag.ignored.endswith("."), flag.name


@pytest.mark.parametrize("argument", ["--help", "-h", "--help=true"])
def test_help_is_asked_for_in_several_ways(argument: str) -> None:
    called = call("--secure-port=70000", argument, "a-name")
    assert (called.code, called.stdout, called.stderr) == (0, help_text(GROUPS), "")


def test_help_can_be_declined() -> None:
    assert call("--help=false", "--version").stdout.startswith(f"Kubernetes v{DEFAULT.version}")


@pytest.mark.parametrize("width", [40, 80, 132])
def test_lines_fit_a_terminal(width: int) -> None:
    flags = listed(usage_text(GROUPS))
    lines = help_text(GROUPS, width).splitlines()
    assert len(lines) > len(flags) * 2
    longest_name = max(len(line) for line in lines if line.lstrip().startswith("-"))
    assert all(len(line) <= max(width, longest_name) for line in lines if "=true|false" not in line)
    assert not any(len(line) > width for line in lines if line.startswith(" " * 16) and " " in line.strip())


@pytest.mark.parametrize("argument", ["--version", "--help", "--nosuch"])
def test_an_answer_from_the_arguments_alone_loads_nothing_of_the_scheduler(argument: str) -> None:
    script = (
        "import sys; sys.argv = ['stowplan', 'run', sys.argv[1]]\n"
        "from stowplan.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as ended: print('CODE', ended.code)\n"
        "heavy = {'numpy', 'yaml', 'aiohttp', 'cryptography'}\n"
        "heavy |= {'stowplan.config', 'stowplan.scheduler.plugins'}\n"
        "print('LOADED', sorted(heavy & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, argument],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout.endswith(f"CODE {1 if argument == '--nosuch' else 0}\nLOADED []\n")
