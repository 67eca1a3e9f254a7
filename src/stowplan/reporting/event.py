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

_API_VERSION: Final = EVENTS.api_version
_CUT_MARK: Final = " ..."

SHORT: Final = NOTE_LIMIT // 4
"""So many characters an API server always takes: none of them is longer than four bytes."""

Key = tuple[str, ...]


class Event(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened to a pod. It holds texts only, not the pod, so that it can be kept for long."""

    name: str
    pod_namespace: str
    pod_name: str
    uid: str
    resource_version: str
    type: str
    reason: str
    action: str
    note: str
    controller: str
    instance: str
    time: float

    @property
    def namespace(self) -> str:
        return self.pod_namespace or DEFAULT_NAMESPACE

    @property
    def key(self) -> Key:
        """What makes events the same. The note does not: it stays the first one's."""
        return (
            self.uid,
            self.resource_version,
            self.pod_name,
            self.pod_namespace,
            self.reason,
            self.action,
            self.type,
            self.controller,
        )

    def body(self) -> Json:
        return {
            "kind": EVENTS.kind,
            "apiVersion": _API_VERSION,
            "metadata": {"name": self.name, "namespace": self.pod_namespace or DEFAULT_NAMESPACE},
            "eventTime": micro_timestamp(self.time),
            "reportingController": self.controller,
            "reportingInstance": self.instance,
            "action": self.action,
            "reason": self.reason,
            "regarding": _reference(self.pod_namespace, self.pod_name, self.uid, self.resource_version),
            "note": self.note,
            "type": self.type,
            "deprecatedSource": {},
            "deprecatedFirstTimestamp": None,
            "deprecatedLastTimestamp": None,
        }


class Series(msgspec.Struct, gc=False):
    """The same event again and again: the first one, how many there were, and when the last was."""

    event: Event
    count: int
    last: float

    def patch(self) -> Json:
        return {"series": self._data()}

    def body(self) -> Json:
        """The whole event, for a server that has forgotten it."""
        return {**self.event.body(), "series": self._data()}

    def snapshot(self) -> "Series":
        """As it is now; the series goes on."""
        return Series(self.event, self.count, self.last)

    def _data(self) -> Json:
        return {"count": self.count, "lastObservedTime": micro_timestamp(self.last)}


def reference(pod: Pod) -> Json:
    """A reference to a pod in the state in which it is known here."""
    meta = pod.metadata
    return _reference(meta.namespace, meta.name, meta.uid, meta.resource_version)


def _reference(namespace: str, name: str, uid: str, resource_version: str) -> Json:
    return {
        "kind": PODS.kind,
        "namespace": namespace,
        "name": name,
        "uid": uid,
        "apiVersion": PODS.version,
        "resourceVersion": resource_version,
    }


def cut(note: str) -> str:
    """A note that an API server takes: at most so many bytes, never ending within a character."""
    data = note.encode()
    if len(data) <= NOTE_LIMIT:
        return note
    return data[: NOTE_LIMIT - len(_CUT_MARK)].decode(errors="ignore") + _CUT_MARK
