"""The API server as one scheduler of a run sees it: with injected faults, and every binding recorded."""

from random import Random
from typing import Final, TypeVar

from stowplan.api import status
from stowplan.api.catalogue import PODS, RESOURCE_CLAIMS, Resource
from stowplan.api.meta import Object
from stowplan.api.requests import EVERY_OBJECT, ORDINARY_DELETION, DeleteOptions, Json, Selection
from stowplan.api.writes import Binding
from stowplan.client.interface import Body
from stowplan.lab.chaos.invariants import Bindings
from stowplan.lab.chaos.world import NO_FAULTS, ChaosWorld
from stowplan.localcluster.client import InProcessClient, InProcessWatch
from stowplan.testing.faults import FaultyClient

T = TypeVar("T", bound=Object)


class ChaosClient(InProcessClient):
    """A client of the store without faults: it records bindings, and can end all its watches."""

    def __init__(self, world: ChaosWorld, bindings: Bindings) -> None:
        super().__init__(world.store, buffer=world.plan.buffer)
        self._world = world
        self._bindings = bindings
        self._open: list[InProcessWatch[Object]] = []

    def watch(
        self,
        resource: Resource,
        cls: type[T],
        *,
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        since: str = "",
        initial_events: bool = False,
    ) -> InProcessWatch[T]:
        watch = super().watch(
            resource,
            cls,
            namespace=namespace,
            selection=selection,
            since=since,
            initial_events=initial_events,
        )
        self._open.append(watch)  # type: ignore[arg-type]
        return watch

    def cut_watches(self) -> None:
        """End all watches; watchers may resume from their last resourceVersion."""
        ended, self._open = self._open, []
        for watch in ended:
            watch.end()

    async def bind(self, binding: Binding) -> None:
        await super().bind(binding)
        self._bindings.applied(binding.metadata.uid, binding.target.name)


BREAKS: Final = 0.6
"""How often a connection that loses an answer is gone as a whole, with its watches."""
LOST_CLAIMS: Final = 0.4
"""How often the answer to a write of a claim is lost while there are faults."""
LONGEST_BREAK: Final = 8.0
"""Seconds until it can be watched again; requests get through before that."""


class FaultyConnection(FaultyClient):
    """The connection between one scheduler and the API server.

    When it loses an answer it may break: then the scheduler does not hear what its write has done, nor what
    happens elsewhere, until it can watch again.
    """

    def __init__(self, world: ChaosWorld, bindings: Bindings, scheduler: int, rng: Random) -> None:
        self.recording = ChaosClient(world, bindings)
        super().__init__(self.recording, world.faults, rng)
        self._world = world
        self._bindings = bindings
        self._scheduler = scheduler
        self._breaks = world.rng(f"breaks of line {scheduler}")
        self._broken_until = 0.0

    async def _open_watch(self) -> None:
        if self._world.second < self._broken_until:
            raise status.unreachable("no route to host (injected)")
        await super()._open_watch()

    def _answer_lost(self) -> None:
        if self._breaks.random() < BREAKS:
            self._world.counts["broken connections"] += 1
            self._broken_until = self._world.second + self._breaks.random() * LONGEST_BREAK
            self.recording.cut_watches()

    async def bind(self, binding: Binding) -> None:
        uid, node = binding.metadata.uid, binding.target.name
        self._bindings.begin(uid, node, self._scheduler)
        acknowledged = False
        try:
            await super().bind(binding)
            acknowledged = True
        finally:
            self._bindings.end(uid, acknowledged=acknowledged)
            self._world.note(f"bind {uid} to {node}: {'done' if acknowledged else 'failed'}")

    async def update(self, resource: Resource, body: Body, *, subresource: str = "") -> Json:
        """While there are faults, answers to writes of claims are lost more often: they are few."""
        answer = await super().update(resource, body, subresource=subresource)
        faulty = resource is RESOURCE_CLAIMS and self._world.phase is not NO_FAULTS
        if faulty and self._breaks.random() < LOST_CLAIMS:
            self._answer_lost()
            raise status.unreachable("the connection broke before the answer came (injected)")
        return answer

    async def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions = ORDINARY_DELETION
    ) -> None:
        await super().delete(resource, namespace, name, options)
        self._world.counts["preempted"] += 1

    def _error(self) -> status.ApiError:
        if self._rng.random() < 0.2:
            return status.conflict(PODS, "injected", "the object has been modified")
        return super()._error()
