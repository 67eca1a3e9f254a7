"""Pods alike in namespace and labels are one kind; selectors are tested against kinds, not against pods.

A cluster of a million pods has few kinds, so "which pods does this selector choose" and "which selectors
choose this pod" are both answered by looking at a handful of objects.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Generic, Protocol, TypeVar
from weakref import WeakSet, WeakValueDictionary

from stowplan.api.labels import Selector

LabelPair = tuple[str, str]


class PodKind:
    """All pods of one namespace with one set of labels, and where they are.

    `live` and `dying` count the kind's pods by row; dying ones have a deletion timestamp. `version` changes
    with the things that choose the kind. No two kinds ever have the same one, not even a kind that is gone
    and the one made for the same labels after it.
    """

    __slots__ = ("__weakref__", "dying", "labels", "live", "matchers", "namespace", "term_groups", "version")

    def __init__(self, namespace: str, labels: Mapping[str, str], version: int) -> None:
        self.namespace = namespace
        self.labels = labels
        self.version = version
        self.live: dict[int, int] = {}
        self.dying: dict[int, int] = {}
        self.matchers: list[object] = []
        self.term_groups: list[object] = []

    def count(self, row: int, delta: int, dying: bool) -> None:
        rows = self.dying if dying else self.live
        count = rows.get(row, 0) + delta
        if count:
            rows[row] = count
        else:
            rows.pop(row, None)


class SelectsKinds(Protocol):
    """Something that chooses some kinds of pods."""

    def selects(self, kind: PodKind) -> bool: ...

    def needed_labels(self) -> tuple[LabelPair, ...] | None:
        """Label pairs of which a chosen kind has at least one; None if no such pairs can be named."""
        ...


S = TypeVar("S", bound=SelectsKinds)


def needed_pairs(selectors: Iterable[Selector]) -> tuple[LabelPair, ...] | None:
    """The shortest list of label pairs that any match of all `selectors` must have one of."""
    best: tuple[LabelPair, ...] | None = None
    for selector in selectors:
        for requirement in selector.requirements:
            if requirement.operator in ("In", "=", "==", "in"):
                pairs = tuple((requirement.key, value) for value in requirement.values)
                if best is None or len(pairs) < len(best):
                    best = pairs
    return best


def needed_by_any(selectors: Iterable[Selector]) -> tuple[LabelPair, ...] | None:
    """Label pairs of which a match of any of `selectors` must have one."""
    found: dict[LabelPair, None] = {}
    for selector in selectors:
        pairs = needed_pairs((selector,))
        if pairs is None:
            return None
        found.update(dict.fromkeys(pairs))
    return tuple(found)


class KindRegistry:
    """All kinds that some pod we know of has, findable by label."""

    def __init__(self) -> None:
        self._kinds: WeakValueDictionary[tuple[str, frozenset[LabelPair]], PodKind] = WeakValueDictionary()
        self._by_label: dict[LabelPair, WeakSet[PodKind]] = {}
        self._sweep_at = 1024
        self._arrivals: list[Callable[[PodKind], None]] = []
        self._versions = count()

    def on_new_kind(self, callback: Callable[[PodKind], None]) -> None:
        self._arrivals.append(callback)

    def kind(self, namespace: str, labels: Mapping[str, str]) -> PodKind:
        """The one object for this namespace and these labels."""
        key = (namespace, frozenset(labels.items()))
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = PodKind(namespace, labels, next(self._versions))
            self._index(kind)
            for callback in self._arrivals:
                callback(kind)
        return kind

    def changed(self, kind: PodKind) -> None:
        """Other things choose a kind now than before."""
        kind.version = next(self._versions)

    def all(self) -> list[PodKind]:
        return list(self._kinds.values())

    def candidates(self, needed: tuple[LabelPair, ...] | None) -> list[PodKind]:
        """Kinds that have one of the needed pairs; all kinds if none are named."""
        if needed is None:
            return self.all()
        found: dict[int, PodKind] = {}
        for pair in needed:
            members = self._by_label.get(pair)
            if members is None:
                continue
            for kind in members:
                found[id(kind)] = kind
        return list(found.values())

    def sizes(self) -> dict[str, int]:
        """What is there now; label pairs of kinds that are gone are swept out first."""
        self._sweep()
        return {"pod kinds": len(self._kinds), "label pairs of pods": len(self._by_label)}

    def _sweep(self) -> None:
        self._by_label = {pair: members for pair, members in self._by_label.items() if len(members)}
        self._sweep_at = 1024 + 2 * len(self._by_label)

    def _index(self, kind: PodKind) -> None:
        by_label = self._by_label
        for pair in kind.labels.items():
            members = by_label.get(pair)
            if members is None:
                members = by_label[pair] = WeakSet()
            members.add(kind)
        if len(by_label) > self._sweep_at:
            self._sweep()


class Relation(Generic[S]):
    """Keeps, for every kind, the list of selecting things that choose it, as either side comes and goes."""

    def __init__(self, kinds: KindRegistry, attribute: str) -> None:
        self._kinds = kinds
        self._attribute = attribute
        self._by_label: dict[LabelPair, dict[int, S]] = {}
        self._unindexed: dict[int, S] = {}
        kinds.on_new_kind(self._meet_kind)

    def sizes(self, name: str) -> dict[str, int]:
        return {f"label pairs a {name} needs": len(self._by_label), f"{name}s without": len(self._unindexed)}

    def add(self, thing: S) -> list[PodKind]:
        """Take in a selecting thing; returns the kinds it chooses."""
        needed = thing.needed_labels()
        if needed is None:
            self._unindexed[id(thing)] = thing
        else:
            for pair in needed:
                self._by_label.setdefault(pair, {})[id(thing)] = thing
        chosen = [kind for kind in self._kinds.candidates(needed) if thing.selects(kind)]
        for kind in chosen:
            getattr(kind, self._attribute).append(thing)
            self._kinds.changed(kind)
        return chosen

    def remove(self, thing: S) -> None:
        needed = thing.needed_labels()
        if needed is None:
            self._unindexed.pop(id(thing), None)
        for pair in needed or ():
            things = self._by_label.get(pair)
            if things is not None:
                things.pop(id(thing), None)
                if not things:
                    del self._by_label[pair]
        for kind in self._kinds.candidates(needed):
            chosen_by = getattr(kind, self._attribute)
            if thing in chosen_by:
                chosen_by.remove(thing)
                self._kinds.changed(kind)

    def revisit(self, namespace: str) -> None:
        """Decide anew for the kinds of a namespace whose labels changed."""
        for kind in self._kinds.all():
            if kind.namespace == namespace:
                getattr(kind, self._attribute).clear()
                self._kinds.changed(kind)
                self._meet_kind(kind)

    def _meet_kind(self, kind: PodKind) -> None:
        chosen_by = getattr(kind, self._attribute)
        seen: set[int] = set()
        for pair in kind.labels.items():
            for identity, thing in self._by_label.get(pair, {}).items():
                if identity not in seen:
                    seen.add(identity)
                    if thing.selects(kind):
                        chosen_by.append(thing)
        chosen_by.extend(thing for thing in self._unindexed.values() if thing.selects(kind))
