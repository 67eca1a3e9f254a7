"""The event recorder of the controllers: no duplicates, a budget per object, never in the way of a sync."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeVar

from stowplan.api.catalogue import EVENTS
from stowplan.api.meta import micro_timestamp, next_nanosecond
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.client import Writer
from stowplan.clock import Clock
from stowplan.embedded.controllers.objects import name_of, uid_of

K = TypeVar("K")
V = TypeVar("V")

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

BURST: Final = 25
"""Events about one object by one controller that are written at once; after that, one every five minutes."""

REFILL: Final = 300.0
MAX_REMEMBERED: Final = 4096
MAX_NOTE_LENGTH: Final = 1000


class EventRecorder:
    """Writes events.k8s.io/v1 events about any object. What cannot be written is dropped and counted."""

    def __init__(self, client: Writer, clock: Clock, report: Callable[[str], None]) -> None:
        self._client = client
        self._clock = clock
        self._report = report
        self._allowances: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        self._recorded: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._nanosecond = 0
        self.dropped = 0

    async def record(self, about: Json, type: str, reason: str, note: str, *, by: str) -> None:
        """Write an event about an object, unless the same was just written or the budget is used up."""
        same = (uid_of(about), reason, note)
        if same in self._recorded or not self._has_budget(uid_of(about), by):
            self.dropped += 1
            return
        _remember(self._recorded, same, None)
        now = self._clock.now()
        self._nanosecond = next_nanosecond(now, self._nanosecond)
        namespace = about["metadata"].get("namespace") or "default"
        body = {
            "metadata": {"name": f"{name_of(about)}.{self._nanosecond:x}", "namespace": namespace},
            "eventTime": micro_timestamp(now),
            "reportingController": by,
            "reportingInstance": by,
            "action": reason,
            "reason": reason,
            "regarding": _reference(about),
            "note": note[:MAX_NOTE_LENGTH],
            "type": type,
        }
        try:
            await self._client.create(EVENTS, body, namespace=namespace)
        except ApiError as error:
            self.dropped += 1
            self._report(f"event {reason} of {name_of(about)} was not written: {error}")

    def _has_budget(self, uid: str, by: str) -> bool:
        now = self._clock.monotonic()
        left, since = self._allowances.get((uid, by), (float(BURST), now))
        left = min(left + (now - since) / REFILL, BURST)
        _remember(self._allowances, (uid, by), (max(left - 1, 0.0) if left >= 1 else left, now))
        return left >= 1


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


def _remember(memory: "OrderedDict[K, V]", key: K, value: V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > MAX_REMEMBERED:
        memory.popitem(last=False)
