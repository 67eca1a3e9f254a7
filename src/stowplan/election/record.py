"""Who leads, since when and for how long: the record that candidates read and write."""

import json
from typing import Any, Final

import msgspec

from stowplan.api.meta import micro_timestamp, seconds_of, timestamp
from stowplan.api.requests import Json

ANNOTATION: Final = "control-plane.alpha.kubernetes.io/leader"
"""Where locks before the Lease kept the record, as JSON."""


class UnreadableRecordError(ValueError):
    """A lock is there, but what it says makes no sense."""


class Record(msgspec.Struct, frozen=True):
    """One state of a lock. Nobody holds it if `holder` is empty; `seconds` is how long it holds unrenewed.

    `strategy` and `preferred` are set by a server that picks leaders itself.
    """

    holder: str = ""
    seconds: int = 0
    acquired: float | None = None
    renewed: float | None = None
    transitions: int = 0
    strategy: str = ""
    preferred: str = ""

    def continuing(self, before: "Record", strategy: str = "") -> "Record":
        """The same leader goes on leading."""
        return msgspec.structs.replace(
            self, acquired=before.acquired, transitions=before.transitions, strategy=strategy
        )

    def succeeding(self, before: "Record") -> "Record":
        """Another leader follows."""
        return msgspec.structs.replace(self, transitions=before.transitions + 1)


def lease_spec(record: Record) -> Json:
    """The record as the spec of a Lease."""
    spec: Json = {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.seconds,
        "acquireTime": None if record.acquired is None else micro_timestamp(record.acquired),
        "renewTime": None if record.renewed is None else micro_timestamp(record.renewed),
        "leaseTransitions": record.transitions,
        "strategy": record.strategy or None,
        "preferredHolder": record.preferred or None,
    }
    return {name: value for name, value in spec.items() if value is not None}


def of_lease_spec(spec: Json) -> Record:
    """Raises `UnreadableRecordError` naming the field."""
    return Record(
        holder=_text(spec, "holderIdentity"),
        seconds=_number(spec, "leaseDurationSeconds"),
        acquired=_time(spec, "acquireTime"),
        renewed=_time(spec, "renewTime"),
        transitions=_number(spec, "leaseTransitions"),
        strategy=_text(spec, "strategy"),
        preferred=_text(spec, "preferredHolder"),
    )


def annotation_text(record: Record) -> str:
    """The record as the text of an annotation: times in whole seconds, fields in the order of old clients."""
    fields = {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.seconds,
        "acquireTime": None if record.acquired is None else timestamp(record.acquired),
        "renewTime": None if record.renewed is None else timestamp(record.renewed),
        "leaderTransitions": record.transitions,
    }
    return json.dumps(fields, separators=(",", ":"))


def of_annotation(text: str) -> Record:
    """Raises `UnreadableRecordError` saying what is wrong."""
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise UnreadableRecordError(
            f"annotation {ANNOTATION}: expected JSON, got {text!r}: {error}"
        ) from None
    if not isinstance(fields, dict):
        raise UnreadableRecordError(f"annotation {ANNOTATION}: expected a JSON object, got {text!r}")
    return Record(
        holder=_text(fields, "holderIdentity"),
        seconds=_number(fields, "leaseDurationSeconds"),
        acquired=_time(fields, "acquireTime"),
        renewed=_time(fields, "renewTime"),
        transitions=_number(fields, "leaderTransitions"),
    )


def _text(fields: Json, name: str) -> str:
    value: Any = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnreadableRecordError(f"{name}: expected text, got {value!r}")
    return value


def _number(fields: Json, name: str) -> int:
    value: Any = fields.get(name)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise UnreadableRecordError(f"{name}: expected a whole number, got {value!r}")
    return value


def _time(fields: Json, name: str) -> float | None:
    text = _text(fields, name)
    if not text:
        return None
    try:
        return seconds_of(text)
    except ValueError as error:
        raise UnreadableRecordError(f"{name}: {error}") from None
