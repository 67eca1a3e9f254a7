"""Provenance of figures: versions and digests that every row and report of a simulation carries."""

import hashlib
import inspect
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from stowplan import __version__

VERSION: Final = "stowplan"
RELEASE: Final = "release"
DURATION: Final = "durationSeconds"
CONFIGURATION: Final = "digest.configuration"
PLUGINS: Final = "digest.plugins"
SCENARIO: Final = "digest.scenario"
"""Columns of provenance; the scenario includes its traces and other files, and its parameters."""

_LENGTH: Final = 12


def digest(*parts: bytes) -> str:
    """A short digest of some contents, "" of nothing."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()[:_LENGTH] if parts else ""


def digest_of_files(files: Mapping[str, bytes]) -> str:
    """A digest of files with their names."""
    return digest(*(part for name in sorted(files) for part in (name.encode(), files[name])))


def source_of(module: str) -> bytes:
    """The source of a module, without running it; b"" if it has none here."""
    try:
        found = find_spec(module)
    except (ImportError, ValueError):
        found = None
    return Path(found.origin).read_bytes() if found and found.origin and Path(found.origin).is_file() else b""


def digest_of_classes(classes: Iterable[type]) -> str:
    """A digest of the code of plugins: of the files they are in, or of the classes where there is no file."""
    parts: list[bytes] = []
    for cls in classes:
        try:
            source = inspect.getsource(inspect.getmodule(cls) or cls)
        except (OSError, TypeError):
            source = cls.__qualname__
        parts += [cls.__qualname__.encode(), source.encode()]
    return digest(*parts)


def versions(release: str) -> dict[str, str]:
    """The version of stowplan, and the release of Kubernetes that it was."""
    return {VERSION: __version__, RELEASE: release}
