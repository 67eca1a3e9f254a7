"""Metadata that every object carries: names, labels, owners, label selectors, and timestamps as text."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import floor
from typing import Any, Final, Self

import msgspec

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all API structs: camelCase on the wire, immutable, equal by value.

    The garbage collector does not track them (`gc=False`): objects hold no cycles, and a million tracked
    objects would make every collection pause the scheduler.
    """


class OwnerReference(Struct, frozen=True):
    """A reference to an object this one belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct, frozen=True):
    """Standard metadata. Timestamps stay RFC 3339 text; few readers need them as numbers."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class LabelSelectorRequirement(Struct, frozen=True):
    """`key operator values`, operator one of In, NotIn, Exists, DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    """Requirements that are ANDed. Empty selects everything; an absent selector selects nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Object(Struct, frozen=True):
    """An API object: kind, version and metadata."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def key(self) -> str:
        """`namespace/name`, or the bare name of a cluster-scoped object."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class AnyObject(Object, frozen=True):
    """An object of a kind that has no type here: all its fields are in `data`."""

    data: dict[str, Any] = {}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Self:
        """Raises msgspec.ValidationError if the metadata is not what metadata is."""
        return msgspec.structs.replace(msgspec.convert(data, cls), data=data)


class Namespace(Object, frozen=True):
    """A namespace; the scheduler reads its labels for namespace selectors."""


def timestamp(seconds: float) -> str:
    """A time in whole seconds, such as `2026-11-15T19:41:23Z` (rounded down)."""
    return f"{_second_text(floor(seconds))}Z"


@lru_cache(maxsize=64)
def _second_text(second: int) -> str:
    """A second without its time zone, to be gone on from."""
    return f"{_EPOCH + timedelta(seconds=second):%Y-%m-%dT%H:%M:%S}"


def micro_timestamp(seconds: float) -> str:
    """A time in microseconds, such as `2026-11-15T19:41:23.466883Z`: events and leases have these."""
    second, fraction = divmod(round(seconds * 1e6), 1_000_000)
    return f"{_second_text(second)}.{str(fraction).zfill(6)}Z"


def next_nanosecond(time: float, last: int) -> int:
    """A date in nanoseconds for the name of an event, another one than the last.

    Events of one moment are numbered on from it. A wall clock that was set back further is followed.
    """
    nanosecond = int(time * 1e9)
    return last + 1 if 0 <= last - nanosecond < 1_000_000_000 else nanosecond


def seconds_of(text: str) -> float:
    """The time written as `text`, in seconds since the epoch. Raises ValueError naming the text."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError(f"expected an RFC 3339 time, got {text!r}")
    return (time - _EPOCH).total_seconds()
