"""Which nodes a DaemonSet has pods on, and which of its pods go."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from stowplan.api.labels import SelectorError
from stowplan.api.node import Taint
from stowplan.api.nodeselector import required_node_affinity
from stowplan.api.pod import PodSpec, Toleration
from stowplan.api.requests import Json
from stowplan.api.taints import NO_EXECUTE, NO_SCHEDULE, untolerated
from stowplan.embedded.controllers.objects import (
    available_in,
    count_in,
    created_at,
    is_deleting,
    is_finished,
    is_ready,
    labels_of,
    name_of,
    node_of,
    spec_of,
)
from stowplan.embedded.controllers.templates import share

_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
)
_OF_HOST_NETWORK: Final = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)


def tolerations_of(spec: Json) -> list[Json]:
    """A template's tolerations with those that every daemon has."""
    added = [*_TOLERATED, *([_OF_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    given = list(spec.get("tolerations") or ())
    known = {(one.get("key"), one.get("effect"), one.get("operator")) for one in given}
    extra = [
        {"key": key, "operator": "Exists", "effect": effect}
        for key, effect in added
        if (key, effect, "Exists") not in known
    ]
    return [*given, *extra]


def affinity_for(spec: Json, node: str) -> Json:
    """A template's affinity with the demand for exactly one node in place of any other demand on nodes."""
    affinity = dict(spec.get("affinity") or {})
    on_nodes = dict(affinity.get("nodeAffinity") or {})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    pinned = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    on_nodes["requiredDuringSchedulingIgnoredDuringExecution"] = pinned
    return {**affinity, "nodeAffinity": on_nodes}


def assigned_node(pod: Json) -> str:
    """The node a daemon's pod is on or is meant for."""
    on = node_of(pod)
    if on:
        return on
    affinity = ((spec_of(pod).get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in affinity.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and len(field.get("values") or ()) == 1:
                return str(field["values"][0])
    return ""


class Daemon:
    """A DaemonSet's template, ready to be asked about nodes."""

    def __init__(self, daemon_set: Json) -> None:
        spec = (spec_of(daemon_set).get("template") or {}).get("spec") or {}
        self._node_name: str = spec.get("nodeName") or ""
        self._affinity = required_node_affinity(msgspec.convert(_relevant(spec), PodSpec))
        self._tolerations = msgspec.convert(tolerations_of(spec), list[Toleration])
        self._known: dict[str, tuple[bool, bool]] = {}

    def fits(self, node: Json) -> tuple[bool, bool]:
        """Whether a pod should come to a node, and whether one that is there may stay."""
        name = name_of(node)
        if name not in self._known:
            self._known[name] = self._judged(node, name)
        return self._known[name]

    def _judged(self, node: Json, name: str) -> tuple[bool, bool]:
        if self._node_name and self._node_name != name:
            return False, False
        try:
            if not self._affinity.matches(labels_of(node), name):
                return False, False
        except SelectorError:
            return False, False
        given = spec_of(node).get("taints")
        if not given:
            return True, True
        taints = msgspec.convert(given, tuple[Taint, ...])
        if untolerated(taints, self._tolerations, (NO_EXECUTE,)) is not None:
            return False, False
        return untolerated(taints, self._tolerations, (NO_SCHEDULE,)) is None, True


def _relevant(spec: Json) -> dict[str, Any]:
    return {field: spec[field] for field in ("nodeSelector", "affinity") if spec.get(field) is not None}


@dataclass(frozen=True, slots=True)
class Plan:
    """On which nodes to create pods, and which pods to delete; `failed` says whose pods had ended."""

    create: list[str]
    delete: list[Json]
    failed: list[str]


def plan(daemon: Daemon, nodes: Iterable[Json], on: Mapping[str, Sequence[Json]], hash_: str) -> Plan:
    """Which pods come and go so that every node that should has exactly one."""
    create: list[str] = []
    delete: list[Json] = []
    failed: list[str] = []
    known: set[str] = set()
    for node in nodes:
        name = name_of(node)
        known.add(name)
        should, may = daemon.fits(node)
        pods = on.get(name, ())
        ended = [pod for pod in pods if is_finished(pod) and not is_deleting(pod)]
        alive = [pod for pod in pods if not is_finished(pod)]
        delete += ended
        failed += [name] if ended else []
        if should and not alive:
            create.append(name)
        elif not may:
            delete += [pod for pod in alive if not is_deleting(pod)]
        elif len(alive) > 1:
            delete += _surplus(alive, hash_)
    gone = [pod for name in sorted(on) if name not in known for pod in on[name]]
    delete += [pod for pod in gone if not is_deleting(pod)]
    return Plan(create, delete, failed)


def _surplus(alive: Sequence[Json], hash_: str) -> list[Json]:
    """All but one of a node's pods: the oldest stays; an old one with its ready successor does not."""
    staying = [pod for pod in alive if not is_deleting(pod)]
    staying.sort(key=lambda pod: (not is_ready(pod), _hash(pod) != hash_, created_at(pod), name_of(pod)))
    return staying[1:]


def updates(daemon_set: Json, wanted: int, pods: Sequence[Json], hash_: str, now: float) -> list[Json]:
    """Pods of old templates that go now: no more than may be missing at a time."""
    strategy = spec_of(daemon_set).get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    rolling = strategy.get("rollingUpdate") or {}
    allowed = max(share(rolling.get("maxUnavailable"), wanted, 1, round_up=True), 1)
    min_ready = count_in(spec_of(daemon_set), "minReadySeconds")
    alive = [pod for pod in pods if not is_deleting(pod)]
    well = [pod for pod in alive if available_in(pod, min_ready, now) == 0.0]
    missing = wanted - len(well)
    old = [pod for pod in alive if _hash(pod) != hash_]
    sick = [pod for pod in old if available_in(pod, min_ready, now) != 0.0]
    healthy = [pod for pod in old if available_in(pod, min_ready, now) == 0.0]
    return [*sick, *healthy[: max(allowed - missing, 0)]]


def status_for(
    daemon_set: Json,
    daemon: Daemon,
    nodes: Iterable[Json],
    on: Mapping[str, Sequence[Json]],
    hash_: str,
    now: float,
) -> Json:
    """The counts of a DaemonSet."""
    min_ready = count_in(spec_of(daemon_set), "minReadySeconds")
    desired = current = misscheduled = ready = available = updated = 0
    for node in nodes:
        should, _ = daemon.fits(node)
        pods = [pod for pod in on.get(name_of(node), ()) if not is_finished(pod)]
        if not should:
            misscheduled += bool(pods)
            continue
        desired += 1
        if not pods:
            continue
        current += 1
        newest = max(pods, key=lambda pod: (is_ready(pod), created_at(pod)))
        ready += is_ready(newest)
        available += available_in(newest, min_ready, now) == 0.0
        updated += _hash(newest) == hash_
    return {
        "observedGeneration": daemon_set["metadata"].get("generation", 1),
        "desiredNumberScheduled": desired,
        "currentNumberScheduled": current,
        "numberMisscheduled": misscheduled,
        "numberReady": ready,
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
        "numberUnavailable": desired - available,
    }


def _hash(pod: Json) -> str:
    return labels_of(pod).get("controller-revision-hash", "")
