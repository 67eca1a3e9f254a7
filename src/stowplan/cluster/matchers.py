"""Counted selections of pods: how many pods that a rule chooses are on each row, and in each domain."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from stowplan.api.labels import Selector
from stowplan.cluster.columns import BoolColumn, LabelColumn
from stowplan.cluster.counts import Counts, IntArray
from stowplan.cluster.kinds import KindRegistry, LabelPair, PodKind, Relation, needed_by_any, needed_pairs

if TYPE_CHECKING:
    from stowplan.cluster.table import ClusterTable

Clause = tuple[frozenset[str] | None, Selector]
"""Namespaces (None: all of them) and a label selector."""


FEW_DOMAINS = 64
"""Up to this many domains are gone through one by one."""


class PodMatcher:
    """Pods that satisfy every clause, or `any_clause`, by row; dying pods count only if asked for.

    Shared by all who ask for the same selection and kept exact while anybody holds it.
    """

    __slots__ = ("_needed", "any_clause", "clauses", "counters", "dying_too", "holders", "rows")

    def __init__(self, clauses: tuple[Clause, ...], dying_too: bool, any_clause: bool = False) -> None:
        self.clauses = clauses
        self.any_clause = any_clause
        selectors = [selector for _, selector in clauses]
        self._needed = needed_by_any(selectors) if any_clause else needed_pairs(selectors)
        self.dying_too = dying_too
        self.rows = Counts()
        self.counters: list[DomainCounter] = []
        self.holders = 0

    def selects(self, kind: PodKind) -> bool:
        enough = any if self.any_clause else all
        return enough(
            (namespaces is None or kind.namespace in namespaces) and selector.matches(kind.labels)
            for namespaces, selector in self.clauses
        )

    def needed_labels(self) -> tuple[LabelPair, ...] | None:
        return self._needed

    def count(self, row: int, delta: int) -> None:
        self.rows.add(row, delta)
        for counter in self.counters:
            counter.count(row, delta)


class RowSet:
    """Rows that count for somebody, by a function of labels and taints, asked again when those change."""

    __slots__ = ("_decide", "_decided_at", "_table", "mask")

    def __init__(self, table: "ClusterTable", decide: Callable[[], BoolColumn]) -> None:
        self._table = table
        self._decide = decide
        self._decided_at = table.topology_version
        self.mask: BoolColumn = decide()

    def refresh(self) -> int:
        """Make the mask current; returns the topology version it holds for."""
        version = self._table.topology_version
        if version != self._decided_at:
            self.mask = self._decide()
            self._decided_at = version
        return version


def all_rows(table: "ClusterTable") -> RowSet:
    """Every row that has a node."""
    return RowSet(table, lambda: table.valid)


class DomainCounter:
    """A matcher's pods per domain of one label, over the rows of a set, and which domains those rows have.

    `members` counts the rows of the set per domain: a domain exists where that is not zero. `domains` lists
    the domains that exist, where they are few enough to go through one by one.
    """

    __slots__ = ("_column", "_counted_at", "_matcher", "_rows", "_table", "counts", "domains", "members")

    def __init__(
        self, table: "ClusterTable", matcher: PodMatcher | None, column: LabelColumn, rows: RowSet
    ) -> None:
        self._table = table
        self._matcher = matcher
        self._column = column
        self._rows = rows
        self._counted_at = -1
        self.members: IntArray = np.zeros(0, dtype=np.int64)
        self.domains: list[int] | None = None
        self.counts = Counts()
        if matcher is not None:
            matcher.counters.append(self)

    def refresh(self) -> None:
        """Count again if labels, taints or the set of nodes changed since."""
        version = self._rows.refresh()
        if version == self._counted_at:
            return
        used = self._table.rows_in_use
        ids = self._column.ids[:used]
        included = self._rows.mask[:used]
        size = self._column.size
        chosen = ids[included]
        self.members = np.bincount(chosen, minlength=size)
        self.domains = np.flatnonzero(self.members).tolist() if size <= FEW_DOMAINS else None
        if self._matcher is None or not self._matcher.rows.total:
            self.counts.clear()
        else:
            pods = self._matcher.rows.to_array(len(self._column.ids))[:used][included]
            self.counts.fill(np.bincount(chosen, weights=pods, minlength=size).astype(np.int64))
        self._counted_at = version

    def regards(self, row: int) -> bool:
        """Do pods on this row count?"""
        self._rows.refresh()
        return bool(self._rows.mask[row])

    def count(self, row: int, delta: int) -> None:
        """A pod came to or left a row. Ignored while a recount is due anyway."""
        if self._counted_at == self._table.topology_version and self._rows.mask[row]:
            self.counts.add(self._column.ids.item(row), delta)

    def close(self) -> None:
        if self._matcher is not None:
            self._matcher.counters.remove(self)


class Matchers:
    """All counted selections, shared by equality."""

    def __init__(self, kinds: KindRegistry) -> None:
        self._relation: Relation[PodMatcher] = Relation(kinds, "matchers")
        self._matchers: dict[tuple[tuple[Clause, ...], bool, bool], PodMatcher] = {}

    def __len__(self) -> int:
        return len(self._matchers)

    def sizes(self) -> dict[str, int]:
        return {"matchers": len(self._matchers), **self._relation.sizes("matcher")}

    def acquire(
        self, clauses: tuple[Clause, ...], *, dying_too: bool, any_clause: bool = False
    ) -> PodMatcher:
        """The matcher for a selection, counted from now on; give it back with `release`."""
        key = (clauses, dying_too, any_clause)
        matcher = self._matchers.get(key)
        if matcher is None:
            matcher = self._matchers[key] = PodMatcher(clauses, dying_too, any_clause)
            for kind in self._relation.add(matcher):
                for row, count in kind.live.items():
                    matcher.rows.add(row, count)
                if dying_too:
                    for row, count in kind.dying.items():
                        matcher.rows.add(row, count)
        matcher.holders += 1
        return matcher

    def share(self, matcher: PodMatcher) -> PodMatcher:
        """One more holder of a matcher that somebody holds."""
        matcher.holders += 1
        return matcher

    def release(self, matcher: PodMatcher) -> None:
        matcher.holders -= 1
        if not matcher.holders:
            del self._matchers[matcher.clauses, matcher.dying_too, matcher.any_clause]
            self._relation.remove(matcher)
