"""Events as the scheduler writes them: events.k8s.io/v1, about pods."""

from typing import Final

import msgspec

from stowplan.api.catalogue import EVENTS, PODS
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.api.timestamps import micro_timestamp

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
TYPES: Final = frozenset((NORMAL, WARNING))

DEFAULT_NAMESPACE: Final = "default"

NOTE_LIMIT: Final = 1024
"""The longest note an API server takes, in bytes."""

_KIND: Final = EVENTS.kind
_API_VERSION: Final = EVENTS.api_version
_POD: Final = PODS.kind
_POD_VERSION: Final = PODS.api_version
_CUT_MARK: Final = " ..."

SHORT: Final = NOTE_LIMIT // 4
"""So many characters an API server always takes: none of them is longer than four bytes."""


class Key(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What makes events the same: what happened, to which state of which pod, and who says so."""

    uid: str
    resource_version: str
    pod_name: str
    pod_namespace: str
    reason: str
    action: str
    type: str
    controller: str


class Event(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened to a pod. It holds texts only, not the pod, so that it can be kept for long.

    `namespace` is where it is written. Of events that are the same the note stays the first one's. `time` is
    the date that is written, `observed` the monotonic time that decides when the event is forgotten.
    """

    key: Key
    namespace: str
    name: str
    note: str
    instance: str
    time: float
    observed: float

    def body(self) -> Json:
        key = self.key
        return {
            "kind": _KIND,
            "apiVersion": _API_VERSION,
            "metadata": {"name": self.name, "namespace": self.namespace},
            "eventTime": micro_timestamp(self.time),
            "reportingController": key.controller,
            "reportingInstance": self.instance,
            "action": key.action,
            "reason": key.reason,
            "regarding": {
                "kind": _POD,
                "namespace": key.pod_namespace,
                "name": key.pod_name,
                "uid": key.uid,
                "apiVersion": _POD_VERSION,
                "resourceVersion": key.resource_version,
            },
            "note": self.note,
            "type": key.type,
            "deprecatedSource": {},
            "deprecatedFirstTimestamp": None,
            "deprecatedLastTimestamp": None,
        }


class Series(msgspec.Struct, gc=False):
    """The same event again and again: the first one, how many there were, and when the last was.

    `last` is its date, `observed` its monotonic time.
    """

    event: Event
    count: int
    last: float
    observed: float

    def patch(self) -> Json:
        return {"series": self._data()}

    def body(self) -> Json:
        """The whole event, for a server that has forgotten it."""
        return {**self.event.body(), "series": self._data()}

    def snapshot(self) -> "Series":
        """As it is now; the series goes on."""
        return Series(self.event, self.count, self.last, self.observed)

    def _data(self) -> Json:
        return {"count": self.count, "lastObservedTime": micro_timestamp(self.last)}


def reference(pod: Pod) -> Json:
    """A reference to a pod in the state in which it is known here."""
    meta = pod.metadata
    return {
        "kind": _POD,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "apiVersion": _POD_VERSION,
        "resourceVersion": meta.resource_version,
    }


def cut(note: str) -> str:
    """A note that an API server takes: at most so many bytes, never ending within a character."""
    data = note.encode()
    if len(data) <= NOTE_LIMIT:
        return note
    return data[: NOTE_LIMIT - len(_CUT_MARK)].decode(errors="ignore") + _CUT_MARK
