"""What would have to change for a pending pod to be placed: single changes, each verified by the engine.

Proposals come from the plugins (a smaller request, a toleration, a relaxed constraint) and from here (a pod
that goes, one more node, a higher priority). A proposal counts only if the filters, run again on the changed
pod or the changed cluster, let the pod pass. The table is changed for that, asked, and put back.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress, count
from operator import attrgetter, is_not
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from msgspec.structs import replace

from stowplan.api.devices import ResourceSlice
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.explain.document.pod import Change
from stowplan.explain.explainers.rejections import NearRow
from stowplan.explain.sentences.words import outcome
from stowplan.scheduler.cycle.scheduling_cycle import choose_node
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.explanation import Remedy, RemedyPlugin
from stowplan.scheduler.framework.extension_points import post_filter_steps
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.nominations import Nominations
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable

HOSTNAME: Final = "kubernetes.io/hostname"
NEAREST: Final = 64
"""How many near misses are asked for remedies."""
TRIES: Final = 6
"""How many proposals of one kind are tried before the kind is given up."""
SHAPES: Final = 6
"""How many different shapes of nodes are tried."""
FREED_FROM: Final = 16
"""From how many of the nearest nodes a pod is taken away to see whether that is enough."""

_MERGE_KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
}
"""Lists that a strategic merge patch of a pod merges, and the field it goes by."""


class Changes:
    """Looks for changes that would place one pod, on the table of a framework."""

    def __init__(self, framework: Framework, evaluation: Evaluation, nominations: Nominations) -> None:
        self._framework = framework
        self._table = framework.table
        self._evaluation = evaluation
        self._nominations = nominations
        self._info = evaluation.cycle.pod

    def steps(self, near_misses: Sequence[NearRow]) -> Iterator[Change | None]:
        """One change of every kind that helps, in the order in which people would try them.

        Between two steps others may run: every proposal is tried on the state there is then. None is a step
        that found nothing.
        """
        yield from self._remedies(near_misses)
        yield self._freed_pod(near_misses)
        yield from self._new_node(near_misses)
        yield from self._priority()

    # Changes of the pod, proposed by plugins

    def _remedies(self, near_misses: Sequence[NearRow]) -> Iterator[Change | None]:
        by_kind: dict[str, dict[str, tuple[Remedy, str]]] = {}
        for remedy, node in self._proposals(near_misses[:NEAREST]):
            by_kind.setdefault(remedy.kind, {}).setdefault(remedy.text, (remedy, node))
        for proposals in by_kind.values():
            smallest = sorted(proposals.values(), key=lambda proposal: proposal[0].size)
            for remedy, node in smallest[:TRIES]:
                change = self._tried(remedy, node)
                yield change
                if change is not None:
                    break

    def _proposals(self, near_misses: Iterable[NearRow]) -> Iterator[tuple[Remedy, str]]:
        cycle = self._evaluation.cycle
        for near in near_misses:
            plugin = self._framework.plugins[near.miss.plugin]
            if isinstance(plugin, RemedyPlugin):
                for remedy in plugin.remedies(cycle, self._info, near.row):
                    yield remedy, near.miss.node

    def _tried(self, remedy: Remedy, node: str) -> Change | None:
        if remedy.node_patch is not None:
            return self._with_node(remedy, node)
        if remedy.claims:
            return self._with_claims(remedy)
        placed = self._place(patched_pod(self._info.pod, remedy.patch))
        if placed is None:
            return None
        return _change(remedy.kind, remedy.text, *placed, patch=dict(remedy.patch))

    def _with_node(self, remedy: Remedy, name: str) -> Change | None:
        row = self._table.row_of(name)
        node = None if row is None else self._table.nodes[row]
        if node is None or remedy.node_patch is None:
            return None
        changed = msgspec.convert(merged(msgspec.to_builtins(node), remedy.node_patch), Node)
        with changed_node(self._table, node, changed):
            placed = self._place(self._info.pod)
        if placed is None:
            return None
        return _change(remedy.kind, f"{remedy.kind} {name}", *placed, action={remedy.kind: name})

    def _with_claims(self, remedy: Remedy) -> Change | None:
        with self._table.devices.claims.seen_as(remedy.claims):
            placed = self._place(self._info.pod)
        if placed is None:
            return None
        return _change(
            remedy.kind,
            remedy.text,
            *placed,
            patch=dict(remedy.patch) if remedy.of_claim else None,
            action=None if remedy.action is None else dict(remedy.action),
            claim=remedy.of_claim,
        )

    def _place(self, pod: Pod) -> tuple[str, int] | None:
        """Where a pod would go as things are, and how many nodes would take it; None: nowhere."""
        try:
            evaluation = self._framework.evaluate(self._table.info(pod), self._nominations)
        except PluginError:
            return None
        if not evaluation.feasible_count:
            return None
        row, _ = choose_node(evaluation, lambda ties: 0)
        return self._table.name_of(row), evaluation.feasible_count

    # Changes of the cluster

    def _freed_pod(self, near_misses: Sequence[NearRow]) -> Change | None:
        """The least important pod whose end alone would make room."""
        best: tuple[int, int, str, str] | None = None
        cycle = self._framework.evaluate(self._info, self._nominations).cycle
        with self._framework.simulations(cycle, cycle.memos, self._nominations) as simulations:
            for near in near_misses[:FREED_FROM]:
                pods = sorted(self._table.pods_on[near.row].values(), key=_importance)
                for other in pods:
                    place = (*_importance(other), near.miss.node, other.key)
                    if best is not None and place >= best:
                        break
                    with simulations.row(near.row) as simulation:
                        simulation.remove_pod(other)
                        if simulation.verdict() is None:
                            best = place
                            break
        if best is None:
            return None
        _, _, node, key = best
        return _change("freePod", f"{key} ends", node, 1, action={"delete": key})

    def _new_node(self, near_misses: Sequence[NearRow]) -> Iterator[Change | None]:
        """One more node of a shape there is; shapes of near misses first, then the most frequent."""
        for node in shapes(self._table, [near.row for near in near_misses])[:SHAPES]:
            added = like(node, self._table)
            with added_node(self._table, added), added_slices(self._table, node.name, added.name):
                placed = self._place(self._info.pod)
            if placed is not None:
                text = f"one more node like {node.name}"
                yield _change("addNode", text, "the new node", placed[1], action={"addNode": node.name})
                return
            yield None

    def _priority(self) -> Iterator[Change | None]:
        """The lowest priority at which preemption would make room, and who would go."""
        post_filters = self._framework.at(ExtensionPoint.POST_FILTER)
        levels = [level for level in priorities(self._table) if level >= self._info.priority]
        if not post_filters or not levels:
            return
        found = yield from self._preempts(levels[-1])
        low, high = 0, len(levels) - 1
        while found is not None and low < high:
            middle = (low + high) // 2
            lower = yield from self._preempts(levels[middle])
            if lower is None:
                low = middle + 1
            else:
                found, high = lower, middle
        if found is None:
            return
        node, victims = found
        text = f"priority above {levels[low]} (now {self._info.priority})"
        patch = {"spec": {"priority": levels[low] + 1}}
        yield _change("priority", text, node, 1, patch=patch, victims=victims)

    def _preempts(self, level: int) -> Generator[None, None, tuple[str, tuple[str, ...]] | None]:
        """Where preemption would make room at a priority, and who would go; in steps."""
        pod = self._info.pod
        spec = replace(pod.spec, priority=level + 1, preemption_policy="PreemptLowerPriority")
        status = replace(pod.status, nominated_node_name="")
        info = self._table.info(replace(pod, spec=spec, status=status))
        try:
            evaluation = self._framework.evaluate(info, self._nominations)
            if evaluation.feasible_count:
                return None
            found = yield from post_filter_steps(
                self._framework.at(ExtensionPoint.POST_FILTER), evaluation.cycle, info
            )
        except PluginError:
            return None
        if not found.status.is_success or not found.nominated_node:
            return None
        return found.nominated_node, tuple(victim.key for victim in found.victims)


def _change(
    kind: str,
    text: str,
    node: str,
    nodes: int,
    *,
    patch: dict[str, Any] | None = None,
    action: dict[str, str] | None = None,
    victims: tuple[str, ...] = (),
    claim: str = "",
) -> Change:
    return Change(
        kind=kind,
        text=text,
        node=node,
        nodes=nodes,
        patch=patch,
        claim=claim,
        action=action,
        victims=victims,
        outcome=outcome(node, nodes, victims),
    )


def _importance(info: PodInfo) -> tuple[int, int]:
    """Pods of lower priority come first, and of these the smaller ones."""
    return info.priority, info.requests.milli_cpu


# A pod or a cluster with a change


def patched_pod(pod: Pod, patch: Mapping[str, Any]) -> Pod:
    """A pod after a strategic merge patch."""
    return msgspec.convert(merged(msgspec.to_builtins(pod), patch), Pod)


def merged(value: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A map after a strategic merge patch: null removes, lists without a merge key are replaced."""
    result = dict(value)
    for field, change in patch.items():
        if change is None:
            result.pop(field, None)
        elif isinstance(change, Mapping):
            result[field] = merged(result.get(field) or {}, change)
        elif field in _MERGE_KEYS and isinstance(change, list):
            result[field] = _merged_list(result.get(field) or [], change, _MERGE_KEYS[field])
        else:
            result[field] = change
    return result


def _merged_list(items: Sequence[Any], changes: Sequence[Any], key: str) -> list[Any]:
    by_key = {change[key]: change for change in changes}
    found = [merged(item, by_key.pop(item.get(key), {})) for item in items]
    return [*found, *by_key.values()]


@contextmanager
def changed_node(table: ClusterTable, node: Node, changed: Node) -> Iterator[None]:
    """A node as it would be, for as long as the block takes."""
    table.put_node(changed)
    try:
        yield
    finally:
        table.put_node(node)


@contextmanager
def added_node(table: ClusterTable, node: Node) -> Iterator[None]:
    """One more node for as long as the block takes."""
    table.put_node(node)
    try:
        yield
    finally:
        table.remove_node(node.name)


@contextmanager
def added_slices(table: ClusterTable, node: str, added: str) -> Iterator[None]:
    """The devices of a node once more, for an added one."""
    slices = table.devices.slices
    made = [_slice_for(view.slice, added) for view in slices.for_node(node) if _is_of(view.slice, node)]
    for one in made:
        slices.put(one)
    try:
        yield
    finally:
        for one in made:
            slices.remove(one.name)


def _is_of(slice: ResourceSlice, node: str) -> bool:
    return slice.spec.node_name == node


def _slice_for(slice: ResourceSlice, node: str) -> ResourceSlice:
    """The same devices on another node, in a pool of their own."""
    pool = replace(slice.spec.pool, name=f"{slice.spec.pool.name} on {node}")
    metadata = replace(slice.metadata, name=f"{slice.name} on {node}", uid="")
    return replace(slice, metadata=metadata, spec=replace(slice.spec, node_name=node, pool=pool))


def shapes(table: ClusterTable, preferred: Sequence[int]) -> list[Node]:
    """One node of every shape, those of preferred rows first, then the most frequent."""
    known = _SHAPES.get(table)
    if known is None:
        known = _SHAPES[table] = NodeShapes()
    known.update(table)
    return known.examples(table, preferred)


class NodeShapes:
    """The shapes of the nodes of a table, by number: same allocatable, labels (but for the name) and taints.

    Nodes rarely change, so a shape is worked out again only for a row that has another node than before.
    """

    def __init__(self) -> None:
        self._nodes: list[Node | None] = []
        self._of_row = np.zeros(0, dtype=np.int64)
        self._numbers: dict[Any, int] = {}

    def update(self, table: ClusterTable) -> None:
        """Look at the nodes that are new."""
        nodes = table.nodes[: table.rows_in_use]
        before = self._nodes
        more = len(nodes) - len(before)
        if more:
            before = [*before[: len(nodes)], *[None] * more]
            self._of_row = np.concatenate(
                (self._of_row[: len(nodes)], np.zeros(max(more, 0), dtype=np.int64))
            )
        for row in compress(count(), map(is_not, nodes, before)):
            node = nodes[row]
            if node is not None:
                self._of_row[row] = self._numbers.setdefault(_shape(node), len(self._numbers))
        self._nodes = list(nodes)

    def examples(self, table: ClusterTable, preferred: Sequence[int]) -> list[Node]:
        rows = np.array(
            [*preferred, *np.flatnonzero(table.valid[: len(self._nodes)]).tolist()], dtype=np.intp
        )
        if not len(rows):
            return []
        numbers, first, counts = np.unique(self._of_row[rows], return_index=True, return_counts=True)
        wanted = np.isin(numbers, self._of_row[list(preferred)])
        order = np.lexsort((first, -counts, ~wanted))
        found = (self._nodes[rows[first[place]]] for place in order)
        return [node for node in found if node is not None]


_PRIORITY: Final = attrgetter("pod.spec.priority")
_SHAPES: Final[WeakKeyDictionary[ClusterTable, NodeShapes]] = WeakKeyDictionary()


def _shape(node: Node) -> Any:
    labels = frozenset(item for item in node.metadata.labels.items() if item[1] != node.name)
    return (frozenset(node.status.allocatable.items()), labels, node.spec.taints)


def priorities(table: ClusterTable) -> list[int]:
    """The priorities of pods with a node, from the lowest."""
    return sorted({priority or 0 for priority in set(map(_PRIORITY, table.pods.values()))})


def like(node: Node, table: ClusterTable) -> Node:
    """A new node of the same shape, ready for pods."""
    name = f"{node.name}-more"
    while table.row_of(name) is not None:
        name += "-more"
    labels = {key: name if value == node.name else value for key, value in node.metadata.labels.items()}
    metadata = replace(node.metadata, name=name, uid="", labels=labels)
    return replace(node, metadata=metadata, spec=replace(node.spec, unschedulable=False))
