"""A desk that takes down what is written, and pods and clocks to write about."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from stowplan.api.catalogue import Resource
from stowplan.api.meta import ObjectMeta
from stowplan.api.pod import Pod
from stowplan.api.requests import ORDINARY_DELETION, DeleteOptions, Json, PatchType
from stowplan.api.status import ApiError, not_found, unreachable
from stowplan.api.writes import Binding
from stowplan.client import Writer
from stowplan.runtime.clock import Clock


class HandClock:
    """Shows what it is set to."""

    def __init__(self, time: float = 0.0) -> None:
        self.time = time

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


class ExactClock:
    """Another clock, except that it shows `time` while that is set: virtual time is rounded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.time: float | None = None

    def now(self) -> float:
        return self._clock.now() if self.time is None else self.time

    def monotonic(self) -> float:
        return self.now()


class Written(NamedTuple):
    at: float
    verb: str
    name: str
    body: Any
    subresource: str = ""


class Desk(Writer):
    """Takes down every request, then answers with the next of `answers` or, when there are none, well.

    `seconds` is how long an answer takes; with 0 it does not wait at all.
    """

    def __init__(self, clock: Clock, *answers: ApiError | None, seconds: float = 0.0) -> None:
        self._clock = clock
        self.answers = deque(answers)
        self.is_down = False
        self.seconds = seconds
        self.written: list[Written] = []
        self.at_once = 0
        self.most_at_once = 0

    @property
    def verbs(self) -> list[str]:
        return [written.verb for written in self.written]

    async def create(self, resource: Resource, body: Any, *, namespace: str = "") -> Json:
        assert body["metadata"]["namespace"] == namespace
        await self._answer("POST", body["metadata"]["name"], body)
        return dict(body)

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        kind: PatchType = PatchType.STRATEGIC,
        *,
        subresource: str = "",
    ) -> Json:
        assert kind is PatchType.STRATEGIC
        await self._answer("PATCH", name, patch, subresource)
        return {}

    async def update(self, resource: Resource, body: Any, *, subresource: str = "") -> Json:
        raise NotImplementedError

    async def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions = ORDINARY_DELETION
    ) -> None:
        raise NotImplementedError

    async def bind(self, binding: Binding) -> None:
        raise NotImplementedError

    async def _answer(self, verb: str, name: str, body: Any, subresource: str = "") -> None:
        self.written.append(Written(self._clock.now(), verb, name, body, subresource))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.seconds:
                await asyncio.sleep(self.seconds)
            error = self.answers.popleft() if self.answers else None
            if error is not None or self.is_down:
                raise error or unreachable("connection refused")
        finally:
            self.at_once -= 1


def missing(resource: Resource, name: str = "x") -> ApiError:
    return not_found(resource, name)


def pod(name: str = "p", *, version: str = "1", namespace: str = "d", **metadata: Any) -> Pod:
    meta = ObjectMeta(
        name=name, namespace=namespace, uid=f"uid-of-{name}", resource_version=version, **metadata
    )
    return Pod(metadata=meta)


def counts(written: Sequence[Written]) -> list[int]:
    """How far series had come, by request; 1 for an event by itself."""
    return [each.body.get("series", {}).get("count", 1) for each in written]
