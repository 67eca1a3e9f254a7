"""The file of a recording: blocks of entries, each compressed and with a checksum.

Blocks are appended whole. Of a file that was cut off, by a crash or a full disk, everything up to the last
whole block can be read. A file begins with a line that names the format and a block with the header; it can
be read without any other: unless the scheduler had just started, its state is in it.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

MAGIC: Final = b"stowplan recording, format "
FORMAT: Final = 1
LEVEL: Final = 1
"""Objects of a cluster are so much alike that the fastest compression makes them a tenth."""

_HEAD: Final = struct.Struct("<II")
_COUNT: Final = struct.Struct(">I")
_ARRAY: Final = b"\xdd"
"""How an array with a length of 32 bits begins in MessagePack."""

MICROSECONDS: Final = 1_000_000

OBJECTS: Final = "objects"
"""The part of a state that has objects; they are of the resource that `b` names."""
REST: Final = "rest"
"""The part that has everything else (state.py)."""


class Kind:
    """What an entry is. Comments say what its fields `a`, `b` and `raw` are."""

    EVENT: Final = 1
    """A watch event. `a`: the number of the resource, `b`: 1 if the object is gone, `raw`: the object."""
    CYCLE: Final = 2
    """A scheduling cycle, at a stretch. `a`: uid of the pod, `b`: node, `raw`: failure or None."""
    CYCLE_BEGINS: Final = 3
    """A scheduling cycle during which other things happen. `a`: uid of the pod."""
    CYCLE_ENDS: Final = 4
    """Its end. `a`: uid, `b`: node, `raw`: failure or None."""
    TURN: Final = 5
    """Work in the background. `a`: what, `b`: uid, `raw`: value."""
    ANSWER: Final = 6
    """The API server's answer to a plugin. `a`: request, `b`: "", or the code of an error, `raw`: answer."""
    FLUSH: Final = 7
    """A flush of a queue. `a`: which."""
    WALL_CLOCK: Final = 8
    """The date was changed. `raw`: its new start."""
    STATE: Final = 9
    """A part of the state at the beginning of the file. `a`: which part, `raw`: its contents."""
    STATE_COMPLETE: Final = 10
    END: Final = 11
    """Scheduling ended in good order."""


class Entry(msgspec.Struct, array_like=True, gc=False):
    """One entry; `ticks` are microseconds since the entry before."""

    kind: int
    ticks: int
    a: int | str = ""
    b: int | str = ""
    raw: msgspec.Raw = msgspec.Raw(b"\xc0")


class Header(msgspec.Struct, rename="camel", kw_only=True):
    """What a recording is of. Times are seconds; `seed` that of the scheduler, None if none is recorded."""

    recording: str
    """Which recording this file belongs to."""
    number: int
    """Its place there, counted from 0."""
    session: int = 0
    """Which scheduler it is of: one that was replaced or restarted begins another session."""
    has_state: bool = False
    """Whether it begins with the state of the scheduler; if not, the scheduler had just started."""
    wall: float
    monotonic: float
    ticks: int = 0
    """Microseconds that had passed since then when the file was begun."""
    resources: list[str]
    """Every resource as `plural.version.group`, by number."""
    seed: int | None = None
    release: str = ""
    gates: dict[str, bool] = {}
    config: str = ""
    plugins: list[str] = []
    """Plugins of the configuration that are not in the tree."""
    extenders: bool = False
    longest_wait: float = 0.0
    has_writing: bool = False
    """Whether it has the turns in which scheduling cycles begin to write: earlier recordings do not."""
    source: str = ""
    written_by: str = ""


class RecordingError(ValueError):
    """A recording that cannot be read or replayed; one line that names the file and what was expected."""


def encode_block(entries: bytes | bytearray, count: int) -> bytes:
    """Entries in MessagePack, one after the other, as a block."""
    data = zlib.compress(_ARRAY + _COUNT.pack(count) + entries, LEVEL)
    return _HEAD.pack(len(data), zlib.crc32(data)) + data


def first_bytes(header: Header) -> bytes:
    """How a file begins."""
    data = zlib.compress(msgspec.msgpack.encode(header), LEVEL)
    return MAGIC + b"%d\n" % FORMAT + _HEAD.pack(len(data), zlib.crc32(data)) + data


def is_recording(path: Path) -> bool:
    """Whether a file is one of a recording."""
    if str(path) == "-" or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


_entries: Final = msgspec.msgpack.Decoder(list[Entry])
_header: Final = msgspec.msgpack.Decoder(Header)


@dataclass(slots=True)
class Segment:
    """One file. `complete` says, after reading, whether it ended with a whole block."""

    path: Path
    header: Header
    begins: int
    complete: bool = True

    def entries(self) -> Iterator[Entry]:
        """Its entries up to the last whole block."""
        with self.path.open("rb") as file:
            file.seek(self.begins)
            while True:
                block = _block(file)
                if block is None:
                    self.complete = not file.read(1)
                    return
                try:
                    yield from _entries.decode(zlib.decompress(block))
                except (zlib.error, msgspec.DecodeError) as error:
                    raise RecordingError(f"{self.path}: damaged block: {error}") from None


class Session(NamedTuple):
    """The files of one scheduler, the oldest first."""

    header: Header
    segments: list[Segment]

    def entries(self) -> Iterator[Entry]:
        """All entries. The state that later files begin with is left out: it is what one has by then."""
        for number, segment in enumerate(self.segments):
            for entry in segment.entries():
                if number and entry.kind in (Kind.STATE, Kind.STATE_COMPLETE):
                    continue
                yield entry
            if not segment.complete:
                return

    @property
    def is_cut_off(self) -> bool:
        """Whether reading ended within a block."""
        return any(not one.complete for one in self.segments)


def sessions(path: Path) -> list[Session]:
    """What the recording at a path has: all its files that follow each other. Raises RecordingError."""
    newest = read_header(path)
    found = [newest]
    for number in range(1, 1_000_000):
        older = path.with_name(f"{path.name}.{number}")
        if not older.exists():
            break
        segment = read_header(older)
        if segment.header.recording != newest.header.recording:
            break
        found.append(segment)
    found.sort(key=lambda one: (one.header.session, one.header.number))
    result: list[Session] = []
    for segment in found:
        if result and result[-1].header.session == segment.header.session:
            result[-1].segments.append(segment)
        else:
            result.append(Session(segment.header, [segment]))
    return result


def read_header(path: Path) -> Segment:
    """The beginning of a file. Raises RecordingError."""
    with path.open("rb") as file:
        first = file.readline(len(MAGIC) + 16)
        if not first.startswith(MAGIC):
            raise RecordingError(f"{path}: expected a recording of stowplan")
        number = first.removeprefix(MAGIC).strip().decode("ascii", "replace")
        if number != str(FORMAT):
            raise RecordingError(
                f"{path}: recording format {number}: expected {FORMAT}, update stowplan to read it"
            )
        block = _block(file)
        if block is None:
            raise RecordingError(f"{path}: cut off before the end of its header")
        try:
            header = _header.decode(zlib.decompress(block))
        except (zlib.error, msgspec.DecodeError) as error:
            raise RecordingError(f"{path}: damaged header: {error}") from None
        return Segment(path, header, file.tell())


def _block(file: BinaryIO) -> bytes | None:
    """The contents of the next block, None if there is no whole one; the file is then where it was."""
    place = file.tell()
    head = file.read(_HEAD.size)
    if len(head) == _HEAD.size:
        size, checksum = _HEAD.unpack(head)
        data = file.read(size)
        if len(data) == size and zlib.crc32(data) == checksum:
            return data
    file.seek(place)
    return None


def packed(value: Any) -> msgspec.Raw:
    """A value as the `raw` of an entry."""
    return msgspec.Raw(msgspec.msgpack.encode(value))
