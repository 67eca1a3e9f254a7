"""Events of the election: core/v1 events on the lock that say who became leader and who stopped leading."""

import asyncio
import random
from typing import Final

from stowplan.api.catalogue import CORE_EVENTS
from stowplan.api.meta import next_nanosecond, timestamp
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.client import Writer
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger

REASON: Final = "LeaderElection"
TRIES: Final = 12
RETRY_PAUSE: Final = 10.0
RETRY_JITTER: Final = 0.25


class ElectionEvents:
    """Records events of `component` in the background.

    An unreachable server is retried for two minutes; an event that the server refuses is dropped.
    """

    def __init__(
        self, client: Writer, component: str, *, clock: Clock, rng: random.Random, logger: Logger
    ) -> None:
        self._client = client
        self._component = component
        self._clock = clock
        self._rng = rng
        self._logger = logger
        self._writing: set[asyncio.Task[None]] = set()
        self._last_nanosecond = 0

    def record(self, subject: Json, message: str) -> None:
        """Write an event about the object of a reference."""
        task = asyncio.get_running_loop().create_task(
            self._write(self._event(subject, message)), name="leader election event"
        )
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def drain(self, seconds: float) -> None:
        """Give unwritten events so much time, then drop them."""
        if not self._writing:
            return
        _, unfinished = await asyncio.wait(set(self._writing), timeout=seconds)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)

    def _event(self, subject: Json, message: str) -> Json:
        now = self._clock.now()
        self._last_nanosecond = nanosecond = next_nanosecond(now, self._last_nanosecond)
        return {
            "kind": CORE_EVENTS.kind,
            "apiVersion": CORE_EVENTS.api_version,
            "metadata": {"name": f"{subject['name']}.{nanosecond:x}", "namespace": subject["namespace"]},
            "involvedObject": subject,
            "reason": REASON,
            "message": message,
            "source": {"component": self._component},
            "firstTimestamp": timestamp(now),
            "lastTimestamp": timestamp(now),
            "count": 1,
            "type": "Normal",
            "eventTime": None,
            "reportingComponent": self._component,
            "reportingInstance": "",
        }

    async def _write(self, event: Json) -> None:
        for number in range(1, TRIES + 1):
            try:
                await self._client.create(CORE_EVENTS, event, namespace=event["metadata"]["namespace"])
            except ApiError as error:
                if error.is_already_exists:
                    return
                if not error.is_unreachable or number == TRIES:
                    self._logger.error("Event was not written", event=event["message"], err=error)
                    return
                await asyncio.sleep(RETRY_PAUSE * (1 + RETRY_JITTER * self._rng.random()))
            else:
                return
