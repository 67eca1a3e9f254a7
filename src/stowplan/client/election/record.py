"""Inputs of candidates: the election record in a lock, its validity, and the durations of an election."""

import json
import math
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from stowplan.api.decode import UNDECODABLE, undecodable
from stowplan.api.meta import micro_timestamp, seconds_of, timestamp
from stowplan.api.requests import Json
from stowplan.gocompat.durations import SECOND, Duration
from stowplan.runtime.clock import Clock

JITTER: Final = 1.2
"""Maximum of the additional, random waiting time of a candidate, in retry periods."""


class ElectionError(ValueError):
    """Settings with which no candidate can be elected; one line."""


class LeaseDurations(Protocol):
    """Durations of leader election, as a configuration has them."""

    @property
    def lease_duration(self) -> Duration: ...
    @property
    def renew_deadline(self) -> Duration: ...
    @property
    def retry_period(self) -> Duration: ...


@dataclass(frozen=True)
class Timing:
    """The three lengths of time of an election. Raises `ElectionError` if they do not fit together.

    Others may take the lease over when it has not been renewed for `lease_duration`; a leader gives up when
    it could not renew it for `renew_deadline`; everybody tries every `retry_period`.
    """

    lease_duration: Duration
    renew_deadline: Duration
    retry_period: Duration

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise ElectionError(f"couldn't create leader elector: {problem}")

    @classmethod
    def of(cls, config: LeaseDurations) -> "Timing":
        """The durations of a configuration (`LeaderElection` of KubeSchedulerConfiguration)."""
        return cls(config.lease_duration, config.renew_deadline, config.retry_period)

    @property
    def validity(self) -> int:
        """How long a lease holds as it is written down: in whole seconds."""
        return self.lease_duration.nanoseconds // SECOND

    @property
    def request_timeout(self) -> Duration:
        """How long one request may take, so that a hanging one does not cost the lease."""
        return max(Duration(self.renew_deadline.nanoseconds // 2), Duration.of_seconds(1))

    def _problem(self) -> str:
        lease, renew, retry = self.lease_duration, self.renew_deadline, self.retry_period
        if lease <= renew:
            return "leaseDuration must be greater than renewDeadline"
        if renew.nanoseconds <= int(JITTER * float(retry.nanoseconds)):
            return "renewDeadline must be greater than retryPeriod*JitterFactor"
        for name, value in (("leaseDuration", lease), ("renewDeadline", renew), ("retryPeriod", retry)):
            if value.nanoseconds < 1:
                return f"{name} must be greater than zero"
        if not self.validity:
            return f"leaseDuration must be at least 1s, which is the least a lease can say, got {lease}"
        return ""


# The record in a lock


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
        """Record of the same leader's next term."""
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
    except UNDECODABLE as error:
        raise UnreadableRecordError(
            f"annotation {ANNOTATION}: expected JSON, got {text!r}: {undecodable(error)}"
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


# How long a record is valid


_NOTHING: Final = Record()


@dataclass(frozen=True, slots=True)
class Observation:
    """A record and when it was seen first, by our monotonic time: dates that others write are not trusted.

    `raw` is its text as read, None if we wrote it ourselves.
    """

    record: Record = _NOTHING
    raw: str | None = None
    at: float = float("-inf")

    def is_valid(self, now: float) -> bool:
        """True if the record was still new enough at this time for its holder to lead."""
        return self.at + self.record.seconds > now

    def expires_in(self, now: float) -> float:
        return self.at + self.record.seconds - now


class Tenure:
    """The time a successful write lets us lead: from when it was made, not from when it was answered.

    Some candidates compare records by their whole seconds and see only the first of several writes in one
    second, so it counts from the beginning of that second; a write that repeats the second of the one before,
    as after the wall clock was set back, extends nothing. No other candidate takes over before its end.

    Only monotonic time counts: no correction of the wall clock moves it, and it continues while the machine
    is suspended. `is_valid` is thread-safe.
    """

    __slots__ = ("_clock", "_second", "_since", "end")

    def __init__(self, clock: Clock, record: Record, began: float, before: "Tenure | None" = None) -> None:
        date = 0.0 if record.renewed is None else record.renewed
        self._clock = clock
        self._second = math.floor(date)
        self._since = began - (date - self._second)
        if before is not None and before._second == self._second and before.end > began:
            self._since = min(self._since, before._since)
        self.end: float = self._since + record.seconds
        """When it is over, by the clock's monotonic time."""

    @property
    def is_valid(self) -> bool:
        return self._clock.monotonic() < self.end
