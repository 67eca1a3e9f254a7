"""Every command line in the documentation runs, blocks are what they say, and links lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.pages import PAGES, ROOT, anchors, blocks, commands, links, shown, write_files
from docs.running import run

LANGUAGES = {"console", "python", "yaml", "text"}


def _runs() -> Iterator[Any]:
    """Commands of all pages, each once unless it is about a file that the page has.

    Those whose output is shown are run by the tests of that output.
    """
    met: set[object] = set()
    for page in PAGES:
        files = [block.file for block in blocks(page) if block.file is not None]
        known = shown(page)
        for command in commands(page):
            about = page if any(file in command for file in files) else command
            if command not in known and (about, command) not in met:
                met.add((about, command))
                yield pytest.param(page, command, id=f"{page.relative_to(ROOT)}: {command}")


@pytest.mark.parametrize(("page", "command"), list(_runs()))
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
