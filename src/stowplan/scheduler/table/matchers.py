"""Counted selections of pods: how many pods that a rule selects are on each row, and in each domain."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stowplan.api.labels import Selector
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import BoolColumn, Counts, IntArray
from stowplan.scheduler.table.labelsets import (
    CountsPods,
    LabelPair,
    LabelSet,
    LabelSets,
    SelectorIndex,
    needed_pairs,
)
from stowplan.scheduler.table.nodelabels import LabelColumn

if TYPE_CHECKING:
    from stowplan.scheduler.table.table import ClusterTable

Clause = tuple[frozenset[str] | None, Selector]
"""Namespaces (None: all of them) and a label selector."""


FEW_DOMAINS = 64
"""Up to this many domains are gone through one by one."""


class ClauseIndex:
    """Many clauses by the labels they demand, so that a label set is tested against few of them."""

    __slots__ = ("_by_label", "_clauses", "_others", "needed")

    def __init__(self, clauses: Sequence[Clause]) -> None:
        self._clauses = clauses
        self._by_label: dict[LabelPair, list[int]] = {}
        self._others: list[int] = []
        for number, (_, selector) in enumerate(clauses):
            pairs = needed_pairs((selector,))
            if pairs is None:
                self._others.append(number)
            for pair in pairs or ():
                self._by_label.setdefault(pair, []).append(number)
        self.needed = None if self._others else tuple(self._by_label)
        """Label pairs of which every selected label set has one; None if no such pairs can be named."""

    def selecting(self, label_set: LabelSet) -> Iterator[int]:
        """The numbers of the clauses that select a label set."""
        # The pairs of one clause are values of one key, so no clause is met twice.
        for pair in label_set.labels.items():
            for number in self._by_label.get(pair, ()):
                if _selects(self._clauses[number], label_set):
                    yield number
        for number in self._others:
            if _selects(self._clauses[number], label_set):
                yield number


def _selects(clause: Clause, label_set: LabelSet) -> bool:
    namespaces, selector = clause
    return (namespaces is None or label_set.namespace in namespaces) and selector.matches(label_set.labels)


class MatcherKey(NamedTuple):
    """A selection: pods that satisfy every clause, or `any_clause`.

    With `weights`, one of each clause, a pod counts as often as the clauses that it satisfies say together.
    Dying pods count only if asked for.
    """

    clauses: tuple[Clause, ...]
    dying_too: bool
    any_clause: bool = False
    weights: tuple[int, ...] = ()


class PodMatcher:
    """The pods of a selection by row.

    Shared by all users of the same selection and kept exact while it has a holder.
    """

    __slots__ = ("_index", "_needed", "_weighted", "counters", "dying_too", "holders", "key", "rows")

    def __init__(self, key: MatcherKey) -> None:
        self.key = key
        self.dying_too = key.dying_too
        self._index = ClauseIndex(key.clauses) if key.any_clause or key.weights else None
        self._needed = (
            needed_pairs(selector for _, selector in key.clauses)
            if self._index is None
            else self._index.needed
        )
        self._weighted: dict[int, _Weighted] = {}
        self.rows = Counts()
        self.counters: list[DomainCounter] = []
        self.holders = 0

    def entry(self, label_set: LabelSet) -> CountsPods | None:
        if self._index is None:
            return self if all(_selects(clause, label_set) for clause in self.key.clauses) else None
        if not self.key.weights:
            return self if any(True for _ in self._index.selecting(label_set)) else None
        weight = sum(map(self.key.weights.__getitem__, self._index.selecting(label_set)))
        if not weight:
            return None
        entry = self._weighted.get(weight)
        if entry is None:
            entry = self._weighted[weight] = _Weighted(self, weight)
        return entry

    def needed_labels(self) -> tuple[LabelPair, ...] | None:
        return self._needed

    def count(self, row: int, delta: int) -> None:
        self.rows.add(row, delta)
        for counter in self.counters:
            counter.count(row, delta)


class _Weighted:
    """A matcher to which the pods of some label sets count more than once."""

    __slots__ = ("_matcher", "_weight", "dying_too")

    def __init__(self, matcher: PodMatcher, weight: int) -> None:
        self._matcher = matcher
        self._weight = weight
        self.dying_too = matcher.dying_too

    def count(self, row: int, delta: int) -> None:
        self._matcher.count(row, delta * self._weight)


class RowSet:
    """A set of rows given by a function of labels and taints, recomputed when those change."""

    __slots__ = ("_decide", "_decided_at", "_domains", "_listed", "_members", "_table", "mask")

    def __init__(self, table: "ClusterTable", decide: Callable[[], BoolColumn]) -> None:
        self._table = table
        self._decide = decide
        self._decided_at = table.topology_version
        self._listed: Rows | None = None
        self._members: dict[LabelColumn, IntArray] = {}
        self._domains: dict[LabelColumn, list[int]] = {}
        self.mask: BoolColumn = decide()

    def refresh(self) -> int:
        """Make the mask current; returns the topology version it holds for."""
        version = self._table.topology_version
        if version != self._decided_at:
            self.mask = self._decide()
            self._listed = None
            self._members, self._domains = {}, {}
            self._decided_at = version
        return version

    @property
    def rows(self) -> Rows:
        """The same as numbers of rows."""
        if self._listed is None:
            self._listed = self.mask.nonzero()[0]
        return self._listed

    def members(self, column: LabelColumn) -> IntArray:
        """Number of rows of the set in each domain of a label, as of the last `refresh`."""
        found = self._members.get(column)
        if found is None:
            if len(self._members) >= _MOST_SHARED:
                self._members, self._domains = {}, {}
            found = self._members[column] = np.bincount(column.ids[self.rows], minlength=column.size)
        return found

    def domains(self, column: LabelColumn) -> list[int]:
        """The domains of a label that the rows are in, as of the last `refresh`."""
        found = self._domains.get(column)
        if found is None:
            listed: list[int] = self.members(column).nonzero()[0].tolist()
            found = self._domains[column] = listed
        return found


_MOST_SHARED = 64


class RowSets:
    """Row sets by what decides them, for those that many classes of pods ask for."""

    __slots__ = ("_sets",)

    def __init__(self) -> None:
        self._sets: dict[Hashable, RowSet] = {}

    def of(self, table: "ClusterTable", key: Hashable, decide: Callable[[], BoolColumn]) -> RowSet:
        """The set of a key, whose rows `decide` names."""
        found = self._sets.get(key)
        if found is None:
            if len(self._sets) >= _MOST_SHARED:
                self._sets.clear()
            found = self._sets[key] = RowSet(table, decide)
        found.refresh()
        return found

    def everything(self, table: "ClusterTable") -> RowSet:
        """Every row that has a node."""
        return self.of(table, None, lambda: table.valid)


class DomainCounter:
    """A matcher's pods per domain of one label, over the rows of a set, and which domains those rows have.

    A domain exists where some row of the set is in it.
    """

    __slots__ = ("_column", "_counted_at", "_matcher", "_rows", "_table", "counts")

    def __init__(
        self, table: "ClusterTable", matcher: PodMatcher | None, column: LabelColumn, rows: RowSet
    ) -> None:
        self._table = table
        self._matcher = matcher
        self._column = column
        self._rows = rows
        self._counted_at = -1
        self.counts = Counts()
        if matcher is not None:
            matcher.counters.append(self)

    def refresh(self) -> None:
        """Count again if labels, taints or the set of nodes changed since."""
        version = self._rows.refresh()
        if version == self._counted_at:
            return
        pods = self._matcher.rows if self._matcher is not None else None
        if pods is None or not pods.total:
            self.counts.clear()
        elif pods.few is not None:
            self.counts.clear()
            for row, count in pods.few.items():
                if self._rows.mask[row]:
                    self.counts.add(self._column.ids.item(row), count)
        else:
            there = pods.to_array(len(self._column.ids))[self._rows.rows]
            counted = np.bincount(
                self._column.ids[self._rows.rows], weights=there, minlength=self._column.size
            )
            self.counts.fill(counted.astype(np.int64))
        self._counted_at = version

    @property
    def members(self) -> IntArray:
        """Number of rows of the set in each domain, as of the last `refresh`."""
        return self._rows.members(self._column)

    @property
    def domains(self) -> list[int] | None:
        """The domains that exist, as of the last `refresh`; None: they are many."""
        return self._rows.domains(self._column) if self._column.size <= FEW_DOMAINS else None

    def regards(self, row: int) -> bool:
        """Do pods on this row count?"""
        self._rows.refresh()
        return bool(self._rows.mask[row])

    def count(self, row: int, delta: int) -> None:
        """A pod entered or left a row. Ignored while a recount is due anyway."""
        if self._counted_at == self._table.topology_version and self._rows.mask[row]:
            self.counts.add(self._column.ids.item(row), delta)

    def close(self) -> None:
        if self._matcher is not None:
            self._matcher.counters.remove(self)


class Matchers:
    """All counted selections, shared by equality."""

    def __init__(self, label_sets: LabelSets) -> None:
        self._selectors: SelectorIndex[PodMatcher] = SelectorIndex(label_sets, "matchers")
        self._matchers: dict[MatcherKey, PodMatcher] = {}

    def __len__(self) -> int:
        return len(self._matchers)

    def sizes(self) -> dict[str, int]:
        return {"matchers": len(self._matchers), **self._selectors.sizes("matcher")}

    def acquire(
        self,
        clauses: tuple[Clause, ...],
        *,
        dying_too: bool,
        any_clause: bool = False,
        weights: tuple[int, ...] = (),
    ) -> PodMatcher:
        """The matcher for a selection, counted from now on; give it back with `release`.

        Weights are positive.
        """
        key = MatcherKey(clauses, dying_too, any_clause, weights)
        matcher = self._matchers.get(key)
        if matcher is None:
            matcher = self._matchers[key] = PodMatcher(key)
            for label_set in self._selectors.add(matcher):
                entry = label_set.matchers[-1]
                for row, count in label_set.live.items():
                    entry.count(row, count)
                if dying_too:
                    for row, count in label_set.dying.items():
                        entry.count(row, count)
        matcher.holders += 1
        return matcher

    def share(self, matcher: PodMatcher) -> PodMatcher:
        """Add a holder to a matcher that has one already."""
        matcher.holders += 1
        return matcher

    def release(self, matcher: PodMatcher) -> None:
        matcher.holders -= 1
        if not matcher.holders:
            del self._matchers[matcher.key]
            self._selectors.remove(matcher)
