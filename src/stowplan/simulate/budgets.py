"""PodDisruptionBudgets in a simulated cluster: who may be evicted now, and who has to wait.

A budget is worked out from the pods that are there, as its controller does: expected are the pods that it
selects, healthy those with a node. A pod that was evicted is missed until its replacement has a node.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stowplan.api.labels import Selector, SelectorError, compile_selector
from stowplan.api.pod import Pod
from stowplan.api.workloads import PodDisruptionBudget
from stowplan.localcluster.controllers.workloads.podcontrol import scaled_value
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.outcome import Outcome
from stowplan.simulate.scheduling import is_daemon


@dataclass(slots=True)
class Budget:
    """A budget and how many of its pods are healthy now."""

    key: str
    selector: Selector
    least: int | str | None
    most_missing: int | str | None
    expected: int = 0
    healthy: int = 0

    @property
    def desired(self) -> int:
        """Number of its pods that have to stay."""
        if self.most_missing is not None:
            return max(self.expected - scaled_value(self.most_missing, self.expected, 0, round_up=True), 0)
        return scaled_value(self.least, self.expected, 0, round_up=True)

    @property
    def allowed(self) -> int:
        return max(self.healthy - self.desired, 0)


class Budgets:
    """All budgets of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._by_namespace: dict[str, list[Budget]] = {}
        self._known: dict[tuple[str, tuple[tuple[str, str], ...]], list[Budget]] = {}
        for obj in cluster.objects.values():
            if isinstance(obj, PodDisruptionBudget):
                try:
                    selector = compile_selector(obj.spec.selector)
                except SelectorError:
                    continue
                made = Budget(obj.key, selector, obj.spec.min_available, obj.spec.max_unavailable)
                self._by_namespace.setdefault(obj.namespace, []).append(made)
        if not self._by_namespace:
            return
        for pod in cluster.pods:
            for budget in self.of(pod):
                budget.expected += 1
                budget.healthy += _is_healthy(pod)
        for pod in cluster.pending.values():
            for budget in self.of(pod):
                budget.expected += 1

    def of(self, pod: Pod) -> list[Budget]:
        """The budgets that protect a pod."""
        here = self._by_namespace.get(pod.namespace)
        if not here:
            return []
        key = (pod.namespace, tuple(pod.metadata.labels.items()))
        found = self._known.get(key)
        if found is None:
            labels = pod.metadata.labels
            found = self._known[key] = [one for one in here if one.selector.matches(labels)]
        return found

    def refusing(self, pod: Pod) -> list[Budget]:
        """The budgets that do not let a pod go now. Under two budgets nobody can be evicted at all."""
        found = self.of(pod)
        if len(found) > 1:
            return found
        return [one for one in found if one.allowed < 1 and _is_healthy(pod)]

    def gone(self, pod: Pod) -> None:
        for one in self.of(pod):
            one.healthy -= 1

    def back(self, pod: Pod) -> None:
        for one in self.of(pod):
            one.healthy += 1


@dataclass(slots=True)
class Drained:
    """Result of a drain.

    `delayed` counts by budget the evictions that were refused at first. `blocked` has the pods that cannot be
    evicted at all, with the budgets that protect them.
    """

    outcome: Outcome = field(default_factory=Outcome)
    delayed: Counter[str] = field(default_factory=Counter)
    blocked: dict[str, list[str]] = field(default_factory=dict)
    rounds: int = 0

    def extend(self, later: "Drained") -> None:
        self.outcome.extend(later.outcome)
        self.delayed.update(later.delayed)
        self.blocked.update(later.blocked)
        self.rounds += later.rounds

    def budgets(self) -> dict[str, dict[str, Any]]:
        """The budgets that were hit."""
        found: dict[str, dict[str, Any]] = {}
        for key, count in self.delayed.items():
            found[key] = {"refused": count, "blocked": []}
        for pod, keys in self.blocked.items():
            for key in keys:
                found.setdefault(key, {"refused": 0, "blocked": []})["blocked"].append(pod)
        return found


def drain(cluster: Cluster, names: Sequence[str], budgets: Budgets | None = None) -> Drained:
    """Drain nodes as `kubectl drain` does: what budgets refuse is tried again when replacements have a node.

    Pods of DaemonSets and static pods stay.
    """
    budgets = Budgets(cluster) if budgets is None else budgets
    cluster.cordon(*names)
    pods = [pod for name in names for pod in cluster.pods_on(name) if not is_daemon(pod)]
    return evict(cluster, pods, budgets, by="drain")


def evict(cluster: Cluster, pods: Iterable[Pod], budgets: Budgets, *, by: str) -> Drained:
    """Evict pods in rounds: whom budgets let go now, then others as soon as replacements are there."""
    found = Drained()
    left = list(pods)
    while left:
        going, refused = [], []
        for pod in left:
            over = budgets.refusing(pod)
            if over:
                refused.append(pod)
                if not found.rounds:
                    found.delayed.update(one.key for one in over)
            else:
                going.append(pod)
                budgets.gone(pod)
        if not going:
            for pod in refused:
                found.blocked[pod.key] = [one.key for one in budgets.refusing(pod)]
            break
        found.rounds += 1
        outcome = cluster.evict(*(pod.key for pod in going), by=by)
        found.outcome.extend(outcome)
        for key in outcome.placed:
            budgets.back(cluster.pod(key))
        left = refused
    return found


def _is_healthy(pod: Pod) -> bool:
    return not any(one.type == "Ready" and one.status == "False" for one in pod.status.conditions)
