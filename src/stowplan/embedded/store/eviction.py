"""Evicting a pod: when its disruption budget allows that, and what that costs the budget."""

from collections.abc import Iterable
from typing import Final

import msgspec

from stowplan.api import status
from stowplan.api.labels import SelectorError, compile_selector
from stowplan.api.meta import LabelSelector
from stowplan.api.requests import Json
from stowplan.embedded.store.conditions import find_condition, pod_condition, with_condition
from stowplan.embedded.store.objects import labels_of
from stowplan.gocompat.quoting import quote

_CAUSE: Final = "DisruptionBudget"
_OVER_BUDGET: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)
_TOO_MANY: Final = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
_MOST_DISRUPTED: Final = 2000


def needs_no_budget(pod: Json) -> bool:
    """Whether evicting a pod disrupts nothing: it does not run yet, has ended, or is ending."""
    phase = pod.get("status", {}).get("phase")
    return phase in ("Pending", "Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]


def evicted(pod: Json, stamp: str) -> Json:
    """The pod with the condition that says why it goes."""
    told = pod_condition(
        "DisruptionTarget",
        "True",
        stamp,
        reason="EvictionByEvictionAPI",
        message="Eviction API: evicting",
    )
    return {**pod, "status": with_condition(pod, told)}


def budget_for(pod: Json, budgets: Iterable[Json]) -> Json | None:
    """The budget that guards a pod. Raises `ApiError` if there are several."""
    guarding = [budget for budget in budgets if _guards(budget, pod)]
    if len(guarding) > 1:
        raise status.ApiError(500, "", _SEVERAL)
    return guarding[0] if guarding else None


def costs_nothing(pod: Json, budget: Json) -> bool:
    """Whether a pod that is not ready may go without touching the budget."""
    ready = find_condition(pod, "Ready")
    if ready is not None and ready.get("status") == "True":
        return False
    if budget.get("spec", {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return _count(budget, "currentHealthy") >= _count(budget, "desiredHealthy") > 0


def charged(budget: Json, pod_name: str, stamp: str) -> Json:
    """The budget with one disruption used up. Raises `ApiError` 429 if it has none left."""
    metadata, given = budget["metadata"], budget.get("status", {})
    name = metadata["name"]
    if _count(budget, "observedGeneration") < metadata.get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise status.too_many_requests(_OVER_BUDGET, 10, why, _CAUSE)
    allowed, disrupted = _count(budget, "disruptionsAllowed"), given.get("disruptedPods") or {}
    if allowed < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative")
    if len(disrupted) > _MOST_DISRUPTED:
        raise _forbidden(name, _TOO_MANY)
    if allowed == 0:
        raise status.too_many_requests(_OVER_BUDGET, 0, _why_not(budget), _CAUSE)
    left = {
        **(given if allowed > 1 else _used_up(budget, stamp)),
        "disruptionsAllowed": allowed - 1,
        "disruptedPods": {**disrupted, pod_name: stamp},
    }
    return {**budget, "status": left}


def _guards(budget: Json, pod: Json) -> bool:
    try:
        given = budget.get("spec", {}).get("selector")
        selector = compile_selector(None if given is None else msgspec.convert(given, LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return False
    return selector.matches(labels_of(pod))


def _used_up(budget: Json, stamp: str) -> Json:
    return with_condition(
        budget,
        {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": _count(budget, "observedGeneration"),
            "lastTransitionTime": stamp,
            "reason": "InsufficientPods",
            "message": "",
        },
    )


def _why_not(budget: Json) -> str:
    told = find_condition(budget, "DisruptionAllowed") or {}
    message = told.get("message") if told.get("status") == "False" else ""
    healthy, wanted = _count(budget, "currentHealthy"), _count(budget, "desiredHealthy")
    if message and told.get("reason") == "SyncFailed":
        why = f"does not allow evicting pods currently because it failed sync: {message}"
    elif healthy <= wanted:
        why = f"needs {wanted} healthy pods and has {healthy} currently"
    elif message:
        why = f"does not allow evicting pods currently ({told.get('reason', '')}): {message}"
    else:
        why = "does not allow evicting pods currently"
    return f"The disruption budget {budget['metadata']['name']} {why}"


def _forbidden(name: str, why: str) -> status.ApiError:
    details = {"name": name, "group": "policy", "kind": "poddisruptionbudget"}
    text = f"poddisruptionbudget.policy {quote(name)} is forbidden: {why}"
    return status.ApiError(403, "Forbidden", text, details)


def _count(budget: Json, field: str) -> int:
    value = budget.get("status", {}).get(field)
    return value if isinstance(value, int) else 0
