"""What is counted for a class of pods: the pods its terms mean, and the terms of others that mean it."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stowplan.cluster.columns import LabelColumn
from stowplan.cluster.counts import IntArray
from stowplan.cluster.kinds import PodKind
from stowplan.cluster.matchers import Clause, DomainCounter, PodMatcher, RowSet
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.terms import Term, TermGroup, TermRole


class Counted:
    """Pods that satisfy one or several terms, per domain of a topology key."""

    __slots__ = ("_table", "column", "counter", "matcher", "weight")

    def __init__(self, table: ClusterTable, key: str, clauses: tuple[Clause, ...], rows: RowSet, weight: int):
        self._table = table
        self.column: LabelColumn = table.label_column(key)
        self.matcher: PodMatcher = table.matchers.acquire(clauses, dying_too=True)
        self.counter = DomainCounter(table, self.matcher, self.column, rows)
        self.weight = weight

    def close(self) -> None:
        self.counter.close()
        self._table.matchers.release(self.matcher)


class ByKey(NamedTuple):
    """One number per domain of a topology key; domain 0, the absent label, has 0."""

    column: LabelColumn
    values: IntArray


class OwnTerms:
    """The terms of a class of pods with their counters.

    All required affinity terms have to be met by the same pods, so they share one selection.
    """

    __slots__ = ("affinity", "anti_affinity", "made_for", "matches_itself", "preferred")

    def __init__(self, table: ClusterTable, pod: PodInfo) -> None:
        self.made_for = table.lookups.version
        rows = RowSet(table, lambda: table.valid)
        terms = pod.template.terms
        required = terms.of(TermRole.REQUIRED_AFFINITY)
        joint = tuple(_clause(table, term) for term in required)
        self.affinity = [Counted(table, term.topology_key, joint, rows, 1) for term in required]
        self.anti_affinity = [
            Counted(table, term.topology_key, (_clause(table, term),), rows, 1)
            for term in terms.of(TermRole.REQUIRED_ANTI_AFFINITY)
        ]
        self.preferred = [
            Counted(table, term.topology_key, (_clause(table, term),), rows, _signed_weight(term))
            for term in (*terms.of(TermRole.PREFERRED_AFFINITY), *terms.of(TermRole.PREFERRED_ANTI_AFFINITY))
        ]
        self.matches_itself = bool(joint) and all(
            (namespaces is None or pod.namespace in namespaces) and selector.matches(pod.labels)
            for namespaces, selector in joint
        )

    def close(self) -> None:
        for counted in (*self.affinity, *self.anti_affinity, *self.preferred):
            counted.close()


def _clause(table: ClusterTable, term: Term) -> Clause:
    """The pods an incoming pod's term means, its namespace selector resolved to names.

    A selector that an empty set of labels satisfies (`NotIn`, `DoesNotExist`) means all namespaces, as in
    Kubernetes, where it is tested once more without labels.
    """
    selector = term.namespace_selector
    if selector.matches({}):
        return (None, term.selector)
    chosen = frozenset(name for name, labels in table.lookups.namespaces.items() if selector.matches(labels))
    return (term.namespaces | chosen, term.selector)


def _signed_weight(term: Term) -> int:
    return -term.weight if term.role is TermRole.PREFERRED_ANTI_AFFINITY else term.weight


def groups_of(kind: PodKind, *roles: TermRole) -> list[TermGroup]:
    """Terms carried by pods on nodes that mean pods of this kind."""
    return [group for group in kind.term_groups if isinstance(group, TermGroup) and group.term.role in roles]


def sum_by_key(parts: Iterable[tuple[Counted | TermGroup, int]]) -> list[ByKey]:
    """Weighted counts added up per topology key."""
    sums: dict[str, ByKey] = {}
    for part, weight in parts:
        column = part.column
        total = sums.get(column.key)
        if total is None:
            total = sums[column.key] = ByKey(column, np.zeros(column.size, dtype=np.int64))
        domains = part.domains if isinstance(part, TermGroup) else part.counter.counts
        domains.add_into(total.values, weight)
    for total in sums.values():
        total.values[0] = 0
    return list(sums.values())


def version_of(table: ClusterTable, kind: PodKind, parts: Sequence[Counted | TermGroup]) -> Any:
    """Something that changes whenever any of the counts does."""
    return (
        table.topology_version,
        kind.version,
        tuple(
            part.domains.version if isinstance(part, TermGroup) else part.counter.counts.version
            for part in parts
        ),
    )


def refresh(counted: Iterable[Counted]) -> None:
    for entry in counted:
        entry.counter.refresh()


def count_in_domains(entry: Counted) -> IntArray:
    """A counter's counts by domain, 0 for the absent label."""
    values = entry.counter.counts.to_array(entry.column.size)
    values[0] = 0
    return values
