"""How fast the whole scheduler is: from the creation of pods to their binding, through an in-process store.

Everything is on that a scheduler does: watches, queue, attempts, bindings, events, metrics and explanations.
Pods are created as fast as they are bound, a few hundred ahead, by the same process, and what that costs is
part of the figures. The clock runs from the first creation until the last pod is bound and the last event is
written.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import msgspec

from stowplan.api.catalogue import EVENTS, NODES, PODS, RESOURCE_CLAIMS, Catalogue
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.requests import Json
from stowplan.client import Client
from stowplan.config import LoadedConfig
from stowplan.config.dump import dump
from stowplan.explain.web import Inspection, Routes
from stowplan.explain.web.http import PageServer
from stowplan.lab.bench.engine.gangs import GANG_WORKLOADS, gang_workload
from stowplan.lab.bench.engine.workloads import WORKLOADS, BenchWorkload, node, node_name
from stowplan.lab.bench.servers.processes import MIB, longest_hold_ms, peak_rss, run_watched
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.controllerruntime.controller import ControllerContext, ControllerManager
from stowplan.localcluster.controllers.devices.resourceclaim import ResourceClaimController
from stowplan.localcluster.store import Store, StoreChange
from stowplan.runtime.clock import LoopWatchdog, RealClock
from stowplan.runtime.gc_tuning import calm_collector
from stowplan.scheduler import Scheduler, Settings
from stowplan.scheduler.recording import Recording, recorded_scheduler

MAX_UNBOUND = 500
"""Maximum number of pods created but not bound."""

UNSCHEDULABLE_EVERY = 10
"""With churn one pod in this many requests more than any node has."""

NODE_UPDATES_PER_BURST = 20
"""Number of nodes updated with each burst of created pods, with churn."""

_IDLE_TIMEOUT = 5.0
"""Seconds without a binding after which the pods that are left are taken for those that fit nowhere."""


@dataclass(frozen=True, slots=True)
class LoopRun:
    """Parameters of a measurement."""

    workload: str = "basic"
    nodes: int = 5000
    existing_per_node: int = 10
    pods: int = 10_000
    seed: int = 0
    churn: bool = False
    group_size: int = 64
    """Number of pods in a group, in workloads with groups."""


@dataclass(frozen=True, slots=True)
class LoopFigures:
    """Measured figures."""

    pods_per_s: float
    cpu_us_per_pod: float
    seconds: float
    bound: int
    unschedulable: int
    node_updates: int
    events: int
    events_dropped: int
    attempts: int
    setup_s: float
    peak_rss_mib: float
    longest_hold_ms: float
    """The longest time the event loop was held, 0 if never for more than 50 ms."""
    held_by: str
    start_cpu_s: float = 0.0
    """CPU time until the scheduler knew the cluster."""
    group_attempts: int = 0
    group_attempt_ms: float = 0.0
    """How long an attempt to schedule a group took on average."""


@dataclass(frozen=True, slots=True)
class InspectedFigures:
    """Cost of the API and the page when unused: CPU time in microseconds a pod, in turns.

    Other work on the machine makes turns slower, never faster, so the quicker quarter of the turns is most
    accurate: `without_us` and `with_us` are the lower quartiles. `median_ratio` is that of neighbouring
    turns.
    """

    without_us: float
    with_us: float
    ratio: float
    median_ratio: float
    sample_ms: float
    """CPU time of a sample for the history; there is one every five seconds."""
    turns: int
    pods_per_turn: int


@dataclass(frozen=True, slots=True)
class RecordedFigures:
    """Cost of recording: CPU time in microseconds a pod, in turns, as in `InspectedFigures`."""

    without_us: float
    with_us: float
    ratio: float
    median_ratio: float
    bytes_per_pod: float
    turns: int
    pods_per_turn: int


LOOP_WORKLOADS = (*WORKLOADS, *GANG_WORKLOADS)


def workload_of(run: LoopRun) -> BenchWorkload:
    """The workload that a run names."""
    if run.workload in GANG_WORKLOADS:
        return gang_workload(run.workload, run.group_size)
    return WORKLOADS[run.workload]


def measure(run: LoopRun) -> LoopFigures:
    """Run a scheduler against a store with nodes, and create pods."""
    return run_watched(lambda watchdog: _measure(run, watchdog))


async def _measure(run: LoopRun, watchdog: LoopWatchdog) -> LoopFigures:
    began = perf_counter()
    clock = RealClock()
    store = Store(clock, random.Random(run.seed))
    fill(store, run)
    workload = workload_of(run)
    bodies = [pod_to_create(workload.pod(number)) for number in range(run.pods)]
    if run.churn:
        make_unschedulable(bodies)
    async with AsyncExitStack() as running:
        start_cpu = process_time()
        scheduler = await running.enter_async_context(
            running_scheduler(store, run.seed, config=workload.config)
        )
        start_cpu = process_time() - start_cpu
        if any("resourceClaims" in body["spec"] for body in bodies):
            await running.enter_async_context(_claim_controller(store, run.seed))
        setup_s = perf_counter() - began
        with calm_collector():
            load = _LoadGenerator(store, scheduler, bodies, run)
            await asyncio.sleep(0)
            watchdog.reset()
            started, cpu = perf_counter(), process_time()
            await load.run()
            await scheduler.context.recorder.drain()
            seconds, cpu = perf_counter() - started, process_time() - cpu
        recorder, groups = scheduler.context.recorder, scheduler.context.metrics.pod_groups
        return LoopFigures(
            pods_per_s=round(load.bound / seconds, 1),
            cpu_us_per_pod=round(cpu / max(load.bound, 1) * 1e6, 1),
            seconds=round(seconds, 3),
            bound=load.bound,
            unschedulable=len(scheduler.context.queue),
            node_updates=load.node_updates,
            events=store.count(EVENTS),
            events_dropped=recorder.dropped + recorder.failed,
            attempts=scheduler.context.queue.cycle,
            setup_s=round(setup_s, 3),
            peak_rss_mib=round(peak_rss() / MIB, 1),
            longest_hold_ms=longest_hold_ms(watchdog),
            held_by=watchdog.longest.holder.where,
            start_cpu_s=round(start_cpu, 3),
            group_attempts=groups.attempts,
            group_attempt_ms=round(groups.mean_seconds * 1e3, 3),
        )


def measure_inspected(run: LoopRun, pairs: int) -> InspectedFigures:
    """Place pods in turns, in pairs of one without API and page and one with them, in random order.

    All turns are of one scheduler, so that nothing else differs. A turn with them begins with a sample for
    the history, which is taken every few seconds otherwise: it costs rather more here than in earnest.
    """
    return asyncio.run(_measure_inspected(run, pairs))


async def _measure_inspected(run: LoopRun, pairs: int) -> InspectedFigures:
    store = Store(RealClock(), random.Random(run.seed))
    fill(store, run)
    bodies = [document(workload_of(run).pod(number)) for number in range(run.pods)]
    per_turn = run.pods // (2 * pairs + 1)
    spent: dict[bool, list[float]] = {False: [], True: []}
    samples: list[float] = []
    async with running_scheduler(store, run.seed, config=workload_of(run).config) as scheduler:
        inspection = Inspection(lambda: scheduler, cluster="bench", release="bench")
        routes = Routes(inspection, lambda: dump(scheduler.settings.config.config))
        with calm_collector():
            await _turn(store, scheduler, bodies[:per_turn], run)
            order = random.Random(run.seed)
            turns = [one for _ in range(pairs) for one in order.sample((False, True), 2)]
            for turn, inspected in enumerate(turns):
                part = bodies[(turn + 1) * per_turn : (turn + 2) * per_turn]
                async with AsyncExitStack() as stack:
                    if inspected:
                        await stack.enter_async_context(PageServer(routes))
                        await stack.enter_async_context(inspection.following())
                    spent[inspected].append(await _turn(store, scheduler, part, run))
                    began = process_time()
                    inspection.history.sample()
                    samples.append((process_time() - began) * 1e3)
    off, on = (quantiles(spent[inspected], n=4)[0] for inspected in (False, True))
    neighbours = median(one / other for other, one in zip(spent[False], spent[True], strict=True))
    return InspectedFigures(
        round(off, 2),
        round(on, 2),
        round(on / off, 4),
        round(neighbours, 4),
        round(median(samples), 3),
        2 * pairs,
        per_turn,
    )


def measure_recorded(run: LoopRun, pairs: int) -> RecordedFigures:
    """Place pods in turns, in pairs of a scheduler that is not recorded and one that is, in random order.

    They have a cluster each, of the same kind; the one whose turn it is not has nothing to do.
    """
    return asyncio.run(_measure_recorded(run, pairs))


async def _measure_recorded(run: LoopRun, pairs: int) -> RecordedFigures:
    bodies = [document(workload_of(run).pod(number)) for number in range(run.pods // 2)]
    per_turn = len(bodies) // (pairs + 1)
    spent: dict[bool, list[float]] = {False: [], True: []}
    with TemporaryDirectory() as directory:
        recording = Recording(Path(directory) / "bench.rec")
        async with AsyncExitStack() as stack:
            hosts = {}
            for recorded in spent:
                store = Store(RealClock(), random.Random(run.seed))
                fill(store, run)
                chosen = recording if recorded else None
                running = running_scheduler(store, run.seed, recording=chosen)
                hosts[recorded] = store, await stack.enter_async_context(running)
            with calm_collector():
                order = random.Random(run.seed)
                for turn in range(pairs + 1):
                    part = bodies[turn * per_turn : (turn + 1) * per_turn]
                    for recorded in order.sample((False, True), 2):
                        took = await _turn(*hosts[recorded], [{**one} for one in part], run)
                        if turn:
                            spent[recorded].append(took)
        size = sum(file.stat().st_size for file in Path(directory).iterdir())
    off, on = (quantiles(spent[recorded], n=4)[0] for recorded in (False, True))
    neighbours = median(one / other for other, one in zip(spent[False], spent[True], strict=True))
    return RecordedFigures(
        round(off, 2),
        round(on, 2),
        round(on / off, 4),
        round(neighbours, 4),
        round(size / len(bodies), 1),
        2 * pairs,
        per_turn,
    )


async def _turn(store: Store, scheduler: Scheduler, bodies: list[Json], run: LoopRun) -> float:
    """Microseconds of CPU time a pod."""
    load = _LoadGenerator(store, scheduler, bodies, run)
    began = process_time()
    await load.run()
    await scheduler.context.recorder.drain()
    return (process_time() - began) / max(load.bound, 1) * 1e6


@asynccontextmanager
async def running_scheduler(
    store: Store,
    seed: int,
    client: Client | None = None,
    config: LoadedConfig | None = None,
    recording: Recording | None = None,
) -> AsyncIterator[Scheduler]:
    """A scheduler at work on a store, in real time; it may be recorded."""
    scheduler = recorded_scheduler(
        recording,
        client or InProcessClient(store),
        Settings.of(config),
        clock=RealClock(),
        seed=seed,
        report=print,
        timer=perf_counter,
    )
    async with scheduler.running():
        yield scheduler


def _claim_controller(store: Store, seed: int) -> AbstractAsyncContextManager[ControllerManager]:
    """Controller that creates claims from templates and releases reservations, as in every cluster."""
    context = ControllerContext.of(InProcessClient(store), RealClock(), random.Random(seed))
    return ControllerManager(context, [ResourceClaimController(context)]).running()


def fill(store: Store, run: LoopRun) -> None:
    """Nodes, pods that run on them, and what both and the pods to place refer to."""
    workload = workload_of(run)
    known = Catalogue()
    for obj in workload.objects(run.nodes, run.existing_per_node, run.pods):
        resource = known.of_kind(obj.api_version, obj.kind)
        assert resource is not None, obj.kind
        if resource is not RESOURCE_CLAIMS or not obj.metadata.owner_references or obj.metadata.finalizers:
            store.load(resource, document(obj), handed_over=True)
    for number in range(run.nodes):
        made = document(node(number))
        made["metadata"]["labels"] |= workload.node_labels(number)
        store.create(NODES, made)
        for pod in workload.existing(number, run.existing_per_node):
            store.load(PODS, document(pod), handed_over=True)


def pod_to_create(pod: Pod) -> Json:
    """A pod as its author sends it: without a status."""
    body = document(pod)
    body.pop("status", None)
    return body


def document(obj: Object) -> Json:
    """An object as a client would send it."""
    made: Json = msgspec.json.decode(msgspec.json.encode(obj))
    return made


def make_unschedulable(bodies: list[Json]) -> None:
    """Let every tenth pod ask for more than any node has."""
    for body in bodies[::UNSCHEDULABLE_EVERY]:
        for container in body["spec"]["containers"]:
            container["resources"] = {"requests": {"cpu": "1000"}}


class _LoadGenerator:
    """Creates pods as fast as they are bound, and counts."""

    def __init__(self, store: Store, scheduler: Scheduler, bodies: list[Json], run: LoopRun) -> None:
        self._store = store
        self._scheduler = scheduler
        self._bodies = bodies
        self._run = run
        self._binding_seen = asyncio.Event()
        self._created = 0
        self.bound = 0
        self.node_updates = 0
        workload = workload_of(run)
        self._unbindable = workload.unbindable(len(bodies))
        self._most_unbound = self._unbindable + max(MAX_UNBOUND, 2 * workload.together)
        unschedulable = len(bodies[::UNSCHEDULABLE_EVERY]) if run.churn else self._unbindable
        self._wanted = len(bodies) - unschedulable

    async def run(self) -> None:
        watcher = self._store.watch(PODS, self._on_change)
        try:
            await self._create_and_wait()
        finally:
            watcher.close()

    async def _create_and_wait(self) -> None:
        while self.bound < self._wanted:
            settled = self.bound + (self._created // UNSCHEDULABLE_EVERY if self._run.churn else 0)
            burst = min(MAX_UNBOUND // 5, len(self._bodies) - self._created)
            if burst and self._created + burst - settled <= self._most_unbound:
                self._create(burst)
                await asyncio.sleep(0)
                continue
            self._binding_seen.clear()
            try:
                async with asyncio.timeout(_IDLE_TIMEOUT):
                    await self._binding_seen.wait()
            except TimeoutError:
                return

    def _create(self, burst: int) -> None:
        for body in self._bodies[self._created : self._created + burst]:
            self._store.create(PODS, body, handed_over=True)
        self._created += burst
        if self._run.churn:
            for _ in range(NODE_UPDATES_PER_BURST):
                self._touch_node()

    def _touch_node(self) -> None:
        """Update a node as kubelets and others do all the time: its labels, or how much it offers."""
        number = self.node_updates % self._run.nodes
        name, turn = node_name(number), self.node_updates
        if turn % 2:
            patch = {"metadata": {"labels": {"touched": str(turn)}}}
            self._store.patch(NODES, "", name, patch)
        else:
            patch = {"status": {"allocatable": {"cpu": "32", "memory": f"{250 + turn % 7}Gi"}}}
            self._store.patch(NODES, "", name, patch, subresource="status")
        self.node_updates += 1

    def _on_change(self, change: StoreChange) -> None:
        before = change.previous
        if before is not None and change.object["spec"].get("nodeName") and "nodeName" not in before["spec"]:
            self.bound += 1
            self._binding_seen.set()
