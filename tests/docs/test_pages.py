"""Every command line in the documentation runs, blocks are what they say, and links lead somewhere."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from docs.pages import PAGES, ROOT, anchors, blocks, commands, links, write_files
from stowplan.cli.main import stowplan

LASTING = (
    "stowplan node",
    "stowplan shadow",
    "stowplan top",
    "stowplan view",
    "stowplan run",
    "stowplan up",
    "stowplan apiserver",
    "stowplan kubelets",
    "stowplan controllers",
)
LONG = ("stowplan bench", "stowplan chaos", "stowplan fuzz")
"""Commands that take long; tests/bench, tests/chaos and tests/fuzz run them."""
INSTALLING = ("pip install",)
SHELL = frozenset(("|", "||", "&&", "&", ";", ">", "<", "--"))
TESTING = "pytest "
LANGUAGES = {"console", "python", "yaml", "text"}
RUNS = [
    pytest.param(page, command, id=f"{page.relative_to(ROOT)}: {command}")
    for page in PAGES
    for command in commands(page)
]


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line as a reader would.

    What runs until Ctrl-C, takes long or installs something is run with `--help`, which still refuses unknown
    options; ours in this process. `make` only prints what it would do, and pytest what it would test.
    """
    words = shlex.split(command)
    if command.startswith((*LASTING, *LONG)) and not SHELL.intersection(words):
        helped = CliRunner().invoke(stowplan, [*words[1:], "--help"])
        return subprocess.CompletedProcess(command, helped.exit_code, helped.stdout, helped.stderr)
    if command.startswith((*LASTING, *LONG, *INSTALLING)):
        command = f"{command} --help"
    if command.startswith(TESTING):
        command = f"python -m {command} --collect-only -q -p no:cacheprovider"
    if command.startswith("make "):
        command = f"make --dry-run {command.removeprefix('make ')}"
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(("page", "command"), RUNS)
def test_a_command_of_a_page_runs(page: Path, command: str, folder: Path) -> None:
    write_files(page, folder)
    result = run(command, folder)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_say_what_they_are_and_code_is_in_files_that_can_be_run(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, block.text
        if block.language == "python":
            assert block.file is not None, block.text
            compile(block.text, block.file, "exec")
        if block.language == "console":
            assert block.text.startswith("$ ")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), (target, anchor)


def test_the_two_commands_of_the_readme_are_shown() -> None:
    assert {"make up", "make test"} <= set(commands(ROOT / "README.md"))


def test_modules_that_a_page_names_exist() -> None:
    sources = ROOT / "src" / "stowplan"
    for page in PAGES:
        named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text())) - {"path/to/file.py"}
        gone = {path for path in named if not (sources / path).exists() and not (ROOT / path).exists()}
        assert not gone, (page.name, gone)
