"""What the API says about a scheduler: plain data, made when somebody asks."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import Any, Final

import numpy as np

from stowplan import __version__
from stowplan.api.meta import timestamp
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.clock import as_date
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.explain.explainer import Explainer, PodExplanation
from stowplan.explain.pending import NEAREST, Cause, causes
from stowplan.framework.runtime import Framework
from stowplan.framework.simulation import Nominations
from stowplan.inspection.evictions import SOURCE, eviction_facts, explain_gone
from stowplan.queue.queued_pod import QueuedPod
from stowplan.scheduler import Scheduler
from stowplan.scheduler.decisions import LastDecision

LANES: Final = ("active", "backoff", "unschedulable", "gated", "permit", "binding")
MOST_PODS: Final = 500
"""How many pods a lane or a search shows at most."""
TURNED_AWAY: Final = 50
"""How many pods that a node did not take are shown."""
TEMPLATES: Final = 5
"""Of how many templates it is shown how often a node could take them."""

_GROUPING: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_MOST_KEYS: Final = 24
_MOST_VALUES: Final = 200
"""Label keys with more values than this do not group nodes in any useful way."""


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
        self._twins: dict[str, tuple[Framework, Framework]] = {}
        """Frameworks for explanations by profile, each with the one whose twin it is."""

    @property
    def scheduler(self) -> Scheduler | None:
        return self._scheduler()

    @property
    def table(self) -> ClusterTable | None:
        scheduler = self.scheduler
        return None if scheduler is None else scheduler.context.cache.table

    # The whole

    def overview(self) -> dict[str, Any]:
        scheduler = self.scheduler
        document: dict[str, Any] = {
            "apiVersion": "stowplan/v1",
            "cluster": self._cluster,
            "scheduler": {
                "name": "stowplan",
                "release": self._release,
                "version": __version__,
                "leader": self._leads(),
                "profiles": [],
            },
            "nodes": 0,
            "pods": {"assigned": 0, "waiting": 0},
            "rate": 0.0,
        }
        if scheduler is None:
            return document
        context = scheduler.context
        document["scheduler"]["profiles"] = list(context.profiles)
        document["time"] = timestamp(context.clock.now())
        document["nodes"] = context.cache.table.node_count
        document["pods"] = {"assigned": len(context.cache.table.pods), "waiting": len(context.queue)}
        document["rate"] = self._rate(scheduler)
        return document

    def _rate(self, scheduler: Scheduler) -> float:
        """Pods bound in a second, over the last ten seconds or the kept decisions, whichever is less."""
        now = scheduler.context.clock.now()
        times = [
            made.time
            for made in islice(scheduler.context.decisions.latest(), 2000)
            if made.outcome == "bound" and now - made.time <= 10
        ]
        return round(len(times) / max(now - times[-1], 1.0), 1) if times else 0.0

    # Nodes

    def nodes(self) -> dict[str, Any]:
        """All nodes by column, in an order that stays as long as no node comes or goes."""
        table = self.table
        if table is None:
            return _no_nodes()
        rows = node_rows(table)
        nodes = [node for row in rows if (node := table.nodes[row]) is not None]
        lines = {name: line for line, name in enumerate(table.resources.names) if name is not None}
        shown = {name: line for name, line in lines.items() if table.allocatable[line, rows].any()}
        keys = grouping_keys(nodes)
        return {
            "names": [node.name for node in nodes],
            "keys": keys,
            "labels": {key: _indexed([node.metadata.labels.get(key, "") for node in nodes]) for key in keys},
            "resources": [*shown, "pods"],
            "allocatable": {
                **{name: table.allocatable[line, rows].tolist() for name, line in shown.items()},
                "pods": table.allowed_pods[rows].tolist(),
            },
            "requested": self.requested(table, rows, shown),
            "unschedulable": [int(node.spec.unschedulable) for node in nodes],
            "ready": [int(_is_ready(node)) for node in nodes],
        }

    @staticmethod
    def requested(table: ClusterTable, rows: Sequence[int], lines: Mapping[str, int]) -> dict[str, list[int]]:
        found = {name: table.requested[line, rows].tolist() for name, line in lines.items()}
        return {**found, "pods": table.pod_count[rows].tolist()}

    def node(self, name: str, visible: Collection[str]) -> dict[str, Any] | None:
        """One node; pods only of visible namespaces."""
        table, scheduler = self.table, self.scheduler
        row = None if table is None else table.row_of(name)
        if table is None or scheduler is None or row is None:
            return None
        node = table.nodes[row]
        if node is None:
            return None
        on_it = list(table.pods_on[row].values())
        return {
            "name": name,
            "labels": node.metadata.labels,
            "taints": [
                {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.spec.taints
            ],
            "unschedulable": node.spec.unschedulable,
            "conditions": [
                {"type": one.type, "status": one.status, "reason": one.reason}
                for one in node.status.conditions
            ],
            "resources": {
                resource: {
                    "allocatable": table.allocatable.item(line, row),
                    "requested": table.requested.item(line, row),
                }
                for line, resource in enumerate(table.resources.names)
                if resource is not None and table.allocatable.item(line, row)
            }
            | {"pods": {"allocatable": table.allowed_pods.item(row), "requested": len(on_it)}},
            "pods": [_pod_on_node(info) for info in on_it if info.namespace in visible],
            "hiddenPods": sum(info.namespace not in visible for info in on_it),
            "couldTake": self._could_take(table, row, visible),
            "turnedAway": self._turned_away(scheduler, name, visible),
        }

    def _could_take(self, table: ClusterTable, row: int, visible: Collection[str]) -> list[dict[str, Any]]:
        """How many more pods of those that have most siblings the free part of a node covers."""
        makers: Counter[tuple[str, str]] = Counter()
        examples: dict[tuple[str, str], PodInfo] = {}
        for info in table.pods.values():
            if info.namespace in visible:
                owners = info.pod.metadata.owner_references
                maker = (info.namespace, owners[0].name if owners else info.key)
                makers[maker] += 1
                examples.setdefault(maker, info)
        found = []
        for maker, count in makers.most_common(TEMPLATES):
            info = examples[maker]
            more = table.allowed_pods.item(row) - table.pod_count.item(row)
            for line, amount in table.taken_by(info.template):
                if amount:
                    left = table.allocatable.item(line, row) - table.requested.item(line, row)
                    more = min(more, left // amount)
            found.append({"like": info.key, "pods": count, "more": max(int(more), 0)})
        return found

    def _turned_away(self, scheduler: Scheduler, name: str, visible: Collection[str]) -> list[dict[str, Any]]:
        """Pods that found no node lately and why this one did not take them, newest first."""
        found = []
        for made in scheduler.context.decisions.latest():
            if made.outcome != "unschedulable" or made.key.partition("/")[0] not in visible:
                continue
            why = self._verdict(scheduler, made.key, name)
            if why:
                found.append({"pod": made.key, "time": timestamp(made.time), **why})
            if len(found) == TURNED_AWAY:
                break
        return found

    def _verdict(self, scheduler: Scheduler, key: str, node: str) -> dict[str, str] | None:
        pod, table = scheduler.pod(key), scheduler.context.cache.table
        row = table.row_of(node)
        if pod is None or pod.spec.node_name or row is None:
            return None
        status = self.framework_of(scheduler, pod).evaluate(table.info(pod)).status(row)
        return None if status.is_success else {"plugin": status.plugin, "reason": status.message}

    # Pods

    def namespaces(self) -> set[str]:
        """The namespaces that have pods the scheduler knows."""
        scheduler = self.scheduler
        if scheduler is None:
            return set()
        return {key.partition("/")[0] for key in scheduler.informers.pods.objects}

    def named_namespaces(self) -> set[str]:
        """The namespaces of all pods that documents can name: of those that exist or were evicted."""
        scheduler = self.scheduler
        return set() if scheduler is None else self.namespaces() | scheduler.context.decisions.namespaces()

    def pods(
        self, visible: Collection[str], search: str = "", state: str = "", limit: int = MOST_PODS
    ) -> dict[str, Any]:
        """Pods whose name, node or labels contain a text, waiting ones first."""
        scheduler = self.scheduler
        if scheduler is None:
            return {"items": [], "total": 0}
        found = [pod for pod in self._matching(scheduler, visible, search) if _has_state(pod, state)]
        found.sort(key=lambda pod: (bool(pod.spec.node_name), pod.key))
        return {
            "items": [self._line(scheduler, pod) for pod in found[: min(limit, MOST_PODS)]],
            "total": len(found),
        }

    @staticmethod
    def _matching(scheduler: Scheduler, visible: Collection[str], search: str) -> Iterator[Pod]:
        wanted = search.lower()
        for key, pod in scheduler.informers.pods.objects.items():
            if pod.namespace not in visible:
                continue
            labels = (f"{name}={value}" for name, value in pod.metadata.labels.items())
            if not wanted or any(wanted in text.lower() for text in (key, pod.spec.node_name, *labels)):
                yield pod

    def _line(self, scheduler: Scheduler, pod: Pod) -> dict[str, Any]:
        made = scheduler.context.decisions.by_key(pod.key)
        place = scheduler.context.queue.place_of(pod.key)
        return {
            "pod": pod.key,
            "state": "placed" if pod.spec.node_name else place or "in flight",
            "node": pod.spec.node_name or None,
            "created": pod.metadata.creation_timestamp,
            "priority": pod.spec.priority or 0,
            "cause": made.message if made is not None and not pod.spec.node_name else "",
        }

    async def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Everything about one pod; lets the scheduler go on between the steps."""
        scheduler = self.scheduler
        pod = None if scheduler is None else scheduler.pod(f"{namespace}/{name}")
        if scheduler is None:
            return None
        if pod is None:
            gone = explain_gone(scheduler, f"{namespace}/{name}")
            return None if gone is None else gone.document()
        found = await self._explain(scheduler, pod)
        found.facts |= eviction_facts(scheduler, pod)
        known = scheduler.explain(pod.key)
        if known is not None:
            found.now, found.attempt = known.state, known.attempt
            found.wakes = known.state.wakers or found.wakes
        document = found.document()
        document["labels"] = pod.metadata.labels
        document["priority"] = pod.spec.priority or 0
        document["nominatedNode"] = pod.status.nominated_node_name or None
        return document

    async def _explain(self, scheduler: Scheduler, pod: Pod, nearest: int | None = None) -> PodExplanation:
        context = scheduler.context
        steps = self.explainer_for(scheduler, pod).steps(self._info(scheduler, pod), nearest=nearest)
        while True:
            await context.freeze.free()
            try:
                next(steps)
            except StopIteration as end:
                found: PodExplanation = end.value
                return found
            await asyncio.sleep(0)

    def map(self, namespace: str, name: str) -> dict[str, Any] | None:
        """What rejects a pod on each node, in the order of `nodes`: a place in `legend`, -1 where it fits."""
        scheduler = self.scheduler
        pod = None if scheduler is None else scheduler.pod(f"{namespace}/{name}")
        if scheduler is None or pod is None:
            return None
        table = scheduler.context.cache.table
        info = self._info(scheduler, pod)
        if info.row >= 0:
            return {"legend": [], "nodes": [-1] * table.node_count, "node": table.name_of(info.row)}
        evaluation = self.framework_of(scheduler, pod).evaluate(info, self._nominations(scheduler))
        column = np.full(table.capacity, -1, dtype=np.int64)
        legend: list[dict[str, Any]] = []
        outright = evaluation.rejected_outright
        if outright is not None:
            column[:] = 0
            legend.append({"plugin": outright.plugin, "reason": outright.message, "nodes": table.node_count})
        else:
            for status, rows in evaluation.rejections().items():
                column[rows] = len(legend)
                legend.append({"plugin": status.plugin, "reason": status.message, "nodes": len(rows)})
        return {"legend": legend, "nodes": column[node_rows(table)].tolist(), "node": None}

    async def pending(self, visible: Collection[str]) -> dict[str, Any]:
        """All waiting pods by cause. Each template is explained once, with a pause after each."""
        scheduler = self.scheduler
        if scheduler is None:
            return {"pods": 0, "causes": []}
        waiting = [queued.pod.pod for queued in scheduler.context.queue if queued.pod.namespace in visible]
        explained: dict[Any, PodExplanation] = {}
        for pod in waiting:
            info = self._info(scheduler, pod)
            if not pod.spec.scheduling_gates and info.template not in explained:
                explained[info.template] = await self._explain(scheduler, pod, NEAREST)
        found: list[Cause] = causes(
            waiting, lambda pod: self._info(scheduler, pod), lambda info: explained[info.template]
        )
        return {"pods": len(waiting), "causes": [cause.document() for cause in found]}

    # The queue and the decisions

    def lanes(self) -> dict[str, int]:
        """How many pods are in every lane."""
        scheduler = self.scheduler
        if scheduler is None:
            return dict.fromkeys(LANES, 0)
        context = scheduler.context
        counts = context.queue.counts()
        binding = len(context.cache.assumed) - len(context.waiting)
        return {**counts, "permit": len(context.waiting), "binding": max(binding, 0)}

    def queue(self, visible: Collection[str]) -> dict[str, Any]:
        """The lanes, each with its oldest pods."""
        scheduler = self.scheduler
        lanes: dict[str, list[dict[str, Any]]] = {name: [] for name in LANES}
        if scheduler is not None:
            for queued in scheduler.context.queue:
                place = scheduler.context.queue.place_of(queued.key)
                if place is not None and queued.pod.namespace in visible:
                    lanes[place].append(self._queued(scheduler, queued))
            for waiting in scheduler.context.waiting:
                if waiting.pod.namespace in visible:
                    cause = f"waits for {', '.join(waiting.pending_plugins)}"
                    lanes["permit"].append({"pod": waiting.pod.key, "node": waiting.node, "cause": cause})
            held = {waiting.pod.uid for waiting in scheduler.context.waiting}
            for uid, node in scheduler.context.cache.assumed.items():
                info = scheduler.context.cache.table.pods.get(uid)
                if info is not None and uid not in held and info.namespace in visible:
                    lanes["binding"].append({"pod": info.key, "node": node, "cause": ""})
        totals = self.lanes()
        return {
            "lanes": [
                {
                    "name": name,
                    "total": totals[name],
                    "pods": sorted(pods, key=lambda one: one.get("since") or "")[:MOST_PODS],
                }
                for name, pods in lanes.items()
            ]
        }

    @staticmethod
    def _queued(scheduler: Scheduler, queued: QueuedPod) -> dict[str, Any]:
        queue, clock = scheduler.context.queue, scheduler.context.clock
        made = scheduler.context.decisions.get(queued.uid)
        until = queue.next_try(queued.key)
        gate = "" if queued.gate is None else queued.gate.message
        return {
            "pod": queued.key,
            "since": timestamp(as_date(clock, queued.timestamp)),
            "until": None if until is None else timestamp(as_date(clock, until)),
            "attempts": queued.attempts,
            "priority": queued.pod.priority,
            "cause": gate or ("" if made is None else made.message),
        }

    def decisions(self, visible: Collection[str], limit: int = 100) -> dict[str, Any]:
        """The latest decisions, newest first, and what they add up to."""
        scheduler = self.scheduler
        if scheduler is None:
            return {"items": [], "rate": 0.0, "latency": None}
        latest = [
            made
            for made in islice(scheduler.context.decisions.latest(), MOST_PODS * 4)
            if made.key.partition("/")[0] in visible
        ]
        return {
            "items": [decision_line(made) for made in latest[: min(limit, MOST_PODS)]],
            "rate": self._rate(scheduler),
            "latency": _latency([made.seconds for made in latest if made.seconds is not None]),
        }

    # Explaining on the live table

    def explainer_for(self, scheduler: Scheduler, pod: Pod) -> Explainer:
        return Explainer(self.framework_of(scheduler, pod), SOURCE, self._nominations(scheduler))

    def framework_of(self, scheduler: Scheduler, pod: Pod) -> Framework:
        """A framework like that of the pod's profile, with results and chance of its own.

        So whatever is asked here changes nothing about the decisions of the scheduler.
        """
        profiles = scheduler.context.profiles
        name = pod.spec.scheduler_name if pod.spec.scheduler_name in profiles else next(iter(profiles))
        original = profiles[name].framework
        kept = self._twins.get(name)
        if kept is None or kept[1] is not original:
            kept = self._twins[name] = (original.twin(Random(0)), original)
        return kept[0]

    def forget(self) -> None:
        """Let go of everything kept for explanations: nobody has asked for a while."""
        for twin, _ in self._twins.values():
            twin.forget_classes()

    @staticmethod
    def _info(scheduler: Scheduler, pod: Pod) -> PodInfo:
        table = scheduler.context.cache.table
        return table.pods.get(pod.metadata.uid) or table.info(pod)

    @staticmethod
    def _nominations(scheduler: Scheduler) -> Nominations:
        row_of = scheduler.context.cache.table.row_of
        by_node = scheduler.context.queue.nominator.by_node
        by_row = ((row_of(node), list(pods.values())) for node, pods in by_node.items())
        return {row: pods for row, pods in by_row if row is not None}


def node_rows(table: ClusterTable) -> list[int]:
    """The rows that have a node, in the order of everything that is told by column."""
    return [row for row in range(table.rows_in_use) if table.nodes[row] is not None]


def grouping_keys(nodes: Sequence[Node]) -> list[str]:
    """The label keys that nodes can be grouped by, those first that people look for."""
    values: dict[str, set[str]] = {}
    for node in nodes:
        for key, value in node.metadata.labels.items():
            values.setdefault(key, set()).add(value)
    most = min(_MOST_VALUES, max(len(nodes) // 2, 1))
    useful = [key for key, found in values.items() if key in _GROUPING or 1 < len(found) <= most]
    return sorted(useful, key=lambda key: (key not in _GROUPING, key))[:_MOST_KEYS]


def decision_line(made: LastDecision) -> dict[str, Any]:
    """A decision as one line of a list."""
    decision = None if made.record is None else made.record.decision()
    points = decision.best[0].total if decision is not None and decision.best else None
    return {
        "time": timestamp(made.time),
        "pod": made.key,
        "node": None if decision is None else decision.node,
        "outcome": made.outcome,
        "message": made.message,
        "attempt": made.attempts,
        "points": points,
        "margin": None if decision is None else decision.margin,
        "ties": 0 if decision is None else decision.ties,
        "seconds": made.seconds,
        "victims": [] if made.preempting is None else list(made.preempting.victims),
    }


def _no_nodes() -> dict[str, Any]:
    return {
        "names": [],
        "keys": [],
        "labels": {},
        "resources": [],
        "allocatable": {},
        "requested": {},
        "unschedulable": [],
        "ready": [],
    }


def _indexed(values: Sequence[str]) -> dict[str, Any]:
    """A column of few different values: the values, and for every row which one it has."""
    distinct = sorted(set(values))
    place = {value: index for index, value in enumerate(distinct)}
    return {"values": distinct, "index": [place[value] for value in values]}


def _is_ready(node: Node) -> bool:
    return all(one.status == "True" for one in node.status.conditions if one.type == "Ready")


def _has_state(pod: Pod, state: str) -> bool:
    return not state or (state == "placed") == bool(pod.spec.node_name)


def _pod_on_node(info: PodInfo) -> dict[str, Any]:
    return {"pod": info.key, "priority": info.priority, "requests": info.template.accounted.amounts()}


def _latency(seconds: Sequence[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    ordered = sorted(seconds)
    return {
        "p50": round(ordered[len(ordered) // 2], 6),
        "p99": round(ordered[min(len(ordered) * 99 // 100, len(ordered) - 1)], 6),
    }
