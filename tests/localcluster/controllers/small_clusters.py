"""A small cluster in virtual time: a store, control loops, kubelets and a scheduler, as a test needs them."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from stowplan.api.catalogue import NAMESPACES, NODES, PODS, Resource
from stowplan.api.requests import Json
from stowplan.localcluster.admission import (
    ClusterAdmission,
    create_bootstrap_objects,
    create_default_account,
)
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.controllerruntime.controller import (
    Controller,
    ControllerContext,
    ControllerManager,
)
from stowplan.localcluster.store import ADDED, FieldManager, Store, StoreChange
from stowplan.runtime.clock import Clock, VirtualClock, run
from stowplan.scheduler import Scheduler, Settings
from stowplan.testing.faults import Faults, FaultyClient

NAMESPACE = "d"

Story = Callable[["World"], Awaitable[object]]
Makes = Callable[[ControllerContext], Sequence[Controller]]


class World:
    """A store and who works on it. `faults` strike all of them except the test itself."""

    def __init__(self, clock: Clock, seed: int = 1, faults: Faults | None = None) -> None:
        self.clock = clock
        self.began = clock.now()
        self.faults = Faults() if faults is None else faults
        rules = ClusterAdmission(disabled=["TaintNodesByCondition"])
        self.store = Store(clock, random.Random(seed), admission=rules, fields=FieldManager())
        create_bootstrap_objects(self.store)
        self.seed = seed
        self.client = FaultyClient(InProcessClient(self.store), self.faults, random.Random(seed + 1))
        self.problems: list[str] = []
        self.context = ControllerContext.of(self.client, clock, random.Random(seed + 2), self.problems.append)
        self.controllers: Sequence[Controller] = ()
        self.store.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        create_default_account(self.store, NAMESPACE)
        self.pods_created = 0
        self.store.watch(PODS, self._saw)

    def _saw(self, change: StoreChange) -> None:
        self.pods_created += change.type == ADDED

    async def settle(self, seconds: float = 0.1) -> None:
        await asyncio.sleep(seconds)

    async def until(self, what: Callable[[], object], seconds: float = 120.0) -> None:
        """Wait until something holds, looking ten times a second."""
        end = self.clock.now() + seconds
        while not what():
            assert self.clock.now() < end, f"still not so after {seconds} s: {self.problems[-5:]}"
            await asyncio.sleep(0.1)

    @property
    def now(self) -> float:
        return self.clock.now() - self.began

    def put(self, resource: Resource, body: Json) -> Json:
        metadata = body["metadata"]
        if resource.namespaced:
            body = {**body, "metadata": {"namespace": NAMESPACE, **metadata}}
        return self.store.create(resource, body)

    def get(self, resource: Resource, name: str) -> Json:
        return self.store.get(resource, NAMESPACE if resource.namespaced else "", name)

    def all(self, resource: Resource) -> list[Json]:
        return self.store.list(resource).items

    def names(self, resource: Resource) -> list[str]:
        return [obj["metadata"]["name"] for obj in self.all(resource)]

    def patch(self, resource: Resource, name: str, patch: Json, subresource: str = "") -> Json:
        namespace = NAMESPACE if resource.namespaced else ""
        return self.store.patch(resource, namespace, name, patch, subresource=subresource)

    def delete(self, resource: Resource, name: str) -> None:
        self.store.delete(resource, NAMESPACE if resource.namespaced else "", name)

    def pods(self, phase: str = "") -> list[Json]:
        return [pod for pod in self.all(PODS) if phase in ("", pod["status"].get("phase"))]

    def add_node(self, name: str, cpu: str = "4", labels: dict[str, str] | None = None) -> None:
        room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True"}
        self.store.create(
            NODES,
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
                "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
            },
        )


def live(
    story: Story,
    makes: Makes,
    *,
    scheduler: bool = False,
    beside: Callable[[World], Any] | None = None,
    faults: Faults | None = None,
    seed: int = 1,
) -> World:
    """Run control loops during the story; `beside` makes something else to run, such as kubelets."""

    async def begin(clock: VirtualClock) -> World:
        world = World(clock, seed, faults)
        async with AsyncExitStack() as stack:
            if beside is not None:
                await stack.enter_async_context(beside(world).running())
            world.controllers = makes(world.context)
            await stack.enter_async_context(ControllerManager(world.context, world.controllers).running())
            if scheduler:
                one = Scheduler(world.client, Settings.of(), clock=clock, rng=random.Random(seed + 3))
                await stack.enter_async_context(one.running())
            await story(world)
        return world

    return run(begin)


def template(app: str = "a", cpu: str = "100m", **spec: Any) -> Json:
    """A pod template as the API server would complete it."""
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {
            "containers": [container],
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
            "restartPolicy": "Always",
            **spec,
        },
    }


def selecting(app: str = "a") -> Json:
    return {"matchLabels": {"app": app}}
