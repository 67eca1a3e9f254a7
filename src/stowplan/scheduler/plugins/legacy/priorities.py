"""Plugins that were priorities and look at nodes alone: equal scores, resource limits, nodes to avoid."""

from collections.abc import Hashable
from typing import Any, Final

import msgspec
import numpy as np

from stowplan.api.meta import OwnerReference, Struct
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.quantity import milli_value_of, value_of
from stowplan.scheduler.framework import (
    MAX_NODE_SCORE,
    Contract,
    Cycle,
    Handle,
    NodeRows,
    PodInfo,
    Reads,
    Scores,
    Signs,
)
from stowplan.scheduler.plugins.legacy.base import ChangedNodes, LegacyPlugin, PriorityArgs
from stowplan.scheduler.table.columns import CPU, MEMORY, IntArray
from stowplan.scheduler.table.table import ClusterTable

ANNOTATION: Final = "scheduler.alpha.kubernetes.io/preferAvoidPods"
_KINDS: Final = ("ReplicationController", "ReplicaSet")


class EqualPriorityArgs(PriorityArgs, frozen=True):
    """Arguments of EqualPriority."""


class EqualPriority(LegacyPlugin):
    """Gives every node one point; for Policies that wanted no priorities at all and had to name one."""

    args_type = EqualPriorityArgs
    args: EqualPriorityArgs
    contract = Contract(reads=Reads.NODE, signs=Signs.TEMPLATE)

    def sign(self, pod: PodInfo) -> Hashable:
        return None

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores:
        return np.full(nodes.count, self.args.unit, dtype=np.int64)


Limits = tuple[tuple[int, int], ...]
"""Limits of a pod: lines of the resource columns, and amounts above zero."""


class NodeResourceLimitsArgs(PriorityArgs, frozen=True):
    """Arguments of NodeResourceLimits."""


class NodeResourceLimits(LegacyPlugin):
    """One point for nodes that could hold what a pod is limited to: the priority ResourceLimitsPriority.

    One limit that the node as a whole can meet is enough; what other pods take does not count.
    """

    args_type = NodeResourceLimitsArgs
    args: NodeResourceLimitsArgs
    contract = Contract(reads=Reads.USAGE, signs=Signs.TEMPLATE)

    def sign(self, pod: PodInfo) -> Hashable:
        return self._limits(pod)

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> None:
        """Takes part in every cycle: a node that meets no limit gets no point, which is a score, too."""

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        limits = self._limits(pod)
        if not limits:
            return None
        allocatable = nodes.table.allocatable
        met = np.zeros(nodes.count, dtype=np.bool_)
        for line, amount in limits:
            offered: IntArray = allocatable[line, nodes.rows]
            met |= amount <= offered
        return met * np.int64(self.args.unit)

    def score_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        allocatable = cycle.table.allocatable
        return self.args.unit * any(
            amount <= allocatable.item(line, row) for line, amount in self._limits(pod)
        )

    def _limits(self, pod: PodInfo) -> Limits:
        kept = pod.template.facts.get(self.name)
        if not isinstance(kept, tuple):
            kept = limits_of(pod.pod)
            pod.template.note(self.name, kept)
        return kept


def limits_of(pod: Pod) -> Limits:
    """The sum of the containers' limits, or those of an init container if they are higher."""
    cpu = memory = 0
    for container in pod.spec.containers:
        cpu += milli_value_of(container.resources.limits.get("cpu", 0))
        memory += value_of(container.resources.limits.get("memory", 0))
    for container in pod.spec.init_containers:
        cpu = max(cpu, milli_value_of(container.resources.limits.get("cpu", 0)))
        memory = max(memory, value_of(container.resources.limits.get("memory", 0)))
    return tuple((line, amount) for line, amount in ((CPU, cpu), (MEMORY, memory)) if amount)


Controller = tuple[str, str]
"""Kind and uid."""


class _Signature(Struct, frozen=True):
    pod_controller: OwnerReference | None = None


class _Entry(Struct, frozen=True):
    pod_signature: _Signature = _Signature()


class _AvoidPods(Struct, frozen=True):
    prefer_avoid_pods: tuple[_Entry, ...] = ()


class NodePreferAvoidPods(LegacyPlugin):
    """The highest score, or 0 on nodes whose annotation asks pods of the pod's controller to stay away.

    Used with a weight above the sum of all others.
    """

    contract = Contract(reads=Reads.NODE, signs=Signs.TEMPLATE)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._avoiding = _AvoidingRows(handle.table)

    def sign(self, pod: PodInfo) -> Hashable:
        return _controller(pod)

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores:
        scores = np.full(nodes.table.capacity, MAX_NODE_SCORE, dtype=np.int64)
        scores[list(self._avoiding.of(_controller(pod)))] = 0
        return scores[nodes.rows]

    def score_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        return 0 if row in self._avoiding.of(_controller(pod)) else MAX_NODE_SCORE


class _AvoidingRows:
    """Controller → rows whose nodes ask its pods to stay away."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._changed = ChangedNodes(table)
        self._rows: dict[Controller, set[int]] = {}
        self._named: dict[int, frozenset[Controller]] = {}

    def of(self, controller: Controller | None) -> set[int]:
        for row in self._changed.take():
            node = self._table.nodes[row]
            self._set(row, frozenset() if node is None else avoided_by(node))
        return set() if controller is None else self._rows.get(controller, set())

    def _set(self, row: int, named: frozenset[Controller]) -> None:
        for controller in self._named.pop(row, ()):
            rows = self._rows[controller]
            rows.discard(row)
            if not rows:
                del self._rows[controller]
        for controller in named:
            self._rows.setdefault(controller, set()).add(row)
        if named:
            self._named[row] = named


def avoided_by(node: Node) -> frozenset[Controller]:
    """The controllers a node's annotation names; none if it cannot be read."""
    text = node.metadata.annotations.get(ANNOTATION)
    if text is None:
        return frozenset()
    try:
        entries = msgspec.json.decode(text, type=_AvoidPods).prefer_avoid_pods
    except msgspec.DecodeError:
        return frozenset()
    named = [entry.pod_signature.pod_controller for entry in entries]
    return frozenset((owner.kind, owner.uid) for owner in named if owner is not None)


def _controller(pod: PodInfo) -> Controller | None:
    """The controller of a pod, if it is of a kind that can be asked to stay away."""
    owner = next((owner for owner in pod.owners if owner.controller), None)
    return (owner.kind, owner.uid) if owner is not None and owner.kind in _KINDS else None
