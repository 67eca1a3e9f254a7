"""Objects as JSON has them: owners, conditions, and what state a pod is in."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from stowplan.api.catalogue import Resource
from stowplan.api.labels import Selector, compile_selector
from stowplan.api.meta import LabelSelector, seconds_of
from stowplan.api.requests import Json

LONG_AGO: Final = 0.0


def name_of(obj: Json) -> str:
    name: str = obj["metadata"]["name"]
    return name


def uid_of(obj: Json) -> str:
    uid: str = obj["metadata"].get("uid", "")
    return uid


def key_of(obj: Json) -> str:
    """`namespace/name`, or the bare name of a cluster-scoped object."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def split_key(key: str) -> tuple[str, str]:
    """Namespace (empty if there is none) and name."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


def labels_of(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def finalizers_of(obj: Json) -> list[str]:
    return list(obj["metadata"].get("finalizers") or ())


def owners_of(obj: Json) -> Sequence[Json]:
    return obj["metadata"].get("ownerReferences") or ()


def controller_of(obj: Json) -> Json | None:
    """The reference to the object that controls this one."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: Json = owner
            return found
    return None


def is_controlled_by(obj: Json, owner: Json) -> bool:
    found = controller_of(obj)
    return found is not None and found.get("uid") == uid_of(owner)


def controller_reference(resource: Resource, owner: Json) -> Json:
    """Owner reference to the controller `owner`."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def own_reference(owner: Json) -> Json:
    """Owner reference to the controller `owner`, which says itself of which kind it is."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def claim_reference(claim: Json) -> Json:
    """Claim reference of a volume that is bound to `claim`."""
    metadata = claim["metadata"]
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "uid": uid_of(claim),
        "resourceVersion": metadata["resourceVersion"],
    }


def is_deleting(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def created_at(obj: Json) -> float:
    return time_of(obj["metadata"].get("creationTimestamp"))


def time_of(text: str | None) -> float:
    """A time as it stands in an object, long ago if it is not there or is none."""
    try:
        return seconds_of(text) if text else LONG_AGO
    except ValueError:
        return LONG_AGO


def spec_of(obj: Json) -> Json:
    return obj.get("spec") or {}


def status_of(obj: Json) -> Json:
    return obj.get("status") or {}


def selector_in(obj: Json) -> Selector:
    """The object's `spec.selector`, compiled: none selects nothing. Raises `SelectorError`."""
    given = spec_of(obj).get("selector")
    return compile_selector(None if given is None else msgspec.convert(given, LabelSelector))


def count_in(holder: Mapping[str, Any], field: str, default: int = 0) -> int:
    value = holder.get(field)
    return value if isinstance(value, int) else default


def omit_empty(status: Mapping[str, Any], *kept: str) -> Json:
    """A status as Go writes it: zeros go, except of fields that are `kept` (pointers, or no omitempty)."""
    return {field: value if value or field in kept else None for field, value in status.items()}


# Conditions


def condition_of(obj: Json, kind: str) -> Json | None:
    for one in (obj.get("status") or {}).get("conditions") or ():
        if one.get("type") == kind:
            found: Json = one
            return found
    return None


def with_condition(conditions: Iterable[Json], new: Json, stamp: str) -> list[Json]:
    """Conditions with one of them set; the time it last changed stays while its status does."""
    result: list[Json] = []
    found = False
    for old in conditions:
        if old.get("type") != new["type"]:
            result.append(old)
            continue
        found = True
        since = old.get("lastTransitionTime", stamp) if old.get("status") == new["status"] else stamp
        result.append({**new, "lastTransitionTime": since})
    return result if found else [*result, {**new, "lastTransitionTime": stamp}]


def without_condition(conditions: Iterable[Json], kind: str) -> list[Json]:
    return [one for one in conditions if one.get("type") != kind]


# Pods


def phase_of(pod: Json) -> str:
    phase: str = status_of(pod).get("phase", "")
    return phase


def is_finished(pod: Json) -> bool:
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: Json) -> bool:
    """Neither finished nor being deleted."""
    return not is_finished(pod) and not is_deleting(pod)


def is_ready(pod: Json) -> bool:
    ready = condition_of(pod, "Ready")
    return ready is not None and ready.get("status") == "True"


def ready_since(pod: Json) -> float:
    return time_of((condition_of(pod, "Ready") or {}).get("lastTransitionTime"))


def available_in(pod: Json, min_ready: int, now: float) -> float | None:
    """Seconds until a pod has been ready for long enough: 0 if it has, None if it is not ready."""
    if not is_ready(pod):
        return None
    return max(ready_since(pod) + min_ready - now, 0.0) if min_ready else 0.0


def node_of(pod: Json) -> str:
    node: str = spec_of(pod).get("nodeName") or ""
    return node


def namespace_of(obj: Json) -> str:
    namespace: str = obj["metadata"].get("namespace", "")
    return namespace
