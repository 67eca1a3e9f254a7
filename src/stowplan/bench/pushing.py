"""How fast preemption is through the whole scheduler: important pods on a full cluster, and victims that go.

Every node is full of unimportant pods. Each important pod is tried, finds no node, has victims marked,
deleted and told of, is woken when they are gone, tried again and bound. Somebody plays kubelet and lets
victims go at once. Everything is on that a scheduler does; the clock runs until the last pod is bound.
"""

import asyncio
import random
from dataclasses import dataclass
from time import perf_counter, process_time

from stowplan.api.catalogue import NODES, POD_DISRUPTION_BUDGETS, PODS
from stowplan.api.requests import DeleteOptions, Json
from stowplan.bench.loop import document, scheduling
from stowplan.bench.memory import MIB, peak_rss
from stowplan.bench.preemption import PreemptionRun, budget_of, existing_pod, preemptor
from stowplan.bench.workloads import node
from stowplan.client import DELETED
from stowplan.clock import RealClock
from stowplan.embedded.store import Change, Store
from stowplan.scheduler.gc_tuning import calm_collector

AHEAD = 16
"""How many pods may push in at the same time."""

_CALM = 10.0
"""Seconds without a binding after which the pods that are left are taken for those that cannot be helped."""


@dataclass(frozen=True, slots=True)
class PushingFigures:
    """What was measured."""

    preemptors_per_s: float
    cpu_ms_per_preemptor: float
    seconds: float
    bound: int
    unhelped: int
    victims: int
    attempts: int
    peak_rss_mib: float


def measure(run: PreemptionRun) -> PushingFigures:
    """Fill a store, and let important pods push in through a scheduler."""
    return asyncio.run(_measure(run))


async def _measure(run: PreemptionRun) -> PushingFigures:
    rng = random.Random(run.seed)
    store = Store(RealClock(), random.Random(run.seed))
    for number in range(run.budgets):
        budget = document(budget_of(number, run))
        store.create(POD_DISRUPTION_BUDGETS, budget)
        status = {"status": {"disruptionsAllowed": 1}}
        store.patch(
            POD_DISRUPTION_BUDGETS,
            budget["metadata"]["namespace"],
            budget["metadata"]["name"],
            status,
            subresource="status",
        )
    for number in range(run.nodes):
        store.create(NODES, document(node(number)))
        for slot in range(run.existing_per_node):
            body = document(existing_pod(rng, number, slot, run))
            body["spec"]["terminationGracePeriodSeconds"] = 30
            _run(store, body)
    bodies = [document(preemptor(number, run)) for number in range(run.preemptors)]
    async with scheduling(store, run.seed) as scheduler:
        with calm_collector():
            pushing = _Pushing(store, bodies)
            started, cpu = perf_counter(), process_time()
            await pushing.run()
            await scheduler.context.recorder.drain()
            seconds, cpu = perf_counter() - started, process_time() - cpu
        return PushingFigures(
            preemptors_per_s=round(pushing.bound / seconds, 1),
            cpu_ms_per_preemptor=round(cpu / max(pushing.bound, 1) * 1e3, 3),
            seconds=round(seconds, 3),
            bound=pushing.bound,
            unhelped=run.preemptors - pushing.bound,
            victims=pushing.victims,
            attempts=scheduler.context.queue.cycle,
            peak_rss_mib=round(peak_rss() / MIB, 1),
        )


def _run(store: Store, body: Json) -> None:
    """Create a pod that runs, with the time it started at."""
    status = body.pop("status")
    created = store.create(PODS, body)
    metadata = created["metadata"]
    store.patch(PODS, metadata["namespace"], metadata["name"], {"status": status}, subresource="status")


class _Pushing:
    """Creates important pods, plays kubelet to the victims, and counts."""

    def __init__(self, store: Store, bodies: list[Json]) -> None:
        self._store = store
        self._bodies = bodies
        self._loop = asyncio.get_running_loop()
        self._progress = asyncio.Event()
        self._created = 0
        self.bound = 0
        self.victims = 0

    async def run(self) -> None:
        watcher = self._store.watch(PODS, self._seen)
        try:
            while self.bound < len(self._bodies):
                self._create()
                self._progress.clear()
                try:
                    async with asyncio.timeout(_CALM):
                        await self._progress.wait()
                except TimeoutError:
                    return
        finally:
            watcher.close()

    def _create(self) -> None:
        upto = min(self.bound + AHEAD, len(self._bodies))
        for body in self._bodies[self._created : upto]:
            self._store.create(PODS, body)
        self._created = max(self._created, upto)

    def _seen(self, change: Change) -> None:
        before, now = change.previous, change.object
        if before is None or change.type == DELETED:
            return
        metadata = now["metadata"]
        if "deletionTimestamp" in metadata and "deletionTimestamp" not in before["metadata"]:
            self.victims += 1
            self._loop.call_soon(self._let_go, metadata["namespace"], metadata["name"])
        elif now["spec"].get("nodeName") and not before["spec"].get("nodeName"):
            self.bound += 1
            self._progress.set()

    def _let_go(self, namespace: str, name: str) -> None:
        self._store.delete(PODS, namespace, name, DeleteOptions(0))
