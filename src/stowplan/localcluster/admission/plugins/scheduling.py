"""Plugins about where pods run: DefaultTolerationSeconds, TaintNodesByCondition, RuntimeClass."""

from collections.abc import Mapping
from typing import Final

from stowplan.api.catalogue import RUNTIME_CLASSES
from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.admission.refusals import forbidden_pod
from stowplan.localcluster.store.registry import Lookup

_TOLERATION_SECONDS: Final = 300
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_NODE_TAINTS: Final = (_NOT_READY, "node.kubernetes.io/unreachable")
_TOLERATED_FOR_A_WHILE: Final[Mapping[str, Json]] = {
    taint: {
        "key": taint,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": _TOLERATION_SECONDS,
    }
    for taint in _NODE_TAINTS
}
"""Shared by all pods, because stored objects are never changed."""


def default_toleration_seconds(lookup: Lookup, pod: Json) -> None:
    """A pod tolerates a node that is not ready or unreachable for five minutes, unless it says how long."""
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or []
    missing = [taint for taint in _NODE_TAINTS if not any(_tolerates(given, taint) for given in tolerations)]
    if missing:
        spec["tolerations"] = [*tolerations, *(_TOLERATED_FOR_A_WHILE[taint] for taint in missing)]


def keep_toleration_seconds(lookup: Lookup, old: Json, new: Json) -> None:
    default_toleration_seconds(lookup, new)


def _tolerates(toleration: Json, taint: str) -> bool:
    return toleration.get("key") in (None, "", taint) and toleration.get("effect") in (
        None,
        "",
        "NoExecute",
    )


def taint_new_node(lookup: Lookup, node: Json) -> None:
    """A new node takes no pods until it has been seen to be ready."""
    spec = node.setdefault("spec", {})
    taints = spec.get("taints") or []
    if not any(taint.get("key") == _NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
        spec["taints"] = [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]


def apply_runtime_class(lookup: Lookup, pod: Json) -> None:
    """A pod has the overhead, node selector and tolerations of its RuntimeClass."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    if not name:
        return
    found = lookup.find(RUNTIME_CLASSES, "", name)
    if found is None:
        raise forbidden_pod(pod, f"pod rejected: RuntimeClass {quote(name)} not found")
    overhead = (found.get("overhead") or {}).get("podFixed")
    if overhead:
        if spec.get("overhead") and spec["overhead"] != overhead:
            why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise forbidden_pod(pod, why)
        spec["overhead"] = dict(overhead)
    scheduling = found.get("scheduling") or {}
    selector = scheduling.get("nodeSelector") or {}
    given = spec.get("nodeSelector") or {}
    for key, value in selector.items():
        if given.get(key, value) != value:
            raise forbidden_pod(
                pod,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {given[key]}",
            )
    if selector:
        spec["nodeSelector"] = {**given, **selector}
    added = [one for one in scheduling.get("tolerations") or () if one not in (spec.get("tolerations") or ())]
    if added:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *added]


def check_overhead(lookup: Lookup, pod: Json) -> None:
    """Overhead is that of a RuntimeClass, so there is none without one."""
    spec = pod["spec"]
    if spec.get("overhead") and not spec.get("runtimeClassName"):
        raise forbidden_pod(
            pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        )
