"""Does anything only grow? Simulated months in which every kind of object comes, changes and goes.

An autoscaler replaces nodes all the time; labels, taints with timestamps, images and resource names are new
every day; so are namespaces, services, budgets, volumes and the labels of pods. Time is virtual, and the
hours in which nothing happens are skipped. Every simulated week the size of every table is shown; at the
end the scheduler is compared, container by container, with a fresh one that knows the same objects.
"""

import asyncio
import dataclasses
import gc
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from typing import Final

from stowplan.api.catalogue import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICES,
    STORAGE_CLASSES,
    Resource,
)
from stowplan.api.requests import DeleteOptions, Json, PatchType
from stowplan.lab.bench.servers.processes import MIB, rss
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock
from stowplan.runtime.clock import run as run_virtual
from stowplan.scheduler import Scheduler, Settings
from stowplan.scheduler.cycle.costs import CycleCosts
from stowplan.scheduler.decisions import LastDecisions
from stowplan.scheduler.events import EventRecorder
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.metrics.families import Distribution
from stowplan.scheduler.metrics.scheduling import BatchMetrics
from stowplan.scheduler.table.changes import ChangeLog
from stowplan.testing.builders import HOSTNAME, ZONE
from stowplan.testing.objectsizes import sizes_of

DAY: Final = 86_400.0
BURST: Final = 100
SETTLED: Final = 3.0
"""Virtual seconds in which the pods of a burst are tried."""

BOUNDED: Final = (
    ChangeLog,
    CycleCosts,
    LastDecisions,
    EventRecorder,
    SchedulerMetrics,
    BatchMetrics,
    Distribution,
)
"""Parts of a scheduler that keep up to a fixed number of entries regardless of the cluster's size."""

BOUNDED_PATHS: Final = ("context.profiles[].framework._classes._met",)
"""Containers with a limit of their own; what is inside them is looked at all the same."""

SLACK: Final = 200
"""Entries by which a container may exceed twice what a fresh one has, besides one for every living pod."""


@dataclass(frozen=True, slots=True)
class GrowthRun:
    """Parameters of the simulation."""

    pods: int = 50_000
    weeks: int = 26
    nodes: int = 50
    population: int = 500
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Week:
    """The state after a simulated week."""

    number: int
    pods: int
    """Pods created so far."""
    rss_mib: float
    sizes: Mapping[str, int]


@dataclass(slots=True)
class GrowthFigures:
    """Measured figures. `grown` are containers larger than the living objects need: fresh and actual size."""

    pods: int = 0
    nodes: int = 0
    seconds: float = 0.0
    weeks: list[Week] = field(default_factory=list)
    grown: dict[str, tuple[int, int]] = field(default_factory=dict)


class SkippingClock(VirtualClock):
    """Virtual time in which hours can pass at once, as for a machine that was suspended."""

    def skip(self, seconds: float) -> None:
        self._start += seconds


def measure(run: GrowthRun, show: Callable[[Week], None]) -> GrowthFigures:
    """Simulate; `show` is called after every week."""

    async def main(clock: VirtualClock) -> GrowthFigures:
        return await _measure(run, SkippingClock(asyncio.get_running_loop()), show)

    return run_virtual(main)


async def _measure(run: GrowthRun, clock: SkippingClock, show: Callable[[Week], None]) -> GrowthFigures:
    store = Store(clock, Random(run.seed), history=4096, event_limit=1000)
    figures = GrowthFigures()
    months = _Months(store, run, clock)
    began = perf_counter()
    scheduler = _scheduler(store, clock, run.seed)
    async with scheduler.running():
        for number in range(1, run.weeks + 1):
            await months.week(run.pods * number // run.weeks)
            week = Week(number, months.created, round(rss() / MIB, 1), table_sizes(scheduler))
            figures.weeks.append(week)
            show(week)
        await months.rest()
        actual = _all_sizes(scheduler)
    fresh = _scheduler(store, clock, run.seed)
    async with fresh.running():
        await asyncio.sleep(SETTLED)
        needed = _all_sizes(fresh)
    figures.pods, figures.nodes = months.created, months.nodes_created
    figures.seconds = round(perf_counter() - began, 1)
    figures.grown = too_large(needed, actual, SLACK + run.population)
    return figures


def _scheduler(store: Store, clock: SkippingClock, seed: int) -> Scheduler:
    settings = dataclasses.replace(Settings.of(), kept_decisions=1)
    return Scheduler(InProcessClient(store), settings, clock=clock, rng=Random(seed))


def table_sizes(scheduler: Scheduler) -> dict[str, int]:
    """The size of every table of the cluster, without what is there for results kept for classes of pods,
    which have a budget of their own, or only waits for the garbage collector."""
    _forget_classes(scheduler)
    return dict(scheduler.context.cache.table.sizes())


def _forget_classes(scheduler: Scheduler) -> None:
    for profile in scheduler.context.profiles.values():
        profile.framework.forget_classes()
    gc.collect()


def _all_sizes(scheduler: Scheduler) -> dict[str, int]:
    """Entries of every container that the scheduler can reach, without results kept for classes of pods.

    Tables that are swept now and then are swept when their sizes are read. Data computed when a pod is tried,
    and kept as long as pods like it live, is computed for all of them first: a fresh scheduler has tried only
    the waiting ones.
    """
    table = scheduler.context.cache.table
    for profile in scheduler.context.profiles.values():
        for pod in table.pods.values():
            profile.framework.common_class([pod])
    _forget_classes(scheduler)
    table.sizes()
    client = scheduler.context.client
    return sizes_of(scheduler, without=(client,), without_types=BOUNDED, array_unit=table.capacity)


def too_large(needed: Mapping[str, int], actual: Mapping[str, int], slack: int) -> dict[str, tuple[int, int]]:
    """Containers that are larger than living objects explain, the largest first."""
    found = {
        path: (needed.get(path, 0), size)
        for path, size in actual.items()
        if size > 2 * needed.get(path, 0) + slack and path not in BOUNDED_PATHS
    }
    return dict(sorted(found.items(), key=lambda item: -item[1][1]))


class _Months:
    """Writes to the store what happens in a cluster over months."""

    def __init__(self, store: Store, run: GrowthRun, clock: SkippingClock) -> None:
        self._store = store
        self._run = run
        self._clock = clock
        self._rng = Random(f"months {run.seed}")
        self._day = 0
        self._nodes: deque[str] = deque()
        self._pods: deque[tuple[str, str]] = deque()
        self._objects: deque[list[tuple[Resource, str, str]]] = deque()
        self.created = 0
        self.nodes_created = 0
        self._put(NAMESPACES, {"metadata": {"name": "default"}})
        for _ in range(run.nodes):
            self._add_node()

    async def week(self, pods: int) -> None:
        """Simulate seven days, after which `pods` pods have been created in all."""
        missing = pods - self.created
        for day in range(1, 8):
            self._begin_day()
            await self._create_pods(pods - missing + missing * day // 7)

    async def rest(self) -> None:
        """Nothing happens for a while."""
        await asyncio.sleep(20 * SETTLED)

    async def _create_pods(self, until: int) -> None:
        bursts = max(1, -(-(until - self.created) // BURST))
        for _ in range(bursts):
            for _ in range(min(BURST, until - self.created)):
                self._create_pod()
            self._change_node()
            await asyncio.sleep(SETTLED)
            while len(self._pods) > self._run.population:
                self._store.delete(PODS, *self._pods.popleft(), DeleteOptions(0))
            self._clock.skip(DAY / bursts - SETTLED)

    # Objects

    def _put(self, resource: Resource, body: Json) -> tuple[Resource, str, str]:
        made = self._store.create(resource, body)
        return resource, made["metadata"].get("namespace", ""), made["metadata"]["name"]

    def _begin_day(self) -> None:
        self._day += 1
        self._objects.append(self._objects_of_the_day())
        if len(self._objects) > 3:
            for resource, namespace, name in reversed(self._objects.popleft()):
                self._store.delete(resource, namespace, name, DeleteOptions(0))
        for _ in range(max(1, self._run.nodes // 20)):
            self._replace_node()

    def _objects_of_the_day(self) -> list[tuple[Resource, str, str]]:
        day, place = self._day, f"team-{self._day}"
        labels = {"team": place, "cost-centre": f"{day}"}
        budget = {"selector": {"matchLabels": {"pod-template-hash": f"h{day}"}}, "minAvailable": 1}
        return [
            self._put(NAMESPACES, {"metadata": {"name": place, "labels": labels}}),
            self._put(
                STORAGE_CLASSES,
                {"metadata": {"name": f"class-{day}"}, "provisioner": "csi.example.com"},
            ),
            *self._volume(f"disk-{day}", f"class-{day}"),
            self._put(SERVICES, _named(f"service-{day}", {"selector": {"revision": f"{day}"}})),
            self._put(POD_DISRUPTION_BUDGETS, _named(f"budget-{day}", budget)),
        ]

    def _volume(self, name: str, storage_class: str) -> list[tuple[Resource, str, str]]:
        """A volume and its claim, bound to each other."""
        shared = {"accessModes": ["ReadWriteMany"], "storageClassName": storage_class}
        claim = _named(name, {**shared, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}})
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        ref = {"namespace": "default", "name": name}
        spec = {**shared, "capacity": {"storage": "1Gi"}, "claimRef": ref}
        return [
            self._put(PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": spec}),
            self._put(PERSISTENT_VOLUME_CLAIMS, claim),
        ]

    # Nodes

    def _replace_node(self) -> None:
        self._store.delete(NODES, "", self._nodes.popleft(), DeleteOptions(0))
        self._add_node()

    def _add_node(self) -> None:
        """A node of a name, labels, images and a resource that there have not been before."""
        number, rng = self.nodes_created, self._rng
        name = f"node-{number}"
        labels = {
            HOSTNAME: name,
            ZONE: rng.choice("abc"),
            "pool": f"pool-{number // 10}",
            f"feature-{number}.example.com/on": "true",
        }
        room = {"cpu": "64", "memory": "256Gi", "pods": "110", f"example.com/device-{number // 10}": "8"}
        images = [{"names": [f"image-{number + n}"], "sizeBytes": 10**8} for n in range(20)]
        status = {"capacity": room, "allocatable": room, "images": images}
        self._put(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status})
        self._nodes.append(name)
        self.nodes_created += 1

    def _change_node(self) -> None:
        """An autoscaler marks a node with the time, and takes an earlier mark away."""
        value = f"{self._clock.now():.0f}"
        taint = {"key": "DeletionCandidate", "value": value, "effect": "PreferNoSchedule"}
        labels = {"last-seen": value, f"check-{self.created}": "ok", f"check-{self.created - BURST}": None}
        name = self._rng.choice(self._nodes)
        patch = {"metadata": {"labels": labels}, "spec": {"taints": [taint]}}
        self._store.patch(NODES, "", name, patch, PatchType.MERGE)
        self._store.patch(
            NODES, "", self._rng.choice(self._nodes), {"spec": {"taints": None}}, PatchType.MERGE
        )

    # Pods

    def _create_pod(self) -> None:
        number, day = self.created, self._day
        labels = {"app": f"app-{number % 20}", "pod-template-hash": f"h{day}", "revision": f"{day}"}
        container: Json = {
            "name": "main",
            "image": f"image-{number % (self.nodes_created + 20)}",
            "resources": {"requests": {"cpu": "100m", "memory": f"{64 + day % 64}Mi"}},
        }
        spec: Json = {"containers": [container], "schedulerName": "default-scheduler"}
        _CONSTRAINTS[number % len(_CONSTRAINTS)](spec, day, labels)
        body = {"metadata": {"name": f"pod-{number}", "namespace": "default", "labels": labels}, "spec": spec}
        self._store.create(PODS, body, handed_over=True)
        self._pods.append(("default", f"pod-{number}"))
        self.created += 1


def _named(name: str, spec: Json) -> Json:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _plain(spec: Json, day: int, labels: Json) -> None:
    """No constraints."""


def _spread(spec: Json, day: int, labels: Json) -> None:
    selector = {"matchLabels": {"revision": labels["revision"]}}
    spec["topologySpreadConstraints"] = [
        {"topologyKey": key, "maxSkew": 5, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
        for key in (ZONE, HOSTNAME)
    ]


def _anti_affinity(spec: Json, day: int, labels: Json) -> None:
    selector = {"matchLabels": {"app": labels["app"], "revision": labels["revision"]}}
    term = {"weight": 100, "podAffinityTerm": {"topologyKey": HOSTNAME, "labelSelector": selector}}
    spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def _node_affinity(spec: Json, day: int, labels: Json) -> None:
    expression = {"key": f"check-{day}", "operator": "DoesNotExist"}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _tolerations(spec: Json, day: int, labels: Json) -> None:
    spec["tolerations"] = [{"key": f"maintenance-{day}", "operator": "Exists"}]


def _device(spec: Json, day: int, labels: Json) -> None:
    """A resource that perhaps no node offers any more: the pod waits until it is deleted."""
    resources = spec["containers"][0]["resources"]
    resources["limits"] = {f"example.com/device-{day % 7}": "1"}
    resources["requests"] = {**resources["requests"], **resources["limits"]}


def _claim(spec: Json, day: int, labels: Json) -> None:
    spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"disk-{day}"}}]


def _port(spec: Json, day: int, labels: Json) -> None:
    port = 1024 + day % 60_000
    spec["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]


_CONSTRAINTS: Final = (
    _plain,
    _spread,
    _anti_affinity,
    _node_affinity,
    _tolerations,
    _device,
    _claim,
    _plain,
    _port,
    _plain,
)
