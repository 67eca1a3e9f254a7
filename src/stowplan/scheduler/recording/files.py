"""The file of a recording: blocks of entries, each compressed and with a checksum.

Blocks are appended whole. Of a file that was cut off, by a crash or a full disk, everything up to the last
whole block can be read. A file begins with a line that names the format and a block with the header; it can
be read without any other: unless the scheduler had just started, its state is in it.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

import msgspec

MAGIC: Final = b"stowplan recording, format "
FORMAT: Final = 1
LEVEL: Final = 1
"""Objects of a cluster are so similar that the fastest compression reduces them to a tenth."""

_HEAD: Final = struct.Struct("<II")
_COUNT: Final = struct.Struct(">I")
_ARRAY: Final = b"\xdd"
"""How an array with a length of 32 bits begins in MessagePack."""

MICROSECONDS: Final = 1_000_000

# A file may come from anywhere. Its sizes and times are checked before anything is made of them.

LARGEST: Final = 1 << 30
"""Bytes that are decompressed at a time: twice what the largest cluster that Kubernetes supports takes."""
_SMALL: Final = 16 << 20
_MOST_INFLATED: Final = 256
"""Limit of the expansion factor for pieces larger than `_SMALL`. Objects of a cluster, even if they are all
identical, expand 180 times; a decompression bomb, a thousand times."""
_MOST_ENTRIES: Final = 1 << 18
"""Entries of a block. Blocks are written when they have a quarter of a megabyte."""
_MOST_TICKS: Final = 100 * 366 * 86_400 * MICROSECONDS
_EARLIEST, _LATEST = -6e10, 2e11
"""Moments that have a date, with room for a recording before and after them."""

_UNDECODABLE: Final = (ValueError, RecursionError, OverflowError)

OBJECTS: Final = "objects"
"""The part of a state that has objects; they are of the resource that `b` names."""
REST: Final = "rest"
"""The part that has everything else (state.py)."""


class EntryKind:
    """Kinds of entries. Comments explain the fields `a`, `b` and `raw` of each."""

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


class RecordingEntry(msgspec.Struct, array_like=True, gc=False):
    """One entry; `ticks` are microseconds since the entry before."""

    kind: int
    ticks: int
    a: int | str = ""
    b: int | str = ""
    raw: msgspec.Raw = msgspec.Raw(b"\xc0")


class Header(msgspec.Struct, rename="camel", kw_only=True):
    """The header of a recording. Times are seconds; `seed` that of the scheduler, None if none is
    recorded."""

    recording: str
    """Which recording this file belongs to."""
    number: int
    """Its place there, counted from 0."""
    session: int = 0
    """Which scheduler it is of: one that was replaced or restarted begins another session."""
    has_state: bool = False
    """True if it begins with the state of the scheduler; if not, the scheduler had just started."""
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
    """True if it has the turns in which scheduling cycles begin to write: earlier recordings do not."""
    source: str = ""
    written_by: str = ""


T = TypeVar("T")


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
    """True if a file belongs to a recording."""
    if str(path) == "-" or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


_entries: Final = msgspec.msgpack.Decoder(list[RecordingEntry])
_header: Final = msgspec.msgpack.Decoder(Header)


@dataclass(slots=True)
class Segment:
    """One file. `complete` says, after reading, whether it ended with a whole block."""

    path: Path
    header: Header
    begins: int
    complete: bool = True

    def entries(self) -> Iterator[RecordingEntry]:
        """Its entries up to the last whole block."""
        ticks = self.header.ticks
        with self.path.open("rb") as file:
            file.seek(self.begins)
            while True:
                block = _block(file)
                if block is None:
                    self.complete = not file.read(1)
                    return
                try:
                    entries = _entries_of(block)
                except (zlib.error, *_UNDECODABLE) as error:
                    raise RecordingError(f"{self.path}: damaged block: {_problem(error)}") from None
                for entry in entries:
                    ticks += entry.ticks
                    if not _is_sound(entry, len(self.header.resources)) or ticks > _MOST_TICKS:
                        raise RecordingError(f"{self.path}: damaged entry of kind {entry.kind}")
                    yield entry


class Session(NamedTuple):
    """The files of one scheduler, the oldest first."""

    header: Header
    segments: list[Segment]

    def entries(self) -> Iterator[RecordingEntry]:
        """All entries. The state that later files begin with is left out: it is what one has by then."""
        for number, segment in enumerate(self.segments):
            for entry in segment.entries():
                if number and entry.kind in (EntryKind.STATE, EntryKind.STATE_COMPLETE):
                    continue
                yield entry
            if not segment.complete:
                return

    def decode(self, raw: msgspec.Raw, cls: type[T]) -> T:
        """The `raw` of an entry. Raises RecordingError."""
        try:
            return msgspec.msgpack.decode(raw, type=cls)
        except _UNDECODABLE as error:
            raise self.damaged(f"damaged entry: {_problem(error)}") from None

    def moment(self, raw: msgspec.Raw) -> float:
        """The `raw` of an entry that is a time. Raises RecordingError."""
        seconds = self.decode(raw, float)
        if not _EARLIEST <= seconds <= _LATEST:
            raise self.damaged(f"damaged entry: {seconds} seconds are no date")
        return seconds

    def damaged(self, problem: str) -> RecordingError:
        """An error about what is in the files."""
        return RecordingError(f"{self.segments[0].path}: {problem}")

    @property
    def is_cut_off(self) -> bool:
        """True if reading ended within a block."""
        return any(not one.complete for one in self.segments)


def sessions(path: Path) -> list[Session]:
    """Sessions of the recording at a path, with all its consecutive files. Raises RecordingError."""
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
            header = _header.decode(inflated(block))
        except (zlib.error, *_UNDECODABLE) as error:
            raise RecordingError(f"{path}: damaged header: {_problem(error)}") from None
        if not (
            _EARLIEST <= header.wall <= _LATEST
            and abs(header.monotonic) <= _LATEST
            and 0 <= header.ticks <= _MOST_TICKS
            and 0 <= header.longest_wait <= _LATEST
        ):
            raise RecordingError(f"{path}: damaged header: expected times that have a date")
        return Segment(path, header, file.tell())


def _block(file: BinaryIO) -> bytes | None:
    """The contents of the next block, None if there is no whole one; the file is then where it was."""
    place = file.tell()
    head = file.read(_HEAD.size)
    if len(head) == _HEAD.size:
        size, checksum = _HEAD.unpack(head)
        is_there = size <= os.fstat(file.fileno()).st_size - file.tell()
        data = file.read(size) if is_there else b""
        if is_there and zlib.crc32(data) == checksum:
            return data
    file.seek(place)
    return None


def inflated_limit(size: int) -> int:
    """The largest size of objects of a cluster that have this size when compressed."""
    return min(LARGEST, max(_SMALL, _MOST_INFLATED * size))


def inflated(data: bytes) -> bytes:
    """Decompress what is not larger than objects of a cluster can be. Raises zlib.error."""
    most = inflated_limit(len(data))
    stream = zlib.decompressobj()
    text = stream.decompress(data, most + 1)
    if len(text) > most:
        raise zlib.error(f"{len(data)} bytes stand for more than {most >> 20} MiB")
    if not stream.eof:
        raise zlib.error("incomplete or truncated stream")
    return text


def _entries_of(block: bytes) -> list[RecordingEntry]:
    text = inflated(block)
    begins = len(_ARRAY) + _COUNT.size
    if len(text) < begins or not text.startswith(_ARRAY):
        raise ValueError("expected a list of entries")
    (count,) = _COUNT.unpack_from(text, len(_ARRAY))
    if count > _MOST_ENTRIES:
        raise ValueError(f"{count} entries: expected at most {_MOST_ENTRIES}")
    return _entries.decode(text)


_OF_PODS: Final = frozenset(
    (EntryKind.CYCLE, EntryKind.CYCLE_BEGINS, EntryKind.CYCLE_ENDS, EntryKind.TURN, EntryKind.ANSWER)
)
_OTHERS: Final = frozenset((EntryKind.WALL_CLOCK, EntryKind.STATE_COMPLETE, EntryKind.END))


def _is_sound(entry: RecordingEntry, resources: int) -> bool:
    """True if the fields of an entry are what its kind has."""
    kind, a, b = entry.kind, entry.a, entry.b
    if not 0 <= entry.ticks <= _MOST_TICKS:
        return False
    if kind == EntryKind.EVENT:
        return isinstance(a, int) and 0 <= a < resources and isinstance(b, int)
    if kind in _OF_PODS:
        return isinstance(a, str)
    if kind == EntryKind.FLUSH:
        return isinstance(a, int)
    if kind == EntryKind.STATE:
        return a in (OBJECTS, REST) and isinstance(b, str)
    return kind in _OTHERS


def _problem(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def packed(value: Any) -> msgspec.Raw:
    """A value as the `raw` of an entry."""
    return msgspec.Raw(msgspec.msgpack.encode(value))
