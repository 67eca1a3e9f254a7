"""A scenario at work: the real scheduler in virtual time, against a store in this process.

The scheduler is the one of `stowplan run`: informers, queue, backoff, hints, preemption, binding cycles. What
it talks to is the store of `stowplan up` without HTTP and managed fields, which it cannot tell apart. Pods of
workloads have passed the API server's admission before they are stored (`admission`); events are not kept.
Around it are kubelets that start and end pods, controllers that create evicted pods again, failing nodes and
an autoscaler, each as simple as it says. The scheduler itself takes no time: what pods wait for is room,
backoff and other pods.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final

import msgspec

from stowplan.api.catalogue import NODES, PODS, Catalogue, Resource
from stowplan.api.meta import timestamp
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.requests import ORDINARY_DELETION, DeleteOptions, Json, PatchType
from stowplan.api.writes import Binding
from stowplan.client import Writer
from stowplan.client.interface import Body
from stowplan.config import ConfigError
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import DELETED, Store, StoreChange
from stowplan.runtime.clock import VirtualClock
from stowplan.runtime.clock import run as run_virtual
from stowplan.runtime.gc_tuning import calm_collector
from stowplan.scheduler.scheduler import Scheduler
from stowplan.scheduler.settings import Settings
from stowplan.simulate.contents import as_listed
from stowplan.simulate.scenario.admission import PlannedPod, ScenarioAdmission
from stowplan.simulate.scenario.agenda import Agenda, arrivals, drawn
from stowplan.simulate.scenario.autoscaler import Autoscaler
from stowplan.simulate.scenario.measures import Measures, Metric
from stowplan.simulate.scenario.model import Failure, NodeGroup, Scenario, Workload
from stowplan.simulate.scenario.objects import UNREACHABLE, node_body, tolerated_for
from stowplan.simulate.scenario.runlog import RunLog

DETECTED_AFTER: Final = 40.0
"""Seconds until a node that is silent counts as unreachable, as in the node lifecycle controller."""

_TAINTS: Final = tuple({"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute"))
_ZONE: Final = "topology.kubernetes.io/zone"
_AT_ONCE: Final = 0

Progress = Callable[[float], None]
"""Told the second of the run, at every sample."""


def _silent(second: float) -> None:
    """Nobody wants to know."""


def run(
    scenario: Scenario,
    settings: Settings,
    *,
    seed: int | None = None,
    progress: Progress = _silent,
    metrics: Sequence[Metric] = (),
    log: RunLog | None = None,
) -> Measures:
    """Run a scenario with a configuration. The same scenario, settings and seed give the same measures.

    `metrics` are measured at every sample, `log` gets a row for each pod and node. Raises ConfigError for a
    configuration with extenders.
    """
    check(settings)
    seed = scenario.seed if seed is None else seed

    async def main(clock: VirtualClock) -> Measures:
        return await World(scenario, settings, seed, clock, metrics, log).run(progress)

    return run_virtual(main)


def check(settings: Settings) -> None:
    """Raises ConfigError for a configuration with extenders: virtual time cannot wait for them."""
    if settings.config.extenders:
        raise ConfigError("build", "extenders: expected none: a simulation cannot call them")


class _NoEvents(Writer):
    """Takes events and forgets them: nothing in a simulation reads them but the log of pods."""

    def __init__(self, log: RunLog | None) -> None:
        self._log = log

    async def create(self, resource: Resource, body: Body, *, namespace: str = "") -> Json:
        if self._log is not None:
            self._log.recorded(
                msgspec.json.decode(body) if isinstance(body, bytes) else msgspec.to_builtins(body)
            )
        return {}

    async def update(self, resource: Resource, body: Body, *, subresource: str = "") -> Json:
        return {}

    async def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions = ORDINARY_DELETION
    ) -> None:
        """Nothing is kept."""

    async def bind(self, binding: Binding) -> None:
        raise RuntimeError("this client is for events, which are never bound")

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Body | Sequence[Any],
        kind: PatchType = PatchType.STRATEGIC,
        *,
        subresource: str = "",
    ) -> Json:
        return {}


class World:
    """One run."""

    def __init__(
        self,
        scenario: Scenario,
        settings: Settings,
        seed: int,
        clock: VirtualClock,
        metrics: Sequence[Metric] = (),
        log: RunLog | None = None,
    ) -> None:
        self.scenario = scenario
        self.clock = clock
        self.agenda = Agenda()
        self._seed = seed
        self.store = Store(clock, self.rng("store"), history=4096)
        self.scheduler = Scheduler(
            InProcessClient(self.store), settings, clock=clock, rng=Random(seed), events=_NoEvents(log)
        )
        if log is not None:
            self.scheduler.install(log)
        self.measures = Measures(scenario, seed, self.scheduler.context.cache.table, metrics=metrics, log=log)
        self.nodes = Nodes(self)
        self.pods = Pods(self, ScenarioAdmission(scenario, settings.gates))
        groups = [group for group in scenario.groups if group.autoscale is not None]
        self.autoscaler = Autoscaler(self, groups, settings) if groups else None

    def rng(self, who: str) -> Random:
        """A generator for one purpose, so that one more draw there changes nothing here."""
        return Random(f"{who} {self._seed}")

    async def run(self, progress: Progress = _silent) -> Measures:
        """The whole of it."""
        self._load()
        for group in self.scenario.groups:
            for _ in range(group.count):
                self.nodes.add(group)
        self.pods.begin()
        self.nodes.begin()
        if self.autoscaler is not None:
            self.autoscaler.begin()
        async with self.scheduler.running():
            with calm_collector():
                self._sample(progress)
                await self.agenda.run(self.scenario.duration)
        self.measures.finish(self.scenario.duration)
        return self.measures

    def _load(self) -> None:
        """Take in the objects of the scenario, in the order in which a server lists them."""
        known = {resource.kind: resource for resource in reversed(list(Catalogue()))}
        for obj in as_listed(self.scenario.objects):
            resource = known.get(type(obj).__name__)
            if resource is None:
                continue
            body: Json = msgspec.json.decode(msgspec.json.encode(obj))
            body |= {"apiVersion": resource.api_version, "kind": resource.kind}
            if isinstance(obj, Node):
                self.nodes.took(obj.name, "")
            elif isinstance(obj, Pod) and obj.is_finished:
                continue
            self.store.load(resource, body, handed_over=True)

    def _sample(self, progress: Progress) -> None:
        second = self.agenda.second
        self.measures.sample(second)
        progress(second)
        following = second + self.scenario.sample
        if following < self.scenario.duration:
            self.agenda.at(following, self._sample, progress)


class Nodes:
    """The nodes of the run, by group, and their failures."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.rng("failures")
        self._made: dict[str, int] = {}
        self._number = 0
        self.of_group: dict[str, dict[str, None]] = {group.name: {} for group in world.scenario.groups}
        self._group_of: dict[str, str] = {}
        self._down: dict[str, int] = {}
        """Nodes that have failed, with the number of the failure."""
        self._failures = 0

    def begin(self) -> None:
        for failure in self._world.scenario.failures:
            self._world.agenda.at(failure.at, self._fail_some, failure)
        for group in self._world.scenario.groups:
            if group.mtbf:
                self._schedule_failure(group)

    def took(self, name: str, group: str) -> None:
        """A node is there."""
        self._group_of[name] = group
        self._world.pods.idle[name] = self._world.agenda.second
        if group:
            self.of_group[group][name] = None
        self._world.measures.node_added(name, group, self._world.agenda.second)

    def body(self, group: NodeGroup) -> tuple[str, Json]:
        """The next node of a group."""
        within = self._made.get(group.name, 0)
        self._made[group.name] = within + 1
        base = group.shape.name or group.name
        name = base.replace("{}", str(within)) if "{}" in base else f"{base}-{within}"
        self._number += 1
        return name, node_body(group, name, self._number, within, self._world.clock.now())

    def add(self, group: NodeGroup) -> str:
        name, body = self.body(group)
        self._world.store.create(NODES, body, handed_over=True)
        self.took(name, group.name)
        return name

    def remove(self, name: str) -> None:
        """Remove an empty node."""
        self._world.store.delete(NODES, "", name)
        self._forget(name)

    def _forget(self, name: str) -> None:
        group = self._group_of.pop(name)
        if group:
            del self.of_group[group][name]
        self._down.pop(name, None)
        self._world.pods.idle.pop(name, None)
        self._world.measures.node_removed(name, self._world.agenda.second)

    def group_of(self, name: str) -> str:
        """The group of a node, "" for one of the scenario's objects."""
        return self._group_of.get(name, "")

    def is_up(self, name: str) -> bool:
        return name in self._group_of and name not in self._down

    # Failures

    def _schedule_failure(self, group: NodeGroup) -> None:
        """The next failure in a group: as many nodes as there are now, each failing once in `mtbf`."""
        wait = self._rng.expovariate(max(len(self.of_group[group.name]), 1) / group.mtbf)
        self._world.agenda.after(wait, self._fail_one, group)

    def _fail_one(self, group: NodeGroup) -> None:
        up = [name for name in self.of_group[group.name] if name not in self._down]
        if up:
            self.fail(self._rng.choice(up), self._rng.expovariate(1 / group.repair))
        self._schedule_failure(group)

    def _fail_some(self, failure: Failure) -> None:
        store = self._world.store
        chosen = [name for name in failure.nodes if self.is_up(name)]
        if failure.group or failure.zone:
            names = self.of_group[failure.group] if failure.group else self._group_of
            among = [name for name in names if self.is_up(name)]
            if failure.zone:
                labels = (store.get(NODES, "", name)["metadata"].get("labels") or {} for name in among)
                among = [
                    name for name, own in zip(among, labels, strict=True) if own.get(_ZONE) == failure.zone
                ]
            chosen += self._rng.sample(among, min(failure.count or len(among), len(among)))
        for name in chosen:
            self.fail(name, failure.repair)

    def fail(self, name: str, repair: float) -> None:
        """A node is not heard of any more, for `repair` seconds (0: for ever)."""
        self._failures += 1
        number = self._down[name] = self._failures
        agenda = self._world.agenda
        self._world.measures.failures += 1
        agenda.after(DETECTED_AFTER, self._detect, name, number)
        if repair:
            agenda.after(repair, self._repair, name, number)

    def _detect(self, name: str, number: int) -> None:
        if self._down.get(name) != number:
            return
        store = self._world.store
        node = store.get(NODES, "", name)
        taints = [*(node["spec"].get("taints") or ()), *map(dict, _TAINTS)]
        store.patch(NODES, "", name, {"spec": {"taints": taints}}, PatchType.MERGE)
        self._world.pods.leave(name, lambda: self._down.get(name) == number)

    def _repair(self, name: str, number: int) -> None:
        if self._down.get(name) != number:
            return
        del self._down[name]
        store = self._world.store
        node = store.get(NODES, "", name)
        taints = [one for one in node["spec"].get("taints") or () if one["key"] != UNREACHABLE]
        store.patch(NODES, "", name, {"spec": {"taints": taints or None}}, PatchType.MERGE)


class Pods:
    """Whoever creates, runs and ends pods: users, controllers and kubelets."""

    def __init__(self, world: World, admission: ScenarioAdmission) -> None:
        self._world = world
        self._admission = admission
        self._agenda = world.agenda
        self._store = world.store
        self._start_delay = world.scenario.start_delay
        self._stop_delay = world.scenario.stop_delay
        self._made: dict[str, int] = {}
        self._about: dict[str, PlannedPod] = {}
        """By uid."""
        self._not_yet: dict[str, dict[str, deque[PlannedPod]]] = {}
        """Pods that quotas did not allow and whose controllers try again, by namespace and workload."""
        self.on: dict[str, dict[str, tuple[str, str]]] = {}
        """Pods by node and uid: namespace and name."""
        self.idle: dict[str, float] = {}
        """Nodes with nothing but daemons on them, and since when."""
        self._busy: dict[str, int] = {}
        """Number of pods on a node, daemons not counted."""

    def begin(self) -> None:
        self._store.watch(PODS, self._changed)
        for pod in self._store.all(PODS):
            if pod["spec"].get("nodeName"):
                self._placed(pod)
            else:
                self._world.measures.created(pod, self._agenda.second)
        for workload in self._world.scenario.workload:
            self._next(self._coming(workload))

    # Arrivals

    def _coming(self, workload: Workload) -> Iterator[tuple[float, PlannedPod]]:
        """Pods in the order of their arrival, with the second."""
        rng, admission = self._world.rng(f"lifetimes of {workload.name}"), self._admission
        if workload.arrivals is None:
            for pod in workload.trace:
                lifetime = drawn(workload.lifetime, rng) if pod.lifetime is None else pod.lifetime
                yield pod.at, PlannedPod(admission.plan_traced(workload, pod), lifetime)
            return
        plan = admission.plan(workload)
        for second in arrivals(workload.arrivals, self._world.rng(f"arrivals of {workload.name}")):
            yield second, PlannedPod(plan, drawn(workload.lifetime, rng))

    def _next(self, coming: Iterator[tuple[float, PlannedPod]]) -> None:
        following = next(coming, None)
        if following is not None:
            second, pod = following
            self._agenda.at(second, self._arrive, coming, pod)

    def _arrive(self, coming: Iterator[tuple[float, PlannedPod]], pod: PlannedPod) -> None:
        self._create(pod)
        self._next(coming)

    def _create(self, pod: PlannedPod) -> None:
        """Create a pod, unless the API server refuses it."""
        plan = pod.plan
        refusal = plan.refusal or self._create_within_quotas(pod)
        if not refusal:
            return
        self._world.measures.refuses(plan.workload.name, refusal)
        if plan.workload.controller and not plan.refusal:
            of_namespace = self._not_yet.setdefault(plan.body["metadata"]["namespace"], {})
            of_namespace.setdefault(plan.workload.name, deque()).append(pod)

    def _create_within_quotas(self, pod: PlannedPod) -> str:
        """Create a pod if quotas allow it; why they do not, "" if they do."""
        plan = pod.plan
        name = plan.workload.name
        number = self._made.get(name, 0)
        body = {**plan.body, "metadata": {**plan.body["metadata"], "name": f"{name}-{number}"}}
        refusal = self._admission.charge(body)
        if not refusal:
            self._made[name] = number + 1
            made = self._store.create(PODS, body, handed_over=True)
            self._about[made["metadata"]["uid"]] = pod
            self._world.measures.created(made, self._agenda.second)
        return refusal

    def _try_again(self, namespace: str) -> None:
        """Controllers create what quotas did not allow before, each its own pods in their order."""
        for workload, waiting in self._not_yet.get(namespace, {}).items():
            while waiting and not self._create_within_quotas(waiting[0]):
                waiting.popleft()
                self._world.measures.refused[workload].created_later += 1

    # Kubelets

    def _changed(self, change: StoreChange) -> None:
        pod, before = change.object, change.previous
        if before is None:
            return
        node = pod["spec"].get("nodeName")
        if change.type == DELETED:
            self._gone(pod, node)
            return
        if node and not before["spec"].get("nodeName"):
            self._placed(pod)
            self._world.measures.bound(pod, self._agenda.second)
        metadata = pod["metadata"]
        if "deletionTimestamp" in metadata:
            if "deletionTimestamp" not in before["metadata"]:
                self._stops(pod)
        elif not node:
            self._world.measures.waits(pod)

    def _placed(self, pod: Json) -> None:
        metadata = pod["metadata"]
        uid, namespace, name = metadata["uid"], metadata.get("namespace", ""), metadata["name"]
        node = pod["spec"]["nodeName"]
        self.on.setdefault(node, {})[uid] = (namespace, name)
        if not _is_daemon(pod):
            self._busy[node] = self._busy.get(node, 0) + 1
            self.idle.pop(node, None)
        if uid in self._about:
            self._agenda.after(self._start_delay, self._runs, uid, namespace, name)

    def _runs(self, uid: str, namespace: str, name: str) -> None:
        pod = self._store.find(PODS, namespace, name)
        if pod is None or pod["metadata"]["uid"] != uid:
            return
        started = {**pod["status"], "phase": "Running", "startTime": timestamp(self._world.clock.now())}
        self._store.rewrite(PODS, pod, {**pod, "status": started})
        lifetime = self._about[uid].lifetime
        if lifetime is not None:
            self._agenda.after(lifetime, self._end, uid, namespace, name)

    def _end(self, uid: str, namespace: str, name: str) -> None:
        """A pod has done its work. It is deleted at once: to the scheduler a finished pod is gone."""
        pod = self._store.find(PODS, namespace, name)
        if pod is not None and pod["metadata"]["uid"] == uid and "deletionTimestamp" not in pod["metadata"]:
            self._world.measures.finished += 1
            del self._about[uid]
            self._remove(uid, namespace, name)

    def _stops(self, pod: Json) -> None:
        """Somebody deletes a pod: its kubelet ends it in the grace period, its controller makes another."""
        metadata = pod["metadata"]
        grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
        uid = metadata["uid"]
        if _is_preempted(pod):
            self._world.measures.preempted(pod)
        if grace:
            seconds = min(grace, self._stop_delay)
            self._agenda.after(seconds, self._remove, uid, metadata.get("namespace", ""), metadata["name"])
        self._again(uid)

    def _again(self, uid: str) -> None:
        about = self._about.get(uid)
        if about is not None and about.plan.workload.controller:
            self._agenda.after(0.0, self._create, about)

    def _remove(self, uid: str, namespace: str, name: str) -> None:
        pod = self._store.find(PODS, namespace, name)
        if pod is not None and pod["metadata"]["uid"] == uid:
            options = DeleteOptions(grace_period_seconds=_AT_ONCE, uid=uid)
            self._store.delete(PODS, namespace, name, options)

    def _gone(self, pod: Json, node: str | None) -> None:
        uid = pod["metadata"]["uid"]
        self._about.pop(uid, None)
        if node:
            self.on.get(node, {}).pop(uid, None)
            if not _is_daemon(pod):
                self._busy[node] -= 1
                if not self._busy[node]:
                    self.idle[node] = self._agenda.second
        self._world.measures.gone(pod, self._agenda.second)
        if self._admission.release(pod):
            self._agenda.after(0.0, self._try_again, pod["metadata"].get("namespace", ""))

    # Unreachable nodes

    def leave(self, node: str, still: Callable[[], bool]) -> None:
        """Evict pods of an unreachable node, each when it no longer tolerates that."""
        for uid, (namespace, name) in list(self.on.get(node, {}).items()):
            pod = self._store.find(PODS, namespace, name)
            seconds = None if pod is None else tolerated_for(pod)
            if seconds is not None:
                self._agenda.after(seconds, self._evict, uid, namespace, name, still)

    def _evict(self, uid: str, namespace: str, name: str, still: Callable[[], bool]) -> None:
        pod = self._store.find(PODS, namespace, name)
        if pod is None or pod["metadata"]["uid"] != uid or not still():
            return
        self._world.measures.evicted += 1
        self._again(uid)
        self._about.pop(uid, None)
        self._remove(uid, namespace, name)


def _is_preempted(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(one.get("reason") == "PreemptionByScheduler" for one in conditions)


def _is_daemon(pod: Json) -> bool:
    return any(owner.get("kind") == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or ())
