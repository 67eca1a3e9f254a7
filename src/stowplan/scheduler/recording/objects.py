"""The watch events of a recording, and the cluster as they tell it at some moment."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from stowplan.api.meta import AnyObject, Object
from stowplan.gocompat.durations import Duration, DurationError
from stowplan.scheduler.recording.files import (
    MICROSECONDS,
    OBJECTS,
    EntryKind,
    RecordingEntry,
    RecordingError,
    Session,
    sessions,
)
from stowplan.scheduler.watched import (
    AROUND_PODS,
    DEVICE_TAINT_RULES,
    DEVICES,
    NODES,
    POD_GROUPS,
    PODS,
    STORAGE,
)

_TYPES: Final[dict[str, type[Object]]] = {
    kind.served.plural: kind.cls
    for kind in (PODS, NODES, *AROUND_PODS, *STORAGE, *DEVICES, DEVICE_TAINT_RULES, POD_GROUPS)
}


class Moment(NamedTuple):
    """Until when: seconds since the beginning, or since 1970."""

    seconds: float
    since_beginning: bool

    @classmethod
    def parse(cls, text: str) -> "Moment":
        """`1h30m`, or `2026-03-01T12:00:00Z`. Raises ValueError."""
        try:
            return cls(Duration.parse(text).seconds, True)
        except DurationError:
            moment = datetime.fromisoformat(text)
            return cls((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), False)

    def is_after(self, began: float, time: float) -> bool:
        """True if a time, of a session that began at another, is after it."""
        return time - began > self.seconds if self.since_beginning else time > self.seconds


class RecordedChange(NamedTuple):
    """A watch event; `time` is seconds since 1970."""

    time: float
    obj: Object
    gone: bool


def changes(session: Session) -> Iterator[RecordedChange]:
    """The watch events of a session, the objects that it begins with first."""
    types = [_TYPES.get(name.split(".", 1)[0], AnyObject) for name in session.header.resources]
    wall, ticks = session.header.wall, session.header.ticks
    for entry in _state_first(session):
        ticks += entry.ticks
        time = wall + ticks / MICROSECONDS
        if entry.kind == EntryKind.EVENT:
            yield RecordedChange(time, session.decode(entry.raw, types[int(entry.a)]), bool(entry.b))
        elif entry.kind == EntryKind.STATE and entry.a == OBJECTS:
            cls = _TYPES.get(str(entry.b).split(".", 1)[0], AnyObject)
            found: list[Object] = session.decode(entry.raw, list[cls])  # type: ignore[valid-type]
            for obj in found:
                yield RecordedChange(time, obj, False)
        elif entry.kind == EntryKind.WALL_CLOCK:
            wall = session.moment(entry.raw)


def objects_at(path: Path, until: Moment | None = None) -> tuple[list[Object], float]:
    """The objects at a moment, by default at the end, and that moment. Raises RecordingError."""
    session = sessions(path)[-1]
    began = session.header.wall
    known: dict[tuple[type[Object], str], Object] = {}
    time = began
    for time, obj, gone in changes(session):
        if until is not None and until.is_after(began, time):
            break
        place = (type(obj), obj.key)
        if gone:
            known.pop(place, None)
        else:
            known[place] = obj
    if not known:
        raise RecordingError(f"{path}: expected objects: nothing was recorded before that moment")
    return [obj for obj in known.values() if not isinstance(obj, AnyObject)], time


def _state_first(session: Session) -> Iterator[RecordingEntry]:
    """Entries with those of the state before those that were written while it was being written."""
    entries = session.entries()
    kept: list[RecordingEntry] = []
    for entry in entries if session.header.has_state else ():
        if entry.kind == EntryKind.STATE:
            yield entry
        elif entry.kind == EntryKind.STATE_COMPLETE:
            break
        else:
            kept.append(entry)
    yield from kept
    yield from entries
