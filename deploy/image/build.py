"""Build the image without Docker: Debian's Python, the wheel and what the lock file names, as an OCI layout.

`mmdebstrap` unpacks Debian's packages without running anything of them. Of those the image keeps libraries,
Python's standard library, time zones and licences: there is no shell and no package manager in it. The same
packages, wheel and lock file make the same digest: entries are sorted, owned by root and dated by
SOURCE_DATE_EPOCH (the last commit, if it is not set).
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

ROOT = Path(__file__).parents[2]
SUITE = "bookworm"
PYTHON = "3.11"
PACKAGES = (f"python{PYTHON}-minimal", f"libpython{PYTHON}-stdlib", "libssl3", "libstdc++6", "tzdata")
LEFT_OUT = frozenset(
    ("debconf", "dpkg", "install-info", "media-types", "readline-common", "tar", "libtirpc-common")
)
"""Packages that others depend on, of which nothing is kept."""

KEPT = re.compile(
    r"""
    usr/bin/python3\.\d+ $
    | (usr/)? lib(32|64)? / .* \.so (\.[\w.]+)? $
    | usr/lib/python3\.\d+/ (?! .* \.pyc$ | (.*/)?(tests?|idlelib|lib2to3|pydoc_data|tkinter|turtledemo)/ ) .*
    | usr/share/zoneinfo/ (?! right/ | posix/ ) .*
    | usr/share/doc/ [^/]+ /copyright $
    | usr/lib/ssl/openssl\.cnf $ | etc/ssl/openssl\.cnf $
    """,
    re.VERBOSE,
)
HOME = PurePosixPath("opt/stowplan")
USER = 65532
ENVIRONMENT = {
    "PATH": f"/{HOME}/bin:/usr/bin",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    # Keys are handed to OpenSSL as files; /dev/shm can be written to even if the rest cannot.
    "TMPDIR": "/dev/shm",
}
LABELS = {
    "org.opencontainers.image.title": "stowplan",
    "org.opencontainers.image.description": "A Kubernetes scheduler, a drop-in for kube-scheduler",
    "org.opencontainers.image.licenses": "Apache-2.0",
}
SBOM = PurePosixPath("usr/share/sbom/stowplan.cdx.json")
START = f"""#!/usr/bin/python{PYTHON}
import sys

sys.path.insert(0, "/{HOME}/lib")
from stowplan.cli.main import main

main()
"""


@dataclass(frozen=True)
class Entry:
    """One file, folder or link of a layer."""

    path: str
    mode: int
    data: bytes = b""
    link: str = ""
    folder: bool = False


@dataclass(frozen=True)
class Component:
    """Something that is in the image, for its bill of materials."""

    name: str
    version: str
    purl: str
    licenses: tuple[str, ...] = ()


# What goes into it


def debian(folder: Path, mirror: str) -> tuple[list[Entry], list[Component]]:
    """The files of Debian's packages that are kept, and the packages."""
    archive, names = folder / "debian.tar", folder / "packages"
    command = ["mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(PACKAGES)}"]
    command += [f'--extract-hook=ls "$1"/var/cache/apt/archives > {names}', SUITE, str(archive)]
    subprocess.run([*command, *([mirror] if mirror else [])], check=True)
    with tarfile.open(archive) as tar:
        kept = [entry for member in tar if (entry := _kept(tar, member)) is not None]
    packages = [_package(line) for line in names.read_text().split() if line.endswith(".deb")]
    return kept, [package for package in packages if package.name not in LEFT_OUT]


def _kept(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Entry | None:
    path = member.name.removeprefix("./")
    owner = re.match(r"usr/share/doc/([^/]+)", path)
    is_link = member.issym()
    if owner is not None and owner[1] in LEFT_OUT:
        return None
    if is_link and (owner is not None or path in ("lib", "lib64", "bin")):
        return Entry(path, 0o777, link=member.linkname)
    if not KEPT.match(path) or not (member.isfile() or member.islnk() or is_link):
        return None
    if is_link:
        return Entry(path, 0o777, link=member.linkname)
    content = tar.extractfile(member)
    assert content is not None
    executable = bool(member.mode & stat.S_IXUSR)
    return Entry(path, 0o755 if executable else 0o644, content.read())


def _package(file: str) -> Component:
    name, version, machine = file.removesuffix(".deb").split("_")
    version = unquote(version)
    return Component(name, version, f"pkg:deb/debian/{name}@{quote(version)}?arch={machine}&distro={SUITE}")


def application(folder: Path, wheel: Path) -> tuple[list[Entry], list[Component]]:
    """The wheel and what it needs, as they are installed, and the packages."""
    target = folder / "lib"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--only-binary=:all:"]
    pip += ["--no-deps", "--python-version", PYTHON, "--implementation", "cp", "--target", str(target)]
    pip += [f"--platform=manylinux_2_{minor}_x86_64" for minor in (36, 28, 17)] + [
        "--platform=manylinux2014_x86_64"
    ]
    subprocess.run(
        [*pip, "--require-hashes", "-r", str(ROOT / "requirements.lock")], check=True, stdout=sys.stderr
    )
    subprocess.run([*pip, "--upgrade", str(wheel)], check=True, stdout=sys.stderr)
    _compile(target)
    entries = [
        Entry(f"{HOME}/lib/{path.relative_to(target)}", 0o644, path.read_bytes())
        for path in target.rglob("*")
        if path.is_file() and path.relative_to(target).parts[0] != "bin" and path.name not in _INSTALLED_BY
    ]
    entries.append(Entry(f"{HOME}/bin/stowplan", 0o755, START.encode()))
    return entries, [_distribution(path) for path in sorted(target.glob("*.dist-info/METADATA"))]


_INSTALLED_BY = frozenset(("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"))
"""Files that say how something was installed, which would be different each time."""


def _compile(target: Path) -> None:
    """Compile here, because it will run where nothing can be written; by the same version of Python only."""
    if sys.version_info[:2] != tuple(map(int, PYTHON.split("."))):
        print(f"not compiled: this is not Python {PYTHON}", file=sys.stderr)
        return
    where = ["-s", str(target), "-p", f"/{HOME}/lib", "--invalidation-mode", "unchecked-hash"]
    command = [sys.executable, "-m", "compileall", "-q", *where, str(target)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "0"})


def _distribution(metadata: Path) -> Component:
    found = HeaderParser().parsestr(metadata.read_text())
    classifiers = [
        text.rpartition(" :: ")[2] for text in found.get_all("Classifier", []) if "License ::" in text
    ]
    told = found["License-Expression"] or (found["License"] or "").splitlines()[:1]
    licenses = [told] if isinstance(told, str) else [*told, *classifiers]
    name, version = found["Name"], found["Version"]
    return Component(
        name, version, f"pkg:pypi/{name.lower()}@{version}", tuple(dict.fromkeys(filter(None, licenses)))
    )


def bill(components: Iterable[Component], version: str) -> bytes:
    """The bill of materials, in CycloneDX."""
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": "stowplan", "version": version}},
        "components": [
            {
                "type": "library",
                "bom-ref": one.purl,
                "name": one.name,
                "version": one.version,
                "purl": one.purl,
                **(
                    {"licenses": [{"license": {"name": each}} for each in one.licenses]}
                    if one.licenses
                    else {}
                ),
            }
            for one in sorted(components, key=lambda one: one.purl)
        ],
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def settings() -> Iterator[Entry]:
    """What a program expects to find on a machine."""
    yield Entry("etc/passwd", 0o644, f"root:x:0:0::/:/\nstowplan:x:{USER}:{USER}::/:/\n".encode())
    yield Entry("etc/group", 0o644, f"root:x:0:\nstowplan:x:{USER}:\n".encode())
    yield Entry("etc/nsswitch.conf", 0o644, b"hosts: files dns\n")
    for folder in ("dev", "proc", "sys", "run"):
        yield Entry(folder, 0o755, folder=True)
    yield Entry("tmp", 0o1777, folder=True)


# How it is written


def layer(entries: Iterable[Entry], epoch: int) -> bytes:
    """A tar file, with the folders that its entries are in."""
    by_path = {entry.path: entry for entry in entries}
    for path in list(by_path):
        for parent in PurePosixPath(path).parents:
            if parent.parts and str(parent) not in by_path:
                by_path[str(parent)] = Entry(str(parent), 0o755, folder=True)
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, entry in sorted(by_path.items()):
            member = tarfile.TarInfo(path)
            member.mode, member.mtime, member.size = entry.mode, epoch, len(entry.data)
            if entry.folder:
                member.type = tarfile.DIRTYPE
            elif entry.link:
                member.type, member.linkname = tarfile.SYMTYPE, entry.link
            tar.addfile(member, io.BytesIO(entry.data))
    return written.getvalue()


class Layout:
    """A folder in the OCI image layout."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "blobs" / "sha256").mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}\n')

    def blob(self, media_type: str, data: bytes) -> dict[str, Any]:
        """Store something; its descriptor."""
        digest = hashlib.sha256(data).hexdigest()
        (self._folder / "blobs" / "sha256" / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def json(self, kind: str, document: object) -> dict[str, Any]:
        data = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        return self.blob(f"application/vnd.oci.image.{kind}.v1+json", data)

    def finish(self, manifest: dict[str, Any], tag: str) -> None:
        named = {**manifest, "annotations": {"org.opencontainers.image.ref.name": tag}}
        (self._folder / "index.json").write_text(
            json.dumps({"schemaVersion": 2, "manifests": [named]}) + "\n"
        )


def write(folder: Path, layers: list[bytes], version: str, created: str) -> str:
    """Write an image; its digest."""
    layout = Layout(folder)
    stored = [
        layout.blob("application/vnd.oci.image.layer.v1.tar+gzip", gzip.compress(one, 9, mtime=0))
        for one in layers
    ]
    config = layout.json(
        "config",
        {
            "created": created,
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "User": f"{USER}:{USER}",
                "ExposedPorts": {"10259/tcp": {}},
                "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
                "Entrypoint": ["stowplan", "run"],
                "WorkingDir": "/",
                "Labels": {**LABELS, "org.opencontainers.image.version": version},
            },
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers],
            },
            "history": [{"created": created, "created_by": "deploy/image/build.py"} for _ in layers],
        },
    )
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = layout.json(
        "manifest", {"schemaVersion": 2, "mediaType": kind, "config": config, "layers": stored}
    )
    layout.finish(manifest, version)
    return str(manifest["digest"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "image")
    parser.add_argument("--mirror", default="", help="of Debian, such as one of snapshot.debian.org")
    asked = parser.parse_args()
    if asked.output.exists():
        parser.error(f"--output: {asked.output} exists")
    epoch = int(os.environ.setdefault("SOURCE_DATE_EPOCH", _last_commit()))
    version = asked.wheel.name.split("-")[1]
    with tempfile.TemporaryDirectory() as folder:
        system, packages = debian(Path(folder), asked.mirror)
        own, distributions = application(Path(folder), asked.wheel)
    materials = bill([*packages, *distributions], version)
    base = layer([*system, *settings()], epoch)
    top = layer([*own, Entry(str(SBOM), 0o644, materials)], epoch)
    created = _date(epoch)
    digest = write(asked.output, [base, top], version, created)
    asked.output.with_suffix(".cdx.json").write_bytes(materials)
    megabytes = (len(base) + len(top)) / 1e6
    print(f"{asked.output}: stowplan:{version} {digest}, {megabytes:.0f} MB unpacked")


def _last_commit() -> str:
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "0"


def _date(epoch: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    main()
