"""A folder in which commands of the documentation are run."""

from pathlib import Path

import pytest

from docs.pages import ROOT
from scheduler.recording.small import record_small


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a small cluster, which pages call `day.rec`."""
    path = tmp_path_factory.mktemp("recording") / "day.rec"
    record_small(path)
    return path


@pytest.fixture
def folder(tmp_path: Path, recording: Path) -> Path:
    """A folder that looks like the repository as far as the commands of the pages need it."""
    for name in ("tests", "examples", "Makefile", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / recording.name).symlink_to(recording)
    return tmp_path
