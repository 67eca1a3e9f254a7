"""A workload as an answer: the first layer that does not go on, and its pods that do not run by cause.

Pods with the same template and the same last message of scheduler and kubelet are explained once.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from stowplan.api.catalogue import REPLICA_SETS
from stowplan.api.pod import Pod
from stowplan.explain.document.layers import Stage
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.document.workload import WorkloadDocument, WorkloadState
from stowplan.explain.explainers.causes import causes_of_samples
from stowplan.explain.layers.owners import TYPES, controller_of
from stowplan.explain.layers.reads import ObjectReads
from stowplan.explain.layers.workloads import (
    Workload,
    created_stage,
    ended_stage,
    find_workload,
    is_complete,
    is_failed,
    is_healthy,
    wanted_stage,
)
from stowplan.explain.sentences.workload import told_workload
from stowplan.explain.stages import ORDER

MOST_EXPLAINED: Final = 12
"""Pods of one workload that are explained: they all look different."""

ExplainPod = Callable[[Pod], Awaitable[PodDocument | None]]


async def explain_workload(
    kind: str,
    namespace: str,
    name: str,
    pods: Iterable[Pod],
    reads: ObjectReads,
    explain: ExplainPod,
    source: str,
    now: float | None = None,
) -> WorkloadDocument | None:
    """The document about a workload; None if there is none of that name.

    `pods` are all of its namespace, `explain` gives the document of one of them. `now` is the time in seconds
    since 1970.
    """
    workload = await find_workload(kind, namespace, name, pods, reads)
    if workload is None:
        return None
    consulted = [TYPES[kind][0].plural, *([REPLICA_SETS.plural] if kind == "Deployment" else [])]
    wanted, changes = await wanted_stage(workload, reads)
    stages = [wanted]
    if wanted.state == "done":
        created, changes = await created_stage(workload, reads, consulted.append)
        stages.append(created)
    found = _counted(workload, source)
    ended = ended_stage(workload)
    waiting = [pod for pod in workload.living if not is_healthy(pod)]
    samples, unexplained = await _samples(waiting, explain)
    causes = causes_of_samples(samples)
    if ended is not None:
        stages.append(ended)
    elif all(one.state == "done" for one in stages):
        stages += _stages_of_pods([cause.explanation for cause in causes if cause.explanation is not None])
    unread = [reads.unread[plural] for plural in consulted if plural in reads.unread]
    return told_workload(
        replace(
            found,
            state=_state(workload, stages, waiting),
            stages=tuple(stages),
            changes=changes,
            causes=causes,
            unexplained=unexplained,
            incomplete=tuple(
                dict.fromkeys((*unread, *(line for one, _ in samples for line in one.incomplete)))
            ),
        ),
        now,
    )


def _counted(workload: Workload, source: str) -> WorkloadDocument:
    living, pods = workload.living, workload.pods
    return WorkloadDocument(
        workload=workload.key,
        kind=workload.kind,
        state="running",
        source=source,
        wanted=workload.wanted,
        created=len(living),
        placed=sum(bool(pod.spec.node_name) for pod in living),
        running=sum(is_healthy(pod) for pod in living),
        succeeded=sum(pod.status.phase == "Succeeded" for pod in pods),
        failed=sum(pod.status.phase == "Failed" for pod in pods),
        ending=sum(pod.is_terminating and not pod.is_finished for pod in pods),
    )


def _state(workload: Workload, stages: Sequence[Stage], waiting: Sequence[Pod]) -> WorkloadState:
    stopped = next((one for one in stages if one.state == "stopped"), None)
    if stopped is not None and stopped.name == "wanted":
        return "idle"
    if is_complete(workload):
        return "idle"
    if is_failed(workload):
        return "failed"
    return "waiting" if waiting or any(one.state != "done" for one in stages) else "running"


async def _samples(
    waiting: Iterable[Pod], explain: ExplainPod
) -> tuple[list[tuple[PodDocument, list[str]]], int]:
    """One document for each kind of pod, with the pods of that kind, and the number of pods left out."""
    by_kind: dict[Hashable, list[Pod]] = {}
    for pod in waiting:
        by_kind.setdefault(_look(pod), []).append(pod)
    found: list[tuple[PodDocument, list[str]]] = []
    left = 0
    for pods in by_kind.values():
        document = await explain(pods[0]) if len(found) < MOST_EXPLAINED else None
        if document is None:
            left += len(pods)
        else:
            found.append((document, [pod.key for pod in pods]))
    return found, left


def _look(pod: Pod) -> Hashable:
    """The kind of a pod: pods of one kind very likely do not run for the same reason."""
    owner = controller_of(pod)
    said = next((one.message for one in pod.status.conditions if one.type == "PodScheduled"), "")
    waiting = [
        "" if one.state is None or one.state.waiting is None else one.state.waiting.reason
        for one in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ]
    return (
        "" if owner is None else owner.name,
        pod.spec.scheduling_gates,
        pod.spec.node_name,
        said.replace(pod.name, ""),
        *waiting,
    )


def _stages_of_pods(found: Sequence[PodDocument]) -> list[Stage]:
    """The layers of the pods: the earliest at which one of them is stopped."""
    stopped = [one.stopped for one in found if one.stopped is not None]
    first = min(stopped, key=lambda stage: ORDER.index(stage.name), default=None)
    if first is None:
        return [Stage(name, "done") for name in ORDER[2:]] if not found else []
    return [*(Stage(name, "done") for name in ORDER[2 : ORDER.index(first.name)]), first]
