"""Label sets of pods: pods of one namespace with the same labels, and the selectors that select them.

Selectors are tested against label sets, not against pods. A cluster of a million pods has few label sets, so
"which pods does this selector select" and "which selectors select this pod" are both answered by looking at
a handful of objects.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Generic, Protocol, TypeVar
from weakref import ref

from stowplan.api.labels import ONE_OF, Selector

LabelPair = tuple[str, str]


class CountsPods(Protocol):
    """Something that counts the pods of the label sets that list it."""

    @property
    def dying_too(self) -> bool: ...

    def count(self, row: int, delta: int) -> None:
        """Pods entered a row, or left it."""
        ...


class LabelSet:
    """All pods of one namespace with one set of labels, and where they are.

    `live` and `dying` count its pods by row; dying ones have a deletion timestamp. `version` changes with the
    selectors that select it. No two label sets ever have the same one, not even one that is gone and the one
    made for the same labels after it.
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


class SelectsPods(Protocol):
    """Something that selects some label sets of pods."""

    def entry(self, label_set: LabelSet) -> object | None:
        """Entry of a selected label set; None if the label set is not selected."""
        ...

    def needed_labels(self) -> tuple[LabelPair, ...] | None:
        """Label pairs of which a selected label set has at least one; None if no such pairs can be named."""
        ...


S = TypeVar("S", bound=SelectsPods)


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


LabelSetKey = tuple[str, frozenset[LabelPair]]


class _LabelSetRef(ref[LabelSet]):
    """A label set for as long as some pod has it, and under what it is to be found."""

    __slots__ = ("key",)

    key: LabelSetKey


class LabelSets:
    """All label sets that some pod we know of has, findable by label."""

    def __init__(self) -> None:
        self._label_sets: dict[LabelSetKey, _LabelSetRef] = {}
        self._by_label: dict[LabelPair, set[_LabelSetRef]] = {}
        self._arrivals: list[Callable[[LabelSet], None]] = []
        self._versions = count()

    def on_new(self, callback: Callable[[LabelSet], None]) -> None:
        self._arrivals.append(callback)

    def of(self, namespace: str, labels: Mapping[str, str]) -> LabelSet:
        """The one object for this namespace and these labels."""
        key = (namespace, frozenset(labels.items()))
        known = self._label_sets.get(key)
        label_set = None if known is None else known()
        if label_set is None:
            label_set = LabelSet(namespace, labels, next(self._versions))
            self._index(label_set, key)
            for callback in self._arrivals:
                callback(label_set)
        return label_set

    def changed(self, label_set: LabelSet) -> None:
        """Other selectors select a label set now than before."""
        label_set.version = next(self._versions)

    def all(self) -> list[LabelSet]:
        return _alive(self._label_sets.values())

    def candidates(self, needed: tuple[LabelPair, ...] | None) -> list[LabelSet]:
        """Label sets that have one of the needed pairs; all label sets if none are named."""
        if needed is None:
            return self.all()
        by_label = self._by_label
        if len(needed) == 1:
            return _alive(by_label.get(needed[0], ()))
        found: dict[_LabelSetRef, None] = {}
        for pair in needed:
            members = by_label.get(pair)
            if members is not None:
                found.update(dict.fromkeys(members))
        return _alive(found)

    def sizes(self) -> dict[str, int]:
        return {"label sets": len(self._label_sets), "label pairs of pods": len(self._by_label)}

    def _index(self, label_set: LabelSet, key: LabelSetKey) -> None:
        found = _LabelSetRef(label_set, self._gone)
        found.key = key
        self._label_sets[key] = found
        by_label = self._by_label
        for pair in key[1]:
            members = by_label.get(pair)
            if members is None:
                members = by_label[pair] = set()
            members.add(found)

    def _gone(self, found: ref[LabelSet]) -> None:
        assert isinstance(found, _LabelSetRef)
        if self._label_sets.get(found.key) is found:
            del self._label_sets[found.key]
        for pair in found.key[1]:
            members = self._by_label[pair]
            members.discard(found)
            if not members:
                del self._by_label[pair]


def _alive(refs: Iterable[_LabelSetRef]) -> list[LabelSet]:
    """The label sets that are still there.

    The references are copied by `list`, which allocates before it looks at them: an allocation may start the
    garbage collector, which takes references out.
    """
    return [label_set for label_set in [found() for found in list(refs)] if label_set is not None]


class SelectorIndex(Generic[S]):
    """Keeps, for every label set, the list of what selects it, while both come and go."""

    def __init__(self, label_sets: LabelSets, attribute: str) -> None:
        self._label_sets = label_sets
        self._attribute = attribute
        self._by_label: dict[LabelPair, dict[int, S]] = {}
        self._unindexed: dict[int, S] = {}
        label_sets.on_new(self._match)

    def sizes(self, name: str) -> dict[str, int]:
        return {f"label pairs a {name} needs": len(self._by_label), f"{name}s without": len(self._unindexed)}

    def add(self, selector: S) -> list[LabelSet]:
        """Take in a selector; returns the label sets it selects, which list it last."""
        needed = selector.needed_labels()
        if needed is None:
            self._unindexed[id(selector)] = selector
        else:
            for pair in needed:
                self._by_label.setdefault(pair, {})[id(selector)] = selector
        selected = []
        for label_set in self._label_sets.candidates(needed):
            entry = selector.entry(label_set)
            if entry is not None:
                getattr(label_set, self._attribute).append(entry)
                self._label_sets.changed(label_set)
                selected.append(label_set)
        return selected

    def remove(self, selector: S) -> None:
        needed = selector.needed_labels()
        if needed is None:
            self._unindexed.pop(id(selector), None)
        for pair in needed or ():
            selectors = self._by_label.get(pair)
            if selectors is not None:
                selectors.pop(id(selector), None)
                if not selectors:
                    del self._by_label[pair]
        for label_set in self._label_sets.candidates(needed):
            selected_by = getattr(label_set, self._attribute)
            entry = selector.entry(label_set)
            if entry in selected_by:
                selected_by.remove(entry)
                self._label_sets.changed(label_set)

    def revisit(self, namespace: str) -> None:
        """Decide anew for the label sets of a namespace whose labels changed."""
        for label_set in self._label_sets.all():
            if label_set.namespace == namespace:
                getattr(label_set, self._attribute).clear()
                self._label_sets.changed(label_set)
                self._match(label_set)

    def _match(self, label_set: LabelSet) -> None:
        selected_by = getattr(label_set, self._attribute)
        seen: set[int] = set()
        for pair in label_set.labels.items():
            for identity, selector in self._by_label.get(pair, {}).items():
                if identity not in seen:
                    seen.add(identity)
                    entry = selector.entry(label_set)
                    if entry is not None:
                        selected_by.append(entry)
        for selector in self._unindexed.values():
            entry = selector.entry(label_set)
            if entry is not None:
                selected_by.append(entry)
