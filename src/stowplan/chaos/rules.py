"""What a node can take, worked out in the plainest way and from nothing the scheduler computed.

Only what pods of these runs can ask for is known here: amounts, host ports, node labels, taints.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from stowplan.api.node import Node
from stowplan.api.pod import Pod

_UNITS: Final = {"m": 1, "Mi": 1000 << 20, "Gi": 1000 << 30}
RESOURCES: Final = ("cpu", "memory")


def thousandths(amount: Any) -> int:
    """An amount in thousandths, of the few spellings that occur here."""
    text = str(amount)
    for unit, worth in _UNITS.items():
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * worth
    return int(text) * 1000


def overload(node: Node, newcomer: Pod, others: Iterable[Pod]) -> str | None:
    """What a node lacks for a pod beside others; None if it has room.

    Every pod here asks for some of every resource, so one more is wrong also where the others exceed it.
    """
    others = list(others)
    pods = [newcomer, *others]
    allocatable = node.status.allocatable
    for resource in RESOURCES:
        wanted = sum(_request(pod, resource) for pod in pods)
        offered = thousandths(allocatable.get(resource, 0))
        if wanted > offered:
            return f"{resource}: {wanted} of {offered} thousandths are taken"
    if len(pods) > int(allocatable.get("pods", 0)):
        return f"pods: {len(pods)} of {allocatable.get('pods', 0)}"
    return _shared_port(newcomer, others)


def objection(pod: Pod, node: Node) -> str | None:
    """Why a node as such must not take a pod; None if it may."""
    if node.spec.unschedulable:
        return "the node is cordoned"
    for taint in node.spec.taints:
        if taint.effect != "PreferNoSchedule" and not _tolerates(pod, taint.key, taint.value):
            return f"taint {taint.key}={taint.value} is not tolerated"
    labels = node.metadata.labels
    for key, value in (pod.spec.node_selector or {}).items():
        if labels.get(key) != value:
            return f"node selector {key}={value}"
    return _affinity_objection(pod, labels)


def _request(pod: Pod, resource: str) -> int:
    return sum(
        thousandths(container.resources.requests.get(resource, 0)) for container in pod.spec.containers
    )


def _shared_port(newcomer: Pod, others: Iterable[Pod]) -> str | None:
    wanted = _host_ports(newcomer)
    for pod in others:
        shared = wanted & _host_ports(pod)
        if shared:
            return f"host port {min(shared)} is shared by {newcomer.key} and {pod.key}"
    return None


def _host_ports(pod: Pod) -> set[int]:
    ports = (port for container in pod.spec.containers for port in container.ports)
    return {port.host_port for port in ports if port.host_port}


def _tolerates(pod: Pod, key: str, value: str) -> bool:
    return any(
        toleration.key in ("", key) and (toleration.operator == "Exists" or toleration.value == value)
        for toleration in pod.spec.tolerations
    )


def _affinity_objection(pod: Pod, labels: Mapping[str, str]) -> str | None:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    if required is None:
        return None
    for term in required.node_selector_terms:
        if all(
            (labels.get(one.key) in one.values) == (one.operator == "In") for one in term.match_expressions
        ):
            return None
    return "node affinity"
