"""The plugin: required terms filter, preferred ones score; terms count from both sides."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from stowplan.cluster.changes import NO_ROWS
from stowplan.cluster.columns import BoolColumn, LabelColumn
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.terms import TermGroup, TermRole
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle import Cycle
from stowplan.framework.filtering import merge_rows
from stowplan.framework.plugin import (
    ALL_ROWS,
    MAX_NODE_SCORE,
    Codes,
    Extremes,
    Plugin,
    Reads,
    Scores,
    StaleRows,
)
from stowplan.framework.status import SKIP, Status, unresolvable, unschedulable
from stowplan.plugins.args import InterPodAffinityArgs
from stowplan.plugins.interpodaffinity.counting import (
    ByKey,
    Counted,
    OwnTerms,
    count_in_domains,
    groups_of,
    refresh,
    sum_by_key,
    version_of,
)

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

_AFFINITY, _ANTI_AFFINITY, _EXISTING = 1, 2, 3
_PREFERRING = (TermRole.REQUIRED_AFFINITY, TermRole.PREFERRED_AFFINITY, TermRole.PREFERRED_ANTI_AFFINITY)


class _Domains(NamedTuple):
    """Which domains of a key have what a rule is about."""

    column: LabelColumn
    has: BoolColumn


class _FilterState(NamedTuple):
    """By rule and key, the domains with matching pods. `alone`: the first of pods that want each other."""

    affinity: tuple[_Domains, ...]
    anti_affinity: tuple[_Domains, ...]
    existing: tuple[_Domains, ...]
    alone: bool


@dataclass(slots=True)
class _Memo:
    """Counters of a class, and what was last worked out from them with the version it was worked out from."""

    own: OwnTerms
    state: _FilterState | None = None
    state_version: Any = None
    scores: list[ByKey] = field(default_factory=list)
    scores_version: Any = None


class InterPodAffinity(Plugin):
    """Counts per topology domain are kept as pods come and go; no pod is ever walked."""

    args_type = InterPodAffinityArgs
    reads = Reads.NODE
    row_local = False
    signs_template = True

    def sign(self, pod: PodInfo) -> Hashable:
        return (pod.namespace, frozenset(pod.labels.items()), pod.template.terms)

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        terms = pod.template.terms
        if terms.error is not None:
            return unresolvable(f"parsing pod: {terms.error}")
        memo = self._memo(cycle, pod)
        own = memo.own
        kind = pod.template.kind
        existing = groups_of(kind, TermRole.REQUIRED_ANTI_AFFINITY) if kind.term_groups else []
        if not (own.affinity or own.anti_affinity or any(group.domains.total for group in existing)):
            return SKIP
        parts: list[Counted | TermGroup] = [*own.affinity, *own.anti_affinity, *existing]
        if memo.state is None or memo.state_version != version_of(cycle.table, kind, parts):
            refresh((*own.affinity, *own.anti_affinity))
            memo.state = _filter_state(own, existing)
            memo.state_version = version_of(cycle.table, kind, parts)
        cycle.write(self, memo.state)
        return None

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        state: _FilterState | None = cycle.read(self)
        if state is None:
            return None
        codes = np.zeros(nodes.count, dtype=np.int64)
        for column, has in state.existing:
            codes[has[column.ids[nodes.rows]]] = _EXISTING
        for column, has in state.anti_affinity:
            codes[has[column.ids[nodes.rows]]] = _ANTI_AFFINITY
        for column, has in state.affinity:
            ids = column.ids[nodes.rows]
            codes[(ids == 0) if state.alone else ~has[ids]] = _AFFINITY
        return codes

    def stale_filter_rows(
        self, cycle: Cycle, pod: PodInfo, before: _FilterState | None, now: _FilterState
    ) -> StaleRows:
        if before is now:
            return NO_ROWS
        if before is None or before.alone != now.alone:
            return ALL_ROWS
        return _changed_rows(
            (*before.affinity, *before.anti_affinity, *before.existing),
            (*now.affinity, *now.anti_affinity, *now.existing),
            cycle.table.rows_in_use,
        )

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        if code == _AFFINITY:
            return unresolvable(REASON_AFFINITY)
        return unschedulable(REASON_ANTI_AFFINITY if code == _ANTI_AFFINITY else REASON_EXISTING)

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        memo = self._memo(cycle, pod)
        preferred = memo.own.preferred
        if self.args.ignore_preferred_terms_of_existing_pods and not preferred:
            return SKIP
        kind = pod.template.kind
        others = groups_of(kind, *_PREFERRING) if kind.term_groups else []
        if not self.args.hard_pod_affinity_weight:
            others = [group for group in others if group.term.role is not TermRole.REQUIRED_AFFINITY]
        parts: list[Counted | TermGroup] = [*preferred, *others]
        if not parts:
            return SKIP
        if memo.scores_version != version_of(cycle.table, kind, parts):
            refresh(preferred)
            weighted = [(part, self._weight(part)) for part in parts if _in_labelled_domains(part)]
            memo.scores = sum_by_key(weighted)
            memo.scores_version = version_of(cycle.table, kind, parts)
        if not memo.scores:
            return SKIP
        cycle.write_score(self, memo.scores)
        return None

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        by_key: list[ByKey] | None = cycle.read_score(self)
        if not by_key:
            return None
        scores = np.zeros(nodes.count, dtype=np.int64)
        for column, values in by_key:
            scores += values[column.ids[nodes.rows]]
        return scores

    def stale_score_rows(
        self, cycle: Cycle, pod: PodInfo, before: list[ByKey] | None, now: list[ByKey]
    ) -> StaleRows:
        if before is now:
            return NO_ROWS
        return ALL_ROWS if before is None else _changed_rows(before, now, cycle.table.rows_in_use)

    def normalize(self, cycle: Cycle, pod: PodInfo, scores: Scores, extremes: Extremes) -> Scores:
        low, high = extremes
        if high == low:
            return np.zeros(len(scores), dtype=np.int64)
        return (MAX_NODE_SCORE * ((scores - low) / (high - low))).astype(np.int64)

    def release(self, memo: _Memo) -> None:
        memo.own.close()

    def _memo(self, cycle: Cycle, pod: PodInfo) -> _Memo:
        """What is kept for the class, begun anew when namespaces changed."""
        memo: _Memo | None = cycle.memo(self)
        if memo is not None and memo.own.made_for == cycle.table.lookups.version:
            return memo
        fresh = _Memo(OwnTerms(cycle.table, pod))
        if memo is not None:
            memo.own.close()
        cycle.remember(self, fresh)
        return fresh

    def _weight(self, part: Counted | TermGroup) -> int:
        """What one pod counts: its own term's weight, or that of a term that means the incoming pod."""
        if isinstance(part, Counted):
            return part.weight
        role = part.term.role
        if role is TermRole.REQUIRED_AFFINITY:
            weight: int = self.args.hard_pod_affinity_weight
            return weight
        return -part.term.weight if role is TermRole.PREFERRED_ANTI_AFFINITY else part.term.weight


def _filter_state(own: OwnTerms, existing: list[TermGroup]) -> _FilterState:
    affinity = tuple(_Domains(entry.column, count_in_domains(entry) > 0) for entry in own.affinity)
    anti_affinity = tuple(_Domains(entry.column, count_in_domains(entry) > 0) for entry in own.anti_affinity)
    blocked = tuple(_Domains(column, values > 0) for column, values in sum_by_key((g, 1) for g in existing))
    nobody = not any(domains.has.any() for domains in affinity)
    return _FilterState(affinity, anti_affinity, blocked, nobody and own.matches_itself)


def _in_labelled_domains(part: Counted | TermGroup) -> bool:
    """Is anything counted on nodes that have the label?"""
    if isinstance(part, TermGroup):
        return part.domains.total > 0
    return part.counter.counts.total > part.counter.counts.get(0)


def _changed_rows(
    before: "list[ByKey] | tuple[_Domains, ...]", now: "list[ByKey] | tuple[_Domains, ...]", rows_in_use: int
) -> StaleRows:
    """Rows in domains whose value changed."""
    if [column for column, _ in before] != [column for column, _ in now]:
        return ALL_ROWS
    rows = NO_ROWS
    for (column, was), (_, is_now) in zip(before, now, strict=True):
        if len(was) != len(is_now):
            return ALL_ROWS
        changed = np.flatnonzero(was != is_now)
        if len(changed):
            rows = merge_rows(rows, column.rows_of(changed, rows_in_use))
    return rows
