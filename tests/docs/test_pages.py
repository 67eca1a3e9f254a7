"""Every command line in README.md and docs/ runs, and every file shown there is used by one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import PAGES, ROOT, blocks, commands, write_files

LASTING = ("stowplan run", "stowplan up", "stowplan apiserver", "stowplan kubelets", "stowplan controllers")
LANGUAGES = {"console", "python", "yaml", "text"}
RUNS = [
    pytest.param(page, command, id=f"{page.stem}: {command}") for page in PAGES for command in commands(page)
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like the repository as far as commands of the pages care."""
    for name in ("tests", "Makefile", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line as a reader would.

    Of `make` it is only asked what it would do, and of what runs until Ctrl-C whether it knows its options.
    """
    if command.startswith(LASTING):
        command = f"{command} --help"
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


def test_the_two_commands_of_the_readme_are_shown() -> None:
    assert {"make up", "make test"} <= set(commands(ROOT / "README.md"))
