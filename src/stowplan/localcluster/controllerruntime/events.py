"""The event recorder of the controllers, with the correlation that client-go's recorder does.

Equal events become one with a count. Of one source, object, type and reason, the tenth message that is not
like the others and all after it become one event, "(combined from similar events)". Whoever says more than
its budget about an object is not heard.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from stowplan.api.catalogue import CORE_EVENTS
from stowplan.api.meta import next_nanosecond, timestamp
from stowplan.api.requests import Json, PatchType
from stowplan.api.status import ApiError
from stowplan.client import Writer
from stowplan.localcluster.objects.fields import name_of, uid_of
from stowplan.runtime.clock import Clock

V = TypeVar("V")

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

BURST: Final = 25
"""Events of one type by one controller about one object at once; after that, one every five minutes."""

REFILL: Final = 300.0
MAX_SIMILAR: Final = 10
SIMILAR_FOR: Final = 600.0
"""Seconds after the last of them when similar events are forgotten."""

COMBINED: Final = "(combined from similar events): "
MAX_REMEMBERED: Final = 4096
MAX_MESSAGE_LENGTH: Final = 1024


class EventSubject(NamedTuple):
    """Source, object and type of an event."""

    source: str
    uid: str
    type: str


class EventMemory(OrderedDict[tuple[str, ...], V], Generic[V]):
    """The entries that were used last."""

    def remember(self, key: tuple[str, ...], value: V) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > MAX_REMEMBERED:
            self.popitem(last=False)


@dataclass(slots=True)
class Similar:
    """The different messages of one subject and reason, the oldest first."""

    last: float
    messages: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class Written:
    """An event as it was last written."""

    name: str
    count: int


class Correlator:
    """Decides which events are combined and which are not written at all."""

    def __init__(self) -> None:
        self._similar: EventMemory[Similar] = EventMemory()
        self._budgets: EventMemory[tuple[float, float]] = EventMemory()

    def combined(self, subject: EventSubject, reason: str, message: str, now: float) -> bool:
        """True if there are too many similar events of this kind."""
        key = (*subject, reason)
        known = self._similar.get(key)
        if known is None or now - known.last > SIMILAR_FOR:
            known = Similar(now)
        known.messages[message] = None
        known.last = now
        self._similar.remember(key, known)
        if len(known.messages) < MAX_SIMILAR:
            return False
        del known.messages[next(iter(known.messages))]
        return True

    def has_budget(self, subject: EventSubject, now: float) -> bool:
        left, since = self._budgets.get(subject, (float(BURST), now))
        left = min(left + (now - since) / REFILL, BURST)
        self._budgets.remember(subject, (left - 1 if left >= 1 else left, now))
        return left >= 1


def is_namespace_terminating(error: ApiError) -> bool:
    """True if nothing can be created because the namespace is terminating: not worth an event."""
    return any(cause.get("reason") == "NamespaceTerminating" for cause in error.details.get("causes") or ())


class ControllerEventRecorder:
    """Writes events about any object. Events that cannot be written are dropped and counted."""

    def __init__(self, client: Writer, clock: Clock, report: Callable[[str], None]) -> None:
        self._client = client
        self._clock = clock
        self._report = report
        self._correlator = Correlator()
        self._written: EventMemory[Written] = EventMemory()
        self._nanosecond = 0
        self.dropped = 0

    async def record(
        self,
        about: Json,
        type: str,
        reason: str,
        message: str,
        *,
        by: str,
        host: str = "",
        field_path: str = "",
    ) -> None:
        """Write an event about an object, or that one like it has come again.

        `host` is the node that a kubelet writes of, `field_path` the part of the object that is meant.
        """
        subject, now = EventSubject(by, uid_of(about) or name_of(about), type), self._clock.monotonic()
        key: tuple[str, ...] = (*subject, reason, message, field_path)
        combined = self._correlator.combined(subject, reason, message, now)
        if combined:
            key, message = (*subject, reason, COMBINED), COMBINED + message
        if not self._correlator.has_budget(subject, now):
            self.dropped += 1
            return
        try:
            event = _event(about, type, reason, message[:MAX_MESSAGE_LENGTH], by, combined)
            if host:
                event["source"]["host"] = host
                if not combined:
                    event["reportingInstance"] = host
            if field_path:
                event["involvedObject"]["fieldPath"] = field_path
            await self._write(about, key, event)
        except ApiError as error:
            self.dropped += 1
            if not is_namespace_terminating(error):
                self._report(f"event {reason} of {name_of(about)} was not written: {error}")

    async def _write(self, about: Json, key: tuple[str, ...], event: Json) -> None:
        now, namespace = self._clock.now(), about["metadata"].get("namespace") or "default"
        before = self._written.get(key)
        if before is not None:
            again = {"count": before.count + 1, "lastTimestamp": timestamp(now), "message": event["message"]}
            try:
                await self._client.patch(CORE_EVENTS, namespace, before.name, again, PatchType.MERGE)
            except ApiError as error:
                if not error.is_not_found:
                    raise
            else:
                before.count += 1
                return
        self._nanosecond = next_nanosecond(now, self._nanosecond)
        name = f"{name_of(about)}.{self._nanosecond:x}"
        times = {"firstTimestamp": timestamp(now), "lastTimestamp": timestamp(now), "count": 1}
        self._written.remember(key, Written(name, 1))
        body = {"metadata": {"name": name, "namespace": namespace}, **event, **times}
        await self._client.create(CORE_EVENTS, body, namespace=namespace)


def _event(about: Json, type: str, reason: str, message: str, by: str, combined: bool) -> Json:
    event: Json = {
        "involvedObject": _reference(about),
        "reason": reason,
        "message": message,
        "type": type,
        "source": {"component": by},
    }
    return event if combined else {**event, "reportingComponent": by, "reportingInstance": ""}


def _reference(about: Json) -> Json:
    metadata = about["metadata"]
    reference = {
        "apiVersion": about.get("apiVersion", ""),
        "kind": about.get("kind", ""),
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
        "resourceVersion": metadata.get("resourceVersion", ""),
    }
    return {field: value for field, value in reference.items() if value}
