"""Builds from the checkout: all of the package and nothing else, the same from the sdist."""

import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from stowplan import __version__
from stowplan.cli.lab import COMMANDS as OF_LAB
from stowplan.cli.main import _PLACES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WHEEL = f"stowplan-{__version__}-py3-none-any.whl"
INFO = f"stowplan-{__version__}.dist-info"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

_BUILD = """
import contextlib, sys, tarfile
from hatchling.build import build_sdist, build_wheel
target = sys.argv[1]
build_wheel(target)
sdist = build_sdist(target)
with tarfile.open(f"{target}/{sdist}") as archive:
    archive.extractall(target, filter="data")
with contextlib.chdir(f"{target}/{sdist.removesuffix('.tar.gz')}"):
    build_wheel(f"{target}/again")
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel, and in `again` the one that is built from the sdist. Nothing is downloaded."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-c", _BUILD, str(folder)], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def files(dist: Path) -> dict[str, bytes]:
    return contents(dist / WHEEL)


@pytest.fixture(scope="module")
def metadata(files: dict[str, bytes]) -> Message:
    return message_from_bytes(files[f"{INFO}/METADATA"])


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sources() -> set[str]:
    """The files of the package in the checkout."""
    package = ROOT / "src" / "stowplan"
    return {
        file.relative_to(package.parent).as_posix()
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def test_the_wheel_has_every_file_of_the_package_and_no_other(files: dict[str, bytes]) -> None:
    assert {name for name in files if not name.startswith(f"{INFO}/")} == sources()
    assert {name.removeprefix(f"{INFO}/") for name in files if name.startswith(INFO)} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }


def test_the_sdist_builds_the_same_wheel_byte_for_byte(dist: Path) -> None:
    assert (dist / "again" / WHEEL).read_bytes() == (dist / WHEEL).read_bytes()


def test_its_metadata_says_who_can_install_it(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("stowplan", __version__)
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    declared = {
        part.rpartition(" ")[2]
        for part in metadata.get_all("Classifier", [])
        if re.search(r":: 3\.\d+$", part)
    }
    assert declared == set(PYTHONS)


def test_nothing_for_development_is_installed_unless_asked_for(metadata: Message) -> None:
    required = {
        re.split(r"[^\w-]", part)[0].lower()
        for part in metadata.get_all("Requires-Dist", [])
        if "extra ==" not in part
    }
    assert required == {re.split(r"[^\w-]", part)[0].lower() for part in PROJECT["dependencies"]}
    assert set(metadata.get_all("Provides-Extra", [])) == {
        "dask",
        "dev",
        "docs",
        "fuzz",
        "kubernetes",
        "pandas",
        "plan",
        "sweep",
        "testing",
    }


def test_its_scripts_exist(files: dict[str, bytes]) -> None:
    entries = files[f"{INFO}/entry_points.txt"].decode()
    scripts = dict(re.findall(r"^([\w-]+) = (\S+)$", entries, flags=re.MULTILINE))
    assert scripts.keys() == {"stowplan", "kubectl-why"}
    for place in (*scripts.values(), *_PLACES.values(), *OF_LAB.values()):
        module, _, function = place.partition(":")
        path = module.replace(".", "/")
        text = files.get(f"{path}.py") or files[f"{path}/__init__.py"]
        assert function in text.decode(), place
