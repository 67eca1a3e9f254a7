"""Does memory stay flat? Pods come and go for a long time at a steady number, and memory is sampled.

Every pod is created, scheduled and bound, and deleted when enough newer ones exist. A tenth never fits and is
deleted while it waits. A leak per pod would show: a million of them pass through.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.requests import DeleteOptions, Json
from stowplan.lab.bench.engine.loop import document, running_scheduler
from stowplan.lab.bench.engine.workloads import WORKLOADS, node
from stowplan.lab.bench.servers.processes import MIB, rss
from stowplan.localcluster.store import Store, StoreChange
from stowplan.runtime.clock import RealClock

BURST = 100
UNSCHEDULABLE_EVERY = 10


@dataclass(frozen=True, slots=True)
class SoakRun:
    """Amount of work: pods in all, and at a time."""

    pods: int = 1_000_000
    population: int = 5_000
    nodes: int = 500
    workload: str = "mixed"
    samples: int = 20
    seed: int = 0


@dataclass(slots=True)
class SoakFigures:
    """Measured figures: memory in MiB, and remembered objects, each time a share of the pods had passed."""

    pods_per_s: float = 0.0
    rss_mib: list[float] = field(default_factory=list)
    growth_mib: float = 0.0
    """The difference between the last reading and that at half time."""
    remembered: dict[str, int] = field(default_factory=dict)


def measure(run: SoakRun, show: Callable[[int, float], None]) -> SoakFigures:
    """Let pods come and go; `show` gets every reading: pods so far, and MiB."""
    return asyncio.run(_measure(run, show))


async def _measure(run: SoakRun, show: Callable[[int, float], None]) -> SoakFigures:
    store = Store(RealClock(), random.Random(run.seed))
    for number in range(run.nodes):
        store.create(NODES, document(node(number)))
    figures = SoakFigures()
    async with running_scheduler(store, run.seed) as scheduler:
        churn = _PodChurn(store, run)
        started = perf_counter()
        every = max(run.pods // run.samples, 1)
        while churn.created < run.pods:
            await churn.run_until(min(churn.created + every, run.pods))
            figures.rss_mib.append(round(rss() / MIB, 1))
            show(churn.created, figures.rss_mib[-1])
        figures.pods_per_s = round(churn.created / (perf_counter() - started), 1)
        figures.growth_mib = round(figures.rss_mib[-1] - figures.rss_mib[len(figures.rss_mib) // 2], 1)
        context = scheduler.context
        figures.remembered = {
            "pods": len(context.cache.table.pods),
            "queued": len(context.queue),
            "assumed": len(context.cache.assumed),
            "decisions": len(context.decisions),
            "events": context.recorder.remembered,
            "nominated": len(context.queue.nominator),
        }
    return figures


class _PodChurn:
    """Creates pods and deletes the oldest."""

    def __init__(self, store: Store, run: SoakRun) -> None:
        self._store = store
        self._run = run
        self._workload = WORKLOADS[run.workload]
        self._alive: deque[str] = deque()
        self._settled = asyncio.Event()
        self._waiting = 0
        self._namespace = ""
        self.created = 0
        store.watch(PODS, self._on_change)

    async def run_until(self, until: int) -> None:
        while self.created < until:
            for _ in range(min(BURST, until - self.created)):
                self._create()
            while self._waiting > BURST:
                self._settled.clear()
                await self._settled.wait()
            while len(self._alive) > self._run.population:
                self._store.delete(PODS, self._namespace, self._alive.popleft(), DeleteOptions(0))
            await asyncio.sleep(0)

    def _create(self) -> None:
        body: Json = document(self._workload.pod(self.created % 1000))
        metadata = body["metadata"]
        metadata["name"] = f"pod-{self.created}"
        self._namespace = metadata["namespace"]
        if self.created % UNSCHEDULABLE_EVERY == 0:
            body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
        else:
            self._waiting += 1
        self._store.create(PODS, body)
        self._alive.append(metadata["name"])
        self.created += 1

    def _on_change(self, change: StoreChange) -> None:
        before = change.previous
        is_bound = bool(change.object["spec"].get("nodeName"))
        if before is not None and is_bound and not before["spec"].get("nodeName"):
            self._waiting -= 1
            self._settled.set()
