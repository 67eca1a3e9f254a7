"""Events of pods (events.k8s.io/v1): correlated into series, and written in the background.

The first event of its kind is written, the second makes a series of it, further ones are only counted.
"""

import asyncio
import random
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from stowplan.api.catalogue import EVENTS, PODS
from stowplan.api.meta import Object, micro_timestamp, next_nanosecond
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.client import Writer
from stowplan.runtime.clock import Clock
from stowplan.scheduler.events.background_writer import LIMIT, BackgroundWriter

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
TYPES: Final = frozenset((NORMAL, WARNING))

DEFAULT_NAMESPACE: Final = "default"

NOTE_LIMIT: Final = 1024
"""The longest note the API server accepts, in bytes."""

_KIND: Final = EVENTS.kind
_API_VERSION: Final = EVENTS.api_version
_POD: Final = PODS.kind
_POD_VERSION: Final = PODS.api_version
_TRUNCATION_MARK: Final = " ..."

_SHORT_NOTE: Final = NOTE_LIMIT // 4
"""A note of this number of characters is never too long: a character has at most four bytes."""

SERIES_TIMEOUT: Final = 360.0
"""Seconds without another event after which a series is finished."""

CACHE_SIZE: Final = 20_000
"""The most events of one reason, and the most series, that are cached."""

FINISH_INTERVAL: Final = SERIES_TIMEOUT
"""Seconds between two checks for finished series."""

REFRESH_EVERY: Final = 5
"""Number of checks (half an hour) after which series in progress are written, before they expire on the
server."""

MAX_TRIES: Final = 12
RETRY_DELAY: Final = 10.0
RETRY_JITTER: Final = 0.25

MAX_RETRYING: Final = 1000
"""The most events that wait for a retry."""

MAX_NAME_LENGTH: Final = 253

Related = tuple[str, str, str, str, str, str]
"""Kind, namespace, name, uid, API version and resource version of another object that an event concerns."""

_Reported = tuple[Pod, str, str, str, str, str, float, Related | None]
"""Pod, type, reason, action, note, controller, time, related object."""


_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion")


# Events and series


class EventKey(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Events with equal keys are correlated into a series."""

    uid: str
    resource_version: str
    pod_name: str
    pod_namespace: str
    reason: str
    action: str
    type: str
    controller: str
    related: Related | None = None


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event about a pod. It has strings only and no reference to the pod, so that it can be kept long.

    `namespace` is where it is written. A series keeps the note of its first event. `time` is the date that is
    written, `observed` the monotonic time that decides when the event is forgotten.
    """

    key: EventKey
    namespace: str
    name: str
    note: str
    instance: str
    time: float
    observed: float

    def body(self) -> Json:
        key = self.key
        body: Json = {
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
        if key.related is not None:
            body["related"] = dict(zip(_REFERENCE, key.related, strict=True))
        return body


class EventSeries(msgspec.Struct, gc=False):
    """A series: the first event, the count, and the last one's date and monotonic time (`observed`)."""

    event: Event
    count: int
    last: float
    observed: float

    def patch(self) -> Json:
        return {"series": self._data()}

    def body(self) -> Json:
        """The whole event, if it has expired on the server."""
        return {**self.event.body(), "series": self._data()}

    def snapshot(self) -> "EventSeries":
        """A copy of the current state."""
        return EventSeries(self.event, self.count, self.last, self.observed)

    def _data(self) -> Json:
        return {"count": self.count, "lastObservedTime": micro_timestamp(self.last)}


def reference(pod: Pod) -> Json:
    """The ObjectReference of a pod."""
    meta = pod.metadata
    return {
        "kind": _POD,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "apiVersion": _POD_VERSION,
        "resourceVersion": meta.resource_version,
    }


def related(obj: Object, api_version: str, kind: str) -> Related:
    """Reference of an event to another object that it concerns."""
    meta = obj.metadata
    return kind, meta.namespace, meta.name, meta.uid, api_version, meta.resource_version


def truncate_note(note: str) -> str:
    """The note, truncated to NOTE_LIMIT bytes at a character boundary."""
    data = note.encode()
    if len(data) <= NOTE_LIMIT:
        return note
    return data[: NOTE_LIMIT - len(_TRUNCATION_MARK)].decode(errors="ignore") + _TRUNCATION_MARK


# Correlation


class EventCorrelator:
    """The events of the last minutes by key. Does no I/O.

    Events evict only events of the same reason: thousands of bindings per second must not evict a pod's last
    failure. Beyond `kept` the oldest are evicted, a series without its last count.
    """

    def __init__(self, kept: int = CACHE_SIZE) -> None:
        self._kept = kept
        self._once: dict[str, _Recent] = {}
        self._series: OrderedDict[EventKey, EventSeries] = OrderedDict()

    def __len__(self) -> int:
        """The number of cached events and series."""
        return len(self._series) + sum(map(len, self._once.values()))

    @property
    def series(self) -> list[EventSeries]:
        """The series in progress, the least recent first."""
        return list(self._series.values())

    def observe(self, event: Event) -> Event | EventSeries | None:
        """Object to write: the event, the series it starts, or nothing."""
        key = event.key
        series = self._series.get(key) if self._series else None
        if series is not None:
            series.count += 1
            series.last, series.observed = event.time, event.observed
            self._series.move_to_end(key)
            return None
        recent = self._once.get(key.reason)
        if recent is None:
            recent = self._once[key.reason] = _Recent(self._kept)
        first = recent.take_or_put(key, event)
        if first is None:
            return event
        return self._begin_series(key, EventSeries(first, 2, event.time, event.observed))

    def finish_series(self, now: float) -> list[EventSeries]:
        """Drop what has timed out; returns the finished series, whose last count has to be written."""
        oldest = now - SERIES_TIMEOUT
        for reason, recent in list(self._once.items()):
            recent.forget_before(oldest)
            if not len(recent):
                del self._once[reason]
        over = [series for series in self._series.values() if series.observed < oldest]
        for series in over:
            del self._series[series.event.key]
        return over

    def resume(self, series: EventSeries) -> None:
        """Continue a series whose last count could not be written, unless there is a new one."""
        self._series.setdefault(series.event.key, series)

    def _begin_series(self, key: EventKey, series: EventSeries) -> EventSeries:
        self._series[key] = series
        if len(self._series) > self._kept:
            self._series.popitem(last=False)
        return series.snapshot()


class _Recent:
    """Events by key in two generations; the older is dropped when the younger is full."""

    def __init__(self, kept: int) -> None:
        self._half = max(kept // 2, 1)
        self._young: dict[EventKey, Event] = {}
        self._old: dict[EventKey, Event] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def take_or_put(self, key: EventKey, event: Event) -> Event | None:
        """Remove and return the event with a key; if there is none, add this one."""
        if key in self._young:
            return self._young.pop(key)
        if key in self._old:
            return self._old.pop(key)
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[key] = event
        return None

    def forget_before(self, oldest: float) -> None:
        self._young = {key: event for key, event in self._young.items() if event.observed >= oldest}
        self._old = {key: event for key, event in self._old.items() if event.observed >= oldest}


# The recorder


class EventRecorder:
    """Writes events.k8s.io/v1 events, repeated ones as series.

    `event` only queues; `run` writes until cancelled. If the server is unreachable an event is retried for
    two minutes; rejected events are not retried. `dropped` counts events that found the queue full, `failed`
    those that could not be written, `written` successful requests. While `others_wait` returns True (bindings
    wait for the server), events are written a few at a time. With `gather` they are written together at
    intervals of that many seconds.
    """

    def __init__(
        self,
        client: Writer,
        clock: Clock,
        rng: random.Random,
        hostname: str,
        report: Callable[[str], None],
        *,
        limit: int = LIMIT,
        kept: int = CACHE_SIZE,
        others_wait: Callable[[], bool] = lambda: False,
        gather: float = 0.0,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._hostname = hostname
        self._report = report
        self._aggregation = EventCorrelator(kept)
        self._writer: BackgroundWriter[_Reported] = BackgroundWriter(
            self._record, limit=limit, others_wait=others_wait, gather=gather
        )
        self._tasks: asyncio.TaskGroup | None = None
        self._retrying = 0
        self._last_nanosecond = 0
        self._is_full = False
        self.dropped = 0
        self.failed = 0
        self.written = 0

    @property
    def waiting(self) -> int:
        """The number of queued events."""
        return len(self._writer)

    @property
    def remembered(self) -> int:
        """The number of cached events and series."""
        return len(self._aggregation)

    def event(
        self,
        regarding: Pod,
        type: str,
        reason: str,
        action: str,
        note: str,
        controller: str,
        time: float | None = None,
        related: Related | None = None,
    ) -> None:
        """Record an event about a pod, with the current time unless one is given. Never blocks.

        `controller` is the name of the pod's scheduler.
        """
        if time is None:
            time = self._clock.now()
        reported = (regarding, type, reason, action, note, controller, time, related)
        if not self._writer.put(reported):
            self._drop(reported)

    async def run(self) -> None:
        """Write events until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(self._writer.run(), name="events")
                self._tasks.create_task(self._check(), name="event series")
        finally:
            self._tasks = None

    async def drain(self) -> None:
        """Return when every queued event was tried once; retries may be pending."""
        await self._writer.drain()

    async def _record(self, reported: _Reported) -> None:
        self._is_full = False
        if reported[1] not in TYPES:
            self.failed += 1
            self._report(
                f"event about pod {reported[0].key}: type: expected Normal or Warning, got {reported[1]!r}"
            )
            return
        event = self._new_event(reported)
        wanted = self._aggregation.observe(event)
        if wanted is event:
            try:
                await self._client.create_unseen(EVENTS, event.body(), namespace=event.namespace)
            except ApiError as error:
                again = self._should_retry(event, error)
            else:
                self.written += 1
                return
        elif wanted is None:
            return
        else:
            again = await self._write(wanted)
        if again:
            self._retry_later(wanted)

    def _new_event(self, reported: _Reported) -> Event:
        """An event, named after pod and time in nanoseconds, or by a random UUID if that is too long."""
        pod, type, reason, action, note, controller, time, related = reported
        meta = pod.metadata
        namespace = meta.namespace
        key = EventKey(
            meta.uid, meta.resource_version, meta.name, namespace, reason, action, type, controller, related
        )
        self._last_nanosecond = nanosecond = next_nanosecond(time, self._last_nanosecond)
        name = f"{meta.name}.{nanosecond:x}"
        if len(name) > MAX_NAME_LENGTH:
            name = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        if len(note) > _SHORT_NOTE:
            note = truncate_note(note)
        instance = f"{controller}-{self._hostname}"
        return Event(key, namespace or DEFAULT_NAMESPACE, name, note, instance, time, self._clock.monotonic())

    async def _write(self, wanted: Event | EventSeries) -> bool:
        """Write an event or the state of a series. True if it should be retried."""
        try:
            if isinstance(wanted, EventSeries):
                await self._write_series(wanted)
            else:
                await self._client.create_unseen(EVENTS, wanted.body(), namespace=wanted.namespace)
        except ApiError as error:
            return self._should_retry(wanted, error)
        self.written += 1
        return False

    async def _write_series(self, series: EventSeries) -> None:
        event = series.event
        try:
            await self._client.patch_unseen(EVENTS, event.namespace, event.name, series.patch())
        except ApiError as error:
            if error.code != 404:
                raise
            await self._client.create_unseen(EVENTS, series.body(), namespace=event.namespace)

    def _should_retry(self, wanted: Event | EventSeries, error: ApiError) -> bool:
        if error.is_unreachable:
            return True
        if error.is_already_exists:
            # A series was created between our two requests; of an event the response was lost.
            return isinstance(wanted, EventSeries)
        self._give_up(wanted, str(error))
        return False

    def _retry_later(self, wanted: Event | EventSeries) -> None:
        if self._tasks is None or not self._writer.is_running or self._retrying >= MAX_RETRYING:
            self._give_up(wanted, "the server cannot be reached")
        else:
            self._retrying += 1
            self._tasks.create_task(self._retry(wanted), name="event retry")

    async def _retry(self, wanted: Event | EventSeries) -> None:
        try:
            for _ in range(MAX_TRIES - 1):
                await asyncio.sleep(RETRY_DELAY * (1 + RETRY_JITTER * self._rng.random()))
                if not await self._write(wanted):
                    return
            self._give_up(wanted, f"the server cannot be reached, tried {MAX_TRIES} times")
        finally:
            self._retrying -= 1

    async def _check(self) -> None:
        """Finish series without new events, and refresh the others now and then."""
        began = self._clock.monotonic()
        number = 0
        while True:
            number += 1
            await asyncio.sleep(max(began + number * FINISH_INTERVAL - self._clock.monotonic(), 0))
            for series in self._aggregation.finish_series(self._clock.monotonic()):
                if await self._write(series):
                    self._aggregation.resume(series)
            if number % REFRESH_EVERY == 0:
                for series in self._aggregation.series:
                    await self._write(series.snapshot())

    def _give_up(self, wanted: Event | EventSeries, why: str) -> None:
        self.failed += 1
        event = wanted.event if isinstance(wanted, EventSeries) else wanted
        what = f"{event.key.reason} of pod {event.key.pod_namespace}/{event.key.pod_name}"
        self._report(f"event {event.name} ({what}) was not written: {why}")

    def _drop(self, reported: _Reported) -> None:
        """Count a dropped event; reported once until the queue has room again."""
        self.dropped += 1
        if not self._is_full:
            self._is_full = True
            pod, _, reason, *_ = reported
            self._report(f"events are dropped, too many are waiting; the first is {reason} of pod {pod.key}")
