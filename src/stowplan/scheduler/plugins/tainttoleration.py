"""TaintToleration: keeps pods off nodes whose taints they do not tolerate, and prefers nodes with fewer of
the taints that only ask to be avoided."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec
import numpy as np

from stowplan.api.node import Node, Taint
from stowplan.api.pod import Pod, Toleration
from stowplan.api.rules.taints import Tolerations, tolerated, untolerated
from stowplan.runtime.logs import Logger, Ref
from stowplan.scheduler.framework import (
    Action,
    ClusterEvent,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Hint,
    NodeRows,
    Plugin,
    PodInfo,
    Reads,
    Resource,
    ScoreRange,
    Scores,
    Signs,
    Status,
    queue_if,
    unresolvable,
)
from stowplan.scheduler.framework.advanced import Obstacle, Relevance, Remedy, Shortfall, pod_resources
from stowplan.scheduler.plugins.normalize import by_highest
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import IntArray, Interned
from stowplan.scheduler.table.table import ClusterTable

REASON = "node(s) had untolerated taint(s)"

HARD_EFFECTS = ("NoSchedule", "NoExecute")
SOFT_EFFECT = "PreferNoSchedule"

CONDITIONS: Final = {
    "node.kubernetes.io/unschedulable": "cordoned",
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "not ready (its kubelet does not report)",
    "node.kubernetes.io/memory-pressure": "under memory pressure",
    "node.kubernetes.io/disk-pressure": "under disk pressure",
    "node.kubernetes.io/pid-pressure": "short of process IDs",
    "node.kubernetes.io/network-unavailable": "without a network",
    "node.kubernetes.io/out-of-service": "out of service",
    "node.cloudprovider.kubernetes.io/uninitialized": "not initialised by the cloud provider",
    "node.cloudprovider.kubernetes.io/shutdown": "shut down",
}
"""Taints that stand for the state of a node, in words: a toleration is not the answer to them."""

_CORDONED: Final = "node.kubernetes.io/unschedulable"

TaintSets = Interned[tuple[Taint, ...]]


class SetVerdicts:
    """A number by id of taint set, kept while nodes come and go: only new sets are evaluated.

    The values of ids that no node has are undefined.
    """

    __slots__ = ("_judge", "_position", "_sets", "_values")

    def __init__(self, sets: TaintSets, judge: Callable[[tuple[Taint, ...]], int]) -> None:
        self._sets = sets
        self._judge = judge
        self._position = -1
        self._values: IntArray = np.zeros(0, dtype=np.int64)

    def current(self) -> IntArray:
        """The verdicts by id."""
        log = self._sets.log
        if self._position == log.position:
            return self._values
        changed = log.since(self._position) if self._position >= 0 else None
        self._position = log.position
        judge = self._judge
        if changed is None:
            judged = [0 if taints is None else judge(taints) for taints in self._sets]
            self._values = np.array(judged, dtype=np.int64)
            return self._values
        if len(self._values) < len(self._sets):
            longer = np.zeros(2 * len(self._sets), dtype=np.int64)
            longer[: len(self._values)] = self._values
            self._values = longer
        for number in changed.tolist():
            taints = self._sets.value(number) if number < len(self._sets) else None
            if taints is not None:
                self._values[number] = judge(taints)
        return self._values


class _Verdicts(NamedTuple):
    """By taint set: is some hard taint not tolerated; how many soft ones are not."""

    hard: SetVerdicts
    soft: SetVerdicts


class TaintToleration(Plugin):
    """Nodes share few distinct sets of taints; each set is judged once per class of pods."""

    contract = Contract(
        reads=Reads.NODE,
        signs=Signs.TEMPLATE_WITHOUT_LABELS,
        constant_pre_filter=True,
        constant_pre_score=True,
        constant_normalize=True,
        skips_deferred_resizes=True,
    )

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.spec.tolerations

    def events(self) -> Sequence[EventRegistration]:
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        pods = ClusterEvent(pod_resources(self.handle.behaviour).of_target, Action.UPDATE_POD_TOLERATION)
        return (
            EventRegistration(nodes, self._after_node_change, by_template=True, ignores_labels=True),
            EventRegistration(pods, self._after_toleration, by_template=True, ignores_labels=True),
        )

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        tolerations = pod.spec.tolerations
        compare = self.handle.gates["TaintTolerationComparisonOperators"]
        was_kept_off = old is None or has_hard_taint(old.spec.taints, tolerations, compare)
        return queue_if(was_kept_off and not has_hard_taint(new.spec.taints, tolerations, compare))

    @staticmethod
    def _after_toleration(pod: PodInfo, old: Pod, new: Pod) -> Hint:
        return queue_if(pod.uid == new.metadata.uid)

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        """A PreFilter plugin since 1.37, with nothing to prepare."""
        return None

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        table = nodes.table
        if table.taint_sets.is_trivial:
            return None
        codes: Codes = self._verdicts(cycle, table).hard.current()[table.taint_set[nodes.rows]]
        return codes

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(REASON)

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        taints = self._not_tolerated(cycle, pod, row)
        if not taints:
            return None
        return Shortfall("taint", ", ".join(map(_shown, taints)), len(taints) / (len(taints) + 1))

    def remedies(self, cycle: Cycle, pod: PodInfo, row: int) -> Iterable[Remedy]:
        taints = self._not_tolerated(cycle, pod, row)
        node = cycle.table.nodes[row]
        if not taints or node is None:
            return
        unwell = [taint for taint in taints if taint.key in CONDITIONS]
        if unwell:
            yield from self._recovery(node, unwell)
            return
        added = [
            Toleration(taint.key, "Equal" if taint.value else "Exists", taint.value, taint.effect)
            for taint in taints
        ]
        tolerations = [msgspec.to_builtins(one) for one in (*pod.spec.tolerations, *added)]
        text = f"tolerate {', '.join(map(_shown, taints))}"
        yield Remedy("toleration", text, {"spec": {"tolerations": tolerations}}, len(taints))

    @staticmethod
    def _recovery(node: Node, unwell: Sequence[Taint]) -> Iterator[Remedy]:
        """The node without the taints that stand for its condition; a cordon is not one to recover from."""
        keys = {taint.key for taint in unwell} - {_CORDONED}
        if not keys:
            return
        left = [msgspec.to_builtins(one) for one in node.spec.taints if one.key not in keys]
        states = " and ".join(dict.fromkeys(CONDITIONS[taint.key] for taint in unwell if taint.key in keys))
        text = f"recover node {node.name}, which is {states}"
        yield Remedy("recover", text, {}, node_patch={"spec": {"taints": left}})

    def relevance(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> IntArray:
        kinds = SetVerdicts(cycle.table.taint_sets, partial(self._kind, pod)).current()
        found: IntArray = kinds[cycle.table.taint_set[rows]]
        return found

    def _kind(self, pod: PodInfo, taints: tuple[Taint, ...]) -> int:
        about_purpose = any(taint.key not in CONDITIONS for taint in self._untolerated(pod, taints))
        return Relevance.LEAVE if about_purpose else Relevance.STATE

    def obstacle(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Obstacle | None:
        """The taints of these nodes; those that stand for a condition of the node in its words."""
        taints: dict[Taint, None] = {}
        for number in np.unique(cycle.table.taint_set[rows]).tolist():
            taints |= dict.fromkeys(self._untolerated(pod, cycle.table.taint_sets.value(number) or ()))
        shown = [_shown(taint) for taint in taints if taint.key not in CONDITIONS]
        states = list(dict.fromkeys(CONDITIONS[taint.key] for taint in taints if taint.key in CONDITIONS))
        if len(states) > 1 and states[0] == CONDITIONS[_CORDONED]:
            states = states[1:] + states[:1]
        if not shown:
            return Obstacle(" and ".join(states), "is") if states else None
        word = "taint" if len(shown) == 1 else "taints"
        return Obstacle(" and ".join([f"{word} {', '.join(shown)}", *states]))

    def _not_tolerated(self, cycle: Cycle, pod: PodInfo, row: int) -> list[Taint]:
        node = cycle.table.nodes[row]
        return self._untolerated(pod, () if node is None else node.spec.taints)

    def _untolerated(self, pod: PodInfo, taints: Iterable[Taint]) -> list[Taint]:
        """The taints that keep a pod away."""
        compare = self.handle.gates["TaintTolerationComparisonOperators"]
        return [
            taint
            for taint in taints
            if taint.effect in HARD_EFFECTS and not tolerated(taint, pod.spec.tolerations, compare)
        ]

    def log_rejection(self, logger: Logger, component: str, pod: PodInfo, node: Node) -> None:
        taints, tolerations = node.spec.taints, pod.spec.tolerations
        taint = untolerated(taints, tolerations, compare=True) or untolerated(taints, tolerations)
        about = {} if taint is None else {"key": taint.key, "value": taint.value, "effect": taint.effect}
        logger.info(
            4,
            "node had untolerated taints",
            logger=component,
            pod=Ref(pod.key),
            node=Ref(node.name),
            untoleratedTaint={field: text for field, text in about.items() if text},
        )

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> None:
        """Takes part in every cycle: a node without taints to avoid is worth full marks."""

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        table = nodes.table
        if table.taint_sets.is_trivial:
            return None
        scores: Scores = self._verdicts(cycle, table).soft.current()[table.taint_set[nodes.rows]]
        return scores

    def normalize(self, cycle: Cycle, pod: PodInfo, scores: Scores, extremes: ScoreRange) -> Scores:
        return by_highest(scores, extremes, reverse=True)

    def _verdicts(self, cycle: Cycle, table: ClusterTable) -> _Verdicts:
        known: _Verdicts | None = cycle.memo(self)
        if known is not None:
            return known
        tolerations = cycle.pod.spec.tolerations
        compare = self.handle.gates["TaintTolerationComparisonOperators"]
        avoiding = Tolerations([t for t in tolerations if t.effect in ("", SOFT_EFFECT)], compare)
        fresh = _Verdicts(
            hard_verdicts(table, tolerations, compare),
            SetVerdicts(table.taint_sets, lambda taints: _soft_taints(taints, avoiding)),
        )
        cycle.remember(self, fresh)
        return fresh


def hard_verdicts(table: ClusterTable, tolerations: Sequence[Toleration], compare: bool) -> SetVerdicts:
    """By taint set, 1 if it keeps pods with these tolerations away."""
    found = Tolerations(tolerations, compare)
    return SetVerdicts(table.taint_sets, lambda taints: found.keep_off(taints, HARD_EFFECTS))


def has_hard_taint(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], compare: bool) -> bool:
    """Does a set of taints keep pods with these tolerations away?"""
    return untolerated(taints, tolerations, HARD_EFFECTS, compare) is not None


def _soft_taints(taints: tuple[Taint, ...], tolerations: Tolerations) -> int:
    return sum(taint.effect == SOFT_EFFECT and not tolerations.tolerate(taint) for taint in taints)


def _shown(taint: Taint) -> str:
    """A taint as kubectl writes it: `key=value:Effect`."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
