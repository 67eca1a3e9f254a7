"""Coordinated leader election: our LeaseCandidate, for an API server that picks the leader itself."""

import asyncio
import random
from dataclasses import dataclass
from typing import Final

from stowplan.api.catalogue import LEASE_CANDIDATES
from stowplan.api.meta import Object, Struct, micro_timestamp, seconds_of
from stowplan.api.requests import Json, Selection
from stowplan.api.status import ApiError
from stowplan.client import Client, Reflector, Retries
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger

OLDEST_EMULATION_VERSION: Final = "OldestEmulationVersion"
RENEW_EVERY: Final = 300.0
"""Seconds after which a candidate renews without being pinged."""

_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 1000.0


class LeaseCandidateSpec(Struct, frozen=True):
    """The times of a candidate: when the server pinged it, and when it last renewed."""

    ping_time: str | None = None
    renew_time: str | None = None

    @property
    def is_pinged(self) -> bool:
        """True if the server waits for a renewal."""
        if not self.ping_time:
            return False
        return not self.renew_time or seconds_of(self.ping_time) > seconds_of(self.renew_time)


class LeaseCandidate(Object, frozen=True):
    spec: LeaseCandidateSpec = LeaseCandidateSpec()


@dataclass(frozen=True)
class CandidateInfo:
    """Data by which a server picks the leader. `name` is our identity in the election."""

    namespace: str
    name: str
    lease_name: str
    binary_version: str
    emulation_version: str
    strategy: str = OLDEST_EMULATION_VERSION


class Candidate:
    """Keeps our LeaseCandidate: creates it, renews it when the server pings it and every five minutes."""

    def __init__(
        self, client: Client, info: CandidateInfo, *, clock: Clock, rng: random.Random, logger: Logger
    ) -> None:
        self._client = client
        self._info = info
        self._clock = clock
        self._logger = logger
        self._retries = Retries(rng, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE)
        self._pinged = asyncio.Event()
        self._reflector = Reflector(
            client,
            LEASE_CANDIDATES,
            LeaseCandidate,
            self,
            clock=clock,
            rng=rng,
            report=lambda problem: logger.error("Following our lease candidate failed", err=problem),
            namespace=info.namespace,
            selection=Selection.parse(fields=f"metadata.name={info.name}"),
        )

    @property
    def has_synced(self) -> bool:
        """True once it is known if our candidate exists already."""
        return self._reflector.has_synced

    async def run(self) -> None:
        """Keep the LeaseCandidate until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reflector.run(), name="lease candidate reflector")
            tasks.create_task(self._renew_forever(), name="lease candidate")

    def added(self, new: LeaseCandidate) -> None:
        self.updated(new, new)

    def updated(self, old: LeaseCandidate, new: LeaseCandidate) -> None:
        try:
            is_pinged = new.spec.is_pinged
        except ValueError as error:
            self._logger.error("Our lease candidate cannot be read", err=error)
            return
        if is_pinged:
            self._pinged.set()

    def deleted(self, last: LeaseCandidate) -> None:
        """It is created again with the next renewal."""

    async def _renew_forever(self) -> None:
        await self._reflector.wait_synced()
        while True:
            self._pinged.clear()
            try:
                await self._ensure()
            except ApiError as error:
                self._logger.error("Ensuring lease failed", err=error)
                pause = self._retries.next_pause()
            else:
                self._retries.reset()
                pause = RENEW_EVERY
            try:
                async with asyncio.timeout(pause):
                    await self._pinged.wait()
            except TimeoutError:
                continue

    async def _ensure(self) -> None:
        info = self._info
        now = micro_timestamp(self._clock.now())
        try:
            found = await self._client.get(LEASE_CANDIDATES, info.namespace, info.name)
        except ApiError as error:
            if not error.is_not_found:
                raise
            self._logger.info(2, "Creating lease candidate")
            await self._client.create(LEASE_CANDIDATES, self._new_candidate(now), namespace=info.namespace)
            self._logger.info(2, "Created lease candidate")
            return
        self._logger.info(2, "Lease candidate exists. Renewing.")
        await self._client.update(LEASE_CANDIDATES, {**found, "spec": {**found["spec"], "renewTime": now}})

    def _new_candidate(self, now: str) -> Json:
        info = self._info
        return {
            "kind": LEASE_CANDIDATES.kind,
            "apiVersion": LEASE_CANDIDATES.api_version,
            "metadata": {"name": info.name, "namespace": info.namespace},
            "spec": {
                "leaseName": info.lease_name,
                "renewTime": now,
                "binaryVersion": info.binary_version,
                "emulationVersion": info.emulation_version,
                "strategy": info.strategy,
            },
        }
