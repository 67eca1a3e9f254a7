"""Evaluators: by kind, which names of a quota an object counts for, and how much.

Every namespaced kind is counted as `count/<plural>.<group>`. Pods, services and claims count for more than
that; some core kinds also under their bare names.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.meta import seconds_of
from stowplan.api.pod import Pod
from stowplan.api.quantity import Quantity, quantity_of
from stowplan.api.requests import Json
from stowplan.api.rules.resources import is_extended, is_hugepages, is_pod_level, pod_limits, pod_requests
from stowplan.localcluster.quota.amounts import Amounts
from stowplan.localcluster.quota.qos import qos_class

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
_ONE: Final = Quantity(1)


class Evaluator:
    """How objects of a kind are counted. This one counts objects only."""

    def __init__(self, resource: Resource, *aliases: str) -> None:
        self.resource = resource
        self.names = (f"count/{resource.qualified}", *aliases)

    def counted(self, names: Iterable[str]) -> list[str]:
        """Those of a quota's names that objects of this kind count for, sorted."""
        return sorted(name for name in names if self._counts(name))

    def _counts(self, name: str) -> bool:
        return name in self.names

    def handles(self, operation: str, subresource: str, old: Json | None, new: Json) -> bool:
        """True if a write can change the usage."""
        return operation == CREATE and not subresource

    def usage(self, obj: Json, now: float) -> Amounts:
        return dict.fromkeys(self.names, _ONE)

    def missing(self, names: Iterable[str], obj: Json) -> str:
        """Missing fields of an object that a quota requires, empty if there are none."""
        return ""

    def in_scope(self, obj: Json, scope: Json) -> bool:
        """True if an object is in a scope; kinds other than pods and claims are in none."""
        return False


class _Services(Evaluator):
    def handles(self, operation: str, subresource: str, old: Json | None, new: Json) -> bool:
        return not subresource

    def usage(self, obj: Json, now: float) -> Amounts:
        spec = obj.get("spec") or {}
        ports, kind = spec.get("ports") or (), spec.get("type")
        on_nodes = balancers = 0
        if kind == "NodePort":
            on_nodes = len(ports)
        elif kind == "LoadBalancer":
            balancers = 1
            every = spec.get("allocateLoadBalancerNodePorts", True)
            on_nodes = len(ports) if every else sum(bool(port.get("nodePort")) for port in ports)
        return {
            **dict.fromkeys(self.names[:2], _ONE),
            "services.nodeports": Quantity(on_nodes),
            "services.loadbalancers": Quantity(balancers),
        }


_CLAIM_NAMES: Final = ("persistentvolumeclaims", "requests.storage")
_BY_CLASS: Final = ".storageclass.storage.k8s.io/"


class _Claims(Evaluator):
    def _counts(self, name: str) -> bool:
        return name in self.names or name.endswith(tuple(_BY_CLASS + counted for counted in _CLAIM_NAMES))

    def handles(self, operation: str, subresource: str, old: Json | None, new: Json) -> bool:
        if subresource == "status":
            return bool(_allocated(old or {}) != _allocated(new))
        return not subresource

    def usage(self, obj: Json, now: float) -> Amounts:
        spec = obj.get("spec") or {}
        amounts: Amounts = {self.names[0]: _ONE, _CLAIM_NAMES[0]: _ONE}
        requested = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        if requested is not None:
            amounts[_CLAIM_NAMES[1]] = _whole(max(quantity_of(requested), quantity_of(_allocated(obj))))
        annotations = obj["metadata"].get("annotations") or {}
        of_class = annotations.get("volume.beta.kubernetes.io/storage-class") or spec.get("storageClassName")
        if of_class:
            for name in _CLAIM_NAMES:
                if name in amounts:
                    amounts[f"{of_class}{_BY_CLASS}{name}"] = amounts[name]
        return amounts

    def in_scope(self, obj: Json, scope: Json) -> bool:
        if scope.get("scopeName") != "VolumeAttributesClass":
            return False
        status = obj.get("status") or {}
        modified = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
        named = (obj.get("spec") or {}).get("volumeAttributesClassName")
        names = {name for name in (named, status.get("currentVolumeAttributesClassName"), modified) if name}
        if scope.get("operator") == "Exists":
            return bool(names)
        return any(_matches(scope, name) for name in names) if names else _matches(scope, None)


def _allocated(claim: Json) -> Any:
    return ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage", "0")


def _whole(amount: Quantity) -> Quantity:
    return amount if amount.milli_value() % 1000 == 0 else Quantity(amount.value(), 0, amount.format)


_POD_NAMES: Final = frozenset(
    (
        "pods",
        "count/pods",
        *(
            prefix + name
            for prefix in ("", "requests.", "limits.")
            for name in ("cpu", "memory", "ephemeral-storage")
        ),
    )
)
_DEMANDED: Final = frozenset(
    prefix + name for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory")
)
"""Requests and limits that every container has to state if a quota limits them."""


class _Pods(Evaluator):
    def _counts(self, name: str) -> bool:
        if name in _POD_NAMES or name.startswith(("hugepages-", "requests.hugepages-")):
            return True
        asked = name.removeprefix("requests.")
        device_class = asked.startswith("deviceclass.resource.kubernetes.io/")
        return asked != name and (is_extended(asked) or device_class)

    def handles(self, operation: str, subresource: str, old: Json | None, new: Json) -> bool:
        if subresource:
            return subresource == "resize"
        return operation == CREATE or _has_deadline(old or {}) != _has_deadline(new)

    def usage(self, obj: Json, now: float) -> Amounts:
        if _is_over(obj, now):
            return {"count/pods": _ONE}
        pod = msgspec.convert(obj, Pod, strict=False)
        return {"count/pods": _ONE, **_compute_usage(pod_requests(pod), pod_limits(pod, use_status=True))}

    def missing(self, names: Iterable[str], obj: Json) -> str:
        spec = obj.get("spec") or {}
        whole = spec.get("resources") or {}
        if any(is_pod_level(name) for part in ("requests", "limits") for name in whole.get(part) or ()):
            return ""
        demanded = _DEMANDED.intersection(names)
        lacking: dict[str, set[str]] = {}
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            stated = {f"limits.{name}" for name in resources.get("limits") or ()}
            stated.update(resources.get("requests") or ())
            stated.update(f"requests.{name}" for name in resources.get("requests") or ())
            for name in demanded - stated:
                lacking.setdefault(name, set()).add(container.get("name", ""))
        if not lacking:
            return ""
        return "must specify " + "; ".join(
            f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking)
        )

    def in_scope(self, obj: Json, scope: Json) -> bool:
        name, spec = str(scope.get("scopeName")), obj.get("spec") or {}
        if name in ("Terminating", "NotTerminating"):
            return _has_deadline(obj) == (name == "Terminating")
        if name in ("BestEffort", "NotBestEffort"):
            return (qos_class(spec) == "BestEffort") == (name == "BestEffort")
        if name == "PriorityClass":
            named = spec.get("priorityClassName")
            return bool(named) if scope.get("operator") == "Exists" else _matches(scope, named or None)
        return name == "CrossNamespacePodAffinity" and _looks_elsewhere(spec)


def _compute_usage(requests: Amounts, limits: Amounts) -> Amounts:
    usage: Amounts = {"pods": _ONE}
    for name, amount in requests.items():
        if name in ("cpu", "memory", "ephemeral-storage") or is_hugepages(name):
            usage[name] = usage[f"requests.{name}"] = amount
        elif is_extended(name):
            usage[f"requests.{name}"] = amount
    for name in ("cpu", "memory", "ephemeral-storage"):
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    return usage


def _is_over(pod: Json, now: float) -> bool:
    """A pod that has ended, or whose time to end has passed, takes nothing any more."""
    metadata = pod["metadata"]
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    grace = metadata.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in metadata or grace is None:
        return False
    return bool(seconds_of(metadata["deletionTimestamp"]) + grace < now)


def _has_deadline(pod: Json) -> bool:
    deadline = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _looks_elsewhere(spec: Json) -> bool:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        terms = [*(found.get("requiredDuringSchedulingIgnoredDuringExecution") or ())]
        preferred = found.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [weighted.get("podAffinityTerm") or {} for weighted in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def _matches(scope: Json, value: str | None) -> bool:
    operator, values = scope.get("operator"), scope.get("values") or ()
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    return (value is not None) == (operator == "Exists")


_SPECIAL: Final = (
    _Pods(catalogue.PODS, "pods"),
    _Services(catalogue.SERVICES, "services", "services.nodeports", "services.loadbalancers"),
    _Claims(catalogue.PERSISTENT_VOLUME_CLAIMS, *_CLAIM_NAMES),
    Evaluator(catalogue.CONFIG_MAPS, "configmaps"),
    Evaluator(catalogue.SECRETS, "secrets"),
    Evaluator(catalogue.RESOURCE_QUOTAS, "resourcequotas"),
    Evaluator(catalogue.REPLICATION_CONTROLLERS, "replicationcontrollers"),
)
_evaluators: dict[Resource, Evaluator] = {evaluator.resource: evaluator for evaluator in _SPECIAL}


def is_quotable(resource: Resource) -> bool:
    """True if a kind is counted at all: events and cluster-scoped kinds are not."""
    return resource.namespaced and resource.plural != "events"


def evaluator_for(resource: Resource) -> Evaluator:
    """The evaluator of a kind that is counted."""
    evaluator = _evaluators.get(resource)
    if evaluator is None:
        evaluator = _evaluators[resource] = Evaluator(resource)
    return evaluator
