"""PodDisruptionBudgets: how many pods may be taken away at the moment."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from stowplan.api.catalogue import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from stowplan.api.labels import SelectorError
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.controllers.workloads.podcontrol import scaled_value
from stowplan.localcluster.objects.fields import (
    controller_of,
    count_in,
    is_deleting,
    is_finished,
    is_ready,
    labels_of,
    name_of,
    namespace_of,
    phase_of,
    selector_in,
    spec_of,
    status_of,
    time_of,
    uid_of,
    with_condition,
)

CONFIRMATION: Final = 120.0
"""Seconds after which an unconfirmed eviction is forgotten."""

_UNMANAGED: Final = (
    "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a "
    "result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "
    'To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
)


class BudgetError(ValueError):
    """A budget that cannot be worked out."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected number of pods, and of healthy ones."""

    pods: int
    healthy: int


def expectation(budget: Json, pods: Sequence[Json], scales: Mapping[str, int]) -> Expectation:
    """Expectation of a budget. `scales` are the sizes of the pods' controllers."""
    spec = spec_of(budget)
    most_missing, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if most_missing is None and isinstance(least, int):
        return Expectation(len(pods), least)
    if most_missing is None and least is None:
        return Expectation(len(pods), 0)
    expected = sum(scales.values())
    if most_missing is not None:
        missing = scaled_value(most_missing, expected, 0, round_up=True)
        return Expectation(expected, max(expected - missing, 0))
    return Expectation(expected, scaled_value(least, expected, 0, round_up=True))


def needs_scales(budget: Json) -> bool:
    """True if a budget is relative to the expected number of pods."""
    spec = spec_of(budget)
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def unconfirmed(budget: Json, pods: Iterable[Json], now: float) -> tuple[dict[str, str], float | None]:
    """Evictions whose pods are still there untouched, and in how long the first of them is forgotten."""
    listed = status_of(budget).get("disruptedPods") or {}
    kept: dict[str, str] = {}
    soonest: float | None = None
    for pod in pods:
        since = listed.get(name_of(pod))
        if since is None or is_deleting(pod):
            continue
        left = time_of(since) + CONFIRMATION - now
        if left <= 0:
            continue
        kept[name_of(pod)] = since
        soonest = left if soonest is None else min(soonest, left)
    return kept, soonest


def budget_status(
    budget: Json, pods: Sequence[Json], asked: Expectation, disrupted: Mapping[str, Any], stamp: str
) -> Json:
    """The status of a budget."""
    healthy = sum(
        1 for pod in pods if is_ready(pod) and not is_deleting(pod) and name_of(pod) not in disrupted
    )
    allowed = max(healthy - asked.healthy, 0) if asked.pods > 0 else 0
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": budget["metadata"].get("generation", 1),
    }
    return {
        "currentHealthy": healthy,
        "desiredHealthy": asked.healthy,
        "expectedPods": asked.pods,
        "disruptionsAllowed": allowed,
        "disruptedPods": dict(disrupted) or None,
        "observedGeneration": budget["metadata"].get("generation", 1),
        "conditions": with_condition(status_of(budget).get("conditions") or (), condition, stamp),
    }


class DisruptionController(Controller):
    """Keeps the status of every PodDisruptionBudget."""

    name: ClassVar[str] = "disruption-controller"
    event_source: ClassVar[str] = "controllermanager"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.budgets = self.follow(POD_DISRUPTION_BUDGETS)
        self.pods = self.informer(PODS)
        self._scaled = {
            resource.kind: self.informer(resource)
            for resource in (REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS, DEPLOYMENTS)
        }
        self.pods.add_handler(self._pod_changed)
        for informer in self._scaled.values():
            informer.add_handler(self._scale_changed)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if old is not None and new is not None and _relevant_state(old) == _relevant_state(new):
            return
        pod = new if new is not None else old
        assert pod is not None
        for key, budget in self.budgets.in_namespace[namespace_of(pod)].items():
            if any(one is not None and _selects(budget, one) for one in (old, new)):
                self.queue.add(key)

    def _scale_changed(self, old: Json | None, new: Json | None) -> None:
        sizes = [None if one is None else spec_of(one).get("replicas") for one in (old, new)]
        one = new if new is not None else old
        if one is not None and sizes[0] != sizes[1]:
            for key in self.budgets.in_namespace[namespace_of(one)]:
                self.queue.add(key)

    async def sync(self, key: str) -> None:
        budget = self.budgets.get(key)
        if budget is None:
            return
        everybody = self.pods.in_namespace[namespace_of(budget)]
        self.rest(key, len(everybody))
        try:
            selector = selector_in(budget)
            pods = [pod for pod in everybody.values() if selector.matches(labels_of(pod))]
            scales, unmanaged = self._scales(pods) if needs_scales(budget) else ({}, False)
            asked = expectation(budget, pods, scales)
        except (BudgetError, SelectorError) as error:
            await self._fail(budget, str(error))
            return
        if not pods:
            await self.record_event(budget, "NoPods", "No matching pods found")
        if unmanaged:
            await self.record_event(budget, "UnmanagedPods", _UNMANAGED.format(selector=selector), WARNING)
        counted = [pod for pod in pods if not is_finished(pod)]
        disrupted, left = unconfirmed(budget, pods, self.now())
        if left is not None:
            self.queue.add_after(key, left)
        status = budget_status(budget, counted, asked, disrupted, self.stamp())
        await self.set_status(POD_DISRUPTION_BUDGETS, budget, status)

    async def _fail(self, budget: Json, problem: str) -> None:
        """Allow nothing while it is not known what may go."""
        note = f"Failed to calculate the number of expected pods: {problem}"
        await self.record_event(budget, "CalculateExpectedPodCountFailed", note, WARNING)
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "SyncFailed",
            "message": problem,
            "observedGeneration": count_in(budget["metadata"], "generation", 1),
        }
        held = with_condition(status_of(budget).get("conditions") or (), condition, self.stamp())
        await self.set_status(POD_DISRUPTION_BUDGETS, budget, {"disruptionsAllowed": 0, "conditions": held})

    def _scales(self, pods: Iterable[Json]) -> tuple[dict[str, int], bool]:
        """Sizes of the controllers of these pods, by uid; and True if some pods have no controller.

        Raises BudgetError for a pod whose controller has no size.
        """
        scales: dict[str, int] = {}
        unmanaged = False
        for pod in pods:
            if controller_of(pod) is None:
                unmanaged = True
                continue
            owner = self._scaled_owner(pod)
            if owner is None:
                raise BudgetError(f'found no controllers for pod "{name_of(pod)}"')
            scales[uid_of(owner)] = count_in(spec_of(owner), "replicas", 1)
        return scales, unmanaged

    def _scaled_owner(self, obj: Json) -> Json | None:
        """Scalable controller of an object: a Deployment before its ReplicaSet."""
        reference = controller_of(obj)
        informer = None if reference is None else self._scaled.get(reference.get("kind", ""))
        if reference is None or informer is None:
            return None
        owner = informer.get(f"{namespace_of(obj)}/{reference.get('name', '')}")
        if owner is None or uid_of(owner) != reference.get("uid"):
            return None
        return self._scaled_owner(owner) or owner


def _relevant_state(pod: Json) -> object:
    """Relevant parts of a pod for budgets."""
    return labels_of(pod), phase_of(pod), is_ready(pod), is_deleting(pod)


def _selects(budget: Json, pod: Json) -> bool:
    try:
        return selector_in(budget).matches(labels_of(pod))
    except SelectorError:
        return False
