"""Documents about nodes: all of them by column, and one in detail."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final

from stowplan.api.meta import timestamp
from stowplan.api.node import Node
from stowplan.explain.document.cluster import (
    ConditionOfNode,
    CouldTake,
    IndexedColumn,
    NodeDocument,
    NodesDocument,
    PodOnNode,
    ResourceOnNode,
    TaintOnNode,
    TurnedAway,
)
from stowplan.explain.explainers.pod import unplaced
from stowplan.explain.web.devices import device_counts
from stowplan.explain.web.turns import in_turns
from stowplan.scheduler import Scheduler
from stowplan.scheduler.decisions import PodRecord
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.status import PluginError, Status
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.tasks import released

TURNED_AWAY: Final = 50
"""How many pods that a node did not take are shown."""
LATELY: Final = 600.0
"""Only those of so many seconds."""
MOST_LOOKED_AT: Final = 2000
"""Of how many pods without a node it is found out whether this node took them, and of how many templates."""
MOST_TEMPLATES: Final = 100
TEMPLATES: Final = 5
"""Of how many templates it is shown how often a node could take them."""
TEMPLATES_FOR: Final = 30.0
"""Seconds for which it is remembered which templates are the most frequent ones."""

_GROUPING: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_MOST_KEYS: Final = 24
_MOST_VALUES: Final = 200
"""Label keys with more values than this do not group nodes in any useful way."""

# All nodes


def nodes_document(table: ClusterTable) -> NodesDocument:
    """All nodes by column."""
    rows = node_rows(table)
    nodes = [node for row in rows if (node := table.nodes[row]) is not None]
    lines = {name: line for line, name in enumerate(table.resources.names) if name is not None}
    shown = {name: line for name, line in lines.items() if table.allocatable[line, rows].any()}
    keys = grouping_keys(nodes)
    devices = device_counts(table)

    def column(driver: str, which: int) -> list[int]:
        return [devices[driver].get(node.name, (0, 0))[which] for node in nodes]

    return NodesDocument(
        names=[node.name for node in nodes],
        keys=keys,
        labels={key: _indexed([node.metadata.labels.get(key, "") for node in nodes]) for key in keys},
        resources=[*shown, *devices, "pods"],
        allocatable={
            **{name: table.allocatable[line, rows].tolist() for name, line in shown.items()},
            **{driver: column(driver, 0) for driver in devices},
            "pods": table.allowed_pods[rows].tolist(),
        },
        requested={
            **requested(table, rows, shown),
            **{driver: column(driver, 1) for driver in devices},
        },
        unschedulable=[int(node.spec.unschedulable) for node in nodes],
        ready=[int(is_ready(node)) for node in nodes],
    )


def requested(table: ClusterTable, rows: Sequence[int], lines: Mapping[str, int]) -> dict[str, list[int]]:
    """Requested amount of each resource on each row."""
    found = {name: table.requested[line, rows].tolist() for name, line in lines.items()}
    return {**found, "pods": table.pod_count[rows].tolist()}


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


def _indexed(values: Sequence[str]) -> IndexedColumn:
    """A column of few different values."""
    distinct = sorted(set(values))
    place = {value: index for index, value in enumerate(distinct)}
    return IndexedColumn(distinct, [place[value] for value in values])


def is_ready(node: Node) -> bool:
    return all(one.status == "True" for one in node.status.conditions if one.type == "Ready")


# One node


def node_document(table: ClusterTable, row: int, node: Node, visible: Collection[str]) -> NodeDocument:
    """Document of a node, with its pods in visible namespaces."""
    on_it = list(table.pods_on[row].values())
    return NodeDocument(
        name=node.name,
        labels=dict(node.metadata.labels),
        taints=tuple(TaintOnNode(one.key, one.value, one.effect) for one in node.spec.taints),
        unschedulable=node.spec.unschedulable,
        conditions=tuple(ConditionOfNode(one.type, one.status, one.reason) for one in node.status.conditions),
        resources={
            **{
                resource: ResourceOnNode(table.allocatable.item(line, row), table.requested.item(line, row))
                for line, resource in enumerate(table.resources.names)
                if resource is not None and table.allocatable.item(line, row)
            },
            "pods": ResourceOnNode(table.allowed_pods.item(row), len(on_it)),
        },
        pods=tuple(
            PodOnNode(info.key, info.priority, info.template.accounted.amounts())
            for info in on_it
            if info.namespace in visible
        ),
        hidden_pods=sum(info.namespace not in visible for info in on_it),
    )


class Templates:
    """The pods that have most siblings: counted over all pods, so that is remembered for a while."""

    def __init__(self) -> None:
        self._known: tuple[ClusterTable, Collection[str], list[tuple[PodInfo, int]]] | None = None
        self._until = 0.0

    async def could_take(
        self,
        scheduler: Scheduler,
        name: str,
        visible: Collection[str],
        evaluate: Callable[[PodInfo], Evaluation],
    ) -> list[CouldTake]:
        """How many more pods of the most frequent templates a node would take.

        0 and the reason where a filter rejects the next pod, else as many as its free resources cover. Pods
        with device claims are left out: what is free of devices is not a matter of amounts.
        """
        table = scheduler.context.cache.table
        frequent = await self._most_frequent(table, visible, scheduler.context.clock.monotonic())
        found: list[CouldTake] = []
        for info, count in frequent:
            await asyncio.sleep(0)
            await released(scheduler.context.freeze)
            row = table.row_of(name)
            if row is None:
                return []
            try:
                status = evaluate(table.info(unplaced(info.pod))).status(row)
            except PluginError as error:
                found.append(CouldTake(info.key, count, 0, str(error)))
                continue
            if not status.is_success:
                found.append(CouldTake(info.key, count, 0, f"{status.plugin}: {status.message}"))
                continue
            more = table.allowed_pods.item(row) - table.pod_count.item(row)
            for line, amount in table.taken_by(info.template):
                if amount:
                    left = table.allocatable.item(line, row) - table.requested.item(line, row)
                    more = min(more, left // amount)
            found.append(CouldTake(info.key, count, max(int(more), 0)))
        return found

    async def _most_frequent(
        self, table: ClusterTable, visible: Collection[str], now: float
    ) -> list[tuple[PodInfo, int]]:
        if self._known is not None and now < self._until:
            of, whose, known = self._known
            if of is table and whose == visible:
                return known
        makers: Counter[tuple[str, str]] = Counter()
        examples: dict[tuple[str, str], PodInfo] = {}
        async for pods in in_turns(list(table.pods.values())):
            for info in pods:
                if info.namespace in visible and not info.spec.resource_claims:
                    owners = info.pod.metadata.owner_references
                    maker = (info.namespace, owners[0].name if owners else info.key)
                    makers[maker] += 1
                    examples[maker] = info
        found = [(examples[maker], count) for maker, count in makers.most_common(TEMPLATES)]
        self._known, self._until = (table, visible, found), now + TEMPLATES_FOR
        return found


async def turned_away(
    scheduler: Scheduler,
    name: str,
    visible: Collection[str],
    evaluate: Callable[[PodInfo], Evaluation],
) -> list[TurnedAway]:
    """Pods that found no node lately and why this one did not take them, newest first.

    Each template is evaluated once, with a pause after each, and not more of them than are looked at.
    """
    found: list[TurnedAway] = []
    verdicts: dict[tuple[str, object], Status | None] = {}
    for made, info in list(_without_node(scheduler, visible)):
        kind = (info.namespace, info.template)
        if kind not in verdicts:
            if len(verdicts) == MOST_TEMPLATES:
                break
            await asyncio.sleep(0)
            await released(scheduler.context.freeze)
            row = scheduler.context.cache.table.row_of(name)
            if row is None:
                break
            status = evaluate(info).status(row)
            verdicts[kind] = None if status.is_success else status
        verdict = verdicts[kind]
        if verdict is not None:
            found.append(TurnedAway(made.key, timestamp(made.time), verdict.plugin, verdict.message))
            if len(found) == TURNED_AWAY:
                break
    return found


def _without_node(scheduler: Scheduler, visible: Collection[str]) -> Iterator[tuple[PodRecord, PodInfo]]:
    """The latest decisions that found no node, with pods that still have none."""
    context = scheduler.context
    since = context.clock.now() - LATELY
    looked_at = 0
    for made in takewhile(lambda made: made.time >= since, context.decisions.latest()):
        if made.outcome != "unschedulable" or made.key.partition("/")[0] not in visible:
            continue
        queued = context.queue.get(made.key)
        if queued is not None:
            yield made, queued.pod
        looked_at += 1
        if looked_at == MOST_LOOKED_AT:
            return
