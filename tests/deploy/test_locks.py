"""The lock files have what pyproject.toml asks for; `make lock` writes them again."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDED = {
    "requirements.lock": PROJECT["dependencies"],
    "requirements-dev.lock": [
        *PROJECT["dependencies"],
        *PROJECT["optional-dependencies"]["dev"],
        *PROJECT["optional-dependencies"]["docs"],
    ],
}


def locked(file: str) -> dict[str, list[Version]]:
    """Versions by name; different Pythons may need different ones."""
    found: dict[str, list[Version]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / file).read_text(), flags=re.MULTILINE):
        found.setdefault(canonicalize_name(name), []).append(Version(version))
    return found


@pytest.mark.parametrize("file", NEEDED)
def test_every_dependency_is_locked_at_a_version_that_is_allowed(file: str) -> None:
    versions = locked(file)
    for text in NEEDED[file]:
        needed = Requirement(text)
        assert versions.get(canonicalize_name(needed.name)), f"{text}: not in {file}, run `make lock`"
        for version in versions[canonicalize_name(needed.name)]:
            assert version in needed.specifier, f"{text}: {file} has {version}, run `make lock`"


@pytest.mark.parametrize("file", NEEDED)
def test_every_version_has_hashes(file: str) -> None:
    entries = re.split(r"^(?=\w)", (ROOT / file).read_text(), flags=re.MULTILINE)[1:]
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    assert len(entries) == sum(map(len, locked(file).values()))


def test_what_runs_is_the_same_in_both() -> None:
    both = locked("requirements-dev.lock")
    assert {name: both.get(name) for name in locked("requirements.lock")} == locked("requirements.lock")
