"""What a page shows as the output of a program is what the program prints."""

from itertools import pairwise
from pathlib import Path

import pytest

from docs.pages import PAGES, blocks, write_files
from docs.test_pages import run

SHOWN = [
    pytest.param(page, command.text.removeprefix("$ ").strip(), text.text, id=command.text.strip())
    for page in PAGES
    for command, text in pairwise(blocks(page))
    if f"```console\n{command.text}```\n\n```text\n{text.text}" in page.read_text()
]


@pytest.mark.parametrize(("page", "command", "text"), SHOWN)
def test_the_output_that_is_shown_is_what_comes_out(
    page: Path, command: str, text: str, folder: Path
) -> None:
    write_files(page, folder)
    result = run(command, folder)
    assert result.stdout.rstrip("\n") == text.rstrip("\n"), result.stderr


def test_some_output_is_shown() -> None:
    assert len(SHOWN) >= 8
