"""Recorded and own writes made comparable: what must differ between two runs gets neutral names."""

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from observed.files import recorded
from releases import GATES_1_36
from scheduler.live_scheduler import configured
from scheduler.recording_client import Write

RECORDED = configured(gates=GATES_1_36)
"""The configuration of the recorded scheduler."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_EVENT_NAME = re.compile(r"^(.*)\.[0-9a-f]{16}$")
_ENVELOPE = ("kind", "apiVersion")
"""Fields that a client adds to a body on the wire."""

_PATCH = "application/strategic-merge-patch+json"


class Request(NamedTuple):
    """A write as it is compared."""

    pod: str
    method: str
    path: str
    content_type: str
    body: Any
    code: int

    @property
    def is_event(self) -> bool:
        return "/events" in self.path


_NOTHING = Request("", "", "", "", None, 0)


def of_recording(written: Iterable[Any]) -> list[Request]:
    """Writes as they stand in a recording."""
    return of_requests(
        Write(
            one["t"],
            one["method"],
            one["url"],
            one.get("content_type", _PATCH),
            one.get("request"),
            one["code"],
        )
        for one in written
    )


def of_requests(writes: Iterable[Write]) -> list[Request]:
    """Writes with neutral names that keep identities and the times of changes apart."""
    written = list(writes)
    names = _Names(written)
    return [names.request(write) for write in written]


def by_pod(requests: Sequence[Request]) -> dict[str, dict[str, list[Request]]]:
    """Writes about each pod, events apart: an event and a status patch race each other."""
    found: dict[str, dict[str, list[Request]]] = {}
    for request in requests:
        streams = found.setdefault(request.pod, {"events": [], "others": []})
        streams["events" if request.is_event else "others"].append(request)
    return found


class _Names:
    """Neutral names for uids, versions and events, in the order in which they first appear."""

    def __init__(self, writes: Sequence[Write]) -> None:
        self._uids: dict[str, str] = {}
        self._versions: dict[tuple[str, str], str] = {}
        self._events: dict[str, str] = {}
        self._pods: dict[str, str] = {}
        for write in writes:
            self._collect(write)

    def _collect(self, write: Write) -> None:
        body = write.body or {}
        about = body.get("regarding") or (body.get("metadata") if write.path.endswith("/binding") else None)
        if about:
            self._name(self._uids, about["uid"], f"uid of {about['name']}")
        if about and "regarding" in body:
            key = (about["name"], about["resourceVersion"])
            numbers = [one for one in self._versions if one[0] == about["name"]]
            self._versions.setdefault(key, f"version {len(numbers) + 1}")
            self._name(self._events, body["metadata"]["name"], f"event of {about['name']}")
            self._pods[body["metadata"]["name"]] = about["name"]

    @staticmethod
    def _name(names: dict[str, str], known: str, name: str) -> None:
        taken = sum(1 for one in names.values() if one.startswith(name))
        names.setdefault(known, f"{name} {taken + 1}")

    def request(self, write: Write) -> Request:
        *start, last = write.path.split("/")
        pod = self._pod(write)
        path = "/".join([*start, self._events.get(last, last)])
        content_type = write.content_type if write.method == "PATCH" else ""
        body = self._neutral(_without_envelope(write), pod)
        return Request(pod, write.method, path, content_type, body, write.code)

    def _pod(self, write: Write) -> str:
        if write.path.endswith("/events"):
            return str(write.body["regarding"]["name"])
        if write.method == "PUT":
            return write.path.rpartition("/")[2]
        name = write.path.partition("/events/")[2]
        return self._pods[name] if name else write.path.partition("/pods/")[2].partition("/")[0]

    def _neutral(self, value: Any, pod: str) -> Any:
        if isinstance(value, dict):
            return {
                key: self._versions.get((pod, held), "")
                if key == "resourceVersion"
                else self._neutral(held, pod)
                for key, held in value.items()
            }
        if isinstance(value, list):
            return [self._neutral(held, pod) for held in value]
        if isinstance(value, str):
            return self._neutral_text(value)
        return value

    def _neutral_text(self, text: str) -> str:
        if _EVENT_NAME.match(text):
            return self._events.get(text, text)
        for uid, name in self._uids.items():
            text = text.replace(uid, name)
        return _TIME.sub(lambda found: re.sub(r"\d", "0", found[0]), text)


def _without_envelope(write: Write) -> Any:
    if write.body is None:
        return None
    if write.method == "PUT":
        return _of_scheduling(write.body)
    if write.path.endswith(("/binding",)) or write.method == "DELETE":
        return {key: value for key, value in write.body.items() if key not in _ENVELOPE}
    return write.body


def _of_scheduling(whole: Any) -> Any:
    """Parts of a volume or claim that a scheduler may change, and those it must leave as they are."""
    spec = dict(whole["spec"])
    if "claimRef" in spec:
        spec["claimRef"] = {**spec["claimRef"], "uid": "", "resourceVersion": ""}
        assert whole["spec"]["claimRef"]["uid"]
        assert whole["spec"]["claimRef"]["resourceVersion"]
    metadata = {key: whole["metadata"].get(key) for key in ("name", "namespace", "annotations", "finalizers")}
    assert whole["metadata"]["resourceVersion"]
    return {"metadata": metadata, "spec": spec, "phase": whole["status"]["phase"]}


def same_writes(own: Iterable[Write], *scenarios: str) -> None:
    """Assert that the same was written as in the recorded scenarios, one after the other."""
    same_as(own, [one for scenario in scenarios for one in recorded("wire/writes")[scenario]])


def same_as(own: Iterable[Write], written: Iterable[Any]) -> None:
    """Assert that the same was written as stands in a recording. A body that was not recorded may be any."""
    found = of_requests(_without_preconditions(list(own)))
    got, expected = by_pod(found), by_pod(of_recording(written))
    assert got.keys() == expected.keys()
    for pod, streams in expected.items():
        for stream, requests in streams.items():
            wanted = [
                one._replace(body=mine.body) if one.body is None else one
                for one, mine in zip_longest(requests, got[pod][stream], fillvalue=_NOTHING)
                if one is not _NOTHING
            ]
            assert got[pod][stream] == wanted, f"{stream} of {pod}"
    _check_order(found)


def _without_preconditions(own: Sequence[Write]) -> list[Write]:
    """Writes as kube-scheduler makes them: by name alone.

    Ours say which pod exactly they mean, lest another one of that name is meant: statuses by the uid in the
    patch, deletions by the uid in their options.
    """
    uids = {
        one.body["regarding"]["name"]: one.body["regarding"]["uid"]
        for one in own
        if one.body is not None and "regarding" in one.body
    }
    plain = []
    for write in own:
        body = write.body
        pod = write.path.partition("/pods/")[2].partition("/")[0]
        if write.method == "PATCH" and write.path.endswith("/status"):
            assert body["metadata"] == {"uid": uids.get(pod, body["metadata"]["uid"])}
            body = {key: value for key, value in body.items() if key != "metadata"}
        elif write.method == "DELETE" and pod:
            given = body.get("preconditions", body)["uid"]  # over HTTP, or as the client's options
            assert given == uids.get(pod, given)
            body = {}
        plain.append(write._replace(body=body))
    return plain


def _check_order(requests: Sequence[Request]) -> None:
    """The event of a binding or a deletion is written after it."""
    for number, request in enumerate(requests):
        if not request.is_event or request.method != "POST":
            continue
        cause = {"Scheduled": ("POST", "/binding"), "Preempted": ("DELETE", "")}.get(request.body["reason"])
        if cause is not None:
            path = f"/pods/{request.pod}{cause[1]}"
            earlier, all_of_them = (
                [one for one in some if one.method == cause[0] and one.path.endswith(path)]
                for some in (requests[:number], requests)
            )
            assert earlier or not all_of_them, f"{request.body['reason']} of {request.pod} came too early"
