"""Pods that a kubelet rejects although they are bound to its node: kubelet admission."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from stowplan.api.requests import Json
from stowplan.localcluster.kubelets.images import all_containers
from stowplan.localcluster.objects.fields import is_finished, labels_of, spec_of, status_of, uid_of

_OS_LABEL: Final = "kubernetes.io/os"
_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")


class Rejection(NamedTuple):
    """Reason and message of a pod that a kubelet rejects."""

    reason: str
    message: str


def rejection_of(pod: Json, node: Json | None, others: Iterable[Json]) -> Rejection | None:
    """The reason that a node does not admit a pod; `others` are the pods on it."""
    system = labels_of(node).get(_OS_LABEL, "") if node is not None else ""
    if system and (spec_of(pod).get("nodeSelector") or {}).get(_OS_LABEL, system) != system:
        text = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        return Rejection("PodOSSelectorNodeLabelDoesNotMatch", text)
    if system and (spec_of(pod).get("os") or {}).get("name", system) != system:
        return Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    wanted = [*_host_ports(pod)]
    if wanted and any(_collide(one, held) for held in _held(pod, others) for one in wanted):
        why = "node(s) didn't have free ports for the requested pod ports"
        return Rejection("NodePorts", f"Predicate NodePorts failed: {why}")
    return None


class _HostPort(NamedTuple):
    number: int
    protocol: str
    address: str


def _host_ports(pod: Json) -> Iterator[_HostPort]:
    for container in all_containers(pod):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                yield _HostPort(port["hostPort"], port.get("protocol", "TCP"), port.get("hostIP", ""))


def _held(pod: Json, others: Iterable[Json]) -> Iterator[_HostPort]:
    """Host ports of the pods that the node has admitted before."""
    for other in others:
        if uid_of(other) != uid_of(pod) and status_of(other).get("startTime") and not is_finished(other):
            yield from _host_ports(other)


def _collide(one: _HostPort, other: _HostPort) -> bool:
    if (one.number, one.protocol) != (other.number, other.protocol):
        return False
    return one.address == other.address or one.address in _ANY_ADDRESS or other.address in _ANY_ADDRESS
