"""Priority: a pod's priority is that of its class."""

from typing import Final

from stowplan.api.catalogue import PRIORITY_CLASSES
from stowplan.api.requests import Json
from stowplan.localcluster.admission.refusals import forbidden_pod
from stowplan.localcluster.store.registry import Lookup

PREEMPT: Final = "PreemptLowerPriority"


def resolve_priority(lookup: Lookup, pod: Json) -> None:
    """A pod that names no class gets the default one; without one its priority is 0."""
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    found = lookup.find(PRIORITY_CLASSES, "", name) if name else default_priority(lookup)
    if name and found is None:
        raise forbidden_pod(pod, f"no PriorityClass with name {name} was found")
    value, policy = 0, PREEMPT
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
        value, policy = found.get("value", 0), found.get("preemptionPolicy", policy)
    if spec.get("priority") not in (None, value):
        raise forbidden_pod(
            pod,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name",
        )
    if spec.get("preemptionPolicy") not in (None, policy):
        raise forbidden_pod(
            pod,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod "
            f"spec; priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec["priority"] = value
    spec["preemptionPolicy"] = policy


def default_priority(lookup: Lookup) -> Json | None:
    """The class of pods and groups that name none; the lowest if there are several."""
    defaults = [found for found in lookup.all(PRIORITY_CLASSES) if found.get("globalDefault")]
    return min(defaults, key=lambda found: (found.get("value", 0), found["metadata"]["name"]), default=None)


def keep_priority(lookup: Lookup, old: Json, new: Json) -> None:
    """Keep a value that was resolved at creation and is left out of an update."""
    before, spec = old.get("spec") or {}, new["spec"]
    for field in ("priority", "preemptionPolicy"):
        if field in before:
            spec.setdefault(field, before[field])
