"""Doing it for real: a store with the rules of the API server, control loops and a scheduler of a seed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from random import Random

import yaml
from msgspec import to_builtins

from stowplan.api.catalogue import BUILT_IN, EVENTS, NAMESPACES, NODES, PODS
from stowplan.api.decode import convert_any
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.requests import Json
from stowplan.config import default_config
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.controllerruntime.controller import ControllerContext, ControllerManager
from stowplan.localcluster.controllers.manager import ControllerSettings, all_controllers
from stowplan.localcluster.kubelets import Kubelets, KubeletSettings
from stowplan.localcluster.objects.groupfeatures import GroupFeatures
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler import Scheduler, Settings

AT_ONCE = replace(
    KubeletSettings(), start_delay=0.0, start_jitter=0.0, stop_delay=0.0, run_seconds=1e6, adopt=True
)
Story = Callable[["World"], Awaitable[object]]
RESOURCES = {one.kind: one for one in reversed(BUILT_IN)}


class World:
    """A cluster in which things happen."""

    def __init__(self, clock: VirtualClock, gates: FeatureGates = DEFAULT_GATES) -> None:
        self.clock = clock
        self.gates = gates
        self.refusal = ""
        """Why the API server refused something, for stories that expect it to."""
        admission = ClusterAdmission(
            disabled=["TaintNodesByCondition"], groups=GroupFeatures.of(gates), gates=gates
        )
        catalogue = GroupFeatures.of(gates).catalogue()
        self.store = Store(clock, Random(1), admission=admission, catalogue=catalogue)
        create_bootstrap_objects(self.store)
        self.client = InProcessClient(self.store)
        self.create({"kind": "Namespace", "metadata": {"name": "default"}})

    def create(self, *documents: Json) -> None:
        for document in documents:
            resource = RESOURCES[document["kind"]]
            body = {**document}
            if resource.namespaced:
                body["metadata"] = {"namespace": "default", **document["metadata"]}
            if resource is NAMESPACES and self.exists(document["metadata"]["name"]):
                continue
            self.store.create(resource, body)

    def exists(self, namespace: str) -> bool:
        return namespace in {one["metadata"]["name"] for one in self.store.list(NAMESPACES).items}

    def dump(self) -> list[Object]:
        """Everything that scheduling depends on, as it is now."""
        found = []
        for kind in ("Node", "Pod", "ReplicaSet", "StatefulSet", "PodDisruptionBudget"):
            for body in self.store.list(RESOURCES[kind]).items:
                obj = convert_any({**body, "kind": kind})
                assert obj is not None
                found.append(obj)
        return found

    @asynccontextmanager
    async def scheduler(self, seed: int) -> AsyncIterator[None]:
        """A scheduler that has just been started."""
        settings = Settings.of(default_config(self.gates))
        one = Scheduler(self.client, settings, clock=self.clock, rng=Random(seed))
        async with one.running():
            await self.settle(1.0)
            yield

    async def settle(self, seconds: float = 8.0) -> None:
        """Let things happen. There are no kubelets, so nodes count as lost after 40 s in all."""
        await asyncio.sleep(seconds)

    def placements(self) -> dict[str, str]:
        """The node of every pod, by `namespace/name`; "" if it has none."""
        return {
            f"{one['metadata']['namespace']}/{one['metadata']['name']}": one["spec"].get("nodeName", "")
            for one in self.store.list(PODS).items
        }

    def events(self, reason: str) -> list[Json]:
        """The events of a reason."""
        return [one for one in self.store.list(EVENTS).items if one.get("reason") == reason]

    def messages(self) -> set[str]:
        """Why pods wait, as their PodScheduled conditions say."""
        return {
            condition["message"]
            for one in self.store.list(PODS).items
            for condition in one["status"].get("conditions", ())
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        }

    def by_node(self, prefix: str = "") -> dict[str, int]:
        """Number of pods of a name by node."""
        return dict(
            Counter(
                node
                for key, node in self.placements().items()
                if node and key.startswith(f"default/{prefix}")
            )
        )


def done_for_real(
    objects: Iterable[Object],
    story: Story,
    seed: int | None = 0,
    gates: FeatureGates = DEFAULT_GATES,
    *,
    kubelets: bool = False,
) -> World:
    """Let something happen in a cluster of these objects; without a seed the story starts schedulers.

    With `kubelets` pods run at once, and end at once when they are deleted.
    """

    async def main(clock: VirtualClock) -> World:
        world = World(clock, gates)
        for obj in objects:
            body: Json = to_builtins(obj)
            resource = NODES if isinstance(obj, Node) else RESOURCES[type(obj).__name__]
            world.store.create(resource, body)
        context = ControllerContext.of(world.client, clock, Random(2))
        controllers = all_controllers(context, ControllerSettings(groups=GroupFeatures.of(gates)))
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(ControllerManager(context, controllers).running())
            if kubelets:
                client = InProcessClient(world.store, name="kubelet")
                all_nodes = Kubelets(client, (), AT_ONCE, clock=clock, rng=Random(3))
                await stack.enter_async_context(all_nodes.running())
            if seed is None:
                await story(world)
            else:
                async with world.scheduler(seed):
                    await story(world)
        return world

    return run(main)


def parsed(text: str) -> list[Json]:
    return [one for one in yaml.safe_load_all(text) if one]
