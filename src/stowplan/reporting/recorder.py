"""Recording events about pods, never in the way of those who report them; what is lost is counted."""

import asyncio
import random
import uuid
from collections.abc import Callable
from typing import Final

from stowplan.api.catalogue import EVENTS
from stowplan.api.pod import Pod
from stowplan.api.requests import PatchType
from stowplan.api.status import ApiError
from stowplan.api.timestamps import next_nanosecond
from stowplan.client import Writer
from stowplan.clock import Clock
from stowplan.reporting.aggregation import KEPT, QUIET, Aggregation
from stowplan.reporting.event import DEFAULT_NAMESPACE, SHORT, TYPES, Event, Key, Series, cut
from stowplan.reporting.outbox import LIMIT, Outbox

CHECK_EVERY: Final = QUIET
"""How often, in seconds, series are looked through for those that are over."""

REFRESH_EVERY: Final = 5
"""At every so-manieth check the series in progress are written, lest the server forget them: half an hour."""

TRIES: Final = 12
RETRY_PAUSE: Final = 10.0
RETRY_JITTER: Final = 0.25

RETRIED_AT_ONCE: Final = 1000
"""How many events may be waiting for their next try while the server cannot be reached."""

LONGEST_NAME: Final = 253

_Reported = tuple[Pod, str, str, str, str, str, float]
"""Pod, type, reason, action, note, controller, time."""


class EventRecorder:
    """Writes events.k8s.io/v1 events, the same ones as series.

    `event` only takes note; `run` writes until cancelled. A server that cannot be reached is tried again for
    two minutes; what a server refuses is given up. `dropped` counts events that came when too many were
    waiting, `failed` those that could not be written, `written` requests that succeeded.
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
        kept: int = KEPT,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._hostname = hostname
        self._report = report
        self._aggregation = Aggregation(kept)
        self._outbox: Outbox[_Reported] = Outbox(self._record, limit=limit)
        self._tasks: asyncio.TaskGroup | None = None
        self._retrying = 0
        self._last_nanosecond = 0
        self._is_full = False
        self.dropped = 0
        self.failed = 0
        self.written = 0

    @property
    def waiting(self) -> int:
        """How many events nobody has begun to write."""
        return len(self._outbox)

    @property
    def remembered(self) -> int:
        """How many events and series a new event is compared with."""
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
    ) -> None:
        """Something happened to a pod, now unless a time is given. Never waits.

        `controller` is the name of the pod's scheduler.
        """
        if time is None:
            time = self._clock.now()
        reported = (regarding, type, reason, action, note, controller, time)
        if not self._outbox.put(reported):
            self._drop(reported)

    async def run(self) -> None:
        """Write events until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(self._outbox.run(), name="events")
                self._tasks.create_task(self._check(), name="event series")
        finally:
            self._tasks = None

    async def drain(self) -> None:
        """Come back when every event has been tried to be written, not when every retry is over."""
        await self._outbox.drain()

    async def _record(self, reported: _Reported) -> None:
        self._is_full = False
        if reported[1] not in TYPES:
            self.failed += 1
            self._report(
                f"event about pod {reported[0].key}: type: expected Normal or Warning, got {reported[1]!r}"
            )
            return
        event = self._made(reported)
        wanted = self._aggregation.observe(event)
        if wanted is event:
            try:
                await self._client.create(EVENTS, event.body(), namespace=event.namespace)
            except ApiError as error:
                again = self._is_worth_a_retry(event, error)
            else:
                self.written += 1
                return
        elif wanted is None:
            return
        else:
            again = await self._must_retry(wanted)
        if again:
            self._retry_later(wanted)

    def _made(self, reported: _Reported) -> Event:
        """An event with a name: the pod's and the nanosecond; where that is too long, chance makes it."""
        pod, type, reason, action, note, controller, time = reported
        meta = pod.metadata
        namespace = meta.namespace
        key = Key(meta.uid, meta.resource_version, meta.name, namespace, reason, action, type, controller)
        self._last_nanosecond = nanosecond = next_nanosecond(time, self._last_nanosecond)
        name = f"{meta.name}.{nanosecond:x}"
        if len(name) > LONGEST_NAME:
            name = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        if len(note) > SHORT:
            note = cut(note)
        instance = f"{controller}-{self._hostname}"
        return Event(key, namespace or DEFAULT_NAMESPACE, name, note, instance, time, self._clock.monotonic())

    async def _must_retry(self, wanted: Event | Series) -> bool:
        """Write an event or how far a series has come. True if that may work later."""
        try:
            if isinstance(wanted, Series):
                await self._write_series(wanted)
            else:
                await self._client.create(EVENTS, wanted.body(), namespace=wanted.namespace)
        except ApiError as error:
            return self._is_worth_a_retry(wanted, error)
        self.written += 1
        return False

    async def _write_series(self, series: Series) -> None:
        event = series.event
        try:
            await self._client.patch(EVENTS, event.namespace, event.name, series.patch(), PatchType.STRATEGIC)
        except ApiError as error:
            if error.code != 404:
                raise
            await self._client.create(EVENTS, series.body(), namespace=event.namespace)

    def _is_worth_a_retry(self, wanted: Event | Series, error: ApiError) -> bool:
        if error.is_unreachable:
            return True
        if error.is_already_exists:
            # For a series: it was written between our two requests. Else: an answer got lost, all is well.
            return isinstance(wanted, Series)
        self._give_up(wanted, str(error))
        return False

    def _retry_later(self, wanted: Event | Series) -> None:
        if self._tasks is None or not self._outbox.is_running or self._retrying >= RETRIED_AT_ONCE:
            self._give_up(wanted, "the server cannot be reached")
        else:
            self._retrying += 1
            self._tasks.create_task(self._retry(wanted), name="event retry")

    async def _retry(self, wanted: Event | Series) -> None:
        try:
            for _ in range(TRIES - 1):
                await asyncio.sleep(RETRY_PAUSE * (1 + RETRY_JITTER * self._rng.random()))
                if not await self._must_retry(wanted):
                    return
            self._give_up(wanted, f"the server cannot be reached, tried {TRIES} times")
        finally:
            self._retrying -= 1

    async def _check(self) -> None:
        """End series that have gone quiet, and now and then refresh the others."""
        began = self._clock.monotonic()
        number = 0
        while True:
            number += 1
            await asyncio.sleep(max(began + number * CHECK_EVERY - self._clock.monotonic(), 0))
            for series in self._aggregation.end_quiet(self._clock.monotonic()):
                if await self._must_retry(series):
                    self._aggregation.resume(series)
            if number % REFRESH_EVERY == 0:
                for series in self._aggregation.series:
                    await self._must_retry(series.snapshot())

    def _give_up(self, wanted: Event | Series, why: str) -> None:
        self.failed += 1
        event = wanted.event if isinstance(wanted, Series) else wanted
        what = f"{event.key.reason} of pod {event.key.pod_namespace}/{event.key.pod_name}"
        self._report(f"event {event.name} ({what}) was not written: {why}")

    def _drop(self, reported: _Reported) -> None:
        """Count an event nobody will see; reported once until events get through again."""
        self.dropped += 1
        if not self._is_full:
            self._is_full = True
            pod, _, reason, *_ = reported
            self._report(f"events are dropped, too many are waiting; the first is {reason} of pod {pod.key}")
