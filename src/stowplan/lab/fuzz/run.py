"""Running cases: a living scheduler on a store in this process, every decision of it checked.

Time is virtual, so backoffs cost nothing. How long the scheduler holds the event loop is measured in CPU
time, so other processes on the machine do not count; Python's garbage collector runs between cases only.
"""

import asyncio
import asyncio.events
import dataclasses
import gc
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple, TextIO

from stowplan.api.catalogue import (
    COMPOSITE_POD_GROUPS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.meta import Object
from stowplan.api.releases import DEFAULT
from stowplan.api.requests import DeleteOptions, PatchType
from stowplan.api.status import ApiError
from stowplan.config import default_config
from stowplan.lab.fuzz.cases import FuzzCase, FuzzStep, base, node, pod
from stowplan.lab.fuzz.extremes import KINDS, Json
from stowplan.lab.fuzz.feasibility import FeasibleCluster, objection
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store, StoreChange
from stowplan.runtime.clock import Hold as LoopHold
from stowplan.runtime.clock import LoopWatchdog, VirtualClock
from stowplan.runtime.clock import run as run_virtual
from stowplan.runtime.clock.watchdog import Holder
from stowplan.runtime.logs import Logger
from stowplan.scheduler import Instrument, Scheduler, Settings
from stowplan.scheduler.decisions import LastDecisions
from stowplan.scheduler.events import EventRecorder
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.metrics.families import Distribution
from stowplan.scheduler.metrics.scheduling import BatchMetrics
from stowplan.scheduler.table.changes import ChangeLog
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.tasks import WatchedSlice
from stowplan.testing.objectsizes import grown, sizes_of

SETTLED: Final = 15.0
"""Virtual seconds after which every pod has been tried: longer than the longest backoff."""

REUSED: Final = ("context.cache.table.resources._free", "context.cache.table.budgets._free")
"""Lists of numbers that will be used again: as long as the most that was ever needed at a time."""

MOST_PATHS: Final = 5
"""Number of grown containers that are named, the largest first."""

WRITTEN: Final = (
    *KINDS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    DEVICE_CLASSES,
    POD_GROUPS,
    COMPOSITE_POD_GROUPS,
)
"""Kinds that cases write, in the order in which they are deleted."""

GROUP_GATES: Final = FeatureGates(
    dict.fromkeys(("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup"), True), DEFAULT
)

BESIDE: Final = "beside-the-case"
"""The ordinary pod that comes after the writes of a case."""

PROBE: Final = "probe"
"""The ordinary pod that has to find a node after every case."""

FEASIBLE: Final = "no pod is bound to an infeasible node"
NO_ERRORS: Final = "no attempt and no event handler fails"
SURVIVES: Final = "the scheduler survives"
GIVEN_BACK: Final = "memory is given back"
QUICK: Final = "the event loop is not held"
GOES_ON: Final = "ordinary pods are scheduled"

LATE: Final = "an ordinary pod is bound within a second more than without the case"
ANSWERS: Final = "the API server takes less than a second for a write"
GROWS: Final = "twice the input costs at most twice as much"

MORE: Final = 1.0
"""Seconds of virtual and CPU time together that an ordinary pod may wait longer than without the case."""

LONGEST_HOLD: Final = 1.0
"""Seconds of CPU time for which no turn may hold the loop, regardless of the limit: /livez would not
answer."""

DOUBLED: Final = 2.5
NOISE: Final = 0.05
"""The factor by which a case may cost more than half of it, and CPU seconds on top."""

REPEATED: Final = 2
"""How often both are measured before a cost counts as too high; the smallest of each counts."""

NOTICED: Final = 0.02
"""Seconds of CPU time from which on a turn of the event loop is named."""

NO_HOLD: Final = LoopHold(0.0, 0.0, 0.0, Holder())

EXPECTED_ERRORS: Final = (
    "returns an invalid score",
    "Status after running PostFilter plugins for pod",
    "pod does not exist any more",
    "Error updating pod",
)
"""Errors that kube-scheduler reports, too: a score out of range, a PostFilter after an early rejection, a pod
that was deleted while it was being bound."""

BOUNDED: Final = (ChangeLog, LastDecisions, EventRecorder, SchedulerMetrics, BatchMetrics, Distribution)
"""Parts of a scheduler that keep up to a fixed number of entries regardless of the cluster's size."""


class FuzzFinding(NamedTuple):
    """Something that must not be: in which case, which rule, what was seen."""

    case: str
    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.case}: {self.rule}: {self.detail}"


class FuzzHold(NamedTuple):
    """The event loop was held: for how many milliseconds of CPU time, by which function, in which case."""

    ms: float
    holder: str
    case: str
    fields: str


@dataclass(frozen=True, slots=True)
class FuzzRun:
    """Parameters of a run. `size` is the length of extreme lists, `limit_ms` the time the loop may be
    held."""

    nodes: int = 20
    size: int = 300
    limit_ms: float | None = None
    slack: int = 100
    """Entries that a container may have more after a case than before; hidden growth is larger."""


@dataclass(slots=True)
class FuzzResult:
    """Result of a run."""

    cases: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[FuzzFinding] = field(default_factory=list)
    holds: list[FuzzHold] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)

    @property
    def worst(self) -> FuzzHold | None:
        return max(self.holds, default=None)

    def include(self, other: "FuzzResult") -> None:
        """Add what came of other cases."""
        self.cases += other.cases
        self.counts.update(other.counts)
        self.findings += other.findings
        self.holds += other.holds
        self.refusals.update(other.refusals)

    def add(self, case: FuzzCase, rule: str, detail: str) -> None:
        found = FuzzFinding(case.name, rule, detail[:400])
        if found not in self.findings:
            self.findings.append(found)


def run_cases(
    run: FuzzRun, cases: Iterable[FuzzCase], show: Callable[[FuzzCase], None] = lambda case: None
) -> FuzzResult:
    """Run cases one after the other on one cluster; `show` is called after each."""

    watchdog = LoopWatchdog(limit=NOTICED, by_cpu=True)

    async def main(clock: VirtualClock) -> FuzzResult:
        fuzz = _Fuzz(run, clock, watchdog, show)
        with warnings.catch_warnings():
            warnings.showwarning = fuzz.warned
            return await fuzz.run(list(cases))

    gc.disable()
    try:
        with watchdog:
            return run_virtual(main, watchdog=watchdog)
    finally:
        gc.enable()


class _Fuzz:
    def __init__(
        self, run: FuzzRun, clock: VirtualClock, watchdog: LoopWatchdog, show: Callable[[FuzzCase], None]
    ) -> None:
        self._run = run
        self.watchdog = watchdog
        self._clock = clock
        self._show = show
        self._result = FuzzResult()
        self._uids = Random("uids")
        self._store = Store(
            clock,
            self._uids,
            history=200,
            event_limit=1000,
            admission=ClusterAdmission(disabled=["ServiceAccount", "TaintNodesByCondition"]),
        )
        self._versions = _Versions(self._store)
        create_bootstrap_objects(self._store)
        self._base: dict[tuple[Resource, str, str], Json] = {}
        for resource, body in base(run.nodes):
            self._store.create(resource, body)
        for resource in WRITTEN:
            for obj in self._store.all(resource):
                self._base[resource, *_key(obj)] = obj
        self._case = FuzzCase("start", ())
        self._uid_states: dict[tuple[str, str], Any] = {}
        self._before: dict[str, int] | None = None
        self._unwatched = 0.0
        """Seconds of CPU time that were no work of the scheduler."""
        self._segment = 0.0
        """The CPU time of the scheduler when the last writes of a case began."""
        self._cost = 0.0
        self._has_groups = False
        self._without = 0.0

    async def run(self, cases: Sequence[FuzzCase]) -> FuzzResult:
        """A scheduler that dies is a finding; the cases that are left get a new one."""
        left = list(cases)
        while left:
            scheduler = self._scheduler(left[0])
            try:
                async with scheduler.running():
                    await self._run_with(scheduler, left)
            except Exception as failure:  # noqa: BLE001 - any exception is the finding
                last = traceback.extract_tb(failure.__traceback__)[-1]
                where = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
                self._find(SURVIVES, f"{type(failure).__name__}: {failure} ({where})")
                left = left[1:]
                self._restore()
        return self._result

    def _scheduler(self, first: FuzzCase) -> Scheduler:
        settings = Settings.of(default_config(GROUP_GATES) if first.groups else None)
        scheduler = Scheduler(
            InProcessClient(self._store),
            dataclasses.replace(settings, kept_decisions=1),
            clock=self._clock,
            rng=Random("fuzz"),
            logger=Logger(self._log),
        )
        scheduler.context.slice = WatchedSlice(self.watchdog)
        _Judge(self, scheduler)
        return scheduler

    async def _run_with(self, scheduler: Scheduler, left: list[FuzzCase]) -> None:
        """The next cases that need the same feature gates."""
        groups = left[0].groups
        if self._before is None or groups != self._has_groups:
            self._has_groups = groups
            await self._warm_up(scheduler)
        while left and left[0].groups == groups:
            self._case = left[0]
            self.watchdog.longest = NO_HOLD
            await self._run_case(scheduler, left[0])
            await self._check_growth(scheduler, left[0])
            self._check_hold()
            self._result.cases += 1
            self._show(left[0])
            left.pop(0)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Leave out what the block does: it is no work of the scheduler."""
        began = time.thread_time()
        with self.watchdog.uncounted():
            yield
        self._unwatched += time.thread_time() - began

    def _worked(self) -> float:
        """Seconds of CPU time that the scheduler has had so far."""
        return time.thread_time() - self._unwatched

    async def _warm_up(self, scheduler: Scheduler) -> None:
        """Allocate what the first pods make a scheduler allocate, which does not count as growth."""
        labels = node("node-1", generation="1")["metadata"]["labels"]
        for number, selector in enumerate(({}, {}, labels, labels, {})):
            steps = (FuzzStep("create", PODS, pod(f"warm-{number}", nodeSelector=selector)), FuzzStep("wait"))
            await self._run_case(scheduler, FuzzCase("warm-up", steps), compare=False)
        with self.uncounted():
            self._before = self._sizes(scheduler)

    async def _run_case(self, scheduler: Scheduler, case: FuzzCase, *, compare: bool = True) -> None:
        self._segment = self._worked()
        for step in case.steps:
            if step.verb == "wait":
                await self._wait(compare)
            else:
                with self.uncounted():
                    self._write(step)
        self._check_attempts()
        await self._check_probe(scheduler)
        self._restore()
        await asyncio.sleep(2 * SETTLED)
        await self._schedule_ordinary_pods()
        with self.uncounted():
            self._versions.prune()
            if compare:
                self._compare_sizes(scheduler)

    async def _wait(self, compare: bool) -> None:
        """Let the scheduler work on what was written, with an ordinary pod that comes after it."""
        began, worked, waited = self._clock.now(), self._worked(), 0.0

        def changed(change: StoreChange) -> None:
            nonlocal waited
            if _key(change.object) == key and change.object["spec"].get("nodeName") and not waited:
                waited = self._clock.now() - began + self._worked() - worked

        beside = pod(BESIDE, app=BESIDE)
        key = _key(beside)
        watch = self._store.watch(PODS, changed)
        try:
            with self.uncounted():
                self._store.create(PODS, beside)
            await asyncio.sleep(SETTLED)
        finally:
            watch.close()
        self._cost, self._segment = self._worked() - self._segment, self._worked()
        with self.uncounted():
            if self._store.find(PODS, *key) is not None:
                self._store.delete(PODS, *key, DeleteOptions(grace_period_seconds=0))
        if not compare:
            self._without = max(self._without, waited)
        elif waited > self._without + MORE:
            self._find(LATE, f"{waited:.1f} s, of which most is CPU time; without it {self._without:.2f} s")

    async def _check_growth(self, scheduler: Scheduler, case: FuzzCase) -> None:
        """Compare the cost of a case with that of half of it; measured again if it seems too much."""
        if case.half is None:
            return
        whole, half = [self._cost], list[float]()
        for _ in range(REPEATED):
            await self._run_case(scheduler, case.half)
            half.append(self._cost)
            if min(whole) <= DOUBLED * min(half) + NOISE:
                return
            await self._run_case(scheduler, case)
            whole.append(self._cost)
        self._find(GROWS, f"{min(whole):.2f} s of CPU time, half of it {min(half):.2f} s")

    async def _schedule_ordinary_pods(self) -> None:
        """Caches may keep the last pod, or the last with a volume: make those ordinary pods."""
        self._store.create(PODS, pod(PROBE))
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "nowhere"}}
        self._store.create(PODS, pod(f"{PROBE}-with-volume", volumes=[volume]))
        await asyncio.sleep(SETTLED)
        self._restore()
        await asyncio.sleep(SETTLED)

    # Writing

    def _write(self, step: FuzzStep) -> None:
        self._result.counts["writes"] += 1
        began = time.thread_time()
        try:
            self._perform(step)
        except ApiError as refusal:
            self._result.counts["refused"] += 1
            self._result.refusals[f"{step}: {refusal.message[:160]}"] += 1
        except Exception as failure:  # noqa: BLE001 - any failure of an API server to answer is a finding
            self._find(ANSWERS, f"{step}: {type(failure).__name__}: {failure}")
        took = time.thread_time() - began
        if took > MORE:
            self._find(ANSWERS, f"{step}: {took:.1f} s of CPU time")

    def _perform(self, step: FuzzStep) -> None:
        store, resource, key = self._store, step.resource, step.key
        replaces = step.verb in ("recreate", "reuse-uid", "delete")
        if replaces and store.find(resource, *key) is not None:
            store.delete(resource, *key, DeleteOptions(grace_period_seconds=0))
        if step.verb == "reuse-uid" and key in self._uid_states:
            now = self._uids.getstate()
            self._uids.setstate(self._uid_states[key])
            try:
                store.create(resource, step.body)
            finally:
                self._uids.setstate(now)
        elif step.verb in ("create", "recreate", "reuse-uid"):
            self._uid_states[key] = self._uids.getstate()
            store.create(resource, step.body)
        elif step.verb == "patch":
            store.patch(resource, *key, step.body, PatchType.MERGE)
        elif step.verb == "status":
            patch = {"status": step.body["status"]}
            store.patch(resource, *key, patch, PatchType.MERGE, subresource="status")

    def _restore(self) -> None:
        """Delete what a case has left, and put back what it has changed."""
        with self.uncounted():
            self._restore_all()

    def _restore_all(self) -> None:
        self._uid_states.clear()
        for resource in WRITTEN:
            for obj in self._store.all(resource):
                if self._base.get((resource, *_key(obj))) is not obj:
                    self._remove(resource, obj)
        for (resource, namespace, name), body in self._base.items():
            if self._store.find(resource, namespace, name) is None:
                self._base[resource, namespace, name] = self._store.create(resource, body)

    def _remove(self, resource: Resource, obj: Json) -> None:
        key = _key(obj)
        if obj["metadata"].get("finalizers"):
            self._store.patch(resource, *key, {"metadata": {"finalizers": None}}, PatchType.MERGE)
        if self._store.find(resource, *key) is not None:
            self._store.delete(resource, *key, DeleteOptions(grace_period_seconds=0))
        left = self._store.find(resource, *key)
        if left is not None and resource == NAMESPACES:
            body = {**left, "spec": {**left["spec"], "finalizers": []}}
            self._store.update(resource, body, subresource="finalize")

    # Checking

    def _find(self, rule: str, detail: str) -> None:
        self._result.add(self._case, rule, detail)

    def _log(self, level: int, text: str, values: Mapping[str, object]) -> None:
        if level >= 0:
            return
        shown = f"{text} {' '.join(f'{name}={value}' for name, value in values.items())}"
        if not any(expected in shown for expected in EXPECTED_ERRORS):
            self._find(NO_ERRORS, shown)

    def warned(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        """A warning of numpy is a sum that wraps or a number that is none."""
        place = f"{filename.rpartition('/')[2]}:{lineno}"
        self._find(NO_ERRORS, f"{category.__name__}: {message} ({place})")

    def _check_attempts(self) -> None:
        for obj in self._store.all(PODS):
            self._result.counts["bound" if obj["spec"].get("nodeName") else "pending"] += 1
            for condition in obj.get("status", {}).get("conditions") or ():
                message = condition.get("message", "")
                expected = any(one in message for one in EXPECTED_ERRORS)
                if condition.get("reason") == "SchedulerError" and not expected:
                    self._find(NO_ERRORS, f"{obj['metadata']['name']}: {message}")

    async def _check_probe(self, scheduler: Scheduler) -> None:
        """An ordinary pod finds a node, if there is one that can take it."""
        self._store.create(PODS, pod(PROBE))
        await asyncio.sleep(SETTLED)
        probe = self._store.get(PODS, *_key(pod(PROBE)))
        if probe["spec"].get("nodeName"):
            return
        cluster = self._versions.known(scheduler)
        free = [name for name in cluster.nodes if objection(cluster, probe, name) is None]
        if free:
            self._find(GOES_ON, f"{len(free)} nodes could take the probe, {free[0]} for one")

    def _compare_sizes(self, scheduler: Scheduler) -> None:
        assert self._before is not None
        after = self._sizes(scheduler)
        more = grown(self._before, after, self._run.slack)
        named = [(path, sizes) for path, sizes in more.items() if path not in REUSED]
        for path, (before, now) in named[:MOST_PATHS]:
            self._find(GIVEN_BACK, f"{path}: {now:,} entries after {before:,}")
        for path in more:
            self._before[path] = after[path]

    def _sizes(self, scheduler: Scheduler) -> dict[str, int]:
        """Sizes without the results kept for classes of pods, which have a separate budget.

        Tables that are swept now and then are swept when their sizes are read.
        """
        for profile in scheduler.context.profiles.values():
            profile.framework.forget_classes()
        table = scheduler.context.cache.table
        gc.collect()
        table.sizes()
        return sizes_of(
            scheduler, without=(self, self._store), without_types=BOUNDED, array_unit=table.capacity
        )

    def judge(self, scheduler: Scheduler, info: PodInfo, node: str) -> None:
        """Check a decision by rules that share nothing with the scheduler."""
        self._result.counts["decisions"] += 1
        body = self._versions.body(PODS, info.pod)
        problem = objection(self._versions.known(scheduler), body, node)
        if problem is not None:
            self._find(FEASIBLE, f"{info.key} to {node}: {problem}")

    def _check_hold(self) -> None:
        longest = self.watchdog.longest
        holder = longest.holder.where or "somebody"
        if longest.holder.plugin:
            holder = f"{holder} ({longest.holder.plugin})"
        hold = FuzzHold(round(longest.cpu * 1000, 1), holder, self._case.name, self._case.fields)
        self._result.holds.append(hold)
        limits = (1000 * LONGEST_HOLD, self._run.limit_ms, self._case.hold_ms)
        if hold.ms > min(limit for limit in limits if limit is not None):
            self._find(QUICK, f"{hold.ms:,.0f} ms by {hold.holder}, with {hold.fields}")


class _Versions:
    """Every version of the objects that decisions depend on, as JSON, by resource and resourceVersion."""

    RESOURCES: Final = (PODS, NODES, NAMESPACES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS)

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bodies: dict[tuple[Resource, str], Json] = {}
        for resource in self.RESOURCES:
            self._follow(resource)

    def _follow(self, resource: Resource) -> None:
        def changed(change: StoreChange) -> None:
            self._bodies[resource, change.object["metadata"]["resourceVersion"]] = change.object

        self._store.watch(resource, changed)

    def prune(self) -> None:
        """Keep the current versions only."""
        self._bodies = {
            (resource, obj["metadata"]["resourceVersion"]): obj
            for resource in self.RESOURCES
            for obj in self._store.all(resource)
        }

    def body(self, resource: Resource, obj: Object) -> Json:
        return self._bodies[resource, obj.metadata.resource_version]

    def known(self, scheduler: Scheduler) -> FeasibleCluster:
        """The cluster as the scheduler knows it right now, with the pods it has assumed."""
        informers, cache = scheduler.informers, scheduler.context.cache
        pods = [self.body(PODS, one) for one in informers.pods.objects.values()]
        nodes = [self.body(NODES, one) for one in informers.nodes.objects.values()]
        storage = cache.table.storage
        claims = [self.body(PERSISTENT_VOLUME_CLAIMS, one) for one in storage.claims.values()]
        volumes = [self.body(PERSISTENT_VOLUMES, one) for one in storage.volumes.values()]
        bound = {one["metadata"]["uid"]: one["spec"].get("nodeName", "") for one in pods}
        where = {uid: name for uid, name in {**bound, **cache.assumed}.items() if name and uid in bound}
        return FeasibleCluster(
            nodes={one["metadata"]["name"]: one for one in nodes},
            pods={one["metadata"]["uid"]: one for one in pods},
            where=where,
            namespaces={one["metadata"]["name"]: one for one in self._store.all(NAMESPACES)},
            claims={_key(one): one for one in claims},
            volumes={one["metadata"]["name"]: one for one in volumes},
        )


class _Judge(Instrument):
    """Looks at every decision with the rules of feasibility.py, before it is assumed."""

    def __init__(self, fuzz: "_Fuzz", scheduler: Scheduler) -> None:
        self._fuzz = fuzz
        self._scheduler = scheduler
        scheduler.install(self)

    def assuming(self, pod: PodInfo, node: str) -> None:
        with self._fuzz.uncounted():
            self._fuzz.judge(self._scheduler, pod, node)


def _key(obj: Json) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
