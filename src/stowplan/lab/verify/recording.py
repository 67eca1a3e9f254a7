"""Reading recordings: JSON lines, gzip-compressed or not, recognized by their first bytes."""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import RELEASES, Release, UnknownReleaseError, release

_GZIP_MAGIC = b"\x1f\x8b"
_ENDINGS = (".gz", ".jsonl")


ABSENT = msgspec.Raw()
"""A field that a line does not have."""


class VerifyError(ValueError):
    """A recording that cannot be read or understood; the message names the file and the line."""


class RecordingHead(msgspec.Struct, rename="camel"):
    """The fields that say what kind of fact a line holds, and which release it is of."""

    kind: str | None = None
    kubernetes_version: str | None = None
    gates: list[str] | None = None
    batches: msgspec.Raw = ABSENT
    expression: msgspec.Raw = ABSENT
    expected: msgspec.Raw = ABSENT


_heads = msgspec.json.Decoder(RecordingHead)

FIRST_RELEASE = RELEASES["1.36"]
"""The release of recordings that do not name theirs."""


@dataclass(frozen=True)
class Line:
    """One line of a recording."""

    path: Path
    number: int
    data: bytes
    replayed_as: Release | None = None
    """The release to replay it as, if not the one it was recorded from."""

    @cached_property
    def head(self) -> RecordingHead:
        """The first that is read of a line. Raises RecordingError."""
        try:
            return _heads.decode(self.data)
        except msgspec.MsgspecError as error:
            raise self.error(error) from None

    @cached_property
    def release(self) -> Release:
        """The release that the line was recorded from, or is replayed as. Raises RecordingError."""
        if self.replayed_as is not None:
            return self.replayed_as
        version = self.head.kubernetes_version
        try:
            return FIRST_RELEASE if version is None else release(version)
        except UnknownReleaseError as error:
            raise self.error(f"kubernetesVersion: {error}") from None

    @cached_property
    def family(self) -> str:
        """Name for reports of the facts of this recording: that of the file without its endings, with the
        release if it is not the first."""
        name = family_of(self.path)
        return name if self.release is FIRST_RELEASE else f"{name} ({self.release.name})"

    def case(self) -> dict[str, Any]:
        """The line as plain data."""
        try:
            case = msgspec.json.decode(self.data)
        except msgspec.DecodeError as error:
            raise self.error(error) from None
        if not isinstance(case, dict):
            raise self.error("expected a JSON object")
        return case

    @contextmanager
    def case_errors(self) -> Iterator[None]:
        """Turns errors about a case of the wrong shape into one clear line."""
        try:
            yield
        except KeyError as error:
            raise self.error(f"expected the field {error}") from error
        except (AttributeError, TypeError, ValueError) as error:
            raise self.error(f"not a case of this kind: {error}") from error

    def error(self, message: object) -> VerifyError:
        """An error with the place of this line."""
        return VerifyError(f"{self.path}: line {self.number}: {' '.join(str(message).split())}")


def gates_of(case: Mapping[str, Any], of: Release) -> FeatureGates:
    """The feature gates of a case: its field `gates` has `NAME` (on) and `NAME=false`."""
    given = [setting.partition("=") for setting in case.get("gates") or ()]
    return FeatureGates({name: value != "false" for name, _, value in given}, of)


def family_of(path: Path) -> str:
    name = path.name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name


def find_recordings(paths: Iterable[str | Path]) -> list[Path]:
    """The files named, and in place of each directory the recordings in it. Raises RecordingError."""
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted((*path.glob("*.jsonl"), *path.glob("*.jsonl.gz")))
        if not inside:
            raise VerifyError(f"{path}: no recordings (*.jsonl, *.jsonl.gz) in this directory")
        found += inside
    return found


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a recording, blank ones left out. Raises RecordingError."""
    number = 0
    try:
        with path.open("rb") as file:
            for number, data in enumerate(_plain(file), start=1):
                if data.strip():
                    yield Line(path, number, data)
    except OSError as error:
        raise VerifyError(f"{path}: {_described(error, number)}") from None
    except (EOFError, zlib.error) as error:
        raise VerifyError(f"{path}: damaged after line {number}: {error}") from None
    if not number:
        raise VerifyError(f"{path}: empty, expected JSON lines")


def _plain(file: BinaryIO) -> Iterable[bytes]:
    """The lines of a file, unpacked where it is compressed."""
    compressed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    file.seek(0)
    return gzip.GzipFile(fileobj=file) if compressed else file


def _described(error: OSError, number: int) -> str:
    if isinstance(error, gzip.BadGzipFile):
        return f"damaged after line {number}: {error}"
    return (error.strerror or str(error)).lower()
