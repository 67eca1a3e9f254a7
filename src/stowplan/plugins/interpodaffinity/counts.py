"""What is counted for a class of pods: the pods its terms mean, and the terms of others that mean it."""

from collections.abc import Iterable, Sequence

import numpy as np

from stowplan.api.labels import NOTHING, Selector
from stowplan.cluster.changes import NO_ROWS
from stowplan.cluster.columns import LabelColumn
from stowplan.cluster.counts import Counts, IntArray
from stowplan.cluster.kinds import PodKind
from stowplan.cluster.matchers import Clause, DomainCounter, PodMatcher, RowSet
from stowplan.cluster.table import ClusterTable
from stowplan.cluster.terms import Term, TermGroup, TermRole
from stowplan.framework import ALL_ROWS, PodInfo, StaleRows
from stowplan.framework.plugin_call import merge_rows


class TermCounter:
    """Pods that satisfy one or several terms, per domain of a topology key."""

    __slots__ = ("_table", "column", "counter", "matcher", "weight")

    def __init__(
        self,
        table: ClusterTable,
        key: str,
        clauses: tuple[Clause, ...] | PodMatcher,
        rows: RowSet,
        weight: int,
    ) -> None:
        self._table = table
        self.column: LabelColumn = table.labels.acquire(key)
        self.matcher: PodMatcher = (
            table.matchers.share(clauses)
            if isinstance(clauses, PodMatcher)
            else table.matchers.acquire(clauses, dying_too=True)
        )
        self.counter = DomainCounter(table, self.matcher, self.column, rows)
        self.weight = weight

    @property
    def counts(self) -> Counts:
        return self.counter.counts

    def refresh(self) -> None:
        self.counter.refresh()

    def close(self) -> None:
        self.counter.close()
        self._table.labels.release(self.column)
        self._table.matchers.release(self.matcher)


class DomainSums:
    """Weighted counts added up per domain of one topology key, kept current change by change.

    With `only_presence` all that matters is whether a domain's sum is positive. `log` lists the domains
    where something that matters changed; `position` is where it ends now. Domain 0, the absent label, has 0.
    """

    __slots__ = (
        "_base",
        "_only_presence",
        "_parts",
        "_table",
        "_topology",
        "_versions",
        "column",
        "log",
        "values",
    )

    def __init__(
        self,
        table: ClusterTable,
        column: LabelColumn,
        parts: Sequence[tuple[TermCounter | TermGroup, int]],
        *,
        only_presence: bool,
    ) -> None:
        self._table = table
        self.column = column
        self._parts = parts
        self._only_presence = only_presence
        self._versions: list[int] = []
        self._topology = -1
        self._base = 0
        self.log: list[int] = []
        self.values: IntArray = np.zeros(0, dtype=np.int64)
        self.sync()

    @property
    def position(self) -> int:
        return self._base + len(self.log)

    @property
    def any(self) -> bool:
        """Is there anything in any domain?"""
        return bool(self.values.any())

    @property
    def counted(self) -> bool:
        """Was anything added up in any domain, even if it came to nothing?"""
        return any(part.counts.total > part.counts.get(0) for part, _ in self._parts)

    def sync(self) -> None:
        if self._topology != self._table.topology_version:
            self._add_up()
            return
        for index, (part, _) in enumerate(self._parts):
            counts = part.counts
            if counts.version == self._versions[index]:
                continue
            changed = counts.changed_since(self._versions[index])
            if changed is None:
                self._add_up()
                return
            self._versions[index] = counts.version
            for domain in changed:
                self._set(domain)

    def changed_since(self, position: int) -> list[int] | None:
        """Domains where something changed since a position, None if that is too long ago to say."""
        start = position - self._base
        return None if start < 0 else self.log[start:]

    def _set(self, domain: int) -> None:
        if not domain:
            return
        old = self.values.item(domain)
        new = sum(weight * part.counts.get(domain) for part, weight in self._parts)
        if old == new:
            return
        self.values[domain] = new
        if not self._only_presence or (old > 0) != (new > 0):
            self._note([domain])

    def _add_up(self) -> None:
        old = self.values
        values = np.zeros(self.column.size, dtype=np.int64)
        for part, weight in self._parts:
            part.refresh()
            part.counts.add_into(values, weight)
        values[0] = 0
        self.values = values
        self._versions = [part.counts.version for part, _ in self._parts]
        self._topology = self._table.topology_version
        if len(old) != len(values):
            self._base = self.position + 1
            self.log = []
            return
        differs = (old > 0) != (values > 0) if self._only_presence else old != values
        self._note(np.flatnonzero(differs).tolist())

    def _note(self, domains: list[int]) -> None:
        self.log += domains
        if len(self.log) > 1024:
            self._base += len(self.log)
            self.log = []


class OwnTerms:
    """The terms of a class of pods with their counters.

    All required affinity terms have to be met by the same pods, so they share one selection. Terms with a
    topology key that no node has count nothing, and are left out until a node has it; of required affinity
    one such term is enough to reject every node.
    """

    __slots__ = (
        "_keys_version",
        "_made_for",
        "_table",
        "affinity",
        "anti_affinity",
        "matches_itself",
        "preferred",
    )

    def __init__(self, table: ClusterTable, pod: PodInfo) -> None:
        self._table = table
        self._made_for = table.lookups.namespaces_version
        self._keys_version: int | None = None
        rows = RowSet(table, lambda: table.valid)
        terms = pod.template.terms
        required = terms.of(TermRole.REQUIRED_AFFINITY)
        namespaces = _Namespaces(table)
        joint = tuple(dict.fromkeys(map(namespaces.clause, required)))
        self.affinity: list[TermCounter] = []
        for key in dict.fromkeys(term.topology_key for term in required):
            shared = self.affinity[0].matcher if self.affinity else joint
            self.affinity.append(TermCounter(table, key, shared, rows, 1))
            if not table.labels.any_with(key):
                self._keys_version = table.labels.keys_version
                break
        self.anti_affinity = [
            TermCounter(table, term.topology_key, (namespaces.clause(term),), rows, 1)
            for term in self._with_domains(terms.of(TermRole.REQUIRED_ANTI_AFFINITY))
        ]
        preferred = (*terms.of(TermRole.PREFERRED_AFFINITY), *terms.of(TermRole.PREFERRED_ANTI_AFFINITY))
        self.preferred = [
            TermCounter(table, term.topology_key, (namespaces.clause(term),), rows, _signed_weight(term))
            for term in self._with_domains(preferred)
        ]
        self.matches_itself = bool(joint) and all(
            (namespaces is None or pod.namespace in namespaces) and selector.matches(pod.labels)
            for namespaces, selector in joint
        )

    def _with_domains(self, terms: Sequence[Term]) -> list[Term]:
        labels = self._table.labels
        found = [term for term in terms if labels.any_with(term.topology_key)]
        if len(found) < len(terms):
            self._keys_version = labels.keys_version
        return found

    @property
    def holds(self) -> bool:
        """Whether namespaces, and the keys that no node had, are as they were."""
        table = self._table
        return self._made_for == table.lookups.namespaces_version and (
            self._keys_version is None or self._keys_version == table.labels.keys_version
        )

    def close(self) -> None:
        for counted in (*self.affinity, *self.anti_affinity, *self.preferred):
            counted.close()


class _Namespaces:
    """Resolves the namespace selectors of a pod's terms to names, each distinct one once."""

    def __init__(self, table: ClusterTable) -> None:
        self._known = table.lookups.namespaces
        self._chosen: dict[Selector, frozenset[str] | None] = {NOTHING: frozenset()}
        self._together: dict[tuple[frozenset[str], Selector], frozenset[str]] = {}

    def clause(self, term: Term) -> Clause:
        """The pods an incoming pod's term means.

        A selector that an empty set of labels satisfies (`NotIn`, `DoesNotExist`) means all namespaces, as in
        Kubernetes, where it is tested once more without labels.
        """
        selector = term.namespace_selector
        if selector not in self._chosen:
            self._chosen[selector] = self._find(selector)
        chosen = self._chosen[selector]
        if not chosen:
            return (None if chosen is None else term.namespaces, term.selector)
        together = self._together.get((term.namespaces, selector))
        if together is None:
            together = self._together[term.namespaces, selector] = term.namespaces | chosen
        return (together, term.selector)

    def _find(self, selector: Selector) -> frozenset[str] | None:
        if selector.matches({}):
            return None
        return frozenset(name for name, labels in self._known.items() if selector.matches(labels))


def _signed_weight(term: Term) -> int:
    return -term.weight if term.role is TermRole.PREFERRED_ANTI_AFFINITY else term.weight


def groups_of(kind: PodKind, *roles: TermRole) -> list[TermGroup]:
    """Terms carried by pods on nodes that mean pods of this kind."""
    return [group for group in kind.term_groups if isinstance(group, TermGroup) and group.term.role in roles]


def sums_by_key(
    table: ClusterTable, parts: Iterable[tuple[TermCounter | TermGroup, int]], *, only_presence: bool
) -> tuple[DomainSums, ...]:
    """Weighted counts added up per topology key."""
    by_key: dict[str, list[tuple[TermCounter | TermGroup, int]]] = {}
    for part, weight in parts:
        by_key.setdefault(part.column.key, []).append((part, weight))
    return tuple(
        DomainSums(table, same_key[0][0].column, same_key, only_presence=only_presence)
        for same_key in by_key.values()
    )


def changed_rows(
    sums: Sequence[DomainSums], before: Sequence[int], now: Sequence[int], rows_in_use: int
) -> StaleRows:
    """Rows in domains where something changed between two positions of the logs."""
    rows = NO_ROWS
    for entry, then, here in zip(sums, before, now, strict=True):
        if then == here:
            continue
        changed = entry.changed_since(then)
        if changed is None:
            return ALL_ROWS
        rows = merge_rows(rows, entry.column.rows_of(changed, rows_in_use))
    return rows
