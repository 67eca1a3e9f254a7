"""How the image is put together, without Debian's packages; `make image-trial` tries the whole."""

import importlib.util
import json
import re
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from deploy.image_trial import blob, read

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("image_build", ROOT / "deploy" / "image" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["image_build"] = module
    spec.loader.exec_module(module)
    return module


def entries(build: ModuleType) -> list[Any]:
    files = [("opt/stowplan/bin/stowplan", 0o755, b"x"), ("etc/a", 0o644, b"a"), ("opt/b", 0o644, b"b")]
    return [*(build.Entry(*each) for each in files), build.Entry("lib64/ld", 0o777, link="../lib/ld")]


def test_a_layer_is_the_same_whatever_the_order_and_belongs_to_root(build: ModuleType) -> None:
    made = build.layer(entries(build), 7)
    assert made == build.layer(reversed(entries(build)), 7)
    with tarfile.open(fileobj=BytesIO(made)) as tar:
        members = tar.getmembers()
        assert tar.getmember("lib64/ld").linkname == "../lib/ld"
    assert {(member.uid, member.gid, member.mtime) for member in members} == {(0, 0, 7)}
    assert [member.name for member in members if member.isdir()] == [
        "etc",
        "lib64",
        "opt",
        "opt/stowplan",
        "opt/stowplan/bin",
    ]


def test_the_image_says_what_the_dockerfile_says(build: ModuleType, tmp_path: Path) -> None:
    layers = [build.layer(entries(build), 7)]
    digests = {build.write(tmp_path / name, layers, "1", "2026-01-01T00:00:00Z") for name in ("one", "two")}
    assert len(digests) == 1
    manifest, config = read(tmp_path / "one")
    assert digests == {f"sha256:{named(tmp_path / 'one').name}"}
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    assert f"USER {config['config']['User']}\n" in dockerfile
    assert f"ENTRYPOINT {json.dumps(config['config']['Entrypoint'])}\n" in dockerfile
    assert list(config["config"]["ExposedPorts"]) == ["10259/tcp"]
    for name, value in config["config"]["Labels"].items():
        assert name.endswith(".version") or f'{name}="{value}"' in dockerfile
    for each in ("PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1", "TMPDIR=/dev/shm"):
        assert each in config["config"]["Env"]
        assert each in dockerfile
    for descriptor in (manifest["config"], *manifest["layers"]):
        assert blob(tmp_path / "one", descriptor).stat().st_size == descriptor["size"]


def test_both_images_install_the_same_by_the_same_python(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Dockerfile cannot be built here: what it runs is compared with what the builder runs."""
    ran: list[list[str]] = []

    def run(command: list[str], **_: Any) -> None:
        ran.append([word for word in command if "=" not in word or word.startswith("--only-binary")])

    monkeypatch.setattr(build.subprocess, "run", run)
    wheel = tmp_path / "stowplan-1-py3-none-any.whl"
    build.application(tmp_path, wheel)
    locked, own, compiled = (command[command.index("-m") + 1 :] for command in ran)
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", " ")
    first, second = re.findall(r"bin/pip (install .*?)(?:&&|\n|$)", dockerfile)
    for command, words in ((locked, first.split()), (own, second.split())):
        assert command[:2] == ["pip", "install"]
        assert ("--require-hashes" in command) is ("--require-hashes" in words)
        assert "--compile" in words
    assert first.split()[-2:] == ["-r", "requirements.lock"]
    assert locked[-2:] == ["-r", str(ROOT / "requirements.lock")]
    assert second.split()[-2:] == ["--no-deps", "."]
    assert "--no-deps" in own
    assert own[-1] == str(wheel)
    assert compiled[0] == "compileall"
    assert re.findall(r"^FROM python:(\S+)-slim", dockerfile, re.MULTILINE) == [build.PYTHON] * 2
    assert f"COPY --from=build /{build.HOME} /{build.HOME}\n" in dockerfile
    (settings,) = re.findall(r"^ENV (.*)$", dockerfile, re.MULTILINE)
    told = dict(word.split("=", 1) for word in settings.split())
    # Python's own image says that the locale is C.UTF-8.
    both = build.ENVIRONMENT.keys() - {"LANG"}
    assert told.keys() == both
    assert {name: told[name] for name in both - {"PATH"}} == {
        name: build.ENVIRONMENT[name] for name in both - {"PATH"}
    }


def named(image: Path) -> Path:
    (described,) = json.loads((image / "index.json").read_text())["manifests"]
    return blob(image, described)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("usr/bin/python3.11", True),
        ("usr/bin/openssl", False),
        ("bin/tar", False),
        ("lib/x86_64-linux-gnu/libc.so.6", True),
        ("lib64/ld-linux-x86-64.so.2", True),
        ("usr/lib/python3.11/ssl.py", True),
        ("usr/lib/python3.11/idlelib/run.py", False),
        ("usr/lib/python3.11/lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so", True),
        ("usr/share/doc/libc6/copyright", True),
        ("usr/share/doc/libc6/changelog.gz", False),
        ("usr/share/zoneinfo/Europe/Berlin", True),
        ("var/lib/dpkg/status", False),
    ],
)
def test_of_debian_libraries_python_zones_and_licences_are_kept(
    build: ModuleType, path: str, kept: bool
) -> None:
    assert bool(build.KEPT.match(path)) is kept


def test_the_bill_of_materials_names_everything_with_its_licence(build: ModuleType, tmp_path: Path) -> None:
    metadata = tmp_path / "METADATA"
    metadata.write_text("Name: Prices\nVersion: 1.0\nClassifier: License :: OSI Approved :: MIT License\n\nx")
    package = build._package("libcrypt1_1%3a4.4.33-2_amd64.deb")
    listed = json.loads(build.bill([package, build._distribution(metadata)], "1"))
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.5")
    assert [(each["name"], each["version"], each["purl"]) for each in listed["components"]] == [
        ("libcrypt1", "1:4.4.33-2", "pkg:deb/debian/libcrypt1@1%3A4.4.33-2?arch=amd64&distro=bookworm"),
        ("Prices", "1.0", "pkg:pypi/prices@1.0"),
    ]
    assert listed["components"][1]["licenses"] == [{"license": {"name": "MIT License"}}]
