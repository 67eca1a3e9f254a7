"""An API server on a bad day: a client that fails, forgets, cuts off and is slow, by repeatable chance."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.meta import Object
from stowplan.api.requests import EVERY_OBJECT, ORDINARY_DELETION, DeleteOptions, Json, PatchType, Selection
from stowplan.api.writes import Binding
from stowplan.client.interface import Body, Client, GeneratorWatch, Listing, Watch, WatchEvent

T = TypeVar("T", bound=Object)
R = TypeVar("R")


@dataclass
class Faults:
    """Probability of each fault, from 0 to 1, and durations.

    `refused`: a request fails and has no effect. `lost`: it has its effect, but the answer is an error.
    `cut`: a watch ends before an event. `forgotten`: a watch ends with 410 instead. `lifetime`: the mean of
    seconds after which a watch is cut without any event. `delay`: the longest duration of a request.
    """

    refused: float = 0.0
    lost: float = 0.0
    cut: float = 0.0
    forgotten: float = 0.0
    lifetime: float | None = None
    delay: float = 0.0

    def stop(self) -> None:
        """From now on all is well."""
        self.refused = self.lost = self.cut = self.forgotten = self.delay = 0.0
        self.lifetime = None


class FaultyClient(Client):
    """A `Client` that passes everything on to another one, unless a fault strikes."""

    def __init__(self, client: Client, faults: Faults, rng: random.Random) -> None:
        self._client = client
        self._faults = faults
        self._rng = rng
        self.struck = 0

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        return await self._tried(lambda: self._client.get(resource, namespace, name))

    async def list(
        self,
        resource: Resource,
        cls: type[T],
        *,
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        not_older_than: str = "",
    ) -> Listing[T]:
        return await self._tried(
            lambda: self._client.list(
                resource, cls, namespace=namespace, selection=selection, not_older_than=not_older_than
            )
        )

    def watch(
        self,
        resource: Resource,
        cls: type[T],
        *,
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        since: str = "",
        initial_events: bool = False,
    ) -> Watch[T]:
        """The other client's watch until a fault ends it."""

        def begin() -> Watch[T]:
            return self._client.watch(
                resource,
                cls,
                namespace=namespace,
                selection=selection,
                since=since,
                initial_events=initial_events,
            )

        return GeneratorWatch(self._events(begin, since))

    async def _events(self, begin: Callable[[], Watch[T]], since: str) -> AsyncGenerator[WatchEvent[T], None]:
        await self._open_watch()
        async with aclosing(begin()) as events:
            while True:
                event = await self._next(events)
                if event is None or self._strikes(self._faults.cut):
                    return
                if self._strikes(self._faults.forgotten):
                    raise status.expired(f"too old resource version: {since or 0} (injected)")
                yield event

    async def create(self, resource: Resource, body: Body, *, namespace: str = "") -> Json:
        return await self._tried(lambda: self._client.create(resource, body, namespace=namespace))

    async def update(self, resource: Resource, body: Body, *, subresource: str = "") -> Json:
        return await self._tried(lambda: self._client.update(resource, body, subresource=subresource))

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Body | Sequence[Any],
        kind: PatchType = PatchType.STRATEGIC,
        *,
        subresource: str = "",
    ) -> Json:
        return await self._tried(
            lambda: self._client.patch(resource, namespace, name, patch, kind, subresource=subresource)
        )

    async def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions = ORDINARY_DELETION
    ) -> None:
        await self._tried(lambda: self._client.delete(resource, namespace, name, options))

    async def bind(self, binding: Binding) -> None:
        await self._tried(lambda: self._client.bind(binding))

    async def _tried(self, request: Callable[[], Awaitable[R]]) -> R:
        if self._faults.delay:
            await asyncio.sleep(self._rng.random() * self._faults.delay)
        if self._strikes(self._faults.refused):
            raise self._error()
        result = await request()
        if self._strikes(self._faults.lost):
            self._answer_lost()
            raise status.unreachable("the connection broke before the answer came (injected)")
        return result

    async def _open_watch(self) -> None:
        """Faults of opening a watch: the same as for a request. Raises ApiError."""
        await self._tried(_nothing)

    def _answer_lost(self) -> None:
        """The answer to a request that had its effect is lost."""

    async def _next(self, events: AsyncIterator[WatchEvent[T]]) -> WatchEvent[T] | None:
        """The next event, None if the watch ends first."""
        lifetime = self._faults.lifetime
        patience = None if lifetime is None else self._rng.expovariate(1 / lifetime)
        try:
            async with asyncio.timeout(patience):
                return await anext(events, None)
        except TimeoutError:
            self.struck += 1
            return None

    def _strikes(self, probability: float) -> bool:
        struck = probability > 0 and self._rng.random() < probability
        self.struck += struck
        return struck

    def _error(self) -> status.ApiError:
        return self._rng.choice(
            (
                status.ApiError(500, "InternalError", "Internal error occurred: injected"),
                status.ApiError(503, "ServiceUnavailable", "injected"),
                status.too_many_requests("injected", 1),
                status.unreachable("connection refused (injected)"),
            )
        )


async def _nothing() -> None:
    """A request for nothing."""
