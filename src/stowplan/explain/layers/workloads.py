"""A workload with its pods, and the layers before them: how many it wants, and why it creates no more."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from stowplan.api.catalogue import EVENTS, JOBS, NODES, REPLICA_SETS
from stowplan.api.meta import Object
from stowplan.api.names import closest
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.rules.nodeselector import required_node_affinity
from stowplan.api.rules.taints import untolerated
from stowplan.api.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    StatefulSet,
    WorkloadCondition,
)
from stowplan.api.writes import Event
from stowplan.explain.commands import compact, kubectl
from stowplan.explain.document.layers import Stage
from stowplan.explain.document.workload import WorkloadChange
from stowplan.explain.layers.owners import TYPES, controller_of
from stowplan.explain.layers.reads import ObjectReads
from stowplan.explain.layers.refusals import Refusal, refusal_of
from stowplan.explain.layout import plural

KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
_HASH: Final = "pod-template-hash"
FAILED_CREATE: Final = "FailedCreate"
StageAndChanges = tuple[Stage, tuple[WorkloadChange, ...]]
_FOUND_LATER: Final = "its controller has said nothing yet"


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload with what belongs to it. `obj` is None if it could not be read: then its pods are known
    from their owners alone."""

    kind: str
    namespace: str
    name: str
    obj: Object | None
    parts: tuple[Object, ...]
    """The ReplicaSets of a Deployment, the Jobs of a CronJob."""
    pods: tuple[Pod, ...]

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def argument(self) -> str:
        """The workload as kubectl takes it."""
        return f"{self.kind.lower()}/{self.name}"

    @property
    def living(self) -> list[Pod]:
        """Its pods that have not ended and are not being deleted."""
        return [pod for pod in self.pods if not pod.is_finished and not pod.is_terminating]

    @property
    def wanted(self) -> int | None:
        """The number of pods that it wants now."""
        return None if self.obj is None else _wanted_of(self.obj, self.parts)

    def lacking(self) -> list[tuple[Object, int]]:
        """The objects that create pods and have not created all, with the number of missing pods."""
        makers = (
            self.parts if self.kind in ("Deployment", "CronJob") else () if self.obj is None else (self.obj,)
        )
        found = []
        for one in makers:
            wanted = _wanted_of(one, ()) or 0
            own = sum(1 for pod in self.living if _is_controlled_by(pod, one))
            if wanted > own:
                found.append((one, wanted - own))
        return found


def is_healthy(pod: Pod) -> bool:
    """True for a pod that runs and is ready, or has succeeded."""
    if pod.is_finished:
        return pod.status.phase == "Succeeded"
    ready = next((one.status for one in pod.status.conditions if one.type == "Ready"), "True")
    return pod.status.phase == "Running" and ready == "True"


# Finding it


async def find_workload(
    kind: str, namespace: str, name: str, pods: Iterable[Pod], reads: ObjectReads
) -> Workload | None:
    """The workload with its pods out of those of its namespace; None if there is none."""
    resource, cls = TYPES[kind]
    obj = await reads.get(resource, cls, namespace, name)
    parts: tuple[Object, ...] = ()
    if kind == "Deployment":
        parts = tuple(
            one
            for one in await reads.list(REPLICA_SETS, ReplicaSet, namespace)
            if _has_owner(one, kind, name)
        )
    elif kind == "CronJob":
        parts = tuple(one for one in await reads.list(JOBS, Job, namespace) if _has_owner(one, kind, name))
    own = tuple(_pods_of(kind, name, namespace, parts, pods))
    if obj is None and (not own or resource.plural not in reads.unread):
        return None
    return Workload(kind, namespace, name, obj, parts, own)


def _pods_of(
    kind: str, name: str, namespace: str, parts: Sequence[Object], pods: Iterable[Pod]
) -> Iterator[Pod]:
    names = {one.name for one in parts}
    for pod in pods:
        owner = controller_of(pod)
        if pod.namespace != namespace or owner is None:
            continue
        if kind == "Deployment":
            by_hash = f"{name}-{pod.metadata.labels.get(_HASH, '')}"
            known = owner.name in names or (not names and owner.name == by_hash)
            if owner.kind == "ReplicaSet" and known:
                yield pod
        elif kind == "CronJob":
            if owner.kind == "Job" and owner.name in names:
                yield pod
        elif owner.kind == kind and owner.name == name:
            yield pod


def _has_owner(obj: Object, kind: str, name: str) -> bool:
    owner = controller_of(obj)
    return owner is not None and owner.kind == kind and owner.name == name


def _is_controlled_by(pod: Pod, obj: Object) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner.kind == type(obj).__name__ and owner.name == obj.name


def _wanted_of(obj: Object, parts: Sequence[Object]) -> int | None:
    match obj:
        case Deployment() | ReplicaSet() | StatefulSet():
            return 1 if obj.spec.replicas is None else obj.spec.replicas
        case DaemonSet():
            return obj.status.desired_number_scheduled
        case Job():
            if obj.spec.suspend or _condition(obj.status.conditions, "Complete", "Failed") is not None:
                return 0
            parallel = 1 if obj.spec.parallelism is None else obj.spec.parallelism
            completions = obj.spec.completions
            return parallel if completions is None else min(parallel, completions - obj.status.succeeded)
        case CronJob():
            return sum(_wanted_of(one, ()) or 0 for one in parts)
    return None


def _condition(conditions: Sequence[WorkloadCondition], *types: str) -> WorkloadCondition | None:
    """The first condition of one of these types that is true."""
    return next((one for one in conditions if one.type in types and one.status == "True"), None)


# Wanted


async def wanted_stage(found: Workload, reads: ObjectReads) -> StageAndChanges:
    """The layer `wanted`: stopped if the workload wants no pods, with what would have it want some."""
    text, remedy, changes = "", "", tuple[WorkloadChange, ...]()
    match found.obj:
        case Deployment() | ReplicaSet() | StatefulSet() if found.wanted == 0:
            command = kubectl("scale", found.argument, "-n", found.namespace, "--replicas=1")
            changes = (WorkloadChange("scale", "scale it to 1 replica or more", command),)
            text, remedy = "is scaled to 0 replicas", "scale it up"
        case Deployment(spec=spec) if spec.paused and not found.parts:
            command = kubectl("rollout", "resume", found.argument, "-n", found.namespace)
            changes = (WorkloadChange("resume", "resume its rollout", command),)
            text, remedy = "is paused, so it has created no ReplicaSet", "resume its rollout"
        case Job(spec=spec) if spec.suspend:
            text, remedy, changes = _suspended(found)
        case CronJob(spec=spec) if spec.suspend:
            text, remedy, changes = _suspended(found)
        case CronJob(spec=spec, status=status) if not found.parts and not status.last_schedule_time:
            text, remedy = f"has not come to its first time yet ({spec.schedule})", "wait"
        case DaemonSet() as obj if found.wanted == 0:
            text, remedy = await _selects_none(obj, reads)
    return Stage("wanted", "stopped" if text else "done", text, remedy), changes


def _suspended(found: Workload) -> tuple[str, str, tuple[WorkloadChange, ...]]:
    """A Job that is suspended; one that a queue admits is the queue's to resume."""
    assert found.obj is not None
    queue = found.obj.metadata.labels.get(KUEUE_QUEUE)
    if queue is not None:
        look = kubectl("get", "workloads.kueue.x-k8s.io", "-n", found.namespace)
        return f"is suspended until Kueue admits it (queue {queue})", f"{look} says why Kueue waits", ()
    patch = {"spec": {"suspend": False}}
    command = kubectl("patch", found.kind.lower(), found.name, "-n", found.namespace, "-p", compact(patch))
    return "is suspended", "resume it", (WorkloadChange("resume", "resume it", command),)


async def _selects_none(obj: DaemonSet, reads: ObjectReads) -> tuple[str, str]:
    """Why a DaemonSet wants no pod: no node is selected, or all that are have taints."""
    nodes = await reads.list(NODES, Node)
    spec = obj.spec.template.spec
    if not nodes:
        return "wants no pod on any node", ""
    required = required_node_affinity(spec)
    selected = [one for one in nodes if required.matches(one.metadata.labels, one.name)]
    if selected:
        taints = {
            f"{taint.key}={taint.value}:{taint.effect}".replace("=:", ":")
            for one in selected
            if (taint := untolerated(one.spec.taints, spec.tolerations)) is not None
        }
        if not taints:
            return "wants no pod yet", ""
        listed = ", ".join(sorted(taints))
        count = plural(len(selected), "node")
        return f"tolerates none of the {count} that it selects: taint {listed}", f"tolerate {listed}"
    wanted = spec.node_selector or {}
    missing = {
        key: value for key, value in wanted.items() if not any(_has_label(one, key, value) for one in nodes)
    }
    if not missing:
        return f"selects no node of {len(nodes)}", "correct the selector of its template, or label nodes"
    listed = ", ".join(f"{key}={value}" for key, value in missing.items())
    text = f"wants no pod: no node of {len(nodes)} has {listed}"
    near = [_near_label(nodes, key, value) for key, value in missing.items()]
    return text, ", ".join(filter(None, near)) or f"label nodes with {listed}, or correct its nodeSelector"


def _has_label(node: Node, key: str, value: str) -> bool:
    return node.metadata.labels.get(key) == value


def _near_label(nodes: Sequence[Node], key: str, value: str) -> str:
    """The label that was probably meant, and how many nodes have it."""
    near = closest(value, {one.metadata.labels[key] for one in nodes if key in one.metadata.labels})
    if not near:
        return ""
    count = sum(_has_label(one, key, near) for one in nodes)
    have = plural(count, "node has", "nodes have")
    return f"select {key}={near}, which {have}"


# Created


async def created_stage(
    found: Workload, reads: ObjectReads, consulted: Callable[[str], None]
) -> StageAndChanges:
    """The layer `created`: stopped if its controller may not create pods, with what helps.

    `consulted` is called with the resources that the answer depends on.
    """
    lacking = found.lacking()
    if not lacking:
        if found.kind == "Deployment" and found.wanted and not found.parts:
            return await _no_set(found, reads, consulted)
        return Stage("created", "done"), ()
    maker, missing = lacking[-1]
    message = failure(maker)
    if not message:
        consulted(EVENTS.plural)
        message = await last_word(type(maker).__name__, found.namespace, maker.name, reads)
    if message:
        refusal = await refusal_of(message, found.namespace, missing, reads)
        return _stopped(found, maker, missing, refusal)
    if _waits_in_order(found) or ended_stage(found) is not None:
        return Stage("created", "done"), ()
    text = f"{plural(missing, 'pod is', 'pods are')} not created; {_FOUND_LATER}"
    return Stage("created", "unknown", text), ()


def _stopped(found: Workload, maker: Object, missing: int, refusal: Refusal) -> StageAndChanges:
    text = refusal.text
    if len(found.living) >= (found.wanted or 0):
        text = f"{type(maker).__name__} {maker.name} cannot create {plural(missing, 'pod')}: {text}"
    return Stage("created", "stopped", text, refusal.remedy), refusal.changes


async def _no_set(found: Workload, reads: ObjectReads, consulted: Callable[[str], None]) -> StageAndChanges:
    """A Deployment without ReplicaSet."""
    conditions = found.obj.status.conditions if isinstance(found.obj, Deployment) else ()
    failed = next((one for one in conditions if one.type == "Progressing" and one.status == "False"), None)
    consulted(REPLICA_SETS.plural)
    if failed is not None:
        text = f"it has no ReplicaSet: {failed.reason}: {failed.message}"
        return Stage("created", "stopped", text), ()
    return Stage("created", "unknown", f"it has no ReplicaSet; {_FOUND_LATER}"), ()


def failure(obj: Object) -> str:
    """The failure that a ReplicaSet notes in its status."""
    if not isinstance(obj, ReplicaSet):
        return ""
    failed = _condition(obj.status.conditions, "ReplicaFailure")
    return "" if failed is None or failed.reason != FAILED_CREATE else failed.message


async def last_word(kind: str, namespace: str, name: str, reads: ObjectReads) -> str:
    """The last event about a pod that a controller could not create."""
    events = await reads.list(EVENTS, Event, namespace, regarding__kind=kind, regarding__name=name)
    failed = [one for one in events if one.reason == FAILED_CREATE]
    return max(failed, key=lambda one: one.time).note if failed else ""


def _waits_in_order(found: Workload) -> bool:
    """True if a StatefulSet creates its next pod when those before it are ready."""
    obj = found.obj
    if not isinstance(obj, StatefulSet) or obj.spec.pod_management_policy == "Parallel":
        return False
    return any(not is_healthy(pod) for pod in found.pods)


# Ended


def ended_stage(found: Workload) -> Stage | None:
    """The layer `started` of a Job that has failed, or whose pods fail; None for all others."""
    if not isinstance(found.obj, Job):
        return None
    failed = _condition(found.obj.status.conditions, "Failed")
    ended = [one.name for one in found.pods if one.status.phase == "Failed"]
    logs = kubectl("logs", "-n", found.namespace, ended[-1]) if ended else ""
    if failed is None:
        if not ended or not found.lacking():
            return None
        text = f"{plural(len(ended), 'pod')} failed, the next one is created after a pause"
        return Stage("started", "stopped", text, f"{logs} says why")
    said = f"{failed.reason}: {failed.message}".rstrip(": ")
    remedy = f"{logs} says why; then create the Job again" if logs else "create the Job again"
    return Stage("started", "stopped", f"has failed: {said}", remedy)


def is_complete(found: Workload) -> bool:
    """True for a Job that has succeeded."""
    return isinstance(found.obj, Job) and _condition(found.obj.status.conditions, "Complete") is not None


def is_failed(found: Workload) -> bool:
    """True for a Job that has failed for good."""
    return isinstance(found.obj, Job) and _condition(found.obj.status.conditions, "Failed") is not None
