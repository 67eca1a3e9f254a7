"""The DaemonSet controller: one pod on every node that it fits."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import msgspec

from stowplan.api.catalogue import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from stowplan.api.labels import SelectorError
from stowplan.api.node import Taint
from stowplan.api.pod import PodSpec, Toleration
from stowplan.api.requests import Json
from stowplan.api.rules.nodeselector import required_node_affinity
from stowplan.api.rules.taints import NO_EXECUTE, NO_SCHEDULE, untolerated
from stowplan.localcluster.controllerruntime.controller import (
    Controller,
    ControllerContext,
    gather_writes,
    slow_start_batch,
)
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.controllers.workloads.history import (
    HASH,
    claim_revisions,
    forget_old,
    present_revision,
)
from stowplan.localcluster.controllers.workloads.podcontrol import claim_objects, pod_from, scaled_value
from stowplan.localcluster.objects.fields import (
    annotations_of,
    available_in,
    count_in,
    created_at,
    is_deleting,
    is_finished,
    is_ready,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    omit_empty,
    phase_of,
    selector_in,
    spec_of,
    status_of,
    uid_of,
)

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
    match = {"key": "metadata.name", "operator": "In", "values": [node]}
    pinned = {"nodeSelectorTerms": [{"matchFields": [match]}]}
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
        for match in term.get("matchFields") or ():
            if match.get("key") == "metadata.name" and len(match.get("values") or ()) == 1:
                return str(match["values"][0])
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
        """Two flags: a pod should run on a node, and one that runs there may stay."""
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


def daemon_pod(daemon_set: Json, node: str, revision_hash: str) -> Json:
    """The pod of a DaemonSet for a node."""
    template = spec_of(daemon_set).get("template") or {}
    spec = template.get("spec") or {}
    generation = template_generation(daemon_set)
    labels = {HASH: revision_hash, **({GENERATION: generation} if generation else {})}
    pinned = {"affinity": affinity_for(spec, node), "tolerations": tolerations_of(spec)}
    return pod_from(template, DAEMON_SETS, daemon_set, labels=labels, spec=pinned)


@dataclass(slots=True)
class DaemonSetPlan:
    """On which nodes to create pods, and which pods to delete."""

    create: list[str] = field(default_factory=list)
    delete: list[Json] = field(default_factory=list)


class DaemonSetView:
    """A DaemonSet with its pods by node: those that have failed and are deleted already are left out.

    `surge` is on how many nodes there may be two pods, `unavailable` how many nodes may be without one.
    """

    def __init__(
        self,
        obj: Json,
        daemon: Daemon,
        nodes: Sequence[Json],
        on: Mapping[str, Sequence[Json]],
        hash_: str,
        now: float,
    ) -> None:
        self.obj, self.daemon, self.nodes, self.on, self.hash, self.now = obj, daemon, nodes, on, hash_, now
        self.desired = sum(1 for node in nodes if daemon.fits(node)[0])
        rolling = (spec_of(obj).get("updateStrategy") or {}).get("rollingUpdate") or {}
        self.surge = scaled_value(rolling.get("maxSurge"), self.desired, 0, round_up=True)
        allowed = scaled_value(rolling.get("maxUnavailable"), self.desired, 1, round_up=True)
        self.unavailable = allowed or (0 if self.surge else 1)

    def is_available(self, pod: Json) -> bool:
        min_ready = count_in(spec_of(self.obj), "minReadySeconds")
        return available_in(pod, min_ready, self.now) == 0.0

    def is_updated(self, pod: Json) -> bool:
        labels, generation = labels_of(pod), template_generation(self.obj)
        same = generation != "" and labels.get(GENERATION) == generation
        return same or labels.get(HASH) == self.hash


def template_generation(daemon_set: Json) -> str:
    """How often the template has changed, as the API server counts it; empty if it does not."""
    return annotations_of(daemon_set).get(TEMPLATE_GENERATION, "")


def by_node(pods: Iterable[Json]) -> dict[str, list[Json]]:
    on: dict[str, list[Json]] = {}
    for pod in pods:
        if not (is_finished(pod) and is_deleting(pod)):
            on.setdefault(assigned_node(pod), []).append(pod)
    return on


def plan(view: DaemonSetView, held_back: Container[str] = ()) -> DaemonSetPlan:
    """Which pods come and go so that every node that should has one, and none that should not.

    Failed pods stay for a while on nodes that are `held_back`.
    """
    result = DaemonSetPlan()
    for node in view.nodes:
        name = name_of(node)
        should, may = view.daemon.fits(node)
        pods = view.on.get(name, ())
        staying = [pod for pod in pods if not is_deleting(pod)]
        if should and not pods:
            result.create.append(name)
        elif not may:
            result.delete += staying
        else:
            running = [pod for pod in staying if not is_finished(pod)]
            ended = [pod for pod in staying if is_finished(pod)]
            result.delete += [pod for pod in ended if phase_of(pod) != "Failed" or name not in held_back]
            result.delete += _surplus(view, running)
            if view.surge and should and not running:
                result.create.append(name)
    known = {name_of(node) for node in view.nodes}
    gone = [pod for name in sorted(view.on) if name not in known for pod in view.on[name]]
    result.delete += [pod for pod in gone if not node_of(pod) and not is_deleting(pod)]
    return result


def _surplus(view: DaemonSetView, running: Sequence[Json]) -> list[Json]:
    """Pods of a node that are too many: all but the oldest; when surging, the oldest of each kind stay.

    An old pod goes when it is not ready, or when its successor is available.
    """
    ordered = sorted(running, key=_by_age)
    if not view.surge:
        return ordered[1:]
    new = [pod for pod in ordered if labels_of(pod).get(HASH) == view.hash]
    old = [pod for pod in ordered if labels_of(pod).get(HASH) != view.hash]
    going = [*new[1:], *old[1:]]
    if new and old and (not is_ready(old[0]) or view.is_available(new[0])):
        going.append(old[0])
    return going


def _by_age(pod: Json) -> tuple[object, ...]:
    """Placed pods first, then the oldest."""
    return not node_of(pod), created_at(pod), name_of(pod)


def updates(view: DaemonSetView) -> DaemonSetPlan:
    """Current step of a rolling update: at most `unavailable` nodes without a pod, or `surge` with two."""
    if (spec_of(view.obj).get("updateStrategy") or {}).get("type") == "OnDelete":
        return DaemonSetPlan()
    return _surging_update(view) if view.surge else _deleting_update(view)


def _pairs(view: DaemonSetView) -> Iterator[tuple[str, Sequence[Json], Sequence[Json]]]:
    """Nodes that have or should have pods, with their new and their old pods."""
    wanted = [name_of(node) for node in view.nodes if view.daemon.fits(node)[0]]
    for name in sorted({*wanted, *view.on}):
        staying = [pod for pod in view.on.get(name, ()) if not is_deleting(pod)]
        new = [pod for pod in staying if view.is_updated(pod)]
        yield name, new, [pod for pod in staying if not view.is_updated(pod)]


def _deleting_update(view: DaemonSetView) -> DaemonSetPlan:
    missing = 0
    sick: list[Json] = []
    healthy: list[Json] = []
    for _, new, old in _pairs(view):
        if len(new) + len(old) != 1:
            missing += 1
        elif new:
            missing += not view.is_available(new[0])
        elif view.is_available(old[0]):
            healthy.append(old[0])
        else:
            sick.append(old[0])
            missing += 1
    return DaemonSetPlan(delete=[*sick, *healthy[: max(view.unavailable - missing, 0)]])


def _surging_update(view: DaemonSetView) -> DaemonSetPlan:
    fits = {name_of(node): view.daemon.fits(node)[0] for node in view.nodes}
    result = DaemonSetPlan()
    candidates: list[str] = []
    misplaced: list[Json] = []
    surging = available = 0
    for name, new, old in _pairs(view):
        if len(new) > 1 or len(old) > 1:
            surging += 1
            continue
        available += any(map(view.is_available, old or new))
        if not old:
            continue
        if new:
            surging += not view.is_available(new[0])
            result.delete += old if view.is_available(new[0]) else []
        elif view.is_available(old[0]):
            if fits.get(name):
                candidates.append(name)
            else:
                misplaced += old
        elif fits.get(name):
            result.create.append(name)
        else:
            result.delete += old
    result.create += candidates[: max(view.surge - surging, 0)]
    result.delete += misplaced[: max(available - view.desired, 0)]
    return result


def status_for(view: DaemonSetView, collisions: int) -> Json:
    """The counts of a DaemonSet."""
    desired = current = misscheduled = ready = available = updated = 0
    for node in view.nodes:
        should, _ = view.daemon.fits(node)
        pods = view.on.get(name_of(node), ())
        if not should:
            misscheduled += bool(pods)
            continue
        desired += 1
        if not pods:
            continue
        current += 1
        oldest = min(pods, key=_by_age)
        ready += is_ready(oldest)
        available += view.is_available(oldest)
        updated += view.is_updated(oldest)
    counts = {
        "observedGeneration": view.obj["metadata"].get("generation", 1),
        "desiredNumberScheduled": desired,
        "currentNumberScheduled": current,
        "numberMisscheduled": misscheduled,
        "numberReady": ready,
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
        "numberUnavailable": desired - available,
        "collisionCount": collisions,
    }
    always = ("desiredNumberScheduled", "currentNumberScheduled", "numberMisscheduled", "numberReady")
    return omit_empty(counts, *always)


GENERATION: Final = "pod-template-generation"
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"

FIRST_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 900.0


class FailureBackoff:
    """How long a failed pod stays before the next one comes: longer each time."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[float, float]] = {}

    def left(self, key: str, now: float) -> float:
        pause, since = self._held.get(key, (0.0, now))
        return since + pause - now

    def failed(self, key: str, now: float) -> None:
        pause, since = self._held.get(key, (0.0, now))
        is_over = now - since > 2 * LONGEST_BACKOFF
        self._held = {k: held for k, held in self._held.items() if now - held[1] <= 2 * LONGEST_BACKOFF}
        again = FIRST_BACKOFF if not pause or is_over else min(2 * pause, LONGEST_BACKOFF)
        self._held[key] = (again, now)


class DaemonSetController(Controller):
    """Keeps a pod of every DaemonSet on every node that it fits."""

    name: ClassVar[str] = "daemonset-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.sets = self.follow(DAEMON_SETS)
        self.pods = self.follow_owned(PODS, DAEMON_SETS.kind, self.sets)
        self.nodes = self.informer(NODES)
        self.revisions = self.informer(CONTROLLER_REVISIONS)
        self.nodes.add_handler(self._node_changed)
        self._backoff = FailureBackoff()

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        if old is not None and new is not None and _relevant_state(old) == _relevant_state(new):
            return
        for key in self.sets.objects:
            self.queue.add(key)

    async def sync(self, key: str) -> None:
        daemon_set = self.sets.get(key)
        if daemon_set is None or is_deleting(daemon_set):
            return
        selector = selector_in(daemon_set)
        pods = await claim_objects(self, self.pods, DAEMON_SETS, daemon_set, selector)
        self.rest(key, len(self.nodes.objects))
        held = await claim_revisions(self, self.revisions, DAEMON_SETS, daemon_set, selector)
        revision, collisions = await present_revision(self, DAEMON_SETS, daemon_set, held, HASH)
        hash_ = labels_of(revision).get(HASH, "")
        view = DaemonSetView(
            daemon_set, Daemon(daemon_set), list(self.nodes), by_node(pods), hash_, self.now()
        )
        try:
            await self._manage(key, view)
        finally:
            await self.set_status(DAEMON_SETS, daemon_set, status_for(view, collisions))
        self._look_again(key, view, pods)
        await forget_old(self, daemon_set, held, {hash_, *(labels_of(pod).get(HASH, "") for pod in pods)})

    def _look_again(self, key: str, view: DaemonSetView, pods: Sequence[Json]) -> None:
        """When the next pod has been ready for long enough."""
        min_ready = count_in(spec_of(view.obj), "minReadySeconds")
        waiting = [left for pod in pods if (left := available_in(pod, min_ready, view.now))]
        if waiting:
            self.queue.add_after(key, min(waiting))

    async def _manage(self, key: str, view: DaemonSetView) -> None:
        todo = plan(view, self._held_back(key, view))
        for pod in todo.delete:
            if is_finished(pod):
                await self._told_ended(view, pod)
        await self._carry_out(view, todo)
        if not todo.create and not todo.delete:
            await self._carry_out(view, updates(view))

    def _held_back(self, key: str, view: DaemonSetView) -> set[str]:
        """Nodes on which a pod has failed again so soon that it stays for a while."""
        failed = {
            node
            for node, pods in view.on.items()
            if any(phase_of(pod) == "Failed" and not is_deleting(pod) for pod in pods)
        }
        left = {node: self._backoff.left(self._place(view, node), self.monotonic()) for node in failed}
        held_back = {node for node, seconds in left.items() if seconds > 0}
        for node in held_back:
            self.queue.add_after(key, left[node])
        return held_back

    def _place(self, view: DaemonSetView, node: str) -> str:
        return f"{uid_of(view.obj)}/{count_in(status_of(view.obj), 'observedGeneration')}/{node}"

    async def _told_ended(self, view: DaemonSetView, pod: Json) -> None:
        node, about = assigned_node(pod), f"daemon pod {namespace_of(pod)}/{name_of(pod)} on node"
        if phase_of(pod) == "Failed":
            self._backoff.failed(self._place(view, node), self.monotonic())
            note = f"Found failed {about} {node}, will try to kill it"
            await self.record_event(view.obj, "FailedDaemonPod", note, WARNING)
        else:
            note = f"Found succeeded {about} {node}, will try to delete it"
            await self.record_event(view.obj, "SucceededDaemonPod", note)

    async def _carry_out(self, view: DaemonSetView, todo: DaemonSetPlan) -> None:
        create = todo.create

        async def one(number: int) -> None:
            pod = daemon_pod(view.obj, create[number], view.hash)
            await self.create_pod(view.obj, pod)

        await slow_start_batch(len(create), one)
        await gather_writes(self.delete_pod(view.obj, pod) for pod in todo.delete)


def _relevant_state(node: Json) -> object:
    """Relevant parts of a node for daemons."""
    return labels_of(node), spec_of(node).get("taints")
