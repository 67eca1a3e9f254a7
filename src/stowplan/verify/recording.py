"""Reading recordings: JSON lines, gzip-compressed or not, recognized by their first bytes."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

_GZIP_MAGIC = b"\x1f\x8b"
_ENDINGS = (".gz", ".jsonl")


class RecordingError(ValueError):
    """A recording that cannot be read or understood; the message names the file and the line."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a recording."""

    path: Path
    number: int
    data: bytes

    @property
    def family(self) -> str:
        """What the facts of this recording are reported under: the name of the file without its endings."""
        return family_of(self.path)

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

    def error(self, message: object) -> RecordingError:
        """What is wrong with this line."""
        return RecordingError(f"{self.path}: line {self.number}: {' '.join(str(message).split())}")


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
            raise RecordingError(f"{path}: no recordings (*.jsonl, *.jsonl.gz) in this directory")
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
        raise RecordingError(f"{path}: {_described(error, number)}") from None
    except (EOFError, zlib.error) as error:
        raise RecordingError(f"{path}: damaged after line {number}: {error}") from None
    if not number:
        raise RecordingError(f"{path}: empty, expected JSON lines")


def _plain(file: BinaryIO) -> Iterable[bytes]:
    """The lines of a file, unpacked where it is compressed."""
    compressed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    file.seek(0)
    return gzip.GzipFile(fileobj=file) if compressed else file


def _described(error: OSError, number: int) -> str:
    if isinstance(error, gzip.BadGzipFile):
        return f"damaged after line {number}: {error}"
    return (error.strerror or str(error)).lower()
