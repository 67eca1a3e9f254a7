"""Workloads whose pods cannot be created: nobody sees pods that do not exist."""

from collections.abc import Iterable, Sequence
from typing import Final

from stowplan.api.catalogue import EVENTS, REPLICA_SETS
from stowplan.api.pod import Pod
from stowplan.api.workloads import ReplicaSet
from stowplan.api.writes import Event
from stowplan.explain.document.pending import Cause
from stowplan.explain.layers.owners import TYPES, controller_of
from stowplan.explain.layers.reads import ObjectReads
from stowplan.explain.layers.workloads import FAILED_CREATE, created_stage, failure, find_workload

MOST: Final = 100
"""Workloads that are looked at: one quota may stop all of a namespace."""

Maker = tuple[str, str, str]
"""Kind, namespace and name of an object that creates pods."""


async def workloads_without_pods(
    namespaces: Sequence[str], pods: Iterable[Pod], reads: ObjectReads
) -> tuple[Cause, ...]:
    """The workloads that cannot create pods, with the reason. `namespaces` are looked into, or all if empty.

    They are known from events, which controllers repeat as they try again, and from the status of
    ReplicaSets where events are not readable.
    """
    makers = await _makers(namespaces, reads)
    if not makers:
        return ()
    by_namespace: dict[str, list[Pod]] = {namespace: [] for _, namespace, _ in makers}
    for pod in pods:
        if pod.namespace in by_namespace:
            by_namespace[pod.namespace].append(pod)
    found: dict[Maker, Cause] = {}
    for maker in makers[:MOST]:
        kind, namespace, name = await _top(maker, reads)
        if (kind, namespace, name) in found:
            continue
        workload = await find_workload(kind, namespace, name, by_namespace[namespace], reads)
        if workload is None:
            continue
        stage, _ = await created_stage(workload, reads, lambda resource: None)
        if stage.state == "stopped":
            missing = sum(count for _, count in workload.lacking())
            found[kind, namespace, name] = Cause(
                pods=(),
                count=max(missing, 1),
                name=workload.key,
                reason=stage.text,
                help=stage.remedy,
                workload=workload.argument,
            )
    return tuple(sorted(found.values(), key=lambda one: (-one.count, one.name)))


def unread_of(reads: ObjectReads) -> tuple[str, ...]:
    """The reason why such workloads are not known, if that is so."""
    return (reads.unread[EVENTS.plural],) if EVENTS.plural in reads.unread else ()


async def _makers(namespaces: Sequence[str], reads: ObjectReads) -> list[Maker]:
    """The objects that said that they cannot create pods."""
    found: dict[Maker, None] = {}
    for namespace in namespaces or ("",):
        for event in await reads.list(EVENTS, Event, namespace, reason=FAILED_CREATE):
            about = event.regarding
            if about.kind in TYPES:
                found[about.kind, about.namespace, about.name] = None
        if EVENTS.plural in reads.unread:
            found.update(
                (("ReplicaSet", one.namespace, one.name), None)
                for one in await reads.list(REPLICA_SETS, ReplicaSet, namespace)
                if failure(one)
            )
    return [*found]


async def _top(maker: Maker, reads: ObjectReads) -> Maker:
    """The workload that people know: the Deployment of a ReplicaSet."""
    kind, namespace, name = maker
    if kind != "ReplicaSet":
        return maker
    obj = await reads.get(REPLICA_SETS, ReplicaSet, namespace, name)
    owner = None if obj is None else controller_of(obj)
    return maker if owner is None or owner.kind not in TYPES else (owner.kind, namespace, owner.name)
