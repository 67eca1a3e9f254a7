"""A living scheduler in a small world: a store, virtual time, and one line for everything a test does.

def test_a_pod_gets_its_node() -> None:
    async def story(world: World) -> None:
        world.add_node("n")
        await world.add_pod("p")
        assert world.node_of("p") == "n"

    live(story)
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from scheduler.recording_client import Wire
from stowplan.api.catalogue import EVENTS, NODES, PODS, Catalogue
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.requests import DeleteOptions, Json
from stowplan.config import LoadedConfig, load
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import DEFAULT_START, Clock, VirtualClock, run
from stowplan.runtime.logs import ERROR, Logger
from stowplan.scheduler import Scheduler, Settings
from stowplan.scheduler.extenders import Extender
from stowplan.scheduler.framework.interface import Plugin

Story = Callable[["World"], Awaitable[object]]

AT_ONCE = 0.001
"""Time enough for everything that does not wait, as far as virtual time goes."""

NAMESPACE = "d"
HOSTNAME = "vm"


class World:
    """A store, a scheduler of it, and the scheduler's writes and problems.

    Plugins are enabled wherever they have a method, in addition to the default ones, unless there is a
    configuration.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        config: LoadedConfig | None = None,
        plugins: Sequence[type[Plugin]] = (),
        extenders: Sequence[Extender] = (),
        catalogue: Catalogue | None = None,
        seed: int = 1,
        latency: float = 0.0,
        verbosity: int = 0,
        logger: Logger | None = None,
        timer: Callable[[], float] | None = None,
        may_schedule: Callable[[], bool] | None = None,
        **settings: Any,
    ) -> None:
        if plugins and config is None:
            config = configured(enabling(*plugins))
        self.clock = clock
        self.began = clock.now()
        self.store = Store(clock, random.Random(2), catalogue=catalogue)
        self.wire = Wire(self.store, clock, latency)
        self.told: list[tuple[float, int, str, Mapping[str, object]]] = []
        self.namespace = NAMESPACE
        self.scheduler = Scheduler(
            self.wire,
            Settings.of(config, plugins, hostname=HOSTNAME, **settings),
            clock=clock,
            rng=random.Random(seed),
            timer=timer,
            extenders=extenders,
            may_schedule=may_schedule,
            logger=logger
            or Logger(lambda *said: self.told.append((clock.now() - self.began, *said)), verbosity),
        )

    # Doing

    async def settle(self, seconds: float = AT_ONCE) -> None:
        await asyncio.sleep(seconds)

    async def until(self, second: float) -> None:
        """Wait for a second of the world's time."""
        await asyncio.sleep(max(self.began + second - self.clock.now(), 0))

    def add_node(self, name: str, cpu: str = "4", **about: Any) -> Json:
        return self.store.create(NODES, node(name, cpu, **about))

    def change_node(self, name: str, **about: Any) -> None:
        self.store.update(NODES, node(name, **about))
        self.store.update(NODES, node(name, **about), subresource="status")

    def remove_node(self, name: str) -> None:
        self.store.delete(NODES, "", name)

    def put_pod(self, name: str, cpu: str = "1", **about: Any) -> Json:
        """Create a pod; the scheduler has not heard of it yet."""
        return self.store.create(PODS, pod(name, cpu, namespace=self.namespace, **about))

    async def add_pod(self, name: str, cpu: str = "1", **about: Any) -> Json:
        """Create a pod and let the scheduler deal with it."""
        made = self.put_pod(name, cpu, **about)
        await self.settle()
        return made

    def delete_pod(self, name: str, *, now: bool = True) -> None:
        self.store.delete(PODS, self.namespace, name, DeleteOptions(0 if now else None))

    def patch_pod(self, name: str, patch: Json, subresource: str = "") -> None:
        self.store.patch(PODS, self.namespace, name, patch, subresource=subresource)

    # Looking

    @property
    def now(self) -> float:
        """Seconds since the world began."""
        return self.clock.now() - self.began

    @property
    def queue(self) -> Any:
        return self.scheduler.context.queue

    def pod(self, name: str) -> Json:
        return self.store.get(PODS, self.namespace, name)

    def has_pod(self, name: str) -> bool:
        return any(one["metadata"]["name"] == name for one in self.store.list(PODS, self.namespace).items)

    def node_of(self, name: str) -> str:
        return str(self.pod(name)["spec"].get("nodeName", ""))

    def condition(self, name: str, type: str = "PodScheduled") -> Json:
        """A pod's condition, an empty one if it has none."""
        held = self.pod(name).get("status", {}).get("conditions", [])
        return next((one for one in held if one["type"] == type), {})

    def message(self, name: str) -> str:
        return str(self.condition(name).get("message", ""))

    def nominated(self, name: str) -> str:
        return str(self.pod(name).get("status", {}).get("nominatedNodeName", ""))

    def place_of(self, name: str) -> str | None:
        """Where a pod waits in the queue."""
        place: str | None = self.queue.place_of(f"{self.namespace}/{name}")
        return place

    def events(self, name: str = "", reason: str = "") -> list[Json]:
        """Events about a pod in the order they were created."""
        found = [
            one
            for one in self.store.list(EVENTS).items
            if name in ("", one["regarding"]["name"]) and reason in ("", one["reason"])
        ]
        return sorted(found, key=lambda one: int(one["metadata"]["name"].rpartition(".")[2], 16))

    def notes(self, name: str = "", reason: str = "") -> list[str]:
        return [one["note"] for one in self.events(name, reason)]

    @property
    def problems(self) -> list[str]:
        """Errors; for a watch that failed only the reason."""
        problems = [(message, about) for _, level, message, about in self.told if level == ERROR]
        return [str(about["err"]) if said == "Failed to watch" else said for said, about in problems]

    def times_of(self, message: str, pod: str = "") -> list[float]:
        """When something was told, in seconds of the world."""
        return [
            at for at, _, said, about in self.told if said == message and (not pod or about.get("pod") == pod)
        ]

    def attempts(self, name: str) -> list[float]:
        """When a pod was tried; the world needs verbosity 3."""
        return self.times_of("Attempting to schedule pod", f"{self.namespace}/{name}")


def live(story: Story, *, start: float = DEFAULT_START, before: Story | None = None, **options: Any) -> World:
    """Run a scheduler in virtual time while the story happens. `before` is what it finds."""

    async def begin(clock: VirtualClock) -> World:
        world = World(clock, **options)
        if before is not None:
            await before(world)
        async with world.scheduler.running():
            await story(world)
        return world

    return run(begin, start=start)


# Objects


def node(name: str, cpu: str = "4", *, labels: Mapping[str, str] | None = None, **about: Any) -> Json:
    """A node with 8Gi and room for 110 pods. Other fields are of its spec; `status` is of its status."""
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    status = {"capacity": room, "allocatable": room, **about.pop("status", {})}
    named = {"kubernetes.io/hostname": name, **(labels or {})}
    return {"metadata": {"name": name, "labels": named}, "spec": about, "status": status}


def pod(
    name: str, cpu: str = "1", *, namespace: str = NAMESPACE, metadata: Json | None = None, **spec: Any
) -> Json:
    """A pod with one container as the API server would complete it. Other fields are of its spec."""
    container = {
        "name": "c",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}},
    }
    full = {
        "containers": [container],
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        **spec,
    }
    return {"metadata": {"name": name, "namespace": namespace, **(metadata or {})}, "spec": full}


def configured(
    *profiles: Json, gates: FeatureGates | Mapping[str, bool] = DEFAULT_GATES, **fields: Any
) -> LoadedConfig:
    """A configuration with these profiles and other fields."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **({"profiles": list(profiles)} if profiles else {}),
        **fields,
    }
    given = gates if isinstance(gates, FeatureGates) else FeatureGates(gates)
    return load(json.dumps(document), given)


def enabling(*plugins: type[Plugin], name: str = "default-scheduler", **points: Any) -> Json:
    """A profile with plugins in addition to the default ones at every point they have; `points` add to
    that."""
    enabled = [{"name": plugin.name} for plugin in plugins]
    return {"schedulerName": name, "plugins": {"multiPoint": {"enabled": enabled}, **points}}


def plugin(name: str, **methods: Any) -> type[Plugin]:
    """A plugin class with these methods (and class attributes), each a function that is given the plugin.

    Nothing that happens makes a pod fit that it rejected, unless it has `events`.
    """
    return type(name, (Plugin,), {"events": lambda self: (), **methods})
