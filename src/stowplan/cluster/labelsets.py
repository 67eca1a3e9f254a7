"""Pods alike in namespace and labels are one kind; selectors are tested against kinds, not against pods.

A cluster of a million pods has few kinds, so "which pods does this selector choose" and "which selectors
choose this pod" are both answered by looking at a handful of objects.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Generic, Protocol, TypeVar
from weakref import ref

from stowplan.api.labels import ONE_OF, Selector

LabelPair = tuple[str, str]


class CountsPods(Protocol):
    """Something that counts the pods of the kinds that list it."""

    @property
    def dying_too(self) -> bool: ...

    def count(self, row: int, delta: int) -> None:
        """Pods came to a row, or left it."""
        ...


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
        self.matchers: list[CountsPods] = []
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

    def entry(self, kind: PodKind) -> object | None:
        """What a kind that is chosen lists for it; None: the kind is not chosen."""
        ...

    def needed_labels(self) -> tuple[LabelPair, ...] | None:
        """Label pairs of which a chosen kind has at least one; None if no such pairs can be named."""
        ...


S = TypeVar("S", bound=SelectsKinds)


def needed_pairs(selectors: Iterable[Selector]) -> tuple[LabelPair, ...] | None:
    """The shortest list of label pairs that any match of all `selectors` must have one of."""
    best: tuple[LabelPair, ...] | None = None
    for selector in selectors:
        for requirement in selector.requirements:
            values = requirement.values
            if requirement.operator in ONE_OF and (best is None or len(values) < len(best)):
                key = requirement.key
                best = ((key, values[0]),) if len(values) == 1 else tuple((key, value) for value in values)
    return best


KindKey = tuple[str, frozenset[LabelPair]]


class _KindRef(ref[PodKind]):
    """A kind for as long as some pod has it, and under what it is to be found."""

    __slots__ = ("key",)

    key: KindKey


class KindRegistry:
    """All kinds that some pod we know of has, findable by label."""

    def __init__(self) -> None:
        self._kinds: dict[KindKey, _KindRef] = {}
        self._by_label: dict[LabelPair, set[_KindRef]] = {}
        self._arrivals: list[Callable[[PodKind], None]] = []
        self._versions = count()

    def on_new_kind(self, callback: Callable[[PodKind], None]) -> None:
        self._arrivals.append(callback)

    def kind(self, namespace: str, labels: Mapping[str, str]) -> PodKind:
        """The one object for this namespace and these labels."""
        key = (namespace, frozenset(labels.items()))
        known = self._kinds.get(key)
        kind = None if known is None else known()
        if kind is None:
            kind = PodKind(namespace, labels, next(self._versions))
            self._index(kind, key)
            for callback in self._arrivals:
                callback(kind)
        return kind

    def changed(self, kind: PodKind) -> None:
        """Other things choose a kind now than before."""
        kind.version = next(self._versions)

    def all(self) -> list[PodKind]:
        return _alive(self._kinds.values())

    def candidates(self, needed: tuple[LabelPair, ...] | None) -> list[PodKind]:
        """Kinds that have one of the needed pairs; all kinds if none are named."""
        if needed is None:
            return self.all()
        by_label = self._by_label
        if len(needed) == 1:
            return _alive(by_label.get(needed[0], ()))
        found: dict[_KindRef, None] = {}
        for pair in needed:
            members = by_label.get(pair)
            if members is not None:
                found.update(dict.fromkeys(members))
        return _alive(found)

    def sizes(self) -> dict[str, int]:
        return {"pod kinds": len(self._kinds), "label pairs of pods": len(self._by_label)}

    def _index(self, kind: PodKind, key: KindKey) -> None:
        found = _KindRef(kind, self._gone)
        found.key = key
        self._kinds[key] = found
        by_label = self._by_label
        for pair in key[1]:
            members = by_label.get(pair)
            if members is None:
                members = by_label[pair] = set()
            members.add(found)

    def _gone(self, found: ref[PodKind]) -> None:
        assert isinstance(found, _KindRef)
        if self._kinds.get(found.key) is found:
            del self._kinds[found.key]
        for pair in found.key[1]:
            members = self._by_label[pair]
            members.discard(found)
            if not members:
                del self._by_label[pair]


def _alive(refs: Iterable[_KindRef]) -> list[PodKind]:
    return [kind for kind in [found() for found in tuple(refs)] if kind is not None]


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
        """Take in a selecting thing; returns the kinds it chooses, which list it last."""
        needed = thing.needed_labels()
        if needed is None:
            self._unindexed[id(thing)] = thing
        else:
            for pair in needed:
                self._by_label.setdefault(pair, {})[id(thing)] = thing
        chosen = []
        for kind in self._kinds.candidates(needed):
            entry = thing.entry(kind)
            if entry is not None:
                getattr(kind, self._attribute).append(entry)
                self._kinds.changed(kind)
                chosen.append(kind)
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
            entry = thing.entry(kind)
            if entry in chosen_by:
                chosen_by.remove(entry)
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
                    entry = thing.entry(kind)
                    if entry is not None:
                        chosen_by.append(entry)
        for thing in self._unindexed.values():
            entry = thing.entry(kind)
            if entry is not None:
                chosen_by.append(entry)
