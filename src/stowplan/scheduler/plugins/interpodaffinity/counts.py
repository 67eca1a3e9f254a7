"""Counts for a class of pods: the pods its terms select, and the terms of others that select it."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from stowplan.api.labels import NOTHING, Selector
from stowplan.scheduler.framework import NodeRows
from stowplan.scheduler.framework.advanced import ALL_ROWS, FEW_ROWS, StaleRows
from stowplan.scheduler.table.changes import NO_ROWS, merge_rows
from stowplan.scheduler.table.columns import Counts, IntArray
from stowplan.scheduler.table.labelsets import LabelSet
from stowplan.scheduler.table.matchers import Clause, ClauseIndex, DomainCounter, PodMatcher, RowSet
from stowplan.scheduler.table.nodelabels import LabelColumn
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.table.terms import Term, TermGroup, TermRole

MANY_RARE_KEYS = 64
"""Up to this number of topology keys that few nodes have get a column and a counter each."""


class TermCounter:
    """Pods that satisfy one or several terms, per domain of a topology key."""

    __slots__ = ("_table", "column", "counter", "matcher", "weight")

    def __init__(
        self,
        table: ClusterTable,
        key: str,
        matcher: PodMatcher,
        weight: int,
        rows: RowSet,
    ) -> None:
        self._table = table
        self.column: LabelColumn = table.labels.acquire(key)
        self.matcher = matcher
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


class Sums(ABC):
    """Something added up per domain, kept current change by change.

    With `only_presence` all that matters is whether a domain's sum is positive. `log` lists the domains
    where something that matters changed; `position` is where it ends now. Domain 0, the absent label, has 0.
    """

    __slots__ = ("_base", "_only_presence", "_table", "_topology", "column", "log", "values")

    def __init__(self, table: ClusterTable, column: LabelColumn, *, only_presence: bool) -> None:
        self._table = table
        self.column = column
        self._only_presence = only_presence
        self._topology = -1
        self._base = 0
        self.log: list[int] = []
        self.values: IntArray = np.zeros(0, dtype=np.int64)

    @property
    def position(self) -> int:
        return self._base + len(self.log)

    @property
    def any(self) -> bool:
        """Is there anything in any domain?"""
        return bool(self.values.any())

    @property
    @abstractmethod
    def counted(self) -> bool:
        """True if anything was added up in any domain, even with a sum of 0."""

    @abstractmethod
    def sync(self) -> None:
        """Make the sums current."""

    def few_domains(self) -> Collection[int] | None:
        """Domains with a sum other than 0, if they can be listed at once."""
        return None

    def by_row(self, nodes: NodeRows) -> IntArray | dict[int, int]:
        """The sums of the domains that rows are in; of all rows it may be those that are not 0, by row."""
        column, values = self.column, self.values
        domains = self.few_domains() if isinstance(nodes.rows, slice) else None
        if domains is None or any(column.populations[domain] > 1 for domain in domains):
            there: IntArray = values[column.ids[nodes.rows]]
            return there
        return {column.only_row(domain): values.item(domain) for domain in domains if values.item(domain)}

    def changed_since(self, position: int) -> list[int] | None:
        """The distinct domains where something changed since a position; None if that is too long ago to say.

        Trying a row with and without its pods changes the same domain many times over.
        """
        start = position - self._base
        return None if start < 0 else list(set(self.log[start:]))

    def _replace(self, values: IntArray) -> None:
        old, self.values = self.values, values
        if len(old) != len(values):
            self._forget_changes()
            return
        differs = (old > 0) != (values > 0) if self._only_presence else old != values
        self._note(np.flatnonzero(differs).tolist())

    def _note(self, domains: list[int]) -> None:
        self.log += domains
        if len(self.log) > 1024:
            self._base += len(self.log)
            self.log = []

    def _forget_changes(self) -> None:
        """Have everybody look at all domains again."""
        self._base = self.position + 1
        self.log = []


class DomainSums(Sums):
    """Weighted counts added up per domain of one topology key."""

    __slots__ = ("_parts", "_versions")

    def __init__(
        self,
        table: ClusterTable,
        column: LabelColumn,
        parts: Sequence[tuple[TermCounter | TermGroup, int]],
        *,
        only_presence: bool,
    ) -> None:
        super().__init__(table, column, only_presence=only_presence)
        self._parts = parts
        self._versions: list[int] = []
        self.sync()

    @property
    def counted(self) -> bool:
        return any(part.counts.total > part.counts.get(0) for part, _ in self._parts)

    def few_domains(self) -> Collection[int] | None:
        found: set[int] = set()
        for (part, _), version in zip(self._parts, self._versions, strict=True):
            counted = part.counts.few
            if counted is None or part.counts.version != version:
                return None
            found.update(counted)
        found.discard(0)
        return found if len(found) <= FEW_ROWS else None

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
        values = np.zeros(self.column.size, dtype=np.int64)
        for part, weight in self._parts:
            part.refresh()
            part.counts.add_into(values, weight)
        values[0] = 0
        self._versions = [part.counts.version for part, _ in self._parts]
        self._topology = self._table.topology_version
        self._replace(values)


class RareKeySums(Sums):
    """Sums for terms with very many topology keys, each of which few nodes have or none.

    A column and a counter for every key would cost far more than reading the pods on those few nodes. The sum
    over the terms of all keys is kept by row: every row that has one of the keys is a domain here.
    """

    __slots__ = ("_by_clause", "_clauses", "_counted", "_keys", "_rows", "_seen")

    def __init__(
        self, table: ClusterTable, terms: Iterable[tuple[str, Clause, int]], *, only_presence: bool
    ) -> None:
        super().__init__(table, _column_of_rows(table, ()), only_presence=only_presence)
        by_clause: dict[Clause, list[tuple[str, int]]] = {}
        for key, clause, weight in terms:
            by_clause.setdefault(clause, []).append((key, weight))
        self._clauses = ClauseIndex(tuple(by_clause))
        self._by_clause = tuple(by_clause.values())
        self._keys = dict.fromkeys(key for listed in self._by_clause for key, _ in listed)
        self._rows: dict[int, int] = {}
        self._seen = -1
        self._counted = False
        self.sync()

    @property
    def counted(self) -> bool:
        return self._counted

    def sync(self) -> None:
        table = self._table
        position = table.usage_log.position
        if self._topology != table.topology_version:
            self._find_rows()
        elif position == self._seen or not self._touched():
            self._seen = position
            return
        self._seen = position
        self._replace(self._add_up())

    def _find_rows(self) -> None:
        table = self._table
        rows: set[int] = set()
        for key in self._keys:
            rows |= table.labels.few_with(key) or _NOWHERE
        listed = sorted(rows)
        self.column = _column_of_rows(table, listed)
        self._rows = {row: self.column.ids.item(row) for row in listed}
        self._topology = table.topology_version
        self._forget_changes()

    def _touched(self) -> bool:
        """True if pods entered or left one of the rows."""
        rows = self._table.usage_log.since(self._seen)
        return rows is None or not self._rows.keys().isdisjoint(rows.tolist())

    def _add_up(self) -> IntArray:
        sums: dict[tuple[str, str], int] = {}
        for row in self._rows:
            node = self._table.nodes[row]
            assert node is not None
            labels = node.metadata.labels
            for number, pods in self._matching(row).items():
                for key, weight in self._by_clause[number]:
                    value = labels.get(key)
                    if value is not None:
                        sums[key, value] = sums.get((key, value), 0) + weight * pods
        self._counted = bool(sums)
        values: IntArray = np.zeros(self.column.size, dtype=np.int64)
        for (key, value), total in sums.items():
            for row in self._table.labels.few_with(key) or _NOWHERE:
                node = self._table.nodes[row]
                if node is not None and node.metadata.labels.get(key) == value:
                    values[self._rows[row]] += total
        return values

    def _matching(self, row: int) -> dict[int, int]:
        """Number of pods of a row that satisfy a clause, by its number."""
        label_sets = Counter(info.template.label_set for info in self._table.pods_on[row].values())
        pods: dict[int, int] = {}
        for label_set, number_of_pods in label_sets.items():
            for number in self._clauses.selecting(label_set):
                pods[number] = pods.get(number, 0) + number_of_pods
        return pods


_NOWHERE: frozenset[int] = frozenset()


def _column_of_rows(table: ClusterTable, rows: Iterable[int]) -> LabelColumn:
    """A column in which every one of some rows is a domain."""
    column = LabelColumn("", np.zeros(table.capacity, dtype=np.intp))
    for row in rows:
        column.set(row, str(row))
    return column


class OwnTerms:
    """The terms of a class of pods with their counters.

    All required affinity terms have to be met by the same pods, so they share one selection. Of the other
    terms, all with one topology key are counted together, however many there are; where there are very many
    keys that few nodes have, these terms are added up otherwise (`rare_...`). Terms with a
    topology key that no node has count nothing, and are left out until a node has it; of required affinity
    one such term is enough to reject every node.
    """

    __slots__ = (
        "_keys_version",
        "_made_for",
        "_rarity_version",
        "_table",
        "affinity",
        "anti_affinity",
        "matches_itself",
        "preferred",
        "rare_anti_affinity",
        "rare_preferred",
    )

    def __init__(self, table: ClusterTable, pod: PodInfo) -> None:
        self._table = table
        self._made_for = table.lookups.namespaces_version
        self._keys_version: int | None = None
        self._rarity_version: int | None = None
        self.affinity: list[TermCounter] = []
        self.anti_affinity: list[TermCounter] = []
        self.preferred: list[TermCounter] = []
        self.rare_anti_affinity: RareKeySums | None = None
        self.rare_preferred: RareKeySums | None = None
        self.matches_itself = False
        if pod.template.terms.terms:
            self._count(pod)

    def _count(self, pod: PodInfo) -> None:
        terms = pod.template.terms
        rows = self._table.row_sets.everything(self._table)
        namespaces = _Namespaces(self._table)
        self._count_affinity(pod, terms.of(TermRole.REQUIRED_AFFINITY), namespaces, rows)
        self._count_anti_affinity(terms.of(TermRole.REQUIRED_ANTI_AFFINITY), namespaces, rows)
        preferred = (*terms.of(TermRole.PREFERRED_AFFINITY), *terms.of(TermRole.PREFERRED_ANTI_AFFINITY))
        self._count_preferred(preferred, namespaces, rows)

    def _count_affinity(
        self, pod: PodInfo, terms: Sequence[Term], namespaces: "_Namespaces", rows: RowSet
    ) -> None:
        table, matchers = self._table, self._table.matchers
        joint = tuple(dict.fromkeys(map(namespaces.clause, terms)))
        for key in dict.fromkeys(term.topology_key for term in terms):
            matcher = (
                matchers.share(self.affinity[0].matcher)
                if self.affinity
                else matchers.acquire(joint, dying_too=True)
            )
            self.affinity.append(TermCounter(table, key, matcher, 1, rows))
            if not table.labels.any_with(key):
                self._keys_version = table.labels.keys_version
                break
        self.matches_itself = bool(joint) and all(
            (named is None or pod.namespace in named) and selector.matches(pod.labels)
            for named, selector in joint
        )

    def _count_anti_affinity(self, terms: Sequence[Term], namespaces: "_Namespaces", rows: RowSet) -> None:
        table = self._table
        usual, rare = self._by_rarity(terms)
        by_key: dict[str, dict[Clause, None]] = {}
        for term in usual:
            by_key.setdefault(term.topology_key, {})[namespaces.clause(term)] = None
        self.anti_affinity = [
            TermCounter(table, key, _any_of(table, tuple(clauses)), 1, rows)
            for key, clauses in by_key.items()
        ]
        if rare:
            listed = [(term.topology_key, namespaces.clause(term), 1) for term in rare]
            self.rare_anti_affinity = RareKeySums(table, listed, only_presence=True)

    def _count_preferred(self, terms: Sequence[Term], namespaces: "_Namespaces", rows: RowSet) -> None:
        table = self._table
        usual, rare = self._by_rarity(terms)
        by_key: dict[tuple[str, int], dict[Clause, int]] = {}
        for term in usual:
            weights = by_key.setdefault((term.topology_key, _sign(term)), {})
            clause = namespaces.clause(term)
            weights[clause] = weights.get(clause, 0) + abs(term.weight)
        self.preferred = [
            TermCounter(table, key, *_weighed(table, weights, sign), rows)
            for (key, sign), weights in by_key.items()
        ]
        if rare:
            listed = [(t.topology_key, namespaces.clause(t), _sign(t) * abs(t.weight)) for t in rare]
            self.rare_preferred = RareKeySums(table, listed, only_presence=False)

    def _by_rarity(self, terms: Sequence[Term]) -> tuple[list[Term], list[Term]]:
        """Terms that have counters of their own, and those with very many rare keys."""
        labels = self._table.labels
        rare = [term for term in terms if labels.few_with(term.topology_key) is not None]
        if len(rare) > MANY_RARE_KEYS and len({term.topology_key for term in rare}) > MANY_RARE_KEYS:
            self._rarity_version = labels.rarity_version
            return [term for term in terms if labels.few_with(term.topology_key) is None], rare
        found = [term for term in terms if labels.any_with(term.topology_key)]
        if len(found) < len(terms):
            self._keys_version = labels.keys_version
        return found, []

    @property
    def holds(self) -> bool:
        """True if namespaces, the keys that no node had, and the rare ones are unchanged."""
        table = self._table
        return (
            self._made_for == table.lookups.namespaces_version
            and (self._keys_version is None or self._keys_version == table.labels.keys_version)
            and (self._rarity_version is None or self._rarity_version == table.labels.rarity_version)
        )

    def close(self) -> None:
        for counted in (*self.affinity, *self.anti_affinity, *self.preferred):
            counted.close()


class _Namespaces:
    """Resolves the namespace selectors of a pod's terms to names, each distinct one once."""

    def __init__(self, table: ClusterTable) -> None:
        self._known = table.lookups.namespaces
        self._is_lost = table.release.behaviour.rules.namespace_selector == "lost"
        self._chosen: dict[Selector, frozenset[str] | None] = {NOTHING: frozenset()}
        self._together: dict[tuple[frozenset[str], Selector], frozenset[str]] = {}

    def clause(self, term: Term) -> Clause:
        """The pods an incoming pod's term selects.

        An empty selector means all namespaces. In releases that lose the names again, so does a selector that
        an empty set of labels satisfies (`NotIn`, `DoesNotExist`): it is tested once more without labels.
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
        if selector.is_empty or (self._is_lost and selector.matches({})):
            return None
        return frozenset(name for name, labels in self._known.items() if selector.matches(labels))


def _any_of(table: ClusterTable, clauses: tuple[Clause, ...]) -> PodMatcher:
    return table.matchers.acquire(clauses, dying_too=True, any_clause=len(clauses) > 1)


def _weighed(table: ClusterTable, weights: dict[Clause, int], sign: int) -> tuple[PodMatcher, int]:
    """A matcher for preferred terms of one key, and what one pod of it weighs.

    Terms for and against are counted apart, so that no sum is zero because they outweigh each other: whether
    anything was added up makes a difference. So are terms without a weight.
    """
    clauses = tuple(weights)
    if len(clauses) == 1:
        return table.matchers.acquire(clauses, dying_too=True), sign * weights[clauses[0]]
    if not sign:
        return _any_of(table, clauses), 0
    return table.matchers.acquire(clauses, dying_too=True, weights=tuple(weights.values())), sign


def _sign(term: Term) -> int:
    sign = (term.weight > 0) - (term.weight < 0)
    return -sign if term.role is TermRole.PREFERRED_ANTI_AFFINITY else sign


def groups_of(label_set: LabelSet, *roles: TermRole) -> list[TermGroup]:
    """Terms of pods on nodes that select pods of this label set."""
    if not label_set.term_groups:
        return []
    return [
        group for group in label_set.term_groups if isinstance(group, TermGroup) and group.term.role in roles
    ]


def sums_by_key(
    table: ClusterTable, parts: Sequence[tuple[TermCounter | TermGroup, int]], *, only_presence: bool
) -> tuple[DomainSums, ...]:
    """Weighted counts added up per topology key."""
    if not parts:
        return ()
    by_key: dict[str, list[tuple[TermCounter | TermGroup, int]]] = {}
    for part, weight in parts:
        by_key.setdefault(part.column.key, []).append((part, weight))
    return tuple(
        DomainSums(table, same_key[0][0].column, same_key, only_presence=only_presence)
        for same_key in by_key.values()
    )


def changed_rows(
    sums: Sequence[Sums], before: Sequence[int], now: Sequence[int], rows_in_use: int
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
