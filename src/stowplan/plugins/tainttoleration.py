"""TaintToleration: keeps pods off nodes whose taints they do not tolerate, and prefers nodes with fewer of
the taints that only ask to be avoided."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from stowplan.api.node import Node, Taint
from stowplan.api.pod import Pod, Toleration
from stowplan.api.taints import tolerated, untolerated
from stowplan.cluster.counts import IntArray
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource, queue_if
from stowplan.framework.plugin import Codes, Extremes, Plugin, Reads, Scores
from stowplan.framework.status import Status, unresolvable
from stowplan.plugins.normalize import by_highest

REASON = "node(s) had untolerated taint(s)"
HARD_EFFECTS = ("NoSchedule", "NoExecute")
SOFT_EFFECT = "PreferNoSchedule"


class _Verdicts(NamedTuple):
    """By taint set: is some hard taint not tolerated; how many soft ones are not."""

    hard: IntArray
    soft: IntArray


class TaintToleration(Plugin):
    """Nodes share few distinct sets of taints; each set is judged once per class of pods."""

    reads = Reads.NODE
    signs_template = True
    constant_pre_score = True

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.spec.tolerations

    def events(self) -> Sequence[EventRegistration]:
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        pods = ClusterEvent(Resource.POD, Action.UPDATE_POD_TOLERATION)
        return (
            EventRegistration(nodes, self._after_node_change, by_template=True),
            EventRegistration(pods, self._after_toleration, by_template=True),
        )

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        tolerations = pod.spec.tolerations
        compare = self.handle.gates["TaintTolerationComparisonOperators"]
        was_kept_off = old is None or has_hard_taint(old.spec.taints, tolerations, compare)
        return queue_if(was_kept_off and not has_hard_taint(new.spec.taints, tolerations, compare))

    @staticmethod
    def _after_toleration(pod: PodInfo, old: Pod, new: Pod) -> Hint:
        return queue_if(pod.uid == new.metadata.uid)

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        table = nodes.table
        if len(table.taint_sets) == 1:
            return None
        codes: Codes = self._verdicts(cycle, table).hard[table.taint_set[nodes.rows]]
        return codes

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(REASON)

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> None:
        """Takes part in every cycle: a node without taints to avoid is worth full marks."""

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        table = nodes.table
        if len(table.taint_sets) == 1:
            return None
        scores: Scores = self._verdicts(cycle, table).soft[table.taint_set[nodes.rows]]
        return scores

    def normalize(self, cycle: Cycle, pod: PodInfo, scores: Scores, extremes: Extremes) -> Scores:
        return by_highest(scores, extremes, reverse=True)

    def _verdicts(self, cycle: Cycle, table: ClusterTable) -> _Verdicts:
        known: _Verdicts | None = cycle.memo(self)
        if known is not None and len(known.hard) == len(table.taint_sets):
            return known
        tolerations = cycle.pod.spec.tolerations
        compare = self.handle.gates["TaintTolerationComparisonOperators"]
        avoiding = [t for t in tolerations if t.effect in ("", SOFT_EFFECT)]
        fresh = _Verdicts(
            np.array([has_hard_taint(s, tolerations, compare) for s in table.taint_sets], dtype=np.int64),
            np.array([_soft_taints(s, avoiding, compare) for s in table.taint_sets], dtype=np.int64),
        )
        cycle.remember(self, fresh)
        return fresh


def has_hard_taint(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], compare: bool) -> bool:
    """Does a set of taints keep pods with these tolerations away?"""
    return untolerated(taints, tolerations, HARD_EFFECTS, compare) is not None


def _soft_taints(taints: tuple[Taint, ...], tolerations: list[Toleration], compare: bool) -> int:
    return sum(taint.effect == SOFT_EFFECT and not tolerated(taint, tolerations, compare) for taint in taints)
