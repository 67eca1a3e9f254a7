"""Affinity terms that pods on nodes carry, which bear on the pods that come after them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from stowplan.api.labels import NOTHING, Selector, SelectorError, compile_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.pod import Affinity, PodAffinityTerm
from stowplan.scheduler.table.columns import Counts
from stowplan.scheduler.table.labelsets import LabelPair, LabelSet, LabelSets, SelectorIndex, needed_pairs
from stowplan.scheduler.table.lookups import Lookups
from stowplan.scheduler.table.nodelabels import LabelColumn, NodeLabels

_NO_LABELS: Mapping[str, str] = {}


class TermRole(IntEnum):
    """Kind of a term. Anti-affinity has the odd numbers."""

    REQUIRED_AFFINITY = 0
    REQUIRED_ANTI_AFFINITY = 1
    PREFERRED_AFFINITY = 2
    PREFERRED_ANTI_AFFINITY = 3


class Term(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A parsed affinity term; `namespaces` includes the pod's own where the term named none."""

    role: TermRole
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    weight: int = 0

    def selects(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str] = _NO_LABELS
    ) -> bool:
        """True if the term selects pods with these labels in a namespace with those labels."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


class PodTerms(NamedTuple):
    """All terms of a pod, and what was wrong with those that could not be parsed."""

    terms: tuple[Term, ...]
    error: str | None

    @property
    def requires(self) -> bool:
        """True if some term is more than a preference; required terms come first."""
        return bool(self.terms) and self.terms[0].role <= TermRole.REQUIRED_ANTI_AFFINITY

    def of(self, role: TermRole) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if term.role is role)


NO_TERMS = PodTerms((), None)


def parse_terms(namespace: str, affinity: Affinity | None) -> PodTerms:
    """The pod (anti-)affinity terms of a pod. A list with a term that does not parse counts as empty."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    terms: list[Term] = []
    errors: list[str] = []
    for role in TermRole:
        try:
            terms.extend(terms_of(role, namespace, affinity))
        except SelectorError as error:
            errors.append(str(error))
    if not errors:
        return PodTerms(tuple(terms), None)
    unique = list(dict.fromkeys(errors))
    return PodTerms(tuple(terms), unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]")


def terms_of(role: TermRole, namespace: str, affinity: Affinity | None) -> list[Term]:
    """One list of terms of a pod. Raises SelectorError."""
    anti = role in (TermRole.REQUIRED_ANTI_AFFINITY, TermRole.PREFERRED_ANTI_AFFINITY)
    rules = affinity and (affinity.pod_anti_affinity if anti else affinity.pod_affinity)
    if not rules:
        return []
    parser = _TermParser(role, namespace)
    if role in (TermRole.REQUIRED_AFFINITY, TermRole.REQUIRED_ANTI_AFFINITY):
        required = rules.required_during_scheduling_ignored_during_execution
        return [parser.parse(term, 0) for term in required]
    preferred = rules.preferred_during_scheduling_ignored_during_execution
    return [parser.parse(term.pod_affinity_term, term.weight) for term in preferred]


class _TermParser:
    """Reads the terms of one list; what a term has in common with the one before it is read once."""

    __slots__ = ("_chosen", "_named", "_own", "_role", "_selector")

    def __init__(self, role: TermRole, namespace: str) -> None:
        self._role = role
        self._own = frozenset((namespace,))
        self._named: tuple[tuple[str, ...], frozenset[str]] = ((), frozenset())
        self._chosen: tuple[LabelSelector | None, Selector] = (None, NOTHING)
        self._selector: tuple[LabelSelector | None, Selector] = (None, NOTHING)

    def parse(self, term: PodAffinityTerm, weight: int) -> Term:
        if term.namespaces != self._named[0]:
            self._named = (term.namespaces, frozenset(term.namespaces))
        if term.namespace_selector != self._chosen[0]:
            self._chosen = (term.namespace_selector, compile_selector(term.namespace_selector))
        if term.label_selector != self._selector[0]:
            self._selector = (term.label_selector, compile_selector(term.label_selector))
        names = self._named[1]
        if not names and term.namespace_selector is None:
            names = self._own
        return Term(self._role, term.topology_key, names, self._chosen[1], self._selector[1], weight)


class TermGroup:
    """All pods on nodes that carry one term, counted by domain of its topology key.

    `carriers` includes those on nodes that lack the key, `counts` does not. The group has the `column` of
    its key while there are carriers.
    """

    __slots__ = ("__weakref__", "_column", "_lookups", "carriers", "counts", "term")

    def __init__(self, term: Term, lookups: Lookups) -> None:
        self.term = term
        self._column: LabelColumn | None = None
        self._lookups = lookups
        self.counts = Counts()
        self.carriers = 0

    @property
    def column(self) -> LabelColumn:
        assert self._column is not None
        return self._column

    def hold(self, labels: NodeLabels) -> None:
        """The first carrier comes."""
        self._column = labels.acquire(self.term.topology_key)

    def let_go(self, labels: NodeLabels) -> None:
        """The last carrier has left."""
        labels.release(self.column)
        self._column = None

    def entry(self, label_set: LabelSet) -> "TermGroup | None":
        """Itself, if the term selects pods of this label set, as the namespaces are labelled now."""
        labels = self._lookups.namespace_labels(label_set.namespace)
        return self if self.term.selects(label_set.namespace, label_set.labels, labels) else None

    def needed_labels(self) -> tuple[LabelPair, ...] | None:
        return needed_pairs((self.term.selector,))

    def refresh(self) -> None:
        """Nothing to do: carriers are counted as they and their nodes change."""


_MOST_KEYS: Final = 4096
"""Beyond this number of label keys every label of a pod counts."""


class TermGroups:
    """Every term carried by some pod on a node. A label set lists the groups whose term selects it.

    `seen_labels` leaves out of a label set what no term looks at: pods that differ in nothing else (the names
    of their jobs, say, or their numbers) are one and the same to all terms. When terms look at another key,
    `Lookups.groups_version` changes; one that they look at no longer makes finer differences than needed.
    """

    def __init__(self, label_sets: LabelSets, lookups: Lookups, labels: NodeLabels) -> None:
        self._label_sets = label_sets
        self._keys: Counter[str] = Counter()
        self.keys_version = 0
        self._selectors: SelectorIndex[TermGroup] = SelectorIndex(label_sets, "term_groups")
        self._groups: WeakValueDictionary[Term, TermGroup] = WeakValueDictionary()
        self._lookups = lookups
        self._labels = labels
        self._lingering = 0
        self._idle: dict[TermGroup, None] = {}
        """Groups whose carriers have left while groups linger; some may have come back."""

    def sizes(self) -> dict[str, int]:
        return {"term groups": len(self._groups), **self._selectors.sizes("term group")}

    def group(self, term: Term) -> TermGroup:
        group = self._groups.get(term)
        if group is None:
            group = self._groups[term] = TermGroup(term, self._lookups)
        return group

    def count(self, group: TermGroup, row: int, delta: int) -> None:
        """A carrier entered or left a row."""
        if not group.carriers and group not in self._idle:
            group.hold(self._labels)
            self._look_at(group.term.selector)
            self._selectors.add(group)
        group.carriers += delta
        domain = group.column.ids.item(row)
        if domain:
            group.counts.add(domain, delta)
        if not group.carriers:
            if self._lingering:
                self._idle[group] = None
            else:
                self._drop(group)

    def _drop(self, group: TermGroup) -> None:
        self._selectors.remove(group)
        self._look_away(group.term.selector)
        group.let_go(self._labels)

    @contextmanager
    def lingering(self) -> Iterator[None]:
        """For the duration of the block, keep groups without carriers, with zero counts.

        For trials, in which the same pods come and go: adding a group means matching it with all label sets.
        """
        self._lingering += 1
        try:
            yield
        finally:
            self._lingering -= 1
            if not self._lingering:
                idle, self._idle = self._idle, {}
                for group in idle:
                    if not group.carriers:
                        self._drop(group)

    def namespace_changed(self, namespace: str) -> None:
        self._selectors.revisit(namespace)

    def seen_labels(self, label_set: LabelSet, terms: PodTerms) -> LabelSet:
        """The label set of the labels that count for terms on nodes or for a pod's own ones."""
        keys = self._keys
        if len(keys) > _MOST_KEYS:
            return label_set
        if not terms.terms:
            seen = {key: value for key, value in label_set.labels.items() if key in keys} if keys else {}
        else:
            own = {requirement.key for term in terms.terms for requirement in term.selector.requirements}
            seen = {key: value for key, value in label_set.labels.items() if key in keys or key in own}
        if len(seen) == len(label_set.labels):
            return label_set
        return self._label_sets.of(label_set.namespace, seen)

    def _look_at(self, selector: Selector) -> None:
        before = len(self._keys)
        self._keys.update({requirement.key for requirement in selector.requirements})
        if len(self._keys) > before:
            self.keys_version += 1
            self._lookups.groups_version += 1

    def _look_away(self, selector: Selector) -> None:
        for key in {requirement.key for requirement in selector.requirements}:
            self._keys[key] -= 1
            if not self._keys[key]:
                del self._keys[key]
