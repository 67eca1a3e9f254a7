"""Constraints as the plugin reads them, and the counters kept for them: matching pods per domain."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from stowplan.api.labels import Selector, compile_selector, selector_from_labels
from stowplan.api.pod import TopologySpreadConstraint
from stowplan.api.rules.nodeselector import required_node_affinity
from stowplan.scheduler.framework import PodInfo
from stowplan.scheduler.plugins.tainttoleration import hard_verdicts
from stowplan.scheduler.table.columns import BoolColumn
from stowplan.scheduler.table.matchers import DomainCounter, PodMatcher, RowSet
from stowplan.scheduler.table.nodelabels import LabelColumn
from stowplan.scheduler.table.selection import matching_affinity
from stowplan.scheduler.table.table import ClusterTable

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"
HOSTNAME = "kubernetes.io/hostname"
HONOR = "Honor"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SOFT, max_skew=3),
    TopologySpreadConstraint(topology_key="topology.kubernetes.io/zone", when_unsatisfiable=SOFT, max_skew=5),
)
"""For pods without constraints of their own: spread over hosts, and less strictly over zones."""


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """One constraint with its selector parsed. `self_match`: the incoming pod is of the group itself."""

    key: str
    max_skew: int
    min_domains: int
    selector: Selector
    self_match: bool
    honors_affinity: bool
    honors_taints: bool


class Constraints(NamedTuple):
    """The constraints of a pod, by what happens when they cannot be met.

    With `requires_all`, nodes that lack any of the topology keys are left out of scoring altogether.
    """

    hard: tuple[SpreadConstraint, ...]
    soft: tuple[SpreadConstraint, ...]
    requires_all: bool

    def __bool__(self) -> bool:
        return bool(self.hard or self.soft)


NO_CONSTRAINTS = Constraints((), (), True)


def parse(
    constraints: Sequence[TopologySpreadConstraint], action: str, pod: PodInfo, *, label_keys: bool
) -> tuple[SpreadConstraint, ...]:
    """The constraints with one action, with `label_keys` their selectors narrowed by matchLabelKeys.

    Raises SelectorError.
    """
    found: list[SpreadConstraint] = []
    before: tuple[TopologySpreadConstraint, Selector] | None = None
    for constraint in constraints:
        if constraint.when_unsatisfiable != action:
            continue
        if before is not None and _selects_alike(before[0], constraint):
            selector = before[1]
        else:
            selector = _selector(constraint, pod, label_keys)
            before = (constraint, selector)
        found.append(_constraint(constraint, selector, pod))
    return tuple(found)


def _selects_alike(one: TopologySpreadConstraint, other: TopologySpreadConstraint) -> bool:
    return one.label_selector == other.label_selector and one.match_label_keys == other.match_label_keys


def with_selector(
    constraints: Sequence[TopologySpreadConstraint], action: str, selector: Selector, pod: PodInfo
) -> tuple[SpreadConstraint, ...]:
    """Default constraints, for the group of pods that services and owners give."""
    return tuple(
        _constraint(constraint, selector, pod)
        for constraint in constraints
        if constraint.when_unsatisfiable == action
    )


def _selector(constraint: TopologySpreadConstraint, pod: PodInfo, label_keys: bool) -> Selector:
    selector = compile_selector(constraint.label_selector)
    if not label_keys:
        return selector
    own = {key: pod.labels[key] for key in constraint.match_label_keys if key in pod.labels}
    if not own or selector.nothing:
        return selector
    return selector_from_labels(own).adding(selector)


def _constraint(constraint: TopologySpreadConstraint, selector: Selector, pod: PodInfo) -> SpreadConstraint:
    affinity_policy, taints_policy = constraint.node_affinity_policy, constraint.node_taints_policy
    return SpreadConstraint(
        key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        selector=selector,
        self_match=selector.matches(pod.labels),
        honors_affinity=affinity_policy is None or affinity_policy == HONOR,
        honors_taints=taints_policy == HONOR,
    )


class ConstraintCounter:
    """One constraint, the column of its key, and the counter that is kept for it."""

    __slots__ = ("_table", "column", "constraint", "counter", "matcher")

    def __init__(
        self, table: ClusterTable, constraint: SpreadConstraint, matcher: PodMatcher | None, rows: RowSet
    ) -> None:
        self._table = table
        self.constraint = constraint
        self.column: LabelColumn = table.labels.acquire(constraint.key)
        self.matcher = matcher
        self.counter = DomainCounter(table, matcher, self.column, rows)

    def close(self) -> None:
        self.counter.close()
        self._table.labels.release(self.column)
        if self.matcher is not None:
            self._table.matchers.release(self.matcher)


def constraint_counters(
    table: ClusterTable,
    pod: PodInfo,
    constraints: Sequence[SpreadConstraint],
    rows: "RegardedRows",
    *,
    requires_all: bool,
) -> tuple[ConstraintCounter, ...]:
    """Counters for the constraints of a class of pods.

    Where nodes must have all keys, there are none for constraints after the first whose key no node has: that
    one rules out all nodes that are left.
    """
    return tuple(
        ConstraintCounter(table, constraint, matcher_for(table, pod, constraint), rows.of(constraint))
        for constraint in (needed(table, constraints) if requires_all else constraints)
    )


def matcher_for(table: ClusterTable, pod: PodInfo, constraint: SpreadConstraint) -> PodMatcher | None:
    """The pods that a constraint counts.

    A selector that is empty (everything) counts nothing on nodes; that is how Kubernetes does it.
    """
    if constraint.selector.is_empty or constraint.selector.nothing:
        return None
    clause = (frozenset((pod.namespace,)), constraint.selector)
    return table.matchers.acquire((clause,), dying_too=False)


def needed(table: ClusterTable, constraints: Sequence[SpreadConstraint]) -> Sequence[SpreadConstraint]:
    """The constraints up to the first whose key no node has."""
    for place, constraint in enumerate(constraints, start=1):
        if not table.labels.any_with(constraint.key):
            return constraints[:place]
    return constraints


class RegardedRows:
    """Rows whose pods and domains count for a constraint, by its policies.

    They have all the keys there must be, and are not ruled out by affinity or taints.
    """

    __slots__ = ("_compare", "_keys", "_pod", "_sets", "_table")

    def __init__(self, table: ClusterTable, pod: PodInfo, keys: Sequence[str], compare: bool) -> None:
        self._table = table
        self._pod = pod
        self._keys = keys
        self._compare = compare
        self._sets: dict[tuple[bool, bool], RowSet] = {}

    def of(self, constraint: SpreadConstraint) -> RowSet:
        policies = (constraint.honors_affinity, constraint.honors_taints)
        rows = self._sets.get(policies)
        if rows is None:
            rows = self._sets[policies] = self._make(*policies)
        return rows

    def _make(self, honors_affinity: bool, honors_taints: bool) -> RowSet:
        table, spec = self._table, self._pod.spec
        if not (honors_taints or (honors_affinity and (spec.affinity or spec.node_selector))):
            keys = tuple(self._keys)
            return table.row_sets.of(table, keys, lambda: _with_keys(table, keys))
        affinity = required_node_affinity(spec)
        kept_off = hard_verdicts(table, spec.tolerations, self._compare) if honors_taints else None

        def decide() -> BoolColumn:
            mask = _with_keys(table, self._keys)
            if honors_affinity and (affinity.labels is not None or affinity.affinity is not None):
                used = table.rows_in_use
                mask[:used] &= matching_affinity(affinity, table.all_rows())
            if kept_off is not None:
                mask &= kept_off.current()[table.taint_set] == 0
            return mask

        return RowSet(table, decide)


def _with_keys(table: ClusterTable, keys: Sequence[str]) -> BoolColumn:
    """Rows whose nodes have all of some labels."""
    common: list[str] = []
    few: set[int] | None = None
    for key in keys:
        rows = table.labels.few_with(key)
        if rows is None:
            common.append(key)
        else:
            few = set(rows) if few is None else few & rows
    if few is None:
        mask: BoolColumn = table.valid.copy()
        for key in common:
            mask &= table.label_column(key).ids != 0
        return mask
    mask = np.zeros(table.capacity, dtype=np.bool_)
    for row in few:
        node = table.nodes[row]
        assert node is not None
        mask[row] = all(map(node.metadata.labels.__contains__, common))
    return mask


class Skews:
    """The skew there would be with a pod on a row, for explanations: pods are counted one by one."""

    def __init__(
        self, table: ClusterTable, pod: PodInfo, hard: Sequence[SpreadConstraint], compare: bool
    ) -> None:
        self._table = table
        self._pod = pod
        self._regarded = RegardedRows(table, pod, [constraint.key for constraint in hard], compare)
        self._counts: dict[SpreadConstraint, dict[str, int]] = {}

    def on_row(self, constraint: SpreadConstraint, row: int) -> int | None:
        """The skew over a constraint's domains with the pod on a row; None if its node is in none of them."""
        node = self._table.nodes[row]
        own = None if node is None else node.metadata.labels.get(constraint.key)
        if own is None:
            return None
        counts = self._counts.get(constraint)
        if counts is None:
            counts = self._counts[constraint] = self._count(constraint)
        lowest = 0 if len(counts) < constraint.min_domains else min(counts.values(), default=0)
        return counts.get(own, 0) + int(constraint.self_match) - lowest

    def _count(self, constraint: SpreadConstraint) -> dict[str, int]:
        rows = self._regarded.of(constraint)
        rows.refresh()
        counts: dict[str, int] = {}
        for row in np.flatnonzero(rows.mask).tolist():
            node = self._table.nodes[row]
            if node is None or constraint.key not in node.metadata.labels:
                continue
            domain = node.metadata.labels[constraint.key]
            matching = sum(self._counts_for(constraint, other) for other in self._table.pods_on[row].values())
            counts[domain] = counts.get(domain, 0) + matching
        return counts

    def _counts_for(self, constraint: SpreadConstraint, other: PodInfo) -> bool:
        selector = constraint.selector
        return (
            not other.dying
            and other.namespace == self._pod.namespace
            and not selector.is_empty
            and selector.matches(other.labels)
        )
