"""Recordings: what a cluster told and what our scheduler decided, in order, and their replay.

A recording is written by a running scheduler (`stowplan run --record`, `stowplan up --record`) or by an
observer of any cluster (`stowplan record`). One of our scheduler has all that its decisions depended on, so
that a replay gives the same decisions bit for bit (scheduler/turns.py).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stowplan.scheduler.recording.files import Header, RecordingError, is_recording, sessions
from stowplan.scheduler.recording.segments import Recording

if TYPE_CHECKING:
    from stowplan.scheduler.recording.reading import decisions, settings_of
    from stowplan.scheduler.recording.recorder import Outcome, recorded_scheduler
    from stowplan.scheduler.recording.replay import Decision

__all__ = [
    "Decision",
    "Header",
    "Outcome",
    "Recording",
    "RecordingError",
    "decisions",
    "is_recording",
    "recorded_scheduler",
    "sessions",
    "settings_of",
]

_PLACES = {
    "Decision": "replay",
    "Outcome": "recorder",
    "decisions": "reading",
    "recorded_scheduler": "recorder",
    "settings_of": "reading",
}


def __getattr__(name: str) -> Any:
    """Import parts that need a scheduler on first use: reading the objects of a recording works without
    one."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
