"""A folder in which commands of the documentation are run."""

from pathlib import Path

import pytest

from docs.pages import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like the repository as far as the commands of the pages need it."""
    for name in ("tests", "examples", "Makefile", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path
