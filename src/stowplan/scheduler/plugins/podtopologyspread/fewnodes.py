"""Very many constraints of one pod, with a topology key that few nodes have.

A pod's own constraints leave only nodes that have all topology keys. Where one key is rare, these are few
however many constraints there are, and going through their labels costs less than a column and a counter for
every key. The rules are those of `filtering` and `scoring`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stowplan.api.labels import Selector
from stowplan.scheduler.framework import PodInfo
from stowplan.scheduler.framework.simulation import SimulatedRow
from stowplan.scheduler.plugins.normalize import rounded
from stowplan.scheduler.plugins.podtopologyspread.common import (
    HOSTNAME,
    RegardedRows,
    SpreadConstraint,
    matcher_for,
)
from stowplan.scheduler.plugins.podtopologyspread.filtering import NO_LABEL, SKEWED, most_pods, uncounted_pods
from stowplan.scheduler.table.columns import BoolColumn
from stowplan.scheduler.table.matchers import PodMatcher
from stowplan.scheduler.table.table import ClusterTable

MANY_CONSTRAINTS = 64
"""Up to this number of constraints get a column and a counter each, regardless of their keys."""

Pods = list[tuple[Mapping[str, str], int]]
"""Of the nodes that a constraint regards: their labels, and how many matching pods they have."""


def first_rare(table: ClusterTable, constraints: Sequence[SpreadConstraint]) -> int | None:
    """Where the constraints begin that are worth looking at together; None: nowhere."""
    last = len(constraints) - MANY_CONSTRAINTS
    for place, constraint in enumerate(constraints[: max(last, 0)]):
        if table.labels.few_with(constraint.key) is not None:
            return place
    return None


class _FewNodes:
    """Constraints, one of which has a rare key, and the pods that they count."""

    __slots__ = ("_basis", "_constraints", "_matchers", "_namespace", "_rows", "_table")

    def __init__(
        self, table: ClusterTable, pod: PodInfo, constraints: Sequence[SpreadConstraint], rows: RegardedRows
    ) -> None:
        self._table = table
        self._namespace = pod.namespace
        self._constraints = constraints
        self._rows = rows
        self._basis: Any = None
        self._matchers: dict[Selector, PodMatcher | None] = {}
        for constraint in constraints:
            if constraint.selector not in self._matchers:
                self._matchers[constraint.selector] = matcher_for(table, pod, constraint)

    def close(self) -> None:
        for matcher in self._matchers.values():
            if matcher is not None:
                self._table.matchers.release(matcher)

    def _versions(self) -> tuple[int, ...]:
        counted = (matcher.rows.version for matcher in self._matchers.values() if matcher is not None)
        return (self._table.topology_version, *counted)

    def _labels(self, row: int) -> Mapping[str, str]:
        node = self._table.nodes[row]
        assert node is not None
        return node.metadata.labels

    def _pods_on(self, row: int, selector: Selector) -> int:
        matcher = self._matchers[selector]
        return 0 if matcher is None else matcher.rows.get(row)

    def _pods(self, constraint: SpreadConstraint, simulated: SimulatedRow | None = None) -> Pods:
        """The nodes that a constraint regards, as if the pods on some of them were others."""
        rows = self._rows.of(constraint)
        rows.refresh()
        imagined = {} if simulated is None else {one.row: one for one in simulated.rows}
        found = []
        for row in rows.rows.tolist():
            pods = self._pods_on(row, constraint.selector)
            if row in imagined:
                pods += uncounted_pods(constraint, imagined[row], self._namespace)
            found.append((self._labels(row), pods))
        return found


class _KnownPods:
    """The nodes that constraints regard, looked up once for all constraints that regard and select the
    same."""

    __slots__ = ("_few", "_known", "_simulated")

    def __init__(self, few: _FewNodes, simulated: SimulatedRow | None = None) -> None:
        self._few = few
        self._simulated = simulated
        self._known: dict[tuple[Selector, bool, bool], Pods] = {}

    def by_domain(self, constraint: SpreadConstraint) -> dict[str, int]:
        """Number of pods in each existing domain."""
        alike = (constraint.selector, constraint.honors_affinity, constraint.honors_taints)
        nodes = self._known.get(alike)
        if nodes is None:
            nodes = self._known[alike] = self._few._pods(constraint, self._simulated)
        key = constraint.key
        found: dict[str, int] = {}
        for labels, pods in nodes:
            value = labels[key]
            found[value] = found.get(value, 0) + pods
        return found


class HardConstraints(_FewNodes):
    """The hard constraints of a pod from the first with a rare key on."""

    __slots__ = ("_codes",)

    def codes(self, simulated: SimulatedRow | None) -> dict[int, int]:
        """By row, what the first constraint says that rejects it; rows that are not named lack the first key.

        The same dict is returned as long as the verdicts are the same.
        """
        if simulated is not None:
            return self._decide(simulated)
        versions = self._versions()
        if self._basis != versions:
            codes = self._decide(None)
            if self._basis is None or codes != self._codes:
                self._codes: dict[int, int] = codes
            self._basis = versions
        return self._codes

    def _decide(self, simulated: SimulatedRow | None) -> dict[int, int]:
        candidates = self._table.labels.few_with(self._constraints[0].key) or ()
        undecided = {row: self._labels(row) for row in candidates}
        known = _KnownPods(self, simulated)
        codes: dict[int, int] = {}
        for constraint in self._constraints:
            if not undecided:
                break
            domains = known.by_domain(constraint)
            most = most_pods(constraint, len(domains), min(domains.values(), default=0))
            key = constraint.key
            for row, labels in tuple(undecided.items()):
                value = labels.get(key)
                if value is None:
                    codes[row] = NO_LABEL
                elif domains.get(value, 0) > most:
                    codes[row] = SKEWED
                else:
                    continue
                del undecided[row]
        return codes | dict.fromkeys(undecided, 0)


class SoftConstraints(_FewNodes):
    """The soft constraints of a pod, of which one has a rare key."""

    __slots__ = ("_raw",)

    def raw_scores(self, feasible: BoolColumn, version: int) -> tuple[dict[int, int], dict[int, int]]:
        """By row that has all keys, its raw score, and the same as if no pod were on the node itself.

        The same dicts are returned as long as the scores are the same.
        """
        versions = (version, *self._versions())
        if self._basis != versions:
            raw = self._add_up(feasible)
            if self._basis is None or raw != self._raw:
                self._raw: tuple[dict[int, int], dict[int, int]] = raw
            self._basis = versions
        return self._raw

    def _add_up(self, feasible: BoolColumn) -> tuple[dict[int, int], dict[int, int]]:
        nodes = self._with_all_keys()
        scored = [labels for row, labels in nodes.items() if feasible.item(row)]
        known = _KnownPods(self)
        sums, without = dict.fromkeys(nodes, 0.0), dict.fromkeys(nodes, 0.0)
        for constraint in self._constraints:
            key, at_least = constraint.key, float(constraint.max_skew - 1)
            if key == HOSTNAME:
                weight = math.log(len(scored) + 2)
                for row in nodes:
                    sums[row] += self._pods_on(row, constraint.selector) * weight + at_least
                    without[row] += at_least
                continue
            weight = math.log(len({labels[key] for labels in scored}) + 2)
            domains = known.by_domain(constraint)
            for row, labels in nodes.items():
                share = domains.get(labels[key], 0) * weight + at_least
                sums[row] += share
                without[row] += share
        return _whole(sums), _whole(without)

    def _with_all_keys(self) -> dict[int, Mapping[str, str]]:
        labels = self._table.labels
        few = [labels.few_with(constraint.key) for constraint in self._constraints]
        rows: set[int] = set.intersection(*(rows for rows in few if rows is not None))
        found = {row: self._labels(row) for row in rows}
        keys = [c.key for c, rows in zip(self._constraints, few, strict=True) if rows is None]
        return {row: of_node for row, of_node in found.items() if all(map(of_node.__contains__, keys))}


def _whole(sums: dict[int, float]) -> dict[int, int]:
    values = rounded(np.array(list(sums.values()), dtype=np.float64))
    return dict(zip(sums, values.tolist(), strict=True))
