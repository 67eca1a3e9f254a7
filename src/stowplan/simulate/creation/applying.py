"""Workloads in a simulated cluster: finding their pods, creating them, scaling them."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from stowplan.api.catalogue import PODS
from stowplan.api.meta import seconds_of
from stowplan.api.pod import Pod
from stowplan.api.workloads import ReplicaSet
from stowplan.localcluster.controllers.workloads.replicaset import pods_to_delete
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.contents import NoSuchObjectError
from stowplan.simulate.creation.manifests import Manifests, read_manifests
from stowplan.simulate.creation.pods import PodSource, create_others
from stowplan.simulate.creation.workloads import DAEMON_SET, RESOURCES, Workload
from stowplan.simulate.outcome import Outcome, Refusal

HASH: Final = "pod-template-hash"
_LATER: Final = 60.0


@cache
def kind_names() -> dict[str, str]:
    """Names that kubectl has for workloads."""
    found = {}
    for kind, resource in RESOURCES.items():
        for name in (kind.lower(), resource.plural, *resource.short_names):
            found[name] = kind
            if resource.group:
                found[f"{name}.{resource.group}"] = kind
    return found


def kind_and_name(title: str) -> tuple[str, str]:
    """`deploy/web` as (`Deployment`, `web`). Raises ValueError."""
    kind, slash, name = title.partition("/")
    known = kind_names().get(kind.lower())
    if not slash or not name or known is None:
        raise ValueError(f"expected a workload such as deployment/web, got {title!r}")
    return known, name


def pods_of(cluster: Cluster, title: str, namespace: str) -> list[Pod]:
    """The pods of a workload, those without a node too. Raises NoSuchObjectError if there are none."""
    kind, name = kind_and_name(title)
    owners = {name} if kind != "Deployment" else None
    owner_kind = "ReplicaSet" if kind == "Deployment" else kind
    sets = {
        one.name
        for one in cluster.objects.values()
        if isinstance(one, ReplicaSet)
        and one.namespace == namespace
        and any(ref.kind == "Deployment" and ref.name == name for ref in one.metadata.owner_references)
    }
    found = []
    for pod in (*cluster.pods, *cluster.pending.values()):
        if pod.namespace != namespace:
            continue
        if kind == "Pod":
            if pod.name == name:
                found.append(pod)
            continue
        for owner in pod.metadata.owner_references:
            of_set = owner.name in (owners or sets) or (
                owners is None and owner.name == f"{name}-{pod.metadata.labels.get(HASH, '')}"
            )
            if owner.kind == owner_kind and of_set:
                found.append(pod)
    if not found:
        raise NoSuchObjectError(f"{title}: no pods found in namespace {namespace}")
    return found


def gathered(sources: Sequence["str | Path | Manifests"], namespace: str) -> Manifests:
    """Manifests of several files together. Raises SnapshotError."""
    found = Manifests()
    for source in sources:
        found.extend(source if isinstance(source, Manifests) else read_manifests([Path(source)], namespace))
    return found


def apply(
    cluster: Cluster, sources: Sequence["str | Path | Manifests"], replicas: int | None, namespace: str
) -> Outcome:
    """Create what manifests say; see `Cluster.apply`."""
    manifests = gathered(sources, namespace)
    create_others(cluster, manifests)
    outcome = Outcome()
    fresh: list[Pod] = []
    for workload in manifests.workloads:
        if workload.kind not in ("Pod", DAEMON_SET, "Job", "CronJob") and is_there(cluster, workload):
            from stowplan.simulate.rollout import rolled_out

            outcome.extend(rolled_out(cluster, workload, replicas).outcome)
        else:
            fresh += new_pods(cluster, workload, replicas, outcome)
    outcome.extend(cluster.schedule(fresh))
    return outcome


def is_there(cluster: Cluster, workload: Workload) -> bool:
    """True if the cluster has pods of a workload of that name."""
    try:
        return bool(pods_of(cluster, workload.title, workload.namespace))
    except NoSuchObjectError:
        return False


def new_pods(cluster: Cluster, workload: Workload, count: int | None, outcome: Outcome) -> list[Pod]:
    """The pods of a workload; its owner and claims are added to the cluster. What is refused is noted."""
    count = workload.replicas if count is None else count
    source = PodSource(cluster, workload)
    pods = source.create(count)
    if source.refusal:
        outcome.refused.append(Refusal(workload.title, max(count - len(pods), 1), source.refusal))
    return pods


def scale(cluster: Cluster, title: str, replicas: int, namespace: str) -> Outcome:
    """Give a workload so many pods; see `Cluster.scale`."""
    pods = pods_of(cluster, title, namespace)
    kind, name = kind_and_name(title)
    if kind in ("Pod", DAEMON_SET):
        raise ValueError(f"{title}: a {kind} cannot be scaled")
    if replicas <= len(pods):
        for pod in going(cluster, pods, len(pods) - replicas, kind):
            cluster.remove_pod(pod.key)
        return Outcome()
    copies: list[Pod] = []
    number = 0
    while len(copies) < replicas - len(pods):
        copy = f"{name}-{number}"
        number += 1
        if not cluster.has_pod(f"{namespace}/{copy}"):
            copies.append(copy_of(cluster, pods[-1], copy))
    body = msgspec.to_builtins(copies[0])
    charged = cluster.quotas.charge(PODS, body, len(copies), lambda which: copies[which].name)
    outcome = cluster.schedule(copies[: charged.allowed])
    if charged.refusal:
        outcome.refused.append(Refusal(title, len(copies) - charged.allowed, charged.refusal))
    return outcome


def copy_of(cluster: Cluster, pod: Pod, name: str) -> Pod:
    """Another pod of the same template."""
    fresh = cluster.replacement(pod)
    metadata = replace(fresh.metadata, name=name, uid=f"new-{pod.namespace}/{name}", generate_name="")
    return replace(fresh, metadata=metadata)


def going(cluster: Cluster, pods: Sequence[Pod], count: int, kind: str) -> list[Pod]:
    """The pods that a controller deletes when it scales down."""
    if kind == "StatefulSet":
        return sorted(pods, key=lambda pod: (ordinal_of(pod.name), pod.name), reverse=True)[:count]
    placed = [cluster.pod(pod.key) for pod in pods]
    crowds = Counter(pod.spec.node_name for pod in placed if pod.spec.node_name)
    dates = [seconds_of(pod.metadata.creation_timestamp) for pod in placed if pod.metadata.creation_timestamp]
    bodies = [{**msgspec.to_builtins(pod), "key": pod.key} for pod in placed]
    chosen = pods_to_delete(bodies, count, crowds, max(dates, default=0.0) + _LATER)
    by_key = {pod.key: pod for pod in pods}
    return [by_key[body["key"]] for body in chosen]


def ordinal_of(name: str) -> int:
    """The number at the end of a pod's name, -1 if there is none."""
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1
