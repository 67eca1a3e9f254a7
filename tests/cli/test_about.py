"""`stowplan version`, `completion` and `man`."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from stowplan import __version__
from stowplan.api.releases import DEFAULT
from stowplan.cli.main import stowplan
from stowplan.cli.version import DEPENDENCIES
from stowplan.localcluster.kubelets.pretend import SILENT
from stowplan.server.flags.table import GROUPS

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def output(*arguments: str) -> str:
    result = CliRunner().invoke(stowplan, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_versions_of_everything_that_is_required_are_shown() -> None:
    assert set(DEPENDENCIES) == {re.split(r"[^\w-]", part)[0] for part in PROJECT["dependencies"]}
    found = json.loads(output("version", "-o", "json"))
    assert found["stowplan"] == __version__
    assert found["kubernetes"]["emulated"]["default"] == DEFAULT.name
    assert found["dependencies"].keys() == set(DEPENDENCIES)
    for name, version in found["dependencies"].items():
        assert re.match(r"\d+\.", version), name
        assert re.search(rf"{name} +{re.escape(version)}", output("version"))


# Completion


def completed(words: list[str], incomplete: str) -> dict[str, str | None]:
    completion = ShellComplete(stowplan, {}, "stowplan", "_STOWPLAN_COMPLETE")
    return {item.value: item.help for item in completion.get_completions(words, incomplete)}


@pytest.mark.parametrize(
    ("words", "incomplete", "among"),
    [
        ([], "", {"up", "run", "explain"}),
        ([], "ex", {"explain"}),
        ([], "--v", {"--version"}),
        (["up"], "--data", {"--data-dir"}),
        (["up"], "--until", {"--until", "--until-done"}),
        (["config"], "mig", {"migrate"}),
        (["explain", "-o"], "", {"text", "json", "yaml"}),
        (["node", "fail", "--as"], SILENT[:3], {SILENT}),
        (["run"], "--leader-elect-r", {"--leader-elect-resource-name", "--leader-elect-retry-period"}),
        (["completion"], "", {"bash", "zsh", "fish"}),
    ],
)
def test_words_are_completed(words: list[str], incomplete: str, among: set[str]) -> None:
    found = completed(words, incomplete)
    assert found.keys() >= among
    assert all(value.startswith(incomplete) for value in found)


def test_commands_are_completed_with_their_summaries() -> None:
    found = completed([], "")
    assert {name: found[name] for name in stowplan.commands} == {
        name: command.get_short_help_str(200) for name, command in stowplan.commands.items()
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str) -> None:
    script = output("completion", shell)
    assert f"_STOWPLAN_COMPLETE={shell}_complete" in script
    assert CliRunner().invoke(stowplan, ["completion", "tcsh"]).exit_code == 2


def test_bash_takes_the_script_and_asks_for_words(tmp_path: Path) -> None:
    program = tmp_path / "stowplan"
    program.write_text(f"#!{sys.executable}\nfrom stowplan.cli.main import main\nmain()\n")
    program.chmod(0o755)
    script = f"""{output("completion", "bash")}
COMP_WORDS=({program} expl) COMP_CWORD=1
_stowplan_completion {program}
echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "explain\n", done.stderr


# Manual pages


def test_every_command_has_a_page_with_all_of_its_options(tmp_path: Path) -> None:
    output("man", "--directory", str(tmp_path))
    names = {file.name for file in tmp_path.iterdir()}
    assert names >= {"stowplan.1", "stowplan-run.1", "stowplan-config-migrate.1"}
    assert {f"stowplan-{name}.1" for name in stowplan.commands} <= names
    for file in tmp_path.iterdir():
        text = file.read_text("ascii")
        assert text.startswith(f'.TH "{file.stem.upper()}" 1 ')
        assert not re.search(r"^\.(?!(TH|SH|SS|TP|B|BR|PP|nf|fi|RS|RE)\b)", text, flags=re.MULTILINE), (
            file.name
        )
    up = (tmp_path / "stowplan-up.1").read_text().replace("\\-", "-")
    for parameter in stowplan.commands["up"].params:
        assert all(name in up for name in parameter.opts if name.startswith("-")), parameter.name
    run = (tmp_path / "stowplan-run.1").read_text().replace("\\-", "-")
    shown = [flag for group in GROUPS for flag in group.flags if not flag.deprecated]
    assert [flag.name for flag in shown if f"--{flag.name}\n" not in run] == []


def test_a_page_of_what_is_no_command_is_refused_in_one_line() -> None:
    result = CliRunner().invoke(stowplan, ["man", "up", "there"])
    assert (result.exit_code, result.stderr) == (1, "Error: no such command: stowplan up there\n")
