"""Objects that plugins look up: namespaces, services, controllers, disruption budgets."""

from collections.abc import Collection, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from stowplan.api.labels import NOTHING, Selector, SelectorError, compile_selector, selector_from_labels
from stowplan.api.meta import Namespace, Object, OwnerReference
from stowplan.api.workloads import (
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from stowplan.scheduler.table.columns import BoolColumn, IntArray
from stowplan.scheduler.table.labelsets import LabelPair, needed_pairs

if TYPE_CHECKING:
    from stowplan.scheduler.table.podinfo import PodInfo

_NO_LABELS: Mapping[str, str] = {}
_UNGROUPED = selector_from_labels({})
_OWNER_VERSIONS = {"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}

Owner = ReplicationController | ReplicaSet | StatefulSet

K = TypeVar("K")
G = TypeVar("G", Service, Owner)


class Lookups:
    """Lookup of the objects around pods.

    `namespaces_version` changes with the labels of namespaces, `groups_version` with anything that groups
    pods: the selectors of services and controllers, the labels that affinity terms look at, and the extended
    resources that mean devices. An update that changes neither (a ReplicaSet's status, say) changes no
    version, so no cached result is dropped for it.
    """

    __slots__ = (
        "_owners",
        "_services",
        "groups_version",
        "namespaces",
        "namespaces_version",
    )

    def __init__(self) -> None:
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self._services: dict[str, dict[str, Service]] = {}
        self._owners: dict[tuple[str, str, str], Owner] = {}
        self.groups_version = 0
        self.namespaces_version = 0

    def sizes(self) -> dict[str, int]:
        return {
            "namespaces": len(self.namespaces),
            "namespaces with services": len(self._services),
            "controllers": len(self._owners),
        }

    def put(self, obj: Object) -> None:
        """Add or replace an object."""
        match obj:
            case Namespace():
                if self.namespaces.get(obj.name) != obj.metadata.labels:
                    self.namespaces[obj.name] = obj.metadata.labels
                    self.namespaces_version += 1
            case Service():
                services = self._services.setdefault(obj.namespace, {})
                self._replace(services, obj.name, obj)
            case ReplicationController() | ReplicaSet() | StatefulSet():
                self._replace(self._owners, (type(obj).__name__, obj.namespace, obj.name), obj)

    def remove(self, obj: Object) -> None:
        match obj:
            case Namespace():
                if self.namespaces.pop(obj.name, None) is not None:
                    self.namespaces_version += 1
            case Service():
                services = self._services.get(obj.namespace, {})
                if services.pop(obj.name, None) is not None:
                    self.groups_version += 1
                    if not services:
                        del self._services[obj.namespace]
            case ReplicationController() | ReplicaSet() | StatefulSet():
                if self._owners.pop((type(obj).__name__, obj.namespace, obj.name), None) is not None:
                    self.groups_version += 1

    def _replace(self, known: dict[K, G], key: K, obj: G) -> None:
        old = known.get(key)
        known[key] = obj
        if old is None or old.spec.selector != obj.spec.selector:
            self.groups_version += 1

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace, empty for one we have not heard of."""
        return self.namespaces.get(name, _NO_LABELS)

    def default_selector(
        self, namespace: str, labels: Mapping[str, str], owners: tuple[OwnerReference, ...]
    ) -> Selector:
        """Selector for a pod and its siblings: the services that select it and its controller's selector.

        Empty if nothing groups it.
        """
        services = self._services.get(namespace)
        if not services and not owners:
            return _UNGROUPED
        merged: dict[str, str] = {}
        for service in (services or {}).values():
            wanted = service.spec.selector
            if wanted and _selects(wanted, labels):
                merged.update(wanted)
        owner = self._controller(namespace, owners)
        if isinstance(owner, ReplicationController):
            merged.update(owner.spec.selector or {})
        selector = selector_from_labels(merged)
        if isinstance(owner, ReplicaSet | StatefulSet):
            try:
                return selector.adding(compile_selector(owner.spec.selector))
            except SelectorError:
                return selector
        return selector

    def services_of(self, namespace: str, labels: Mapping[str, str]) -> list[Service]:
        """The services that select a pod, by name."""
        known = self._services.get(namespace, {})
        return [known[name] for name in sorted(known) if _selects(known[name].spec.selector, labels)]

    def selectors_of(
        self, namespace: str, labels: Mapping[str, str], *, services_only: bool
    ) -> tuple[Selector, ...]:
        """Selectors of all services and controllers that select a pod, regardless of ownership.

        Looks at every controller there is: for rules of earlier releases, which did not follow owner
        references.
        """
        services = self.services_of(namespace, labels)
        found = {selector_from_labels(service.spec.selector or {}): None for service in services}
        for key in () if services_only else sorted(self._owners):
            owner = self._owners[key]
            selector = _selector_of(owner) if owner.namespace == namespace else NOTHING
            if not selector.is_empty and selector.matches(labels):
                found[selector] = None
        return tuple(found)

    def _controller(self, namespace: str, owners: tuple[OwnerReference, ...]) -> Owner | None:
        for reference in owners:
            if reference.controller:
                if _OWNER_VERSIONS.get(reference.kind) != reference.api_version:
                    return None
                return self._owners.get((reference.kind, namespace, reference.name))
        return None


def _selects(wanted: Mapping[str, str] | None, labels: Mapping[str, str]) -> bool:
    """True if a service's selector matches labels; an empty selector matches none."""
    return bool(wanted) and all(labels.get(key) == value for key, value in (wanted or {}).items())


def _selector_of(owner: Owner) -> Selector:
    """The selector of a controller; one that cannot be read selects nothing."""
    if isinstance(owner, ReplicationController):
        return selector_from_labels(owner.spec.selector or {})
    try:
        return compile_selector(owner.spec.selector)
    except SelectorError:
        return NOTHING


_FACT = "disruption budgets"
_LOOKED_UP = 8
"""For how many pods budgets are looked up at a time: with a thousand budgets that takes milliseconds."""


class Budget:
    """Remaining disruptions of one budget. Pods in `disrupted` have been subtracted already.

    `number` is its place in `DisruptionBudgets.allowed`; it is used again when the budget is gone. `pairs`
    are labels of which a selected pod has at least one; None if there are no such labels.
    """

    __slots__ = ("allowed", "disrupted", "name", "namespace", "number", "pairs", "selector")

    def __init__(self, namespace: str, name: str, selector: Selector, number: int) -> None:
        self.namespace = namespace
        self.name = name
        self.selector = selector
        self.number = number
        pairs = needed_pairs((selector,))
        self.pairs = None if pairs is None else tuple(dict.fromkeys(pairs))
        self.allowed = 0
        self.disrupted: Collection[str] = ()

    def named(self) -> list[tuple[str, str | None]]:
        """The keys of labels that the selector names, with None for a value, and the values it names."""
        demands = self.selector.requirements
        return [(demand.key, value) for demand in demands for value in (None, *demand.values)]


class DisruptionBudgets:
    """All budgets, and which of them a pod is under.

    `version` changes with the latter, `allowances_version` with what is left of a budget. A selector that is
    absent, empty or cannot be read selects nothing, and a pod without labels is under no budget. `allowed`
    has what is left of every budget by its number, and `untouched` whether no pod has been taken off it yet.
    `stops_at_exceeded`: a victim under several budgets is charged only up to the first that it exceeds.

    Selectors are matched once for all labels that no selector of the namespace can tell apart: of a thousand
    pods with a label of their own each, those whose value no budget names are the same to all budgets.
    """

    __slots__ = (
        "_budgets",
        "_by_label",
        "_found",
        "_free",
        "_named",
        "_unindexed",
        "allowances_version",
        "allowed",
        "stops_at_exceeded",
        "untouched",
        "version",
    )

    def __init__(self, stops_at_exceeded: bool = False) -> None:
        self.stops_at_exceeded = stops_at_exceeded
        self._budgets: dict[tuple[str, str], Budget] = {}
        self._by_label: dict[tuple[str, LabelPair], dict[int, Budget]] = {}
        self._unindexed: dict[str, dict[int, Budget]] = {}
        self._named: dict[str, dict[str, dict[str | None, int]]] = {}
        """By namespace and key, which values of labels selectors name, and how often they name the key
        (None)."""
        self._found: dict[tuple[str, frozenset[tuple[str, str | None]]], _Kept] = {}
        self._free: list[int] = []
        self.allowed: IntArray = np.zeros(0, dtype=np.int64)
        self.untouched: BoolColumn = np.zeros(0, dtype=np.bool_)
        self.version = 0
        self.allowances_version = 0

    def __bool__(self) -> bool:
        return bool(self._budgets)

    def sizes(self) -> dict[str, int]:
        return {
            "budgets": len(self._budgets),
            "label pairs of budgets": len(self._by_label),
            "namespaces with other budgets": len(self._unindexed),
            "labels of budgets": sum(map(len, self._named.values())),
        }

    def put(self, pdb: PodDisruptionBudget) -> None:
        """Add or replace a budget."""
        selector = _selector(pdb)
        budget = self._budgets.get((pdb.namespace, pdb.name))
        if budget is None or budget.selector != selector:
            self.remove(pdb)
            budget = self._add(pdb, selector)
        self.allowances_version += 1
        budget.allowed = pdb.status.disruptions_allowed
        budget.disrupted = pdb.status.disrupted_pods.keys()
        self.allowed[budget.number] = budget.allowed
        self.untouched[budget.number] = not budget.disrupted

    def remove(self, pdb: PodDisruptionBudget) -> None:
        """Forget a budget, if it is known at all."""
        budget = self._budgets.pop((pdb.namespace, pdb.name), None)
        if budget is None:
            return
        self._take_out(budget)
        self._free.append(budget.number)
        self._changed()

    def of(self, info: "PodInfo") -> tuple[Budget, ...]:
        """The budgets a pod is under; worked out once for all pods of its template."""
        return self._kept(info).budgets

    def numbers_of(self, info: "PodInfo") -> IntArray:
        """The numbers of the budgets a pod is under, in the order of `of`."""
        kept = self._kept(info)
        if kept.numbers is None:
            kept.numbers = np.array([budget.number for budget in kept.budgets], dtype=np.int64)
        return kept.numbers

    def look_up(self, pods: Iterable["PodInfo"]) -> Generator[None, None, int]:
        """Work out in steps what budgets pods are under; returns how many a pod is under at most."""
        most = 0
        for number, info in enumerate(pods, 1):
            most = max(most, len(self.of(info)))
            if not number % _LOOKED_UP:
                yield
        return most

    def _kept(self, info: "PodInfo") -> "_Kept":
        kept = info.template.facts.get(_FACT)
        if not isinstance(kept, _Kept) or kept.version != self.version:
            kept = self._find(info.namespace, info.labels)
            info.template.note(_FACT, kept)
        return kept

    def _add(self, pdb: PodDisruptionBudget, selector: Selector) -> Budget:
        budget = Budget(pdb.namespace, pdb.name, selector, self._new_number())
        self._budgets[pdb.namespace, pdb.name] = budget
        if budget.pairs is None:
            self._unindexed.setdefault(budget.namespace, {})[budget.number] = budget
        for pair in budget.pairs or ():
            self._by_label.setdefault((budget.namespace, pair), {})[budget.number] = budget
        for key, value in budget.named():
            values = self._named.setdefault(budget.namespace, {}).setdefault(key, {})
            values[value] = values.get(value, 0) + 1
        self._changed()
        return budget

    def _changed(self) -> None:
        """Forget what was found; at once, so that templates keep no budgets that are gone."""
        self.version += 1
        for kept in self._found.values():
            kept.budgets, kept.numbers = (), None
        self._found.clear()

    def _take_out(self, budget: Budget) -> None:
        """Take a budget out of the indexes, and lists that are empty then with it."""
        if budget.pairs is None:
            listed = self._unindexed[budget.namespace]
            del listed[budget.number]
            if not listed:
                del self._unindexed[budget.namespace]
        for pair in budget.pairs or ():
            listed = self._by_label[budget.namespace, pair]
            del listed[budget.number]
            if not listed:
                del self._by_label[budget.namespace, pair]
        named = self._named.get(budget.namespace, {})
        for key, value in budget.named():
            values = named[key]
            values[value] -= 1
            if not values[value]:
                del values[value]
            if not values:
                del named[key]
        if not named:
            self._named.pop(budget.namespace, None)

    def _new_number(self) -> int:
        if not self._free:
            known, more = len(self.allowed), max(16, len(self.allowed))
            self.allowed = np.concatenate((self.allowed, np.zeros(more, dtype=np.int64)))
            self.untouched = np.concatenate((self.untouched, np.zeros(more, dtype=np.bool_)))
            self._free = list(range(known + more - 1, known - 1, -1))
        return self._free.pop()

    def _find(self, namespace: str, labels: Mapping[str, str]) -> "_Kept":
        named = self._named.get(namespace, {})
        told = (
            (key, value if value in named[key] else None) for key, value in labels.items() if key in named
        )
        pairs = (namespace, frozenset(told))
        kept = self._found.get(pairs)
        if kept is None or not labels:
            kept = _Kept(self.version, self._matching(namespace, labels))
            if labels:
                self._found[pairs] = kept
        return kept

    def _matching(self, namespace: str, labels: Mapping[str, str]) -> tuple[Budget, ...]:
        if not labels:
            return ()
        found = dict(self._unindexed.get(namespace, {}))
        for pair in labels.items():
            found.update(self._by_label.get((namespace, pair), {}))
        over = [budget for budget in found.values() if budget.selector.matches(labels)]
        return tuple(sorted(over, key=lambda budget: budget.name))


class _Kept:
    __slots__ = ("budgets", "numbers", "version")

    def __init__(self, version: int, budgets: tuple[Budget, ...]) -> None:
        self.version = version
        self.budgets = budgets
        self.numbers: IntArray | None = None


def _selector(pdb: PodDisruptionBudget) -> Selector:
    try:
        selector = compile_selector(pdb.spec.selector)
    except SelectorError:
        return NOTHING
    return NOTHING if selector.is_empty else selector
