"""Replays whole runs of a scheduler with pod groups: a real queue, cache, plugins and bindings.

As in the recordings time stands still except for a millisecond per object that is created and per pod that
fails; when only groups in backoff are left it advances to the next whole second. After each cycle all writes
have taken effect before the next begins. Where a scheduler has a choice among equals, it takes the first by
name.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeVar

import msgspec

from stowplan.api.catalogue import (
    COMPOSITE_POD_GROUPS,
    EVENTS,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    Catalogue,
    Resource,
)
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.meta import Object
from stowplan.api.releases import Release
from stowplan.api.requests import EVERY_OBJECT, ORDINARY_DELETION, DeleteOptions, PatchType, Selection
from stowplan.client.interface import Body, WatchEvent
from stowplan.config import default_config
from stowplan.config import load as load_config
from stowplan.lab.verify.group_facts import GroupFacts, evaluation_facts
from stowplan.lab.verify.recording import Line
from stowplan.lab.verify.report import FactDifference, VerifyReport
from stowplan.localcluster.client import BUFFER, InProcessClient, InProcessWatch
from stowplan.localcluster.store import Store, Watcher
from stowplan.localcluster.store.watchcache import Sink
from stowplan.runtime.clock import run
from stowplan.scheduler import Scheduler, Settings
from stowplan.scheduler.cycle.failure_handler import Failure
from stowplan.scheduler.cycle.instrument import Instrument
from stowplan.scheduler.events import SCHEDULER_ERROR, UNSCHEDULABLE
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.plugins.dynamicresources.plugin import DynamicResources
from stowplan.scheduler.queue.queued_group import QueuedGroup
from stowplan.scheduler.queue.queued_pod import QueuedPod

Json = dict[str, Any]
T = TypeVar("T", bound=Object)

_MOST_TRIES: Final = 3
"""A batch ends with the third cycle of any of its groups and pods."""
_STEP: Final = 0.5
_START: Final = 1_748_736_000.0
"""2025-06-01T00:00:00Z: when the first pods that are bound start."""
_CONDITION: Final = "PodGroupInitiallyScheduled"
_IN_CYCLES: Final = (
    "kind",
    "popped",
    "attempt",
    "atMs",
    "pods",
    "placements",
    "placementScores",
    "bestPlacements",
    "algorithm",
    "evaluations",
    "podGroupPostFilter",
    "withoutVictims",
    "final",
    "waitingOnPreemption",
    "failures",
    "bound",
    "deleted",
    "condition",
    "conditions",
    "events",
)
_QUEUES: Final = {"incomplete": "incompletePodGroup", "gated": "unschedulable"}


def replay_line(line: Line, report: VerifyReport) -> None:
    """Replay the run of a line into a report. Raises RecordingError."""
    case = line.case()
    with line.case_errors():
        expected = case["expected"]
        actual = run(lambda clock: GroupReplay(case, line.release).run())
        name = case["name"]
        for place, (wanted, found) in enumerate(_paired(expected["cycles"], actual["cycles"])):
            _drop_preempting_pods(wanted.get("events") or ())
            for field in _IN_CYCLES:
                one, other = wanted.get(field), found.get(field)
                if one is not None or other not in (None, []):
                    where = f"{name} cycle {place} ({wanted.get('popped', found.get('popped'))})"
                    _compare(report, line.family, field, where, one, other)
        for field in ("pods", "podGroups", "compositePodGroups", "claims"):
            wanted, found = expected.get(field) or {}, actual.get(field) or {}
            for key in {**wanted, **found} if field in expected else ():
                where = f"{name} {key}"
                _compare(report, line.family, f"end: {field}", where, wanted.get(key), found.get(key))
        _compare(report, line.family, "end: stopped", name, expected["stopped"], actual["stopped"])


def _drop_preempting_pods(events: Iterable[Json]) -> None:
    """Leave out the pod that an event about its victim is related to.

    Recorded pods say what kind they are. Those that an API server sends do not, and then kube-scheduler finds
    no reference to the pod: its events are without (so observed on a running system).
    """
    for event in events:
        if event.get("related", "").startswith("Pod/"):
            del event["related"]


def _paired(one: list[Json], other: list[Json]) -> Iterator[tuple[Json, Json]]:
    for place in range(max(len(one), len(other))):
        yield one[place] if place < len(one) else {}, other[place] if place < len(other) else {}


def _compare(report: VerifyReport, family: str, subject: str, where: str, wanted: Any, found: Any) -> None:
    if subject == "events":
        wanted = [_as_written(event) for event in wanted or ()]
    wanted, found = _plain(wanted), _plain(found)
    equal = wanted == found
    report.add(family, subject, equal, None if equal else FactDifference(where, wanted, found))


def _as_written(event: Json) -> Json:
    """An event as a real one is written: a pod that preempts is not named in it as a related object."""
    if str(event.get("related", "")).startswith("Pod/"):
        return {name: value for name, value in event.items() if name != "related"}
    return event


def _plain(value: Any) -> Any:
    """A value without what says nothing: fields that are empty."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if one not in (None, [], {})}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


class _Clock:
    """Stands still unless it is moved on."""

    def __init__(self) -> None:
        self.milliseconds = 0

    def now(self) -> float:
        return _START + self.milliseconds / 1000

    def monotonic(self) -> float:
        return self.milliseconds / 1000


class _FirstOnes(Random):
    """Chance that always takes the first."""

    def randrange(self, *args: Any, **kwargs: Any) -> int:
        return 0


class _Server(InProcessClient):
    """An API server where deleted pods are gone at once.

    While `told` is not set, watchers get no changes.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.deleted: list[str] = []
        self.nominated: set[str] = set()
        """The pods that are known to have a nominated node."""
        self.told = asyncio.Event()
        self.told.set()

    def watch(
        self,
        resource: Resource,
        cls: type[T],
        *,
        namespace: str = "",
        selection: Selection = EVERY_OBJECT,
        since: str = "",
        initial_events: bool = False,
    ) -> InProcessWatch[T]:
        def begin(sink: Sink) -> Watcher:
            return self._store.watch(
                resource,
                sink,
                namespace=namespace,
                selection=selection,
                since=int(since) if since else None,
                initial_events=initial_events,
                bookmarks=True,
            )

        return _HeldWatch(begin, cls, BUFFER, self.told)

    async def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions = ORDINARY_DELETION
    ) -> None:
        if resource is PODS:
            options = msgspec.structs.replace(options, grace_period_seconds=0)
            self.deleted.append(f"{namespace}/{name}")
        await super().delete(resource, namespace, name, options)

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
        status = patch.get("status") if isinstance(patch, dict) else None
        if resource is PODS and isinstance(status, dict) and status.get("nominatedNodeName", "") is None:
            assert isinstance(patch, dict)
            # kube-scheduler patches the difference to its informer's object. As watchers get no events before
            # the cycle is over, it does not know of the nomination that it wrote before binding.
            if not self.told.is_set() and f"{namespace}/{name}" not in self.nominated:
                patch = {**patch, "status": {k: v for k, v in status.items() if k != "nominatedNodeName"}}
        return await super().patch(resource, namespace, name, patch, kind, subresource=subresource)


class _HeldWatch(InProcessWatch[T]):
    """A watch that says nothing until everybody may be told."""

    def __init__(
        self, begin: Callable[[Sink], Watcher], cls: type[T], buffer: int, told: asyncio.Event
    ) -> None:
        super().__init__(begin, cls, buffer)
        self._told = told

    async def __anext__(self) -> WatchEvent[T]:
        event = await super().__anext__()
        await self._told.wait()
        return event

    def ready(self, limit: int) -> Sequence[WatchEvent[T]]:
        return super().ready(limit) if self._told.is_set() else ()


class _Watcher(Instrument):
    """Takes down the pods that fail; each takes a millisecond."""

    def __init__(self, clock: _Clock) -> None:
        self._clock = clock
        self.failures: list[Json] = []

    def failed(self, queued: QueuedPod, failure: Failure, seconds: float) -> None:
        self._clock.milliseconds += 1
        self.failures.append(
            {
                "pod": queued.key,
                "reason": UNSCHEDULABLE if failure.rejected else SCHEDULER_ERROR,
                "message": failure.message,
                "nominatedNode": failure.nominated_node,
            }
        )


class GroupReplay:
    """One recorded run."""

    def __init__(self, case: Mapping[str, Any], release: Release) -> None:
        gates = dict.fromkeys(case["gates"], True)
        self._gates = FeatureGates({"OpportunisticBatching": False, **gates}, release)
        self._case = case
        self._clock = _Clock()
        self._catalogue = Catalogue()
        self._store = Store(self._clock, Random(1), catalogue=self._catalogue)
        self._client = _Server(self._store)
        self._watcher = _Watcher(self._clock)
        self._cycles: list[Json] = []
        self._stopped: list[str] = []
        self._tries: Counter[str] = Counter()
        for obj in case["objects"]:
            self._load(obj)
        self._scheduler = self._made()
        self._facts = GroupFacts(self._scheduler.context.cache.table)
        if self._scheduler.groups is not None:
            self._scheduler.install(self._facts)
        self._evaluations: list[Json] = []

    def _made(self) -> Scheduler:
        config = self._case["config"]
        loaded = default_config(self._gates)
        if config is not None:
            loaded = load_config(msgspec.json.encode(config), self._gates)
        scheduler = Scheduler(
            self._client,
            Settings.of(loaded, wake_failed_groups=False),
            clock=self._clock,
            rng=_FirstOnes(1),
            instruments=(self._watcher,),
        )
        scheduler.finder.choose = self._choose
        for profile in scheduler.context.profiles.values():
            devices = profile.framework.plugins.get("DynamicResources")
            if isinstance(devices, DynamicResources):
                devices.mixes_up_shared = True
        return scheduler

    def _choose(self, evaluation: Evaluation) -> tuple[int, int]:
        """The first of the best nodes by name."""
        table, rows = evaluation.cycle.table, evaluation.best_rows().tolist()
        row = min(rows, key=table.name_of)
        evaluation.check_choice(row)
        if evaluation.cycle.placement is None:
            self._evaluations.append(evaluation_facts(evaluation))
        return row, len(rows)

    async def run(self) -> Json:
        """The run from the first batch to the last, and what is left in the end."""
        async with self._scheduler.watching():
            await self._scheduler.synced()
            await _settle()
            pods = iter(self._case["pods"])
            steps = self._case.get("steps") or []
            for batch, count in enumerate(self._case["batches"]):
                await self._change(steps[batch] if batch < len(steps) else {})
                for _ in range(count):
                    await self._create(next(pods))
                await self._schedule(batch)
            return self._end()

    # Environment of the scheduler

    def _load(self, obj: Json) -> None:
        resource = self._catalogue.of_kind(obj["apiVersion"], obj["kind"])
        if resource is None:
            raise ValueError(f"kind {obj['kind']} of {obj['apiVersion']} is not known")
        self._store.load(resource, obj)

    async def _create(self, obj: Json) -> None:
        self._load(obj)
        self._clock.milliseconds += 1
        await _settle()

    async def _change(self, step: Mapping[str, Any]) -> None:
        for obj in step.get("add") or ():
            await self._create(obj)
        for obj in step.get("update") or ():
            resource = self._catalogue.of_kind(obj["apiVersion"], obj["kind"])
            assert resource is not None
            for subresource in ("", "status"):
                about = obj["metadata"]
                present = self._store.get(resource, about.get("namespace", ""), about["name"])["metadata"]
                metadata = {**about, "uid": present["uid"], "resourceVersion": present["resourceVersion"]}
                self._store.update(resource, {**obj, "metadata": metadata}, subresource=subresource)
            await _settle()
        for name in step.get("delete") or ():
            kind, namespace, name = name.split("/")
            resource = next(one for one in (PODS, POD_GROUPS, COMPOSITE_POD_GROUPS) if one.kind == kind)
            self._store.delete(resource, namespace, name, DeleteOptions(0))
            await _settle()

    def _start_pods(self, bound: Mapping[str, str], order: list[str], cycle: int) -> None:
        """The kubelet's part: pods that have a node run, and are no longer nominated."""
        for key in bound:
            namespace, name = key.split("/")
            pod = self._store.get(PODS, namespace, name)
            status = {k: v for k, v in pod["status"].items() if k != "nominatedNodeName"}
            second = 100 * cycle + order.index(key)
            began = f"2025-06-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
            status |= {"phase": "Running", "startTime": began}
            self._store.update(PODS, {**pod, "status": status}, subresource="status")

    # Cycles

    async def _schedule(self, batch: int) -> None:
        queue = self._scheduler.context.queue
        self._tries.clear()
        while True:
            queued = queue.pop()
            if queued is None:
                if not self._wait(batch):
                    return
                continue
            cycle = await self._cycle(queued, batch)
            key = f"{cycle['kind']} {cycle['popped']}"
            self._tries[key] += 1
            if self._tries[key] == _MOST_TRIES:
                self._stopped.append(f"batch {batch}: {key} was tried {_MOST_TRIES} times")
                return

    def _wait(self, batch: int) -> bool:
        """Advance to the next whole second if some backoff is still running; False if none is left."""
        queue = self._scheduler.context.queue
        if not queue.counts()["backoff"]:
            return False
        self._clock.milliseconds = self._clock.milliseconds // 1000 * 1000 + 1000
        queue.flush_backoff()
        return True

    async def _cycle(self, queued: QueuedPod, batch: int) -> Json:
        number = len(self._cycles)
        facts: Json = {"cycle": number, "batch": batch, "atMs": self._clock.milliseconds}
        before = {_key(pod): pod["spec"].get("nodeName", "") for pod in self._store.all(PODS)}
        events = {one["metadata"]["uid"] for one in self._store.all(EVENTS)}
        self._watcher.failures, self._client.deleted, self._evaluations = [], [], []
        self._facts.clear()
        self._client.nominated = {
            _key(pod) for pod in self._store.all(PODS) if pod.get("status", {}).get("nominatedNodeName")
        }
        self._client.told.clear()
        if isinstance(queued, QueuedGroup):
            facts |= await self._group_cycle(queued)
        else:
            facts |= {"kind": "pod", "popped": queued.key, "pods": [queued.key]}
            await self._scheduler.schedule_one(queued)
            facts["evaluations"] = self._evaluations or None
        await _settle()
        self._client.told.set()
        await _settle()
        after = {_key(pod): pod["spec"].get("nodeName", "") for pod in self._store.all(PODS)}
        facts["bound"] = {key: node for key, node in after.items() if node and not before.get(key)}
        facts["deleted"] = sorted(self._client.deleted)
        facts["failures"] = self._watcher.failures
        facts["events"] = self._events(events) or None
        self._conditions(facts, queued)
        self._start_pods(facts["bound"], facts["pods"], number)
        await _settle()
        self._cycles.append(facts)
        return facts

    async def _group_cycle(self, queued: QueuedGroup) -> Json:
        composite = queued.root.startswith("composite")
        facts: Json = {
            "kind": "compositePodGroup" if composite else "podGroup",
            "popped": f"{queued.namespace}/{queued.name}",
            "attempt": queued.attempts,
            "pods": [member.key for member in self._in_order(queued)],
        }
        await self._scheduler.schedule_one(queued)
        placements = self._gates["TopologyAwareWorkloadScheduling"]
        return facts | self._facts.document(placements=placements)

    def _in_order(self, queued: QueuedGroup) -> list[QueuedPod]:
        """The members in the order in which they are tried, group by group."""
        tree = self._scheduler.context.cache.groups.tree(queued.root)
        if tree is None:
            return list(queued.pods())
        return [member for leaf in tree.leaves for member in queued.members.get(leaf.key, ())]

    def _events(self, known: set[str]) -> list[Json]:
        """Events other than those of scheduled or failed pods."""
        found = []
        for one in self._store.all(EVENTS):
            if one["metadata"]["uid"] in known or one["reason"] in ("Scheduled", "FailedScheduling"):
                continue
            facts = {
                "object": _reference(one["regarding"]),
                "type": one["type"],
                "reason": one["reason"],
                "action": one["action"],
                "note": one["note"],
            }
            if related := one.get("related"):
                facts["related"] = _reference(related)
            found.append(facts)
        return sorted(found, key=lambda facts: str(facts["object"]))

    def _conditions(self, facts: Json, queued: QueuedPod) -> None:
        if not isinstance(queued, QueuedGroup):
            return
        if facts["kind"] == "podGroup":
            group = self._store.find(POD_GROUPS, queued.namespace, queued.name)
            facts["condition"] = None if group is None else _condition(group, _CONDITION)
        else:
            found = {_key(group): _condition(group, _CONDITION) for group in self._store.all(POD_GROUPS)}
            facts["conditions"] = {key: condition for key, condition in found.items() if condition}

    # The end

    def _end(self) -> Json:
        started = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in self._case["pods"]}
        present = {_key(pod): pod for pod in self._store.all(PODS)}
        pods = {key: self._pod(key, pod) for key, pod in present.items() if key in started}
        for obj in (*self._case["objects"], *self._case["pods"]):
            key = _key(obj)
            if obj["kind"] == "Pod" and key not in present:
                pods[key] = {"node": "<deleted>"}
        return {
            "cycles": self._cycles,
            "pods": pods,
            "podGroups": {_key(group): _conditions_of(group) for group in self._store.all(POD_GROUPS)},
            "compositePodGroups": {
                _key(group): _conditions_of(group) for group in self._store.all(COMPOSITE_POD_GROUPS)
            },
            "claims": {_key(claim): _claim(claim) for claim in self._store.all(RESOURCE_CLAIMS)},
            "stopped": self._stopped,
        }

    def _pod(self, key: str, pod: Json) -> Json:
        node = pod["spec"].get("nodeName", "")
        facts: Json = {"node": node, "condition": _condition(pod, "PodScheduled") if not node else None}
        facts["nominatedNodeName"] = pod.get("status", {}).get("nominatedNodeName")
        queue = self._scheduler.context.queue
        if not node:
            place = queue.place_of(key) or ""
            facts["queue"] = _QUEUES.get(place, place)
            queued = queue.get(key)
            facts["gatedBy"] = "" if queued is None else queued.gating_plugin
        return {name: value for name, value in facts.items() if value or name == "node"}


async def _settle() -> None:
    """Let everything run that does not wait for time to pass."""
    for _ in range(20):
        await asyncio.sleep(0)
    await asyncio.sleep(_STEP)


def _key(obj: Json) -> str:
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]


def _reference(about: Mapping[str, str]) -> str:
    return f"{about['kind']}/{about['namespace']}/{about['name']}"


def _conditions_of(obj: Json) -> list[Json]:
    return [_timeless(one) for one in obj.get("status", {}).get("conditions") or ()]


def _condition(obj: Json, kind: str) -> Json | None:
    return next((one for one in _conditions_of(obj) if one["type"] == kind), None)


def _timeless(condition: Json) -> Json:
    timed = ("lastTransitionTime", "lastProbeTime", "observedGeneration")
    return {key: value for key, value in condition.items() if key not in timed}


def _claim(claim: Json) -> Json:
    status = claim.get("status") or {}
    allocation = dict(status.get("allocation") or {})
    allocation.pop("allocationTimestamp", None)
    reserved = sorted(_consumer(one) for one in status.get("reservedFor") or ())
    return {"allocation": allocation or None, "reservedFor": reserved}


def _consumer(one: Mapping[str, str]) -> str:
    return one["name"] if one["resource"] == "pods" else f"{one['resource']}/{one['name']}"
