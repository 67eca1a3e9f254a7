"""The DaemonSet controller: one pod on every node that it fits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec

from stowplan.api.catalogue import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from stowplan.api.labels import SelectorError
from stowplan.api.node import Taint
from stowplan.api.nodeselector import required_node_affinity
from stowplan.api.pod import PodSpec, Toleration
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.api.taints import NO_EXECUTE, NO_SCHEDULE, untolerated
from stowplan.embedded.controllers.controller import Context, Controller, gather_writes, slow_start_batch
from stowplan.embedded.controllers.events import WARNING
from stowplan.embedded.controllers.history import HASH, forget_old, hash_of, present_revision, revisions_of
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
    selector_in,
    spec_of,
)
from stowplan.embedded.controllers.podcontrol import claim_objects, pod_from, scaled_value

_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
)
_HOST_NETWORK_TOLERATION: Final = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)


def tolerations_of(spec: Json) -> list[Json]:
    """A template's tolerations with those that every daemon has."""
    added = [*_TOLERATED, *([_HOST_NETWORK_TOLERATION] if spec.get("hostNetwork") else [])]
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
    allowed = max(scaled_value(rolling.get("maxUnavailable"), wanted, 1, round_up=True), 1)
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


GENERATION: Final = "pod-template-generation"

FAILED_PAUSE: Final = 1.0
"""Seconds before a daemon that has failed on a node comes back there."""


class DaemonSetController(Controller):
    """Keeps a pod of every DaemonSet on every node that it fits."""

    name: ClassVar[str] = "daemonset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.sets = self.follow(DAEMON_SETS)
        self.pods = self.follow_owned(PODS, DAEMON_SETS.kind, self.sets)
        self.nodes = self.informer(NODES)
        self.revisions = self.informer(CONTROLLER_REVISIONS)
        self.nodes.add_handler(self._node_changed)

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        if old is not None and new is not None and _relevant_state(old) == _relevant_state(new):
            return
        for key in self.sets.objects:
            self.queue.add(key)

    async def sync(self, key: str) -> None:
        daemon_set = self.sets.get(key)
        if daemon_set is None or is_deleting(daemon_set):
            return
        pods = await claim_objects(self, self.pods, DAEMON_SETS, daemon_set, selector_in(daemon_set))
        self.rest(key, len(self.nodes.objects))
        held = revisions_of(self.revisions, daemon_set)
        revision = await present_revision(self, DAEMON_SETS, daemon_set, held)
        hash_ = hash_of(revision)
        daemon = Daemon(daemon_set)
        on: dict[str, list[Json]] = {}
        for pod in pods:
            on.setdefault(assigned_node(pod), []).append(pod)
        await self._manage(key, daemon_set, daemon, on, pods, hash_)
        status = status_for(daemon_set, daemon, self.nodes, on, hash_, self.now())
        await self.set_status(DAEMON_SETS, daemon_set, status)
        if count_in(spec_of(daemon_set), "minReadySeconds"):
            self.queue.add_after(key, 1.0)
        await forget_old(self, daemon_set, held, {hash_, *(labels_of(pod).get(HASH, "") for pod in pods)})

    async def _manage(
        self,
        key: str,
        daemon_set: Json,
        daemon: Daemon,
        on: dict[str, list[Json]],
        pods: Sequence[Json],
        hash_: str,
    ) -> None:
        todo = plan(daemon, self.nodes, on, hash_)
        failed = set(todo.failed)
        create = [node for node in todo.create if node not in failed]
        if failed:
            self.queue.add_after(key, FAILED_PAUSE)
        await gather_writes(self._delete(daemon_set, pod) for pod in todo.delete)
        await slow_start_batch(len(create), lambda n: self._create(daemon_set, create[n], hash_))
        if not create and not todo.delete:
            wanted = sum(1 for node in self.nodes if daemon.fits(node)[0])
            going = updates(daemon_set, wanted, pods, hash_, self.now())
            await gather_writes(self._delete(daemon_set, pod) for pod in going)

    async def _create(self, daemon_set: Json, node: str, hash_: str) -> None:
        template = spec_of(daemon_set).get("template") or {}
        spec = template.get("spec") or {}
        labels = {HASH: hash_, GENERATION: str(daemon_set["metadata"].get("generation", 1))}
        pinned = {"affinity": affinity_for(spec, node), "tolerations": tolerations_of(spec)}
        try:
            made = await self.create(
                PODS, pod_from(template, DAEMON_SETS, daemon_set, labels=labels, spec=pinned)
            )
        except ApiError as error:
            await self.record_event(daemon_set, "FailedCreate", f"Error creating: {error}", WARNING)
            raise
        await self.record_event(daemon_set, "SuccessfulCreate", f"Created pod: {name_of(made)}")

    async def _delete(self, daemon_set: Json, pod: Json) -> None:
        await self.delete(PODS, pod)
        await self.record_event(daemon_set, "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")


def _relevant_state(node: Json) -> object:
    """What of a node decides about daemons."""
    return labels_of(node), spec_of(node).get("taints")
