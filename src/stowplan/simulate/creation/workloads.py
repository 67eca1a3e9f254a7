"""Workloads, and the pods that their controllers would create: by the functions of those controllers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.node import Node
from stowplan.api.requests import Json
from stowplan.localcluster.controllers.workloads.cronjob import job_for
from stowplan.localcluster.controllers.workloads.daemonset import Daemon, daemon_pod
from stowplan.localcluster.controllers.workloads.history import (
    HASH,
    REVISION_HASH,
    new_revision,
)
from stowplan.localcluster.controllers.workloads.job import indexed_pod
from stowplan.localcluster.controllers.workloads.jobgroups import group_for, in_group, workload_for
from stowplan.localcluster.controllers.workloads.jobpods import TRACKING, is_indexed
from stowplan.localcluster.controllers.workloads.podcontrol import pod_from
from stowplan.localcluster.controllers.workloads.rollout import RolloutStrategy, new_set
from stowplan.localcluster.controllers.workloads.statefulset import claims_for, replica_pod
from stowplan.localcluster.objects.fields import controller_of, count_in, name_of, namespace_of, spec_of

if TYPE_CHECKING:
    from stowplan.simulate.snapshot.places import Place

RESOURCES: Final[Mapping[str, Resource]] = {
    one.kind: one
    for one in (
        catalogue.PODS,
        catalogue.DEPLOYMENTS,
        catalogue.REPLICA_SETS,
        catalogue.REPLICATION_CONTROLLERS,
        catalogue.STATEFUL_SETS,
        catalogue.DAEMON_SETS,
        catalogue.JOBS,
        catalogue.CRON_JOBS,
    )
}
"""An object that makes pods."""

DAEMON_SET: Final = "DaemonSet"
STATEFUL_SET: Final = "StatefulSet"
Admit = Callable[[Resource, Json], Json]
"""An object as the API server stores it. Raises ApiError."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Something that makes pods, with the defaults that the API server sets."""

    kind: str
    document: Json
    place: "Place | None" = None

    @property
    def name(self) -> str:
        return name_of(self.document)

    @property
    def namespace(self) -> str:
        return namespace_of(self.document)

    @property
    def title(self) -> str:
        """Its name for kubectl: `deployment/web`."""
        return f"{self.kind.lower()}/{self.name}"

    @property
    def replicas(self) -> int:
        """Number of pods it asks for; of a DaemonSet nodes decide."""
        if self.kind in ("Job", "CronJob"):
            spec = self.job_spec
            if spec.get("suspend"):
                return 0
            at_once = count_in(spec, "parallelism", 1)
            return min(at_once, count_in(spec, "completions", at_once))
        return 1 if self.kind == "Pod" else count_in(spec_of(self.document), "replicas", 1)

    @property
    def first(self) -> int:
        """The number of its first pod."""
        return count_in(spec_of(self.document).get("ordinals") or {}, "start")

    @property
    def job_spec(self) -> Json:
        spec = spec_of(self.document)
        return spec if self.kind == "Job" else spec_of(spec.get("jobTemplate") or {})

    def nodes(self, nodes: Iterable[Node]) -> list[str]:
        """The nodes that a pod of a DaemonSet should come to."""
        daemon = Daemon(self.document)
        return [node.name for node in nodes if daemon.fits(_bare(node))[0]]


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A workload that the API server has admitted: which pods, and who owns them.

    `owner` is the object that makes the pods: the ReplicaSet of a Deployment, the Job of a CronJob; None for
    a pod itself. `alike`: pods differ only in their names.
    """

    workload: Workload
    resource: Resource
    owner: Json | None
    alike: bool
    revision: Json | None = None
    group: Json | None = None
    """The PodGroup that its controller creates for it."""

    @classmethod
    def of(cls, workload: Workload, admit: Admit, *, groups: bool = False) -> "PodTemplate":
        """Create the workload, and what its controller creates before the pods. Raises ApiError.

        `groups`: Jobs have groups (gate WorkloadWithJob).
        """
        kind, resource = workload.kind, RESOURCES[workload.kind]
        if kind == "Pod":
            return cls(workload, resource, None, alike=True)
        owner = admit(resource, workload.document)
        if kind == "Deployment":
            strategy = RolloutStrategy.of(owner)
            resource = catalogue.REPLICA_SETS
            owner = admit(resource, new_set(owner, strategy.replicas, 1, strategy))
        elif kind == "CronJob":
            resource = catalogue.JOBS
            owner = admit(resource, job_for(owner, 0.0))
        elif kind in (STATEFUL_SET, DAEMON_SET):
            label = REVISION_HASH if kind == STATEFUL_SET else HASH
            revision = new_revision(resource, owner, 1, 0, label)
            return cls(workload, resource, owner, alike=False, revision=revision)
        group = _group_of(owner, admit) if groups and resource == catalogue.JOBS else None
        alike = resource != catalogue.JOBS or not is_indexed(owner)
        return cls(workload, resource, owner, alike=alike, group=group)

    @property
    def one_by_one(self) -> bool:
        """True if each pod has to be ready before the controller creates the next one."""
        is_set = self.owner is not None and self.resource == catalogue.STATEFUL_SETS
        return is_set and spec_of(self.owner or {}).get("podManagementPolicy") != "Parallel"

    def pod(self, number: int, name: str) -> Json:
        """The pod of a number; that of a DaemonSet is for the node its name ends with."""
        body = self._body(number, name)
        metadata = {key: value for key, value in body["metadata"].items() if key != "generateName"}
        return {**body, "metadata": {**metadata, "name": name, "namespace": self.workload.namespace}}

    def _body(self, number: int, name: str) -> Json:
        owner = self.owner
        if owner is None:
            return self.workload.document
        if self.revision is not None and self.resource == catalogue.STATEFUL_SETS:
            return replica_pod(owner, self.revision, number)
        if self.revision is not None:
            node = name.removeprefix(f"{self.workload.name}-")
            return daemon_pod(owner, node, self.revision["metadata"]["labels"][HASH])
        template = spec_of(owner).get("template") or {}
        if self.resource != catalogue.JOBS:
            return pod_from(template, self.resource, owner)
        pod = pod_from(template, self.resource, owner, finalizers=(TRACKING,))
        pod = pod if self.group is None else in_group(pod, self.group)
        return indexed_pod(pod, owner, number, None) if is_indexed(owner) else pod

    def claims(self, number: int) -> list[Json]:
        """The volume claims that are created before the pod of a number."""
        if self.owner is None or self.resource != catalogue.STATEFUL_SETS:
            return []
        return claims_for(self.owner, number)


def _group_of(job: Json, admit: Admit) -> Json | None:
    """The PodGroup that the Job controller creates for a Job; None if its pods have one, or another owner.

    Raises ApiError.
    """
    template = (spec_of(job).get("template") or {}).get("spec") or {}
    if template.get("schedulingGroup") is not None or controller_of(job) is not None:
        return None
    workload = admit(catalogue.WORKLOADS, _placed(workload_for(job), job))
    part = spec_of(workload)["podGroupTemplates"][0]
    return admit(catalogue.POD_GROUPS, _placed(group_for(job, workload, part, owned_by_workload=True), job))


def _placed(body: Json, job: Json) -> Json:
    """An object in the namespace of its Job."""
    return {**body, "metadata": {**body["metadata"], "namespace": namespace_of(job)}}


def _bare(node: Node) -> Json:
    """The parts of a node that a DaemonSet looks at."""
    taints = [{"key": one.key, "value": one.value, "effect": one.effect} for one in node.spec.taints]
    if node.spec.unschedulable:
        taints.append({"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"})
    return {
        "metadata": {"name": node.name, "labels": node.metadata.labels},
        "spec": {"taints": taints},
    }
