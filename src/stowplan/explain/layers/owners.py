"""The controllers above a pod: a Deployment above its ReplicaSet, a CronJob or JobSet above its Job.

A change of a pod lasts only if it is made where the pod comes from: its controller makes the next one from
the template.
"""

from typing import Final

from msgspec.structs import replace

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.meta import Object, OwnerReference
from stowplan.api.pod import Pod
from stowplan.api.workloads import CronJob, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from stowplan.explain.commands import Owner, with_commands
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.layers.reads import ObjectReads

TYPES: Final[dict[str, tuple[Resource, type[Object]]]] = {
    "Deployment": (catalogue.DEPLOYMENTS, Deployment),
    "ReplicaSet": (catalogue.REPLICA_SETS, ReplicaSet),
    "StatefulSet": (catalogue.STATEFUL_SETS, StatefulSet),
    "DaemonSet": (catalogue.DAEMON_SETS, DaemonSet),
    "Job": (catalogue.JOBS, Job),
    "CronJob": (catalogue.CRON_JOBS, CronJob),
}
"""Workloads by kind. Controllers of other kinds are known by their reference alone."""
_POD: Final = (catalogue.PODS, Pod)
"""A pod may own the workload of other pods: the leader of a group in a LeaderWorkerSet does."""
_NESTED: Final = ("Job", "StatefulSet")
"""Workloads that custom resources are made of."""
_HASH: Final = "pod-template-hash"
_MOST: Final = 6
"""Controllers above each other that are followed: references may form a circle."""


async def with_owners(found: PodDocument, pod: Pod, reads: ObjectReads) -> PodDocument:
    """The document of a pod with commands for its changes, and with the controllers above it.

    They are shown only below a custom resource: the name of a pod tells of Kubernetes' own workloads. So no
    owner is read that neither a command nor a custom resource may need.
    """
    nearest = controller_of(pod)
    if not found.changes and (nearest is None or nearest.kind not in _NESTED):
        return found
    owners = await owners_of(pod, reads)
    if found.changes:
        found = with_commands(found, owners[-1] if owners else None)
    if len(owners) < 2 or owners[-1].is_workload:
        return found
    return replace(found, owners=tuple(f"{one.kind} {one.name}" for one in owners))


async def owner_of(pod: Pod, reads: ObjectReads) -> Owner | None:
    """The topmost controller of a pod; None for a pod without one."""
    found = await owners_of(pod, reads)
    return found[-1] if found else None


async def owners_of(pod: Pod, reads: ObjectReads) -> tuple[Owner, ...]:
    """The controllers above a pod, the nearest first.

    A ReplicaSet that cannot be read is known to be a Deployment's by the hash in its name.
    """
    found: list[Owner] = []
    reference = controller_of(pod)
    while reference is not None and len(found) < _MOST:
        owner = Owner(reference.api_version, reference.kind, pod.namespace, reference.name)
        found.append(owner)
        is_pod = (owner.api_version, owner.kind) == ("v1", "Pod")
        if not (owner.is_workload or is_pod):
            break
        resource, cls = _POD if is_pod else TYPES[owner.kind]
        obj = await reads.get(resource, cls, owner.namespace, owner.name)
        if obj is None:
            found += _by_hash(pod, owner)
            break
        reference = controller_of(obj)
    return tuple(found)


def controller_of(obj: Object) -> OwnerReference | None:
    """The reference to the controller of an object."""
    return next((one for one in obj.metadata.owner_references if one.controller), None)


def _by_hash(pod: Pod, owner: Owner) -> list[Owner]:
    """The Deployment of a ReplicaSet by its name, which ends with the hash of the template."""
    end = f"-{pod.metadata.labels.get(_HASH, '')}"
    if owner.kind != "ReplicaSet" or len(end) == 1 or not owner.name.endswith(end):
        return []
    return [
        Owner(catalogue.DEPLOYMENTS.api_version, "Deployment", owner.namespace, owner.name.removesuffix(end))
    ]
