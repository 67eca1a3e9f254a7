"""Subresources of pods that are actions: binding to a node, and eviction within a disruption budget."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from stowplan.api import status
from stowplan.api.catalogue import PODS, Resource
from stowplan.api.fielderrors import FieldError, not_supported, required
from stowplan.api.labels import SelectorError, compile_selector
from stowplan.api.meta import LabelSelector, ObjectMeta
from stowplan.api.requests import Json
from stowplan.api.writes import Binding
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.store.objects import (
    Body,
    find_condition,
    labels_of,
    owned_object,
    pod_condition,
    with_condition,
)
from stowplan.localcluster.store.registry import check_uid, check_version

BINDINGS: Final = Resource("", "v1", "bindings", "Binding")
EVICTIONS: Final = Resource("policy", "v1", "evictions", "Eviction")

TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
"""Labels a pod gets from the node it is bound to."""

_SCHEDULED: Final = pod_condition("PodScheduled", "True", "")
"""The condition a bound pod has, but for its time."""


def read_binding(body: Body, name: str) -> tuple[ObjectMeta, str]:
    """The metadata of a binding of the pod `name`, and the node it names.

    Raises `ApiError`: 400 if it is no Binding or one of another pod, 500 (as upstream) if it names no node.
    """
    kind: Any
    node: Any
    if isinstance(body, Binding):
        meta, named = body.metadata, body.metadata.name or name
        kind, node = body.target.kind, body.target.name
    else:
        binding = owned_object(BINDINGS, body)
        meta, named = msgspec.convert(binding["metadata"], ObjectMeta), binding["metadata"].get("name", name)
        given = binding.get("target")
        given = given if isinstance(given, dict) else {}
        kind, node = given.get("kind"), given.get("name")
    if kind not in (None, "", "Node"):
        wrong = not_supported("target.kind", str(kind), ["Node", "<empty>"])
        raise _bad_binding(wrong)
    if not node or not isinstance(node, str):
        raise _bad_binding(required("target.name"))
    if named != name:
        raise status.bad_request("name in URL does not match name in Binding object")
    return meta, node


def _bad_binding(error: FieldError) -> status.ApiError:
    return status.ApiError(500, "", str(error))


def bound_pod(pod: Json, given: ObjectMeta, target: str, node: Json | None, stamp: str) -> Json:
    """The pod on its node (None if there is no such node). Raises `ApiError` 409 if it cannot go there.

    `given` is the metadata of the binding. The metadata of the result is not shared.
    """
    _check_bindable(pod, given)
    metadata = {**pod["metadata"]}
    labels = {**(metadata.get("labels") or {}), **given.labels}
    if node is not None:
        of_node = node["metadata"].get("labels") or {}
        for label in TOPOLOGY_LABELS:
            if label in of_node:
                labels[label] = of_node[label]
    if labels:
        metadata["labels"] = labels
    if given.annotations:
        metadata["annotations"] = {**metadata.get("annotations", {}), **given.annotations}
    new_status: dict[str, Any] = with_condition(pod, {**_SCHEDULED, "lastTransitionTime": stamp})
    new_status.pop("nominatedNodeName", None)
    spec = {**pod.get("spec", {}), "nodeName": target}
    return {**pod, "metadata": metadata, "spec": spec, "status": new_status}


def _check_bindable(pod: Json, given: ObjectMeta) -> None:
    metadata, spec = pod["metadata"], pod.get("spec", {})
    name = metadata["name"]
    if given.uid != metadata["uid"]:
        check_uid(PODS, pod, given.uid)
    if given.resource_version:
        check_version(PODS, pod, given.resource_version)
    if "deletionTimestamp" in metadata:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f"pod {name} is already assigned to node {quote(str(spec['nodeName']))}"
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    else:
        return
    raise status.conflict(PODS, name, why, subresource="binding")


_BUDGET_CAUSE: Final = "DisruptionBudget"
_OVER_BUDGET: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)
_TOO_MANY: Final = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
_MOST_DISRUPTED: Final = 2000


def needs_no_budget(pod: Json) -> bool:
    """True if evicting a pod disrupts nothing: it does not run yet, has ended, or is ending."""
    phase = pod.get("status", {}).get("phase")
    return phase in ("Pending", "Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]


def evicted_pod(pod: Json, stamp: str) -> Json:
    """The pod with the condition that says why it goes."""
    condition = pod_condition(
        "DisruptionTarget",
        "True",
        stamp,
        reason="EvictionByEvictionAPI",
        message="Eviction API: evicting",
    )
    return {**pod, "status": with_condition(pod, condition)}


def budget_for(pod: Json, budgets: Iterable[Json]) -> Json | None:
    """The budget that guards a pod. Raises `ApiError` if there are several."""
    guarding = [budget for budget in budgets if _selects(budget, pod)]
    if len(guarding) > 1:
        raise status.ApiError(500, "", _SEVERAL)
    return guarding[0] if guarding else None


def costs_nothing(pod: Json, budget: Json) -> bool:
    """True if a pod that is not ready may go without touching the budget."""
    ready = find_condition(pod, "Ready")
    if ready is not None and ready.get("status") == "True":
        return False
    if budget.get("spec", {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return _count(budget, "currentHealthy") >= _count(budget, "desiredHealthy") > 0


def charged_budget(budget: Json, pod_name: str, stamp: str) -> Json:
    """The budget with one disruption used up. Raises `ApiError` 429 if it has none left."""
    metadata, given = budget["metadata"], budget.get("status", {})
    name = metadata["name"]
    if _count(budget, "observedGeneration") < metadata.get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise status.too_many_requests(_OVER_BUDGET, 10, why, _BUDGET_CAUSE)
    allowed, disrupted = _count(budget, "disruptionsAllowed"), given.get("disruptedPods") or {}
    if allowed < 0:
        raise _budget_forbidden(name, "pdb disruptions allowed is negative")
    if len(disrupted) > _MOST_DISRUPTED:
        raise _budget_forbidden(name, _TOO_MANY)
    if allowed == 0:
        raise status.too_many_requests(_OVER_BUDGET, 0, _why_not(budget), _BUDGET_CAUSE)
    left = {
        **(given if allowed > 1 else _used_up(budget, stamp)),
        "disruptionsAllowed": allowed - 1,
        "disruptedPods": {**disrupted, pod_name: stamp},
    }
    return {**budget, "status": left}


def _selects(budget: Json, pod: Json) -> bool:
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
    condition = find_condition(budget, "DisruptionAllowed") or {}
    message = condition.get("message") if condition.get("status") == "False" else ""
    healthy, wanted = _count(budget, "currentHealthy"), _count(budget, "desiredHealthy")
    if message and condition.get("reason") == "SyncFailed":
        why = f"does not allow evicting pods currently because it failed sync: {message}"
    elif healthy <= wanted:
        why = f"needs {wanted} healthy pods and has {healthy} currently"
    elif message:
        why = f"does not allow evicting pods currently ({condition.get('reason', '')}): {message}"
    else:
        why = "does not allow evicting pods currently"
    return f"The disruption budget {budget['metadata']['name']} {why}"


def _budget_forbidden(name: str, why: str) -> status.ApiError:
    details = {"name": name, "group": "policy", "kind": "poddisruptionbudget"}
    text = f"poddisruptionbudget.policy {quote(name)} is forbidden: {why}"
    return status.ApiError(403, "Forbidden", text, details)


def _count(budget: Json, field: str) -> int:
    value = budget.get("status", {}).get(field)
    return value if isinstance(value, int) else 0
