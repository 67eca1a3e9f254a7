"""A decision of a recording as a test: a file for pytest, and the state just before it as a recording."""

import re
from pathlib import Path

import msgspec

from stowplan.scheduler.recording.files import (
    OBJECTS,
    REST,
    EntryKind,
    Header,
    RecordingEntry,
    encode_block,
    first_bytes,
    packed,
)
from stowplan.scheduler.recording.replay import Decision, Replay
from stowplan.scheduler.recording.state import in_parts

_TEST = '''\
"""{title}.

Recorded {time}, attempt {attempt}. The state of the scheduler just before is in {recording}.
"""

from pathlib import Path

from stowplan.scheduler.recording import decisions

RECORDING = Path(__file__).with_name("{recording}")


def test_{name}() -> None:
    [decision] = decisions(RECORDING)
    assert decision.pod.key == "{pod}"
{expected}
'''


def write_test(path: Path, replay: Replay, decision: Decision, time: str) -> Path:
    """Write the test and, next to it, its recording, whose path is returned."""
    assert replay.captured is not None
    recording = path.with_suffix(".rec")
    _write_recording(recording, replay, decision)
    outcome, pod = decision.recorded, decision.pod.key
    lines = [f'    assert decision.replayed.node == "{outcome.node}"']
    if outcome.message:
        lines.append(f"    assert decision.replayed.message == {outcome.message!r}")
    if outcome.nominated:
        lines.append(f'    assert decision.replayed.nominated == "{outcome.nominated}"')
    went = f"goes to {outcome.node}" if outcome.node else "gets no node"
    path.write_text(
        _TEST.format(
            title=f"{pod} {went}",
            time=time,
            attempt=decision.attempt,
            recording=recording.name,
            name=re.sub(r"\W+", "_", f"{pod} {went}".lower()),
            pod=pod,
            expected="\n".join(lines),
        ),
        encoding="utf-8",
    )
    return recording


def _write_recording(path: Path, replay: Replay, decision: Decision) -> None:
    assert replay.captured is not None
    objects, rest = replay.captured
    known = replay.session.header
    header = msgspec.structs.replace(
        known,
        number=0,
        session=0,
        ticks=replay.turns.clock.ticks,
        wall=replay.turns.clock.wall,
        has_state=True,
    )
    outcome = decision.recorded
    failure = (outcome.message, outcome.nominated) if outcome.message else None
    entries = [
        RecordingEntry(EntryKind.STATE, 0, REST, "", packed(rest)),
        *(
            RecordingEntry(EntryKind.STATE, 0, OBJECTS, resource, packed(some))
            for resource, some in in_parts(objects)
        ),
        RecordingEntry(EntryKind.STATE_COMPLETE, 0),
        RecordingEntry(EntryKind.CYCLE, 0, decision.pod.metadata.uid, outcome.node, packed(failure)),
        RecordingEntry(EntryKind.END, 0),
    ]
    data = b"".join(msgspec.msgpack.encode(entry) for entry in entries)
    path.write_bytes(first_bytes(_numbered(header)) + encode_block(data, len(entries)))


def _numbered(header: Header) -> Header:
    """Header of the copy, which is a separate recording."""
    return msgspec.structs.replace(header, recording=f"{header.recording}-test")
