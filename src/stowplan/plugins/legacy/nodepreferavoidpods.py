"""NodePreferAvoidPods: leaves nodes alone whose annotation asks pods of some controllers to stay away."""

from collections.abc import Hashable
from typing import Any, Final

import msgspec
import numpy as np

from stowplan.api.meta import OwnerReference, Struct
from stowplan.api.node import Node
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.interface import MAX_NODE_SCORE, Handle, Reads, Scores
from stowplan.plugins.legacy.base import LegacyPlugin
from stowplan.plugins.legacy.noderows import ChangedNodes

ANNOTATION: Final = "scheduler.alpha.kubernetes.io/preferAvoidPods"
_KINDS: Final = ("ReplicationController", "ReplicaSet")

Controller = tuple[str, str]
"""Kind and uid."""


class _Signature(Struct, frozen=True):
    pod_controller: OwnerReference | None = None


class _Entry(Struct, frozen=True):
    pod_signature: _Signature = _Signature()


class _AvoidPods(Struct, frozen=True):
    prefer_avoid_pods: tuple[_Entry, ...] = ()


class NodePreferAvoidPods(LegacyPlugin):
    """Full marks, or none where the pod's controller is named. Used with a weight above all others' sum."""

    reads = Reads.NODE
    signs_template = True

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
