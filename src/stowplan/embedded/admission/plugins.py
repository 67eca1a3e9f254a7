"""What is filled in from other objects, or because of what an object is."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from stowplan.api import status
from stowplan.api.catalogue import (
    JOBS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
    Resource,
)
from stowplan.api.requests import Json
from stowplan.embedded.store.admission import Lookup
from stowplan.gocompat.quoting import quote

_CRITICAL_TIME: Final = 300
_TROUBLES: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def resolve_priority(lookup: Lookup, pod: Json) -> None:
    """A pod's priority is that of its class; of the default class, or 0, if it names none."""
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    found = lookup.find(PRIORITY_CLASSES, "", name) if name else _default_priority(lookup)
    if name and found is None:
        raise _forbidden(pod, f"no PriorityClass with name {name} was found")
    value, policy = 0, "PreemptLowerPriority"
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
        value, policy = found.get("value", 0), found.get("preemptionPolicy", policy)
    if "priority" in spec and spec["priority"] != value:
        raise _forbidden(
            pod,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name",
        )
    if "preemptionPolicy" in spec and found is not None and spec["preemptionPolicy"] != policy:
        raise _forbidden(
            pod,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod "
            f"spec; priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)


def _default_priority(lookup: Lookup) -> Json | None:
    """The class of pods that name none; the lowest if there are several."""
    defaults = [found for found in lookup.all(PRIORITY_CLASSES) if found.get("globalDefault")]
    return min(defaults, key=lambda found: (found.get("value", 0), found["metadata"]["name"]), default=None)


def tolerate_troubles(lookup: Lookup, pod: Json) -> None:
    """A pod stays for five minutes on a node that is in trouble, unless it says how long."""
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or []
    missing = [trouble for trouble in _TROUBLES if not any(_covers(given, trouble) for given in tolerations)]
    if missing:
        spec["tolerations"] = [*tolerations] + [
            {"key": trouble, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _CRITICAL_TIME}
            for trouble in missing
        ]


def _covers(toleration: Json, trouble: str) -> bool:
    return toleration.get("key") in (None, "", trouble) and toleration.get("effect") in (
        None,
        "",
        "NoExecute",
    )


def name_service_account(lookup: Lookup, pod: Json) -> None:
    spec = pod["spec"]
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name


def hold_contents(lookup: Lookup, namespace: Json) -> None:
    """A namespace stays until what it contains is gone."""
    namespace.setdefault("spec", {})["finalizers"] = ["kubernetes"]


def choose_storage_class(lookup: Lookup, claim: Json) -> None:
    """A claim that names no class gets the default one; of several the youngest."""
    if "storageClassName" in claim["spec"]:
        return
    defaults = [
        found
        for found in lookup.all(STORAGE_CLASSES)
        if (found["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    ]
    if defaults:
        defaults.sort(key=lambda found: found["metadata"]["name"])
        youngest = max(defaults, key=lambda found: str(found["metadata"]["creationTimestamp"]))
        claim["spec"]["storageClassName"] = youngest["metadata"]["name"]


def _guarded(finalizer: str) -> Callable[[Lookup, Json], None]:
    """Objects that are not to go while they are in use."""

    def guard(lookup: Lookup, obj: Json) -> None:
        held = obj["metadata"].get("finalizers") or []
        if finalizer not in held:
            obj["metadata"]["finalizers"] = [*held, finalizer]

    return guard


def select_own_pods(lookup: Lookup, job: Json) -> None:
    """A job's pods are told apart by labels that only they have."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector") or not spec.get("template"):
        return
    uid, name = metadata["uid"], metadata["name"]
    template = spec["template"].setdefault("metadata", {})
    template["labels"] = {
        **(template.get("labels") or {}),
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    selector = spec.setdefault("selector", {})
    selector["matchLabels"] = {
        **(selector.get("matchLabels") or {}),
        "batch.kubernetes.io/controller-uid": uid,
    }


def keep_contents_held(old: Json, new: Json) -> None:
    """What holds a namespace is changed by finalizing it and in no other way."""
    spec = new.setdefault("spec", {})
    held = (old.get("spec") or {}).get("finalizers")
    if held:
        spec["finalizers"] = held
    else:
        spec.pop("finalizers", None)


def keep_priority(old: Json, new: Json) -> None:
    """What was resolved at birth and is left out now stays as it was."""
    before, spec = old.get("spec") or {}, new["spec"]
    for field in ("priority", "preemptionPolicy", "serviceAccountName", "serviceAccount", "nodeName"):
        if field in before:
            spec.setdefault(field, before[field])


def _forbidden(pod: Json, why: str) -> status.ApiError:
    name = pod["metadata"]["name"]
    return status.ApiError(
        403, "Forbidden", f"pods {quote(name)} is forbidden: {why}", {"name": name, "kind": "pods"}
    )


ON_CREATE: Final[Mapping[Resource, Sequence[Callable[[Lookup, Json], None]]]] = {
    PODS: (resolve_priority, tolerate_troubles, name_service_account),
    NAMESPACES: (hold_contents,),
    PERSISTENT_VOLUME_CLAIMS: (choose_storage_class, _guarded("kubernetes.io/pvc-protection")),
    PERSISTENT_VOLUMES: (_guarded("kubernetes.io/pv-protection"),),
    JOBS: (select_own_pods,),
}
ON_UPDATE: Final[Mapping[Resource, Sequence[Callable[[Json, Json], None]]]] = {
    PODS: (keep_priority,),
    NAMESPACES: (keep_contents_held,),
}
