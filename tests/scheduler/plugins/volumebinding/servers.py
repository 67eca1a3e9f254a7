"""An API server in this process, a table that hears of its volumes and claims, and what plugins see of it."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.plugins.volumebinding.binding import ALONE, three_zones
from stowplan.api import catalogue as c
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.api.storage import PersistentVolume, PersistentVolumeClaim
from stowplan.client import DELETED
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.interface import DeviceMetrics, Handle
from stowplan.scheduler.framework.profile import ProfileSpec
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.framework.waiting_pods import WaitingPods
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.plugins.volumebinding.plugin import VolumeBindingArgs
from stowplan.scheduler.table.table import ClusterTable, load

TIMEOUT = 30
WATCHED: dict[c.Resource, type[Object]] = {
    c.PERSISTENT_VOLUMES: PersistentVolume,
    c.PERSISTENT_VOLUME_CLAIMS: PersistentVolumeClaim,
}


class Recording(InProcessClient):
    """A client that keeps what is written."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.written: list[Json] = []

    async def update(self, resource: c.Resource, body: Any, *, subresource: str = "") -> Json:
        self.written.append(body)
        return await super().update(resource, body, subresource=subresource)


class Server:
    """Everything a test of binding needs."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.store = Store(clock, random.Random(1))
        self.client = Recording(self.store)
        self.table = ClusterTable()
        self.waiting = WaitingPods()
        self.pods: dict[str, Pod] = {}
        self.errors: Counter[str] = Counter()
        load(self.table, three_zones())
        args = VolumeBindingArgs(bind_timeout_seconds=TIMEOUT)
        profile = ProfileSpec("default-scheduler", plugins=ALONE, args={"VolumeBinding": args})
        self.framework = Framework(profile, self.table, in_tree_registry())
        plugin = self.framework.plugins["VolumeBinding"]
        plugin.handle = Handle(self.table, plugin.handle.gates, services=self)  # type: ignore[arg-type]
        self.lifecycle = Lifecycle(self.framework)

    # As plugins see the scheduler

    def pod(self, key: str) -> Pod | None:
        return self.pods.get(key)

    device_metrics = DeviceMetrics()

    async def dispatch_binding(self, pod: Pod, send: Callable[[], Awaitable[None]]) -> None:
        await send()

    def count_volume_error(self, operation: str) -> None:
        self.errors[operation] += 1

    # Events on the server

    def create(self, *objects: Object) -> None:
        for obj in objects:
            if isinstance(obj, PersistentVolume | PersistentVolumeClaim):
                resource = _resource(obj)
                body = msgspec.to_builtins(replace(obj, metadata=replace(obj.metadata, resource_version="")))
                made = self.store.create(resource, body, namespace=obj.namespace)
                self.store.update(resource, {**made, "status": body.get("status", {})}, subresource="status")
            else:
                self.table.put(obj)

    def change(self, obj: PersistentVolume | PersistentVolumeClaim, **fields: Any) -> None:
        """Replace top-level fields of the object on the server."""
        current = self.store.get(_resource(obj), obj.namespace, obj.name)
        self.store.update(_resource(obj), {**current, **fields})

    def bind(self, claim: PersistentVolumeClaim, volume: str) -> None:
        """The final step of the volume controller: the claim has its volume for good."""
        current = self.store.get(c.PERSISTENT_VOLUME_CLAIMS, claim.namespace, claim.name)
        meta = current["metadata"]
        noted = {**meta.get("annotations", {}), "pv.kubernetes.io/bind-completed": "yes"}
        spec = {**current["spec"], "volumeName": volume}
        self.change(claim, metadata={**meta, "annotations": noted}, spec=spec)

    def remove(self, obj: PersistentVolume | PersistentVolumeClaim) -> None:
        self.store.delete(_resource(obj), obj.namespace, obj.name)

    # The scheduler's side

    async def settled(self) -> None:
        """Let everybody hear of everything."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def reserve(self, pod: Pod, node: str) -> Cycle:
        """Place a pod whose volumes are to be bound."""
        await self.settled()
        self.pods[pod.key] = pod
        evaluation = self.framework.evaluate(self.table.info(pod))
        status = self.lifecycle.reserve(evaluation.cycle, evaluation.cycle.pod, node)
        assert status.is_success, status
        return evaluation.cycle

    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        _, busy = self.lifecycle.pre_flight(cycle, cycle.pod, node)
        return await self.lifecycle.pre_bind(busy, cycle, cycle.pod, node)


def _resource(obj: Object) -> c.Resource:
    return c.PERSISTENT_VOLUMES if isinstance(obj, PersistentVolume) else c.PERSISTENT_VOLUME_CLAIMS


async def _follow(server: Server, resource: c.Resource, cls: type[Object]) -> None:
    async for event in server.client.watch(resource, cls, initial_events=True):
        if event.object is not None:
            (server.table.discard if event.type == DELETED else server.table.put)(event.object)


@asynccontextmanager
async def serving(clock: VirtualClock, objects: Iterable[Object]) -> AsyncGenerator[Server, None]:
    server = Server(clock)
    server.create(*objects)
    tasks = [asyncio.create_task(_follow(server, resource, cls)) for resource, cls in WATCHED.items()]
    try:
        yield server
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def with_server(objects: Iterable[Object], main: Callable[[Server], Coroutine[Any, Any, None]]) -> None:
    """Run a test against a server with some objects, in virtual time."""

    async def begin(clock: VirtualClock) -> None:
        async with serving(clock, objects) as server:
            await main(server)

    run(begin)
