"""Conditions in the status of an object: one for each type, with the time their value last changed."""

from stowplan.api.requests import Json
from stowplan.embedded.store.objects import LISTS


def pod_condition(type_: str, value: str, stamp: str, **more: str) -> Json:
    """A condition as pods have them."""
    return {"type": type_, "status": value, "lastProbeTime": None, "lastTransitionTime": stamp, **more}


def conditions_of(obj: Json) -> list[Json]:
    """The conditions of an object; whatever else stands in their place is none."""
    found = obj.get("status", {}).get("conditions")
    return [c for c in found if isinstance(c, dict)] if isinstance(found, LISTS) else []


def find_condition(obj: Json, type_: str) -> Json | None:
    return next((c for c in conditions_of(obj) if c.get("type") == type_), None)


def with_condition(obj: Json, new: Json) -> Json:
    """The status of an object with one condition set; its time stays if its value does."""
    status = obj.get("status", {})
    if not status.get("conditions"):
        return {**status, "conditions": [new]}
    conditions = conditions_of(obj)
    for i, old in enumerate(conditions):
        if old.get("type") == new["type"]:
            if old.get("status") == new["status"] and "lastTransitionTime" in old:
                new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
            conditions[i] = new
            break
    else:
        conditions.append(new)
    return {**status, "conditions": conditions}
