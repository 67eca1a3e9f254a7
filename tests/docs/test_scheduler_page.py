"""The output of a program on a page is the program's real output."""

from pathlib import Path

import pytest

from docs.pages import PAGES, ROOT, shown, write_files
from docs.running import run

REFUSED = (
    "stowplan fit -f app.yaml -f quota.yaml --from cluster.yaml",
    "stowplan fit -f gang.yaml --from racks.yaml",
)
"""Shown because not all replicas fit, for which the exit code is 1."""

ON_A_CLUSTER = (ROOT / "docs" / "policies.md",)
"""Pages whose commands need a running cluster: each has a test file with one."""

SHOWN = [
    pytest.param(page, command, text, id=command)
    for page in PAGES
    if page not in ON_A_CLUSTER
    for command, text in shown(page).items()
]


@pytest.mark.parametrize(("page", "command", "text"), SHOWN)
def test_the_output_that_is_shown_is_what_comes_out(
    page: Path, command: str, text: str, folder: Path
) -> None:
    write_files(page, folder)
    result = run(command, folder)
    assert result.returncode == (1 if command in REFUSED else 0), result.stderr
    assert result.stdout.rstrip("\n") == text.rstrip("\n"), result.stderr


def test_some_output_is_shown() -> None:
    assert len(SHOWN) >= 8
