"""Forged recordings, snapshots, traces and archives: one line each, and little memory."""

import gzip
import io
import struct
import tarfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from scheduler.recording.small import record_small
from stowplan.scheduler.recording import decisions
from stowplan.scheduler.recording.files import (
    MAGIC,
    EntryKind,
    Header,
    RecordingError,
    encode_block,
    first_bytes,
    inflated,
)
from stowplan.scheduler.recording.objects import objects_at
from stowplan.simulate.snapshot import files as snapshots
from stowplan.simulate.snapshot.files import SnapshotError
from stowplan.simulate.snapshot.sources import read_files

CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
POD = {"metadata": {"name": "a", "namespace": "b"}}
DEEP = b"\x91" * 100_000 + b"\xc0"
MIB = 1 << 20


def header(**others: Any) -> bytes:
    given: dict[str, Any] = {
        "recording": "x",
        "number": 0,
        "wall": 0.0,
        "monotonic": 0.0,
        "resources": ["pods.v1."],
        "seed": 1,
        "release": "1.37",
        "config": CONFIG,
    }
    return first_bytes(Header(**{**given, **others}))


def block(*entries: tuple[Any, ...]) -> bytes:
    return encode_block(b"".join(map(msgspec.msgpack.encode, entries)), len(entries))


def raw_block(data: bytes) -> bytes:
    return struct.pack("<II", len(data), zlib.crc32(data)) + data


STATE = {
    "rows": ["nowhere"],
    "free_rows": [99],
    "sampled": [],
    "next_start": 5,
    "pods": [],
    "assumed": [],
    "queue": [],
    "nominated": [],
    "chances": [],
    "cycle": 0,
    "groups": 0,
    "under_way": 0,
}

RECORDINGS: dict[str, Callable[[], bytes]] = {
    "a bomb": lambda: header() + raw_block(zlib.compress(b"\xdd\xff\xff\xff\xff" + bytes(64 * MIB), 9)),
    "a bomb as header": lambda: MAGIC + b"1\n" + raw_block(zlib.compress(bytes(64 * MIB), 9)),
    "a claim of four billion entries": lambda: header() + raw_block(zlib.compress(b"\xdd\xff\xff\xff\xff")),
    "no list of entries": lambda: header() + raw_block(zlib.compress(b"\x05")),
    "an entry nested deeply": lambda: header() + encode_block(b"\x95\x01\x00\x00\x00" + DEEP, 1),
    "a header nested deeply": lambda: MAGIC + b"1\n" + raw_block(zlib.compress(b"\x81\xa1x" + DEEP)),
    "a resource that is not there": lambda: header() + block((EntryKind.EVENT, 0, 5, 0, POD)),
    "a resource by name": lambda: header() + block((EntryKind.EVENT, 0, "pods", 0, POD)),
    "a negative resource": lambda: header() + block((EntryKind.EVENT, 0, -1, 0, POD)),
    "time that goes back": lambda: header() + block((EntryKind.EVENT, -5, 0, 0, POD)),
    "time without end": lambda: header() + block((EntryKind.EVENT, 2**62, 0, 0, POD)),
    "much time, little by little": lambda: header() + block(*[(EntryKind.EVENT, 2**51, 0, 0, POD)] * 2),
    "an object that is none": lambda: header() + block((EntryKind.EVENT, 0, 0, 0, 5)),
    "an unknown entry": lambda: header() + block((99, 0)),
    "a flush by name": lambda: header() + block((EntryKind.FLUSH, 0, "all")),
    "a date that is none": lambda: header() + block((EntryKind.WALL_CLOCK, 0, "", "", "noon")),
    "a date that is no number": lambda: header() + block((EntryKind.WALL_CLOCK, 0, "", "", float("nan"))),
    "a header without a date": lambda: header(wall=float("inf")),
    "a wait that is no number": lambda: header(longest_wait=float("nan")),
    "state that is none": lambda: (
        header(has_state=True) + block((EntryKind.STATE, 0, "rest", "", 5), (EntryKind.STATE_COMPLETE, 0))
    ),
    "state of nodes that are not there": lambda: (
        header(has_state=True) + block((EntryKind.STATE, 0, "rest", "", STATE), (EntryKind.STATE_COMPLETE, 0))
    ),
    "objects of state that are none": lambda: (
        header(has_state=True)
        + block((EntryKind.STATE, 0, "objects", "pods.v1.", [5]), (EntryKind.STATE_COMPLETE, 0))
    ),
}


@pytest.mark.parametrize("made", RECORDINGS.values(), ids=RECORDINGS)
def test_a_recording_that_is_made_up_is_refused_in_one_line(
    tmp_path: Path, made: Callable[[], bytes]
) -> None:
    path = tmp_path / "made.rec"
    path.write_bytes(made())
    with pytest.raises(RecordingError) as failure:
        decisions(path)
    assert str(path) in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_recording_is_read_or_refused(tmp_path: Path, seed: int) -> None:
    """Bits change within the blocks, which then have the right checksum and length again."""
    rng = Random(seed)
    path = tmp_path / "small.rec"
    record_small(path, pods=3)
    text = path.read_bytes()
    begins = text.index(b"\n") + 1
    pieces = []
    while begins < len(text):
        size, _ = struct.unpack_from("<II", text, begins)
        data = bytearray(zlib.decompress(text[begins + 8 : begins + 8 + size]))
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        pieces.append(raw_block(zlib.compress(bytes(data))))
        begins += 8 + size
    path.write_bytes(text[: text.index(b"\n") + 1] + b"".join(pieces))
    with suppress(RecordingError):
        objects_at(path)


def test_a_block_that_says_it_is_larger_than_the_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "cut.rec"
    path.write_bytes(header() + struct.pack("<II", 0xFFFF_FFFF, 0) + b"abc")
    assert decisions(path) == []


def test_objects_that_are_all_alike_are_no_bomb() -> None:
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i" * 100}]}
    pods = [{"metadata": {"name": f"web-{number}"}, "spec": spec} for number in range(120_000)]
    text = msgspec.msgpack.encode(pods)
    assert len(text) > 16 * MIB
    assert inflated(zlib.compress(text)) == text


def snapshot(contents: bytes) -> bytes:
    return snapshots.MAGIC + b"1\n" + zlib.compress(contents, 9)


def archive(*members: tuple[str, int, bytes, str]) -> bytes:
    """A compressed archive of files: name, size, type and where a link leads."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w") as made:
        for name, size, kind, target in members:
            member = tarfile.TarInfo(name)
            member.size, member.type, member.linkname = size, kind, target
            made.addfile(member, io.BytesIO(b" " * size))
    return gzip.compress(text.getvalue())


NODES_HEAD = "sn,cpu_milli,memory_mib,gpu,model\n"
FILES: dict[str, Callable[[], bytes]] = {
    "bomb.snap": lambda: snapshot(b"\x83\xa6source\xa1x\xa5notes\xdd\x04\0\0\0" + b"\xa0" * (64 * MIB)),
    "many.snap": lambda: snapshot(
        b"\x83\xa6source\xa1x\xa5notes\x90\xa7objects\x81\xa4Node\xdd\0\xff\xff\xff" + b"\x80" * 1000
    ),
    "notes.snap": lambda: snapshot(b"\x83\xa6source\xa1x\xa5notes\xdd\xff\xff\xff\xff"),
    "deep.snap": lambda: snapshot(b"\x84\xa1z" + DEEP + b"\xa6source\xa1x\xa5notes\x90\xa7objects\x80"),
    "text.snap": lambda: snapshot(b"\x83\xa6source\xa2\xff\xff\xa5notes\x90\xa7objects\x80"),
    "cut.snap": lambda: snapshot(b"\x83\xa6source\xa1x\xa5notes\x90\xa7objects\x80")[:-3],
    "bomb.tar.gz": lambda: archive(("a.yaml", 32 * MIB, tarfile.REGTYPE, "")),
    "other.tar.gz": lambda: archive(
        ("a.bin", 32 * MIB, tarfile.REGTYPE, ""), ("a.yaml", 1, tarfile.REGTYPE, "")
    ),
    "cut.tar.gz": lambda: archive(("a.yaml", 5_000_000, tarfile.REGTYPE, ""))[:2_000],
    "bytes.csv": lambda: NODES_HEAD.encode() + b"a,1,1,1,\xff\xfe\n",
    "head.csv": lambda: b"\xff\xfe,a\0b\n",
    "field.csv": lambda: NODES_HEAD.encode() + b'"a' * 100_000,
    "number.csv": lambda: NODES_HEAD.encode() + b"a," + b"9" * 5000 + b",1,1,x\n",
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_a_cluster_that_are_made_up_are_refused_in_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name]())
    with pytest.raises(SnapshotError) as failure:
        read_files([path])
    assert str(path) in str(failure.value)
    assert len(str(failure.value)) < 1000
    assert "\n" not in str(failure.value)


def test_links_of_an_archive_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "links.tar"
    path.write_bytes(
        archive(
            ("self.yaml", 0, tarfile.SYMTYPE, "self.yaml"),
            ("passwd.yaml", 0, tarfile.SYMTYPE, "/etc/passwd"),
            ("hard.yaml", 0, tarfile.LNKTYPE, "../../etc/passwd"),
        )
    )
    assert read_files([path]).objects == []
