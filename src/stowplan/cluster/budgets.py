"""Pod disruption budgets: how many pods of a selection may be disturbed, as their controller last said."""

from collections.abc import Collection, Mapping

import numpy as np

from stowplan.api.labels import NOTHING, Selector, SelectorError, compile_selector
from stowplan.api.workloads import PodDisruptionBudget
from stowplan.cluster.columns import BoolColumn
from stowplan.cluster.counts import IntArray
from stowplan.cluster.kinds import LabelPair, needed_pairs
from stowplan.cluster.podinfo import PodInfo

_FACT = "disruption budgets"


class Budget:
    """What is left of one budget. Pods in `disrupted` have been taken off it already.

    `number` is its place in `DisruptionBudgets.allowed`; it is used again when the budget is gone.
    `pairs` are labels of which a chosen pod has one; None: no such labels can be named.
    """

    __slots__ = ("allowed", "disrupted", "namespace", "number", "pairs", "selector")

    def __init__(self, namespace: str, selector: Selector, number: int) -> None:
        self.namespace = namespace
        self.selector = selector
        self.number = number
        pairs = needed_pairs((selector,))
        self.pairs = None if pairs is None else tuple(dict.fromkeys(pairs))
        self.allowed = 0
        self.disrupted: Collection[str] = ()


class DisruptionBudgets:
    """All budgets, and which of them a pod is under.

    `version` changes with the latter, `allowances_version` with what is left of a budget. A selector that is
    absent, empty or cannot be read selects nothing, and a pod without labels is under no budget. `allowed`
    has what is left of every budget by its number, and `untouched` whether no pod has been taken off it yet.
    """

    __slots__ = (
        "_budgets",
        "_by_label",
        "_free",
        "_unindexed",
        "allowances_version",
        "allowed",
        "untouched",
        "version",
    )

    def __init__(self) -> None:
        self._budgets: dict[tuple[str, str], Budget] = {}
        self._by_label: dict[tuple[str, LabelPair], dict[int, Budget]] = {}
        self._unindexed: dict[str, dict[int, Budget]] = {}
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
        self.version += 1

    def of(self, info: PodInfo) -> tuple[Budget, ...]:
        """The budgets a pod is under; worked out once for all pods of its template."""
        facts = info.template.facts
        kept = facts.get(_FACT)
        if not isinstance(kept, _Kept) or kept.version != self.version:
            kept = _Kept(self.version, self._find(info.namespace, info.labels))
            info.template.note(_FACT, kept)
        return kept.budgets

    def _add(self, pdb: PodDisruptionBudget, selector: Selector) -> Budget:
        budget = Budget(pdb.namespace, selector, self._new_number())
        self._budgets[pdb.namespace, pdb.name] = budget
        if budget.pairs is None:
            self._unindexed.setdefault(budget.namespace, {})[budget.number] = budget
        for pair in budget.pairs or ():
            self._by_label.setdefault((budget.namespace, pair), {})[budget.number] = budget
        self.version += 1
        return budget

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

    def _new_number(self) -> int:
        if not self._free:
            known, more = len(self.allowed), max(16, len(self.allowed))
            self.allowed = np.concatenate((self.allowed, np.zeros(more, dtype=np.int64)))
            self.untouched = np.concatenate((self.untouched, np.zeros(more, dtype=np.bool_)))
            self._free = list(range(known + more - 1, known - 1, -1))
        return self._free.pop()

    def _find(self, namespace: str, labels: Mapping[str, str]) -> tuple[Budget, ...]:
        if not labels:
            return ()
        found = dict(self._unindexed.get(namespace, {}))
        for pair in labels.items():
            found.update(self._by_label.get((namespace, pair), {}))
        return tuple(budget for budget in found.values() if budget.selector.matches(labels))


class _Kept:
    __slots__ = ("budgets", "version")

    def __init__(self, version: int, budgets: tuple[Budget, ...]) -> None:
        self.version = version
        self.budgets = budgets


def _selector(pdb: PodDisruptionBudget) -> Selector:
    try:
        selector = compile_selector(pdb.spec.selector)
    except SelectorError:
        return NOTHING
    return NOTHING if selector.is_empty else selector
