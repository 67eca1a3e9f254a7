"""Readiness of a cluster: every workload has its pods, and every pod is ready or has succeeded."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from stowplan.api.catalogue import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from stowplan.api.requests import Json
from stowplan.localcluster.objects.fields import (
    condition_of,
    controller_of,
    count_in,
    is_deleting,
    is_ready,
    key_of,
    phase_of,
    spec_of,
    status_of,
)
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import Clock

_OFTEN: Final = 0.1
"""Seconds between two looks, at least."""

_SHOWN: Final = 30
"""Number of lines shown; the others are counted."""


def not_ready(store: Store) -> list[str]:
    """A line for everything that is not ready, with the reason; empty if everything is."""
    return sorted(_problems(store))


def is_cluster_ready(store: Store) -> bool:
    """True if everything is ready; the few workloads are checked before the many pods."""
    return next(_problems(store), None) is None


async def until_ready(store: Store, clock: Clock, timeout: float) -> list[str]:
    """Wait until everything is ready, or until the timeout; returns the problems left then.

    Checking costs time in a large cluster, so it is done less often there.
    """
    began, seen = clock.monotonic(), -1
    while (now := clock.monotonic()) - began < timeout:
        if store.version != seen:
            seen = store.version
            if is_cluster_ready(store):
                return []
        looked = clock.monotonic() - now
        await asyncio.sleep(min(max(_OFTEN, 20 * looked), max(began + timeout - clock.monotonic(), 0.0)))
    return not_ready(store)


def shown(lines: Sequence[str]) -> list[str]:
    """Lines for people: not more than can be read."""
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], f"and {more:,} more"] if more > 0 else list(lines)


def _problems(store: Store) -> Iterator[str]:
    for resource, problem in _WORKLOADS.items():
        for obj in store.all(resource):
            why = "" if is_deleting(obj) else problem(obj)
            if why:
                yield f"{resource.kind} {key_of(obj)}: {why}"
    for node in store.all(NODES):
        yield from _node_lines(node)
    for pod in store.all(PODS):
        yield from _pod_lines(pod)


def _node_lines(node: Json) -> Iterator[str]:
    if not status_of(node).get("conditions"):
        yield f"Node {key_of(node)}: it has not reported yet"


def _replicas(obj: Json) -> str:
    """Problem of a ReplicaSet or ReplicationController without a controller."""
    return "" if controller_of(obj) is not None else _ready_of(obj, spec_of(obj).get("replicas", 1))


def _deployment(obj: Json) -> str:
    wanted = spec_of(obj).get("replicas", 1)
    updated = count_in(status_of(obj), "updatedReplicas")
    return _ready_of(obj, wanted) or (f"{updated} of {wanted} updated" if updated < wanted else "")


def _stateful_set(obj: Json) -> str:
    return _ready_of(obj, spec_of(obj).get("replicas", 1))


def _ready_of(obj: Json, wanted: int) -> str:
    if not _is_observed(obj):
        return "its controller has not seen it yet"
    ready = count_in(status_of(obj), "readyReplicas")
    return f"{ready} of {wanted} ready" if ready < wanted else ""


def _daemon_set(obj: Json) -> str:
    if not _is_observed(obj):
        return "its controller has not seen it yet"
    wanted, ready = (count_in(status_of(obj), name) for name in ("desiredNumberScheduled", "numberReady"))
    return f"{ready} of {wanted} ready" if ready < wanted else ""


def _job(obj: Json) -> str:
    """A job is ready if it is complete, suspended, or all its pods run."""
    failed = condition_of(obj, "Failed")
    if failed is not None and failed.get("status") == "True":
        return f"failed: {failed.get('message') or failed.get('reason')}"
    complete = (condition_of(obj, "Complete") or {}).get("status") == "True"
    status = status_of(obj)
    active = count_in(status, "active")
    if complete or spec_of(obj).get("suspend") or (active and count_in(status, "ready") == active):
        return ""
    return "it is not complete, and its pods are not ready"


def _is_observed(obj: Json) -> bool:
    return count_in(status_of(obj), "observedGeneration") >= count_in(obj["metadata"], "generation", 1)


_WORKLOADS: Final[Mapping[Resource, Callable[[Json], str]]] = {
    DEPLOYMENTS: _deployment,
    STATEFUL_SETS: _stateful_set,
    DAEMON_SETS: _daemon_set,
    REPLICA_SETS: _replicas,
    REPLICATION_CONTROLLERS: _replicas,
    JOBS: _job,
}


def _pod_lines(pod: Json) -> Iterator[str]:
    """A pod is ready if it says so or has succeeded; one that is going does not count."""
    phase = phase_of(pod)
    if is_deleting(pod) or phase == "Succeeded" or (phase == "Running" and is_ready(pod)):
        return
    if phase == "Failed" and (controller_of(pod) or {}).get("kind") == "Job":
        return
    yield f"Pod {key_of(pod)}: {phase or 'Pending'}{_why(pod)}"


def _why(pod: Json) -> str:
    for kind in ("PodScheduled", "Ready"):
        condition = condition_of(pod, kind) or {}
        if condition.get("status") == "False" and (condition.get("message") or condition.get("reason")):
            return f": {condition.get('message') or condition['reason']}"
    return ""
