"""A whole scheduler over HTTPS through a proxy that breaks, delays and repeats what it should pass on."""

import asyncio
import gc
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from client.http.networks import make_impatient, new_store, scheduling_through
from stowplan.api.catalogue import EVENTS, NODES, PODS
from stowplan.api.requests import DeleteOptions
from stowplan.client.http.pool import MOST_CONNECTIONS
from stowplan.localcluster.store import Store
from stowplan.scheduler import Scheduler
from stowplan.testing.proxy import MisbehavingProxy, WireFaults
from waiting import eventually

NODE_COUNT = 12
POD_COUNT = 200
SEEDS = (1, 2, 3)
TROUBLE = 1.5
"""Seconds of faults."""


def faults() -> WireFaults:
    return WireFaults(
        reset=0.04,
        lost=0.04,
        stalled=0.01,
        busy=0.02,
        broken=0.03,
        slow=0.1,
        twice=0.04,
        cut=0.04,
        silent=0.005,
        overtaken=0.1,
        delay=0.1,
        stall=2.0,
    )


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    make_impatient(monkeypatch)


def node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "40"}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"metadata": {"name": name}, "status": status}


def pod(name: str, cpu: str = "100m") -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [container]}}


class Bindings:
    """Watches the store itself: how often each pod was given a node, and which."""

    def __init__(self, store: Store) -> None:
        self.nodes: dict[str, list[str]] = {}
        self._watcher = store.watch(PODS, self._tell)

    def _tell(self, change: Any) -> None:
        metadata = change.object["metadata"]
        name = change.object["spec"].get("nodeName")
        given = self.nodes.setdefault(metadata["uid"], [])
        if name and (not given or given[-1] != name):
            given.append(name)


class World:
    def __init__(self, store: Store, proxy: MisbehavingProxy, scheduler: Scheduler) -> None:
        self.store = store
        self.proxy = proxy
        self.scheduler = scheduler
        self.bindings = Bindings(store)

    async def live(self, rng: random.Random) -> None:
        """Pods come and go, nodes change, while the network is bad; most pods get a node all the same."""
        began = asyncio.get_running_loop().time()
        for number in range(POD_COUNT):
            self.store.create(PODS, pod(f"p{number}"))
            if number % 10 == 9:
                victim = f"p{rng.randrange(number)}"
                if self.store.find(PODS, "default", victim) is not None:
                    self.store.delete(PODS, "default", victim, DeleteOptions(grace_period_seconds=0))
                labels = {"metadata": {"labels": {"round": str(number)}}}
                self.store.patch(NODES, "", f"n{rng.randrange(NODE_COUNT)}", labels)
            due = began + TROUBLE * number / POD_COUNT
            await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
        await eventually(lambda: sum(map(len, self.bindings.nodes.values())) >= 0.8 * POD_COUNT)

    async def settle(self) -> None:
        """Wait until every pod that fits has a node, and the scheduler knows all there is to know."""
        await eventually(self.is_settled)

    def is_settled(self) -> bool:
        pods = self.store.list(PODS).items
        if not all(one["spec"].get("nodeName") for one in pods if one["metadata"]["name"] != "huge"):
            return False
        known = self.scheduler.informers.pods.objects
        versions = {f"default/{one['metadata']['name']}": one["metadata"]["resourceVersion"] for one in pods}
        return {key: one.metadata.resource_version for key, one in known.items()} == versions

    def check(self) -> None:
        pods = self.store.list(PODS).items
        for one in pods:
            given = self.bindings.nodes[one["metadata"]["uid"]]
            assert len(given) == (one["metadata"]["name"] != "huge")
        assert all(len(given) <= 1 for given in self.bindings.nodes.values())
        sizes = self.scheduler.context.cache.sizes()
        assert sizes == {"nodes": NODE_COUNT, "pods": len(pods) - 1, "assumed_pods": 0}
        assert self.scheduler.debugger.compare().is_equal
        events = self.store.list(EVENTS).items
        told = Counter(one["regarding"]["uid"] for one in events if one["reason"] == "Scheduled")
        assert max(told.values()) == 1

    async def clear(self) -> None:
        """Let all pods go, and wait until the scheduler has forgotten them."""
        for one in self.store.list(PODS).items:
            name = one["metadata"]["name"]
            if name != "huge":
                self.store.delete(PODS, "default", name, DeleteOptions(grace_period_seconds=0))
        await self.settle()
        await self.scheduler.context.recorder.drain()


def held() -> Counter[str]:
    """Objects that the scheduler and its client hold, by kind."""
    gc.collect()
    modules = [(str(type(one).__module__), type(one).__name__) for one in gc.get_objects()]
    return Counter(
        name
        for module, name in modules
        if module.startswith(("stowplan.", "_asyncio")) and not module.startswith("stowplan.localcluster")
    )


@asynccontextmanager
async def world(folder: Path, seed: int, trouble: WireFaults) -> AsyncIterator[World]:
    store = new_store(seed)
    for number in range(NODE_COUNT):
        store.create(NODES, node(f"n{number}"))
    store.create(PODS, pod("huge", cpu="64"))
    running = scheduling_through(MisbehavingProxy, store, folder, trouble, seed, kept_decisions=50)
    async with running as (proxy, scheduler):
        yield World(store, proxy, scheduler)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_pod_that_fits_is_bound_exactly_once_when_the_faults_are_over(
    tmp_path: Path, seed: int
) -> None:
    async def run() -> None:
        trouble = faults()
        async with world(tmp_path, seed, trouble) as here:
            await here.live(random.Random(seed))
            trouble.stop()
            await here.settle()
            here.check()
            assert here.proxy.struck.total() > 20, here.proxy.struck

    asyncio.run(run())


def test_nothing_piles_up_however_often_the_network_fails(tmp_path: Path) -> None:
    async def run() -> None:
        before = held()
        after: list[Counter[str]] = []
        async with world(tmp_path, 7, WireFaults()) as here:
            for wave in range(2):
                here.proxy.faults = trouble = faults()
                await here.live(random.Random(wave))
                trouble.stop()
                await here.settle()
                await here.clear()
                after.append(held())
            reflectors = here.scheduler.informers.all
            assert after[-1]["HttpWatch"] <= len(reflectors)
            most = before["Connection"] + len(reflectors) + MOST_CONNECTIONS + 1
            await eventually(lambda: held()["Connection"] <= most, lambda: (held()["Connection"], most))
            grown = {name: count - after[0][name] for name, count in (after[-1] - after[0]).items()}
            assert {name: count for name, count in grown.items() if count > 40} == {}

    asyncio.run(run())
