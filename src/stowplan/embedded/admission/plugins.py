"""Admission plugins: what is filled in from other objects, or because of what an object is.

Upstream's plugins Priority, DefaultTolerationSeconds, ServiceAccount, DefaultStorageClass and
StorageObjectInUseProtection, and what upstream's registries do of this kind: job selectors, finalizers of
namespaces, addresses and node ports of services.
"""

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
    SERVICES,
    STORAGE_CLASSES,
    Resource,
)
from stowplan.api.requests import Json
from stowplan.embedded.admission.serviceaccount import set_service_account
from stowplan.embedded.store.registry import Lookup
from stowplan.gocompat.quoting import quote

_TOLERATION_SECONDS: Final = 300
_NODE_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
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


def default_toleration_seconds(lookup: Lookup, pod: Json) -> None:
    """A pod tolerates a node that is not ready or unreachable for five minutes, unless it says how long."""
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or []
    missing = [taint for taint in _NODE_TAINTS if not any(_tolerates(given, taint) for given in tolerations)]
    if missing:
        spec["tolerations"] = [*tolerations] + [
            {
                "key": taint,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": _TOLERATION_SECONDS,
            }
            for taint in missing
        ]


def _tolerates(toleration: Json, taint: str) -> bool:
    return toleration.get("key") in (None, "", taint) and toleration.get("effect") in (
        None,
        "",
        "NoExecute",
    )


def add_namespace_finalizer(lookup: Lookup, namespace: Json) -> None:
    """A namespace stays until what it contains is gone."""
    namespace.setdefault("spec", {})["finalizers"] = ["kubernetes"]


def default_storage_class(lookup: Lookup, claim: Json) -> None:
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


def _in_use_protection(finalizer: str) -> Callable[[Lookup, Json], None]:
    """Objects that are not to go while they are in use."""

    def guard(lookup: Lookup, obj: Json) -> None:
        held = obj["metadata"].get("finalizers") or []
        if finalizer not in held:
            obj["metadata"]["finalizers"] = [*held, finalizer]

    return guard


def generate_job_selector(lookup: Lookup, job: Json) -> None:
    """A job selects its pods by labels that only they have."""
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


def keep_namespace_finalizers(old: Json, new: Json) -> None:
    """What holds a namespace is changed by finalizing it and in no other way."""
    spec = new.setdefault("spec", {})
    held = (old.get("spec") or {}).get("finalizers")
    if held:
        spec["finalizers"] = held
    else:
        spec.pop("finalizers", None)


def keep_resolved_fields(old: Json, new: Json) -> None:
    """What was resolved at creation and is left out now stays as it was."""
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
    PODS: (set_service_account, resolve_priority, default_toleration_seconds),
    NAMESPACES: (add_namespace_finalizer,),
    PERSISTENT_VOLUME_CLAIMS: (default_storage_class, _in_use_protection("kubernetes.io/pvc-protection")),
    PERSISTENT_VOLUMES: (_in_use_protection("kubernetes.io/pv-protection"),),
    JOBS: (generate_job_selector,),
}
ON_UPDATE: Final[Mapping[Resource, Sequence[Callable[[Json, Json], None]]]] = {
    PODS: (keep_resolved_fields,),
    NAMESPACES: (keep_namespace_finalizers,),
}
_FIRST_PORT: Final = 30000
_PORTS: Final = 2768
_ADDRESSES: Final = 1 << 12


class ServiceAllocator:
    """Gives every service an address within the cluster, and a port on the nodes if it is to have one.

    They are handed out in order, and those in use are left out.
    """

    def __init__(self) -> None:
        self._next_address = 1
        self._next_port = 0

    def allocate(self, lookup: Lookup, resource: Resource, obj: Json, old: Json | None) -> None:
        if resource != SERVICES or obj["spec"].get("type") == "ExternalName":
            return
        spec, before = obj["spec"], {} if old is None else old.get("spec") or {}
        for field in ("clusterIP", "clusterIPs", "healthCheckNodePort"):
            if before.get(field) and not spec.get(field):
                spec[field] = before[field]
        if not spec.get("clusterIP"):
            spec["clusterIP"] = self._address(lookup)
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        if spec["type"] in ("NodePort", "LoadBalancer"):
            self._allocate_ports(lookup, spec, before)

    def _allocate_ports(self, lookup: Lookup, spec: Json, before: Json) -> None:
        known = {
            (port.get("name"), port.get("port")): port.get("nodePort") for port in before.get("ports") or ()
        }
        for port in spec.get("ports") or ():
            if not port.get("nodePort"):
                port["nodePort"] = known.get((port.get("name"), port.get("port"))) or self._port(lookup)

    def _address(self, lookup: Lookup) -> str:
        used = {found["spec"].get("clusterIP") for found in lookup.all(SERVICES) if "spec" in found}
        for _ in range(_ADDRESSES):
            number, self._next_address = self._next_address, self._next_address % (_ADDRESSES - 2) + 1
            address = f"10.96.{number >> 8}.{number & 255}"
            if address not in used:
                return address
        return "None"

    def _port(self, lookup: Lookup) -> int:
        services = (found.get("spec") or {} for found in lookup.all(SERVICES))
        used = {port.get("nodePort") for spec in services for port in spec.get("ports") or ()}
        for _ in range(_PORTS):
            port, self._next_port = _FIRST_PORT + self._next_port, (self._next_port + 1) % _PORTS
            if port not in used:
                return port
        return 0
