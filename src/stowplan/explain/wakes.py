"""The events that may have a pod tried again, as a short sentence.

What is registered is exact and long: plugins, resources and actions. For people everything that happens to
one kind of object is one part of the sentence: `a node is added or changes allocatable, labels or taints`.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from stowplan.explain.document.pod import FunnelLine, RequeueEvent

_NODE_CHANGES: Final = {
    "UpdateNodeAllocatable": "allocatable",
    "UpdateNodeLabel": "labels",
    "UpdateNodeTaint": "taints",
    "UpdateNodeCondition": "conditions",
    "UpdateNodeAnnotation": "annotations",
    "UpdateNodeDeclaredFeature": "declared features",
}
_OWN_CHANGES: Final = frozenset(
    (
        "UpdatePodToleration",
        "UpdatePodSchedulingGatesEliminated",
        "UpdatePodGeneratedResourceClaim",
        "UpdatePodScaleDown",
    )
)
"""Changes that help only the pod itself."""
_TARGET: Final = "TargetPod"
_OTHERS: Final = ("AssignedPod", "UnscheduledPod")
_PODS: Final = ("Pod", "UnschedulablePod", *_OTHERS)
"""Since 1.37 a plugin says whether it means other pods or the waiting one, the target."""
_ITSELF: Final = "the pod itself changes"
_INSUFFICIENT: Final = "Insufficient "
_FIT: Final = "NodeResourcesFit"
_NATIVE: Final = frozenset(("cpu", "memory", "ephemeral-storage"))


def sentence(wakes: Sequence[RequeueEvent], funnel: Iterable[FunnelLine] = ()) -> list[str]:
    """The parts of the sentence. `funnel` says which resources are short, so whose end would help."""
    funnel = list(funnel)
    actions: dict[str, dict[str, None]] = {}
    itself = False
    for one in wakes:
        if _awaits_devices_it_does_not_use(one, funnel):
            continue
        if one.resource == _TARGET:
            itself = True
            continue
        if one.resource in _PODS and one.resource not in _OTHERS:
            itself |= not _OWN_CHANGES.isdisjoint(one.actions) or "Update" in one.actions
        resource = "Pod" if one.resource in _PODS else one.resource
        actions.setdefault(resource, {}).update(dict.fromkeys(one.actions))
    parts: list[str] = []
    if "*" in actions:
        return ["anything in the cluster changes"]
    for resource, happened in sorted(actions.items(), key=lambda item: _order(item[0])):
        if resource == "Pod":
            parts += _pods(happened, _short_resources(wakes, funnel))
        elif resource == "Node":
            parts.append(_nodes(happened))
        else:
            parts.append(f"a {_words(resource)} {_events(happened)}")
    return [*parts, _ITSELF] if itself else parts


def objects_awaited(wakes: Iterable[RequeueEvent]) -> list[str]:
    """Awaited changes of other things than pods and nodes: `a PersistentVolumeClaim is added`."""
    return sentence([one for one in wakes if one.resource not in (*_PODS, _TARGET, "Node", "*")])


def _awaits_devices_it_does_not_use(wake: RequeueEvent, funnel: Iterable[FunnelLine]) -> bool:
    """NodeResourcesFit awaits DeviceClasses for every pod; they help where an extended resource is short."""
    if (wake.plugin, wake.resource.rpartition("/")[2]) != (_FIT, "DeviceClass"):
        return False
    short = _reasons_of_fit(funnel)
    return bool(short) and not any(
        reason.startswith(_INSUFFICIENT) and reason.removeprefix(_INSUFFICIENT) not in _NATIVE
        for reason in short
    )


def _reasons_of_fit(funnel: Iterable[FunnelLine]) -> list[str]:
    return [reason for line in funnel if line.plugin == _FIT for reason in line.reason.split(", ")]


def _order(resource: str) -> tuple[int, str]:
    known = {"Pod": 0, "Node": 1}
    return known.get(resource, 2), resource


def _short_resources(wakes: Sequence[RequeueEvent], funnel: Iterable[FunnelLine]) -> list[str]:
    """The resources that pods would have to set free, if it is only about resources."""
    by_pods = {one.plugin for one in wakes if one.resource in _PODS and "Delete" in one.actions}
    if by_pods != {_FIT}:
        return []
    reasons = _reasons_of_fit(funnel)
    if not all(reason.startswith(_INSUFFICIENT) for reason in reasons):
        return []
    return list(dict.fromkeys(reason.removeprefix(_INSUFFICIENT) for reason in reasons))


def _pods(happened: Iterable[str], short: Sequence[str]) -> list[str]:
    found = set(happened)
    which = f"a pod with {' or '.join(short)}" if short else "a pod"
    events = []
    if "Delete" in found:
        events.append("leaves")
    if "Add" in found:
        events.append("is placed")
    if "UpdatePodLabel" in found or "Update" in found:
        events.append("changes labels")
    return [f"{which} {_or(events)}"] if events else []


def _nodes(happened: Iterable[str]) -> str:
    found = dict.fromkeys(happened)
    changes = [word for action, word in _NODE_CHANGES.items() if action in found]
    events = [text for action, text in (("Add", "is added"), ("Delete", "is removed")) if action in found]
    if "Update" in found:
        events.append("changes")
    elif changes:
        events.append(f"changes {_or(changes)}")
    return f"a node {_or(events)}"


def _events(happened: Iterable[str]) -> str:
    found = set(happened)
    known = {"Add": "is added", "Update": "changes", "Delete": "is deleted"}
    return _or([text for action, text in known.items() if action in found] or ["changes"])


def _or(parts: Sequence[str]) -> str:
    return " or ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else parts[0]


def _words(resource: str) -> str:
    """The kind as people write it: `storage.k8s.io/CSINode` is a CSINode."""
    return resource.rpartition("/")[2]
