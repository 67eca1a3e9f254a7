"""Documents of the API about a scheduler, made on request."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Generator
from contextlib import asynccontextmanager
from functools import partial
from heapq import nsmallest
from itertools import islice
from random import Random
from typing import Any, Final, TypeVar

import numpy as np
from msgspec.structs import replace

from stowplan import __version__
from stowplan.api.meta import timestamp
from stowplan.api.pod import Pod
from stowplan.explain.document.cluster import (
    GroupMap,
    GroupsDocument,
    NodeDocument,
    NodesDocument,
    Overview,
    PodCounts,
    PodLine,
    PodMap,
    PodsDocument,
    RejectedBy,
    SchedulerOverview,
)
from stowplan.explain.document.group import GroupDocument
from stowplan.explain.document.layers import Decider
from stowplan.explain.document.past import AttentionDocument, MomentDocument
from stowplan.explain.document.pending import PendingDocument
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.document.queue import (
    CostsDocument,
    DecisionLine,
    DecisionsDocument,
    Lane,
    Latency,
    QueueDocument,
)
from stowplan.explain.explainers.causes import NEAREST
from stowplan.explain.explainers.elsewhere import profile_for, unevaluated, with_profile_change
from stowplan.explain.explainers.group import GroupExplainer
from stowplan.explain.explainers.layered import with_layers
from stowplan.explain.explainers.members import as_member, group_of_pod
from stowplan.explain.explainers.pod import Explainer
from stowplan.explain.layers.deciders import Deciders
from stowplan.explain.layers.late import Events
from stowplan.explain.layers.owners import with_owners
from stowplan.explain.layers.reads import ClientReads, ObjectReads, read_wider
from stowplan.explain.layers.wider import NOTHING_KNOWN, Wider
from stowplan.explain.recorded import attempts_of, queue_state, with_refusal
from stowplan.explain.sentences.group import told_group
from stowplan.explain.sentences.lists import told_node
from stowplan.explain.sentences.pod import told_pod
from stowplan.explain.states import LANES, PENDING
from stowplan.explain.web.devices import counters_on, devices_on
from stowplan.explain.web.evictions import SOURCE, explain_gone, with_evictions
from stowplan.explain.web.groups import group_line, group_lines, group_map, namespaces, with_queue_and_members
from stowplan.explain.web.history import EVERY, History, percentiles
from stowplan.explain.web.nodes import Templates, node_document, node_rows, nodes_document, turned_away
from stowplan.explain.web.past import Past, attention_document
from stowplan.explain.web.queues import Oldest, cost_document, decision_line, lane_of, lane_pods
from stowplan.explain.web.stream import Feed
from stowplan.explain.web.turns import in_turns
from stowplan.explain.web.waiting import PodsThatDoNotRun
from stowplan.scheduler import Scheduler
from stowplan.scheduler.decisions import PodRecord
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.nominations import Nominations
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.tasks import released

T = TypeVar("T")

MOST_PODS: Final = 500
"""How many pods a lane or a search shows at most."""
AT_ONCE: Final = 0.01
"""Seconds of work on an explanation before everybody else gets a turn: a turn costs more than most steps."""
FORGET_AFTER: Final = 24
"""After how many samples without any explanation what is kept for them is let go."""


class Inspection:
    """A running scheduler as people look at it. `scheduler` gives the current one: a reload replaces it."""

    def __init__(
        self,
        scheduler: Callable[[], Scheduler | None],
        *,
        cluster: str,
        release: str,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._scheduler = scheduler
        self._cluster = cluster
        self._release = release
        self._leads = leads
        self.history = History(scheduler, self.lanes)
        self.feed = Feed(self)
        self.past = Past()
        self._namespaces: tuple[tuple[int, int, int], set[str]] | None = None
        self._idle = 0
        """How many samples were taken since the last explanation."""
        self._templates = Templates()
        self._twins: dict[str, tuple[Framework, Framework]] = {}
        """Frameworks for explanations by profile, each with the one whose twin it is."""

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Keep the history during the block, and release what is kept for explanations when they end.

        Streams of open pages end with the block: a server that stops after it would wait for them.
        """
        self.feed.open()
        task = asyncio.get_running_loop().create_task(self._follow(), name="inspection")
        try:
            yield
        finally:
            self.feed.close()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            self.history.sample()
            scheduler = self.scheduler
            if scheduler is not None:
                self.past.sample(scheduler, self.lanes())
            self._idle += 1
            if self._idle == FORGET_AFTER:
                self.forget()
            await asyncio.sleep(EVERY)

    @property
    def scheduler(self) -> Scheduler | None:
        return self._scheduler()

    @property
    def table(self) -> ClusterTable | None:
        scheduler = self.scheduler
        return None if scheduler is None else scheduler.context.cache.table

    # The whole

    def overview(self) -> Overview:
        scheduler = self.scheduler
        context = None if scheduler is None else scheduler.context
        found = Overview(
            api_version="stowplan/v1",
            cluster=self._cluster,
            scheduler=SchedulerOverview(
                name="stowplan",
                release=self._release,
                version=__version__,
                leader=self._leads(),
                profiles=() if context is None else tuple(context.profiles),
            ),
        )
        if scheduler is None or context is None:
            return found
        table = context.cache.table
        return replace(
            found,
            time=timestamp(context.clock.now()),
            nodes=table.node_count,
            pods=PodCounts(len(table.pods), len(context.queue)),
            rate=self._rate(scheduler),
        )

    def _rate(self, scheduler: Scheduler) -> float:
        """Pods bound in a second, over the last ten seconds or the kept decisions, whichever is less."""
        now = scheduler.context.clock.now()
        times = [
            made.time
            for made in islice(scheduler.context.decisions.latest(), 2000)
            if made.outcome == "bound" and now - made.time <= 10
        ]
        return round(len(times) / max(now - times[-1], 1.0), 1) if times else 0.0

    def attention(self) -> AttentionDocument:
        """Problems now, as figures."""
        scheduler = self.scheduler
        return AttentionDocument() if scheduler is None else attention_document(scheduler, self.past)

    def moment(self, time: float, until: float | None = None) -> MomentDocument | None:
        """Nodes and queue at a time, as nearly as remembered, and the changes until another."""
        scheduler = self.scheduler
        return None if scheduler is None else self.past.at(time, scheduler, self.lanes(), until)

    # Nodes

    def nodes(self) -> NodesDocument:
        """All nodes by column, in an order that stays as long as no node comes or goes."""
        table = self.table
        return NodesDocument() if table is None else nodes_document(table)

    async def node(self, name: str, visible: Collection[str]) -> NodeDocument | None:
        """One node; pods only of visible namespaces."""
        scheduler = self.scheduler
        if scheduler is None:
            return None
        table = scheduler.context.cache.table
        row = table.row_of(name)
        node = None if row is None else table.nodes[row]
        if row is None or node is None:
            return None
        found = node_document(table, row, node, visible)
        evaluate = partial(self._evaluated, scheduler)
        could_take = await self._templates.could_take(scheduler, name, visible, evaluate)
        turned = await turned_away(scheduler, name, visible, evaluate)
        devices, count = await devices_on(table, name, visible)
        counters = counters_on(table, name)
        found = replace(found, devices=devices, device_count=count, counters=counters)
        return told_node(replace(found, could_take=tuple(could_take), turned_away=tuple(turned)))

    def _evaluated(self, scheduler: Scheduler, info: PodInfo) -> Evaluation:
        return self.framework_of(scheduler, info.pod).evaluate(info)

    # Pods

    def namespaces(self) -> set[str]:
        """The namespaces that have pods or groups the scheduler knows; new after a second at the latest."""
        scheduler = self.scheduler
        if scheduler is None:
            return set()
        pods = scheduler.informers.pods.objects
        state = (id(pods), len(pods), int(scheduler.context.clock.monotonic()))
        if self._namespaces is None or self._namespaces[0] != state:
            groups = scheduler.context.cache.table.groups
            self._namespaces = (state, {key.partition("/")[0] for key in pods} | namespaces(groups))
        return self._namespaces[1]

    def all_namespaces(self) -> set[str]:
        """The namespaces that exist, also those without pods: their workloads may fail to create any."""
        table = self.table
        return self.namespaces() | (set() if table is None else set(table.lookups.namespaces))

    def named_namespaces(self) -> set[str]:
        """The namespaces of all pods that documents can name: of those that exist or were evicted."""
        scheduler = self.scheduler
        return set() if scheduler is None else self.namespaces() | scheduler.context.decisions.namespaces()

    async def pods(
        self, visible: Collection[str], search: str = "", state: str = "", limit: int = MOST_PODS
    ) -> PodsDocument:
        """Pods whose name, node, labels or cause contain a text, waiting ones first."""
        scheduler = self.scheduler
        if scheduler is None:
            return PodsDocument()
        wanted = search.lower()
        found = [
            pod
            async for pods in in_turns(list(scheduler.informers.pods.objects.values()))
            for pod in pods
            if pod.namespace in visible
            and _has_state(pod, state)
            and (not wanted or _mentions(pod, wanted) or wanted in self._cause(scheduler, pod).lower())
        ]
        shown = nsmallest(min(limit, MOST_PODS), found, key=lambda pod: (bool(pod.spec.node_name), pod.key))
        return PodsDocument(tuple(self._line(scheduler, pod) for pod in shown), len(found))

    @staticmethod
    def _cause(scheduler: Scheduler, pod: Pod) -> str:
        """Last message about a pod that has no node."""
        made = None if pod.spec.node_name else scheduler.context.decisions.by_key(pod.key)
        return "" if made is None else made.message

    def _line(self, scheduler: Scheduler, pod: Pod) -> PodLine:
        place = scheduler.context.queue.place_of(pod.key)
        return PodLine(
            pod=pod.key,
            state="placed" if pod.spec.node_name else place or "in flight",
            node=pod.spec.node_name or None,
            created=pod.metadata.creation_timestamp,
            priority=pod.spec.priority or 0,
            cause=self._cause(scheduler, pod),
            owner=_owner(pod),
        )

    async def pod(self, namespace: str, name: str, reads: ObjectReads | None = None) -> PodDocument | None:
        """Everything about one pod; lets the scheduler go on between the steps.

        `reads` is for objects that the scheduler does not watch; without it they are read as the scheduler.
        """
        scheduler = self.scheduler
        if scheduler is None:
            return None
        pod = scheduler.pod(f"{namespace}/{name}")
        if pod is None:
            return explain_gone(scheduler, f"{namespace}/{name}")
        reads = ClientReads(scheduler.context.client) if reads is None else reads
        decider = await self.deciders(scheduler, reads).of(pod)
        if decider.kind == "this":
            wider = await read_wider(reads, pod.namespace)
            found = await self.explain(scheduler, self.info(scheduler, pod), wider=wider)
        else:
            found = await self.explain_undecided(scheduler, pod, decider)
        found = with_evictions(replace(found, decider=decider), scheduler, pod)
        state, made = queue_state(scheduler.context, pod.key), scheduler.context.decisions.by_key(pod.key)
        if state.place != "unknown" or made is not None:
            attempts = () if made is None else attempts_of(made)
            found = replace(found, queue=state, attempts=attempts, wakes=state.wakers or found.wakes)
            found = with_refusal(found, made)
        found = await self.with_layers(scheduler, found, pod, reads)
        found = as_member(found, await self._group_of(scheduler, pod))
        found = await with_owners(found, pod, reads)
        return told_pod(found, scheduler.context.clock.now())

    @staticmethod
    def deciders(scheduler: Scheduler, reads: ObjectReads) -> Deciders:
        context = scheduler.context
        return Deciders(context.profiles, scheduler.informers.pods.objects.values, reads, context.clock.now())

    async def explain_undecided(self, scheduler: Scheduler, pod: Pod, decider: Decider) -> PodDocument:
        """A pod that this scheduler does not decide; if nobody does, with the result of a profile."""
        table = scheduler.context.cache.table
        found = unevaluated(self.info(scheduler, pod), table, SOURCE, decider)
        if decider.kind != "nobody" or found.state != PENDING:
            return found
        profile = profile_for(pod.spec.scheduler_name, scheduler.context.profiles)
        renamed = replace(pod, spec=replace(pod.spec, scheduler_name=profile))
        tried = await self.explain(scheduler, table.info(renamed), nearest=NEAREST)
        return with_profile_change(found, pod, tried, profile)

    @staticmethod
    async def with_layers(
        scheduler: Scheduler,
        found: PodDocument,
        pod: Pod,
        reads: ObjectReads,
        events: Events | None = None,
    ) -> PodDocument:
        """The document with the layers around the decision, and what was not read or evaluated."""
        context = scheduler.context
        extenders = scheduler.settings.config.extenders
        return await with_layers(
            found, pod, context.cache.table, reads, context.clock.now(), extenders=extenders, events=events
        )

    # Groups of pods

    def groups(self, visible: Collection[str], search: str = "", limit: int = MOST_PODS) -> GroupsDocument:
        """Groups whose name contains a text, waiting ones first."""
        scheduler = self.scheduler
        found = [] if scheduler is None else group_lines(scheduler, visible, search)
        return GroupsDocument(tuple(found[: min(limit, MOST_PODS)]), len(found))

    async def group(self, kind: str, namespace: str, name: str) -> GroupDocument | None:
        """Everything about one group of pods; `kind` is `podgroup` or `compositepodgroup`."""
        scheduler = self.scheduler
        if scheduler is None:
            return None
        key = f"{kind}/{namespace}/{name}"
        found = await self.explain_group(scheduler, key)
        if found is None:
            return None
        return told_group(with_queue_and_members(found, scheduler, key), scheduler.context.clock.now())

    def group_map(self, kind: str, namespace: str, name: str) -> GroupMap | None:
        """The domains of a group and its members by node, in the order of `nodes`."""
        scheduler = self.scheduler
        key = f"{kind}/{namespace}/{name}"
        groups = None if scheduler is None else scheduler.context.cache.table.groups
        if scheduler is None or groups is None or (groups.object(key) is None and groups.group(key) is None):
            return None
        return group_map(scheduler, key, self._group_explainer(scheduler, key).placements(key))

    async def _group_of(self, scheduler: Scheduler, pod: Pod) -> GroupDocument | None:
        """The group that a pod waits for."""
        groups = scheduler.context.cache.table.groups
        steps = group_of_pod(groups, pod, lambda key: self._group_explainer(scheduler, key).steps(key))
        return await self._in_steps(scheduler, steps)

    async def explain_group(self, scheduler: Scheduler, key: str) -> GroupDocument | None:
        return await self._in_steps(scheduler, self._group_explainer(scheduler, key).steps(key))

    def _group_explainer(self, scheduler: Scheduler, key: str) -> GroupExplainer:
        state = scheduler.context.cache.table.groups.group(key)
        first = None if state is None else next(iter(state.pods.values()), None)
        return GroupExplainer(
            self.framework_of(scheduler, first),
            SOURCE,
            self._nominations(scheduler),
            placements=scheduler.settings.gates["TopologyAwareWorkloadScheduling"],
            own_policy=scheduler.settings.gates["PodGroupPreemptionPolicy"],
        )

    async def explain(
        self,
        scheduler: Scheduler,
        info: PodInfo,
        nearest: int | None = None,
        wider: Wider = NOTHING_KNOWN,
    ) -> PodDocument:
        steps = self.explainer_for(scheduler, info.pod, wider).steps(info, nearest=nearest)
        return await self._in_steps(scheduler, steps)

    async def _in_steps(self, scheduler: Scheduler, steps: Generator[Any, None, T]) -> T:
        """The result of steps, between which the scheduler goes on; long ones are done in a thread."""
        context = scheduler.context
        while True:
            await asyncio.sleep(0)
            await released(context.freeze)
            until = context.timer() + AT_ONCE
            try:
                step = next(steps)
                while step is None and context.timer() < until:
                    step = next(steps)
            except StopIteration as end:
                found: T = end.value
                return found
            if step is not None:
                await context.slice.compute(step)

    def map(self, namespace: str, name: str) -> PodMap | None:
        """Filter that rejects a pod on each node, in the order of `nodes`."""
        scheduler = self.scheduler
        pod = None if scheduler is None else scheduler.pod(f"{namespace}/{name}")
        if scheduler is None or pod is None:
            return None
        table = scheduler.context.cache.table
        info = self.info(scheduler, pod)
        if info.row >= 0:
            return PodMap((), [-1] * table.node_count, table.name_of(info.row))
        evaluation = self.framework_of(scheduler, pod).evaluate(info, self._nominations(scheduler))
        column = np.full(table.capacity, -1, dtype=np.int64)
        legend: list[RejectedBy] = []
        outright = evaluation.rejected_outright
        if outright is not None:
            column[:] = 0
            legend.append(RejectedBy(outright.plugin, outright.message, table.node_count))
        else:
            # Statuses of different codes may say the same: they are one entry.
            said: dict[tuple[str, str], list[Any]] = {}
            for status, rows in evaluation.rejections().items():
                said.setdefault((status.plugin, status.message), []).extend(rows.tolist())
            for (plugin, message), found in sorted(said.items(), key=lambda one: -len(one[1])):
                column[found] = len(legend)
                legend.append(RejectedBy(plugin, message, len(found)))
        return PodMap(tuple(legend), column[node_rows(table)].tolist(), None)

    async def pending(self, visible: Collection[str], reads: ObjectReads | None = None) -> PendingDocument:
        """All pods that do not run, by cause."""
        scheduler = self.scheduler
        if scheduler is None:
            return PendingDocument(source=SOURCE)
        reads = ClientReads(scheduler.context.client) if reads is None else reads
        return await PodsThatDoNotRun(self, scheduler, visible, reads).document()

    # The queue and the decisions

    def lanes(self) -> dict[str, int]:
        """How many pods are in every lane."""
        scheduler = self.scheduler
        if scheduler is None:
            return dict.fromkeys(LANES, 0)
        context = scheduler.context
        counts = dict.fromkeys(LANES, 0)
        for place, count in context.queue.counts().items():
            counts[lane_of(place)] += count
        binding = len(context.cache.assumed) - len(context.waiting)
        return {**counts, "permit": len(context.waiting), "binding": max(binding, 0)}

    def queue(self, visible: Collection[str], *, whole: bool = True) -> QueueDocument:
        """The lanes, each with its oldest pods; totals and rates are for those who may see the `whole`."""
        scheduler = self.scheduler
        pods = dict.fromkeys(LANES, Oldest([], 0)) if scheduler is None else lane_pods(scheduler, visible)
        totals, rates = self.lanes(), self.history.rates()
        lanes = []
        for name, found in pods.items():
            incoming, outgoing = rates.get(name, (None, None)) if whole else (None, None)
            total = totals[name] if whole else found.total
            lanes.append(Lane(name, LANES[name], total, found.groups, incoming, outgoing, tuple(found.pods)))
        return QueueDocument(tuple(lanes))

    def decisions(
        self, visible: Collection[str], limit: int = 100, *, whole: bool = True
    ) -> DecisionsDocument:
        """The latest decisions, newest first, and for those who may see the `whole` what they add up to."""
        scheduler = self.scheduler
        if scheduler is None:
            return DecisionsDocument()
        latest = [
            made
            for made in islice(scheduler.context.decisions.latest(), MOST_PODS * 4)
            if made.key.partition("/")[0] in visible
        ]
        p50, p99 = percentiles([made.seconds for made in latest if made.seconds is not None])
        return DecisionsDocument(
            items=tuple(self.decision_line(made) for made in latest[: min(limit, MOST_PODS)]),
            rate=self._rate(scheduler) if whole else None,
            latency=None if p50 is None or p99 is None else Latency(p50, p99),
            history=self.history.document() if whole else None,
            plugins=tuple(self.history.plugins()) if whole else (),
        )

    # Costs

    def costs(self, visible: Collection[str], limit: int = 100, *, whole: bool = True) -> CostsDocument:
        """Whose scheduling cycles took most time, and for those who may see the `whole` what all took."""
        scheduler = self.scheduler
        if scheduler is None:
            return CostsDocument()
        costs = scheduler.context.costs
        attempts, seconds = costs.total
        found = costs.most_costly(min(limit, MOST_PODS), visible)
        return CostsDocument(
            items=tuple(map(cost_document, found)),
            attempts=attempts if whole else None,
            seconds=round(seconds, 6) if whole else None,
        )

    def cost_namespaces(self) -> set[str]:
        """The namespaces of those whose cycles are kept, whether they have pods now or not."""
        return set() if self.scheduler is None else self.scheduler.context.costs.namespaces()

    def decision_line(self, made: PodRecord) -> DecisionLine:
        """A decision as a line of a list, with the PodGroup of its pod."""
        scheduler = self.scheduler
        if scheduler is None:
            return decision_line(made)
        groups = scheduler.context.cache.table.groups
        pod = scheduler.pod(made.key) if groups.enabled else None
        group = None if pod is None else groups.key_of(pod)
        return replace(decision_line(made), group=None if group is None else group.split("/", 1)[1])

    def version_of(self, about: str) -> object:
        """A value that changes when what is shown of `pod/NAMESPACE/NAME`, `node/NAME` or a group changes."""
        scheduler = self.scheduler
        if scheduler is None:
            return ()
        context, (kind, _, name) = scheduler.context, about.partition("/")
        table = context.cache.table
        if kind == "pod":
            pod, made = scheduler.pod(name), context.decisions.by_key(name)
            known = None if pod is None else (pod.metadata.uid, pod.metadata.resource_version)
            attempts = None if made is None else (made.attempts, made.outcome)
            return known, context.queue.place_of(name), attempts
        if kind == "node":
            row = table.row_of(name)
            if row is None:
                return ()
            return id(table.nodes[row]), tuple(table.requested[:, row].tolist()), len(table.pods_on[row])
        if table.groups.object(about) is None and table.groups.group(about) is None:
            return ()
        found = group_line(scheduler, about)
        return found.state, found.place, found.attempts, found.scheduled, found.pods

    # Explaining on the live table

    def explainer_for(self, scheduler: Scheduler, pod: Pod, wider: Wider = NOTHING_KNOWN) -> Explainer:
        return Explainer(self.framework_of(scheduler, pod), SOURCE, self._nominations(scheduler), wider)

    def framework_of(self, scheduler: Scheduler, pod: Pod | None) -> Framework:
        """A framework like that of the pod's profile, with results and chance of its own.

        So whatever is asked here changes nothing about the decisions of the scheduler.
        """
        self._idle = 0
        profiles = scheduler.context.profiles
        name = "" if pod is None else pod.spec.scheduler_name
        name = name if name in profiles else next(iter(profiles))
        original = profiles[name].framework
        kept = self._twins.get(name)
        if kept is None or kept[1] is not original:
            kept = self._twins[name] = (original.clone_for_explain(Random(0)), original)
        return kept[0]

    def forget(self) -> None:
        """Let go of everything kept for explanations: nobody has asked for a while."""
        for twin, _ in self._twins.values():
            twin.forget_classes()

    @staticmethod
    def info(scheduler: Scheduler, pod: Pod) -> PodInfo:
        table = scheduler.context.cache.table
        return table.pods.get(pod.metadata.uid) or table.info(pod)

    @staticmethod
    def _nominations(scheduler: Scheduler) -> Nominations:
        row_of = scheduler.context.cache.table.row_of
        by_node = scheduler.context.queue.nominator.by_node
        by_row = ((row_of(node), list(pods.values())) for node, pods in by_node.items())
        return {row: pods for row, pods in by_row if row is not None}


def _mentions(pod: Pod, wanted: str) -> bool:
    """True if a text in lower case, as names are, is in the name, the node or a label of a pod."""
    return (
        wanted in pod.key
        or wanted in pod.spec.node_name
        or any(wanted in f"{name}={value}".lower() for name, value in pod.metadata.labels.items())
    )


def _owner(pod: Pod) -> str:
    """The workload that made a pod, by owner reference; of a ReplicaSet the Deployment, by the hash."""
    owner = next((one for one in pod.metadata.owner_references if one.controller), None)
    if owner is None:
        return ""
    suffix = f"-{pod.metadata.labels.get('pod-template-hash', '')}"
    if owner.kind == "ReplicaSet" and len(suffix) > 1 and owner.name.endswith(suffix):
        return f"deployment/{owner.name.removesuffix(suffix)}"
    return f"{owner.kind.lower()}/{owner.name}"


def _has_state(pod: Pod, state: str) -> bool:
    return not state or (state == "placed") == bool(pod.spec.node_name)
