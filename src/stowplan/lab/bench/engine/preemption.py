"""Duration of preemption: the decision alone, and through the whole scheduler.

Every node is filled with pods of low priority that share its CPU evenly; preemptors request more than all but
one of their victims leave free. First only the decision is measured. Pods and nodes are decoded before the
clock starts, which then runs while the template of a pod is computed, all nodes are filtered, PostFilter
decides, victims are taken out of the table and the pod is assumed in their place; no API server is called to
delete anything.

Then the whole scheduler: each preemptor is tried, finds no node, has victims deleted, is requeued when they
are gone, tried again and bound. Victims end at once, as if a kubelet had stopped them. All parts of a
scheduler are on; the clock runs until the last pod is bound.
"""

import asyncio
import gc
import random
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns, process_time
from typing import Any

import msgspec
import numpy as np

from stowplan.api.catalogue import NODES, POD_DISRUPTION_BUDGETS, PODS, Resource
from stowplan.api.decode import decode
from stowplan.api.pod import Pod
from stowplan.api.requests import ORDINARY_DELETION, DeleteOptions, Json
from stowplan.api.workloads import PodDisruptionBudget
from stowplan.client import DELETED
from stowplan.config import default_profile
from stowplan.lab.bench.engine.loop import document, running_scheduler
from stowplan.lab.bench.engine.workloads import NAMESPACE, node, node_name
from stowplan.lab.bench.servers.processes import MIB, longest_hold_ms, peak_rss, run_watched
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store, StoreChange
from stowplan.runtime.clock import LoopWatchdog, RealClock
from stowplan.runtime.gc_tuning import calm_collector
from stowplan.scheduler.framework.extension_points import run_post_filters
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable, load

NODE_MILLI_CPU = 32_000

_IDLE_TIMEOUT = 5.0
_IDLE_CPU = 0.2
"""Seconds without a binding, in which the scheduler used less CPU time than this, after which the remaining
pods count as impossible to help. On a busy machine it may be at work for longer."""

_PRIORITIES = 5
_STARTED = "2025-01-{day:02}T{hour:02}:{minute:02}:00Z"
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class PreemptionRun:
    """Parameters of a measurement. With `budgets` every unimportant pod is under one of this number of
    disruption budgets.

    Each preemptor needs the room of `victims` pods; `concurrent` of them wait at the same time. The API
    server deletes `deletions_per_s` pods at most; 0: without a limit.
    """

    nodes: int = 5000
    existing_per_node: int = 10
    preemptors: int = 500
    budgets: int = 0
    seed: int = 0
    victims: int = 2
    concurrent: int = 16
    deletions_per_s: int = 0


@dataclass(frozen=True, slots=True)
class DecisionFigures:
    """Measured figures. Times of preemptors are in milliseconds."""

    ms_per_preemptor: float
    ms_per_preemptor_mean: float
    ms_per_preemptor_p99: float
    preemptors_per_s: float
    victims: int
    unhelped: int
    build_s: float
    peak_rss_mib: float


@dataclass(frozen=True, slots=True)
class SchedulerFigures:
    """Measured figures."""

    preemptors_per_s: float
    cpu_ms_per_preemptor: float
    seconds: float
    first_bound_s: float
    bound: int
    unhelped: int
    victims: int
    attempts: int
    peak_rss_mib: float
    longest_hold_ms: float
    held_by: str


def measure_decisions(run: PreemptionRun) -> DecisionFigures:
    """Fill a cluster and let important pods push in, one after the other."""
    rng = random.Random(run.seed)
    table = ClusterTable()
    nodes = [node(number) for number in range(run.nodes)]
    existing = [
        existing_pod(rng, number, slot, run)
        for number in range(run.nodes)
        for slot in range(run.existing_per_node)
    ]
    preemptors = [preemptor(number, run) for number in range(run.preemptors)]
    started = perf_counter()
    load(table, [budget_of(number, run) for number in range(run.budgets)])
    load(table, nodes)
    load(table, existing)
    build_s = perf_counter() - started
    framework = Framework(default_profile(), table, in_tree_registry(), rng=rng)
    gc.collect()
    gc.freeze()
    try:
        times, victims, unhelped = _preempt(framework, preemptors)
    finally:
        gc.unfreeze()
    return _decision_figures(times, victims, unhelped, build_s)


def _preempt(framework: Framework, preemptors: list[Pod]) -> tuple[list[int], int, int]:
    """Nanoseconds of each pod, the number of victims, and how many pods no victims could help."""
    table = framework.table
    plugins = framework.at(ExtensionPoint.POST_FILTER)
    times: list[int] = []
    victims = unhelped = 0
    for pod in preemptors:
        started = perf_counter_ns()
        info = table.info(pod)
        evaluation = framework.evaluate(info)
        result = run_post_filters(plugins, evaluation.cycle, info)
        for victim in result.victims:
            table.remove_pod(victim.metadata.uid)
        if result.nominated_node:
            table.assume(info, result.nominated_node)
        times.append(perf_counter_ns() - started)
        victims += len(result.victims)
        unhelped += not result.nominated_node
    return times, victims, unhelped


def _decision_figures(times: list[int], victims: int, unhelped: int, build_s: float) -> DecisionFigures:
    millis = np.array(times, dtype=np.float64) / 1e6
    return DecisionFigures(
        ms_per_preemptor=round(float(np.median(millis)), 3),
        ms_per_preemptor_mean=round(float(millis.mean()), 3),
        ms_per_preemptor_p99=round(float(np.percentile(millis, 99)), 3),
        preemptors_per_s=round(1e3 / float(millis.mean()), 1),
        victims=victims,
        unhelped=unhelped,
        build_s=round(build_s, 6),
        peak_rss_mib=round(peak_rss() / MIB, 1),
    )


def measure_scheduler(run: PreemptionRun) -> SchedulerFigures:
    """Fill a store, and let important pods push in through a scheduler."""
    return run_watched(lambda watchdog: _measure_scheduler(run, watchdog))


async def _measure_scheduler(run: PreemptionRun, watchdog: LoopWatchdog) -> SchedulerFigures:
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
            _create_running(store, body)
    bodies = [document(preemptor(number, run)) for number in range(run.preemptors)]
    async with running_scheduler(store, run.seed, _Client(store, run.deletions_per_s)) as scheduler:
        with calm_collector():
            preemptors = _Preemptors(store, bodies, run.concurrent)
            await asyncio.sleep(0)
            watchdog.reset()
            started, cpu = perf_counter(), process_time()
            await preemptors.run()
            await scheduler.context.recorder.drain()
            seconds, cpu = perf_counter() - started, process_time() - cpu
        return SchedulerFigures(
            preemptors_per_s=round(preemptors.bound / seconds, 1),
            cpu_ms_per_preemptor=round(cpu / max(preemptors.bound, 1) * 1e3, 3),
            seconds=round(seconds, 3),
            first_bound_s=round(preemptors.first_bound - started, 3),
            bound=preemptors.bound,
            unhelped=run.preemptors - preemptors.bound,
            victims=preemptors.victims,
            attempts=scheduler.context.queue.cycle,
            peak_rss_mib=round(peak_rss() / MIB, 1),
            longest_hold_ms=longest_hold_ms(watchdog),
            held_by=watchdog.longest.holder.where,
        )


def _create_running(store: Store, body: Json) -> None:
    """Create a pod that runs, with the time it started at."""
    status = body.pop("status")
    created = store.create(PODS, body)
    metadata = created["metadata"]
    store.patch(PODS, metadata["namespace"], metadata["name"], {"status": status}, subresource="status")


class _Client(InProcessClient):
    """A client of an API server that limits deletions per second."""

    def __init__(self, store: Store, deletions_per_s: int) -> None:
        super().__init__(store)
        self._interval = 1 / deletions_per_s if deletions_per_s else 0.0
        self._next = 0.0

    async def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions = ORDINARY_DELETION
    ) -> None:
        if self._interval:
            self._next = max(self._next, perf_counter()) + self._interval
            await asyncio.sleep(self._next - perf_counter())
        await super().delete(resource, namespace, name, options)


class _Preemptors:
    """Creates important pods, plays kubelet to the victims, and counts."""

    def __init__(self, store: Store, bodies: list[Json], concurrent: int) -> None:
        self._store = store
        self._bodies = bodies
        self._concurrent = concurrent
        self._loop = asyncio.get_running_loop()
        self._progress = asyncio.Event()
        self._created = 0
        self.bound = 0
        self.first_bound = 0.0
        self.victims = 0

    async def run(self) -> None:
        watcher = self._store.watch(PODS, self._on_change)
        try:
            while self.bound < len(self._bodies):
                self._create()
                self._progress.clear()
                cpu = process_time()
                try:
                    async with asyncio.timeout(_IDLE_TIMEOUT):
                        await self._progress.wait()
                except TimeoutError:
                    if process_time() - cpu < _IDLE_CPU:
                        return
        finally:
            watcher.close()

    def _create(self) -> None:
        upto = min(self.bound + self._concurrent, len(self._bodies))
        for body in self._bodies[self._created : upto]:
            self._store.create(PODS, body)
        self._created = max(self._created, upto)

    def _on_change(self, change: StoreChange) -> None:
        before, now = change.previous, change.object
        if before is None or change.type == DELETED:
            return
        metadata = now["metadata"]
        if "deletionTimestamp" in metadata and "deletionTimestamp" not in before["metadata"]:
            self.victims += 1
            self._loop.call_soon(self._end_victim, metadata["namespace"], metadata["name"])
        elif now["spec"].get("nodeName") and not before["spec"].get("nodeName"):
            self.bound += 1
            self.first_bound = self.first_bound or perf_counter()
            self._progress.set()

    def _end_victim(self, namespace: str, name: str) -> None:
        self._store.delete(PODS, namespace, name, DeleteOptions(0))


def existing_pod(rng: random.Random, number: int, slot: int, run: PreemptionRun) -> Pod:
    """One of the pods that fill a node: low priorities and start times at random."""
    name = f"low-{number}-{slot}"
    share = NODE_MILLI_CPU // run.existing_per_node
    group = f"g{(number * run.existing_per_node + slot) % max(run.budgets, 1)}"
    started = _STARTED.format(day=rng.randint(1, 28), hour=rng.randrange(24), minute=rng.randrange(60))
    document = _pod(name, share, rng.randrange(_PRIORITIES), {"group": group})
    document["spec"]["nodeName"] = node_name(number)
    document["status"] = {"phase": "Running", "startTime": started}
    return decode(_encode(document), Pod)


def preemptor(number: int, run: PreemptionRun) -> Pod:
    """A pod that needs the room of its victims, but for half of one of them."""
    wanted = NODE_MILLI_CPU * (2 * run.victims - 1) // (2 * max(run.existing_per_node, 1))
    return decode(_encode(_pod(f"high-{number}", min(wanted, NODE_MILLI_CPU), 1000, {"app": "high"})), Pod)


def _pod(name: str, milli_cpu: int, priority: int, labels: dict[str, str]) -> dict[str, Any]:
    requests = {"cpu": f"{milli_cpu}m", "memory": "500Mi"}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "labels": labels},
        "spec": {"schedulerName": "default-scheduler", "priority": priority, "containers": [container]},
        "status": {"phase": "Pending"},
    }


def budget_of(number: int, run: PreemptionRun) -> PodDisruptionBudget:
    """A budget that allows one of its pods to go."""
    document = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"budget-{number}", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"group": f"g{number}"}}},
        "status": {"disruptionsAllowed": 1},
    }
    return decode(_encode(document), PodDisruptionBudget)
