"""JobSets (`jobset.x-k8s.io/v1alpha2`): labels, names and defaults, for admission and controllers."""

from collections.abc import Iterator
from hashlib import sha1
from typing import Final

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.localcluster.objects.fields import (
    annotations_of,
    count_in,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
)

JOB_SETS: Final = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "", custom=True)
KIND: Final = "JobSet"
MANAGER: Final = "jobset.sigs.k8s.io/jobset-controller"
"""`spec.managedBy` of the JobSets that this controller acts on; so may it be absent."""

_PREFIX: Final = "jobset.sigs.k8s.io/"
SET_NAME: Final = _PREFIX + "jobset-name"
SET_UID: Final = _PREFIX + "jobset-uid"
REPLICATED_JOB: Final = _PREFIX + "replicatedjob-name"
JOB_INDEX: Final = _PREFIX + "job-index"
JOB_KEY: Final = _PREFIX + "job-key"
RESTARTS: Final = _PREFIX + "restart-attempt"
COORDINATOR: Final = _PREFIX + "coordinator"
PRIORITY: Final = _PREFIX + "priority"
_ALPHA: Final = "alpha.jobset.sigs.k8s.io/"
EXCLUSIVE: Final = _ALPHA + "exclusive-topology"
BY_NODE_SELECTOR: Final = _ALPHA + "node-selector"
"""Annotation: nodes have been labelled for their Jobs beforehand, so no affinity is needed."""

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"


def with_defaults(jobset: Json) -> Json:
    """A JobSet with the defaults that JobSet's webhook sets."""
    spec = dict(spec_of(jobset))
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    spec["replicatedJobs"] = [_replicated(one) for one in spec.get("replicatedJobs") or ()]
    network = {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    spec["network"] = {**network, **(spec.get("network") or {})}
    failure = spec.get("failurePolicy")
    if failure:
        rules = enumerate(failure.get("rules") or ())
        named = [{**rule, "name": rule.get("name") or f"failurePolicyRule{i}"} for i, rule in rules]
        spec["failurePolicy"] = {
            "restartStrategy": "Recreate",
            **failure,
            **({"rules": named} if named else {}),
        }
    return {**jobset, "spec": spec}


def _replicated(job: Json) -> Json:
    template = dict(job.get("template") or {})
    inner = dict(template.get("spec") or {})
    inner.setdefault("completionMode", "Indexed")
    pods = dict(inner.get("template") or {})
    pod_spec = dict(pods.get("spec") or {})
    if not pod_spec.get("restartPolicy"):
        pod_spec["restartPolicy"] = "OnFailure"
    inner["template"] = {**pods, "spec": pod_spec}
    template["spec"] = inner
    return {"replicas": 1, "groupName": "default", **job, "template": template}


def is_suspended(jobset: Json) -> bool:
    return bool(spec_of(jobset).get("suspend"))


def replicated_jobs(jobset: Json) -> list[Json]:
    return list(spec_of(jobset).get("replicatedJobs") or ())


def replicas_of(replicated: Json) -> int:
    return count_in(replicated, "replicas", 1)


def job_name(jobset: str, replicated: str, index: int) -> str:
    return f"{jobset}-{replicated}-{index}"


def subdomain_of(jobset: Json) -> str:
    """The subdomain of its pods: that of its network, otherwise its name."""
    return (spec_of(jobset).get("network") or {}).get("subdomain") or name_of(jobset)


def has_hostnames(jobset: Json) -> bool:
    return bool((spec_of(jobset).get("network") or {}).get("enableDNSHostnames"))


def labels_for(jobset: Json, replicated: Json, index: int, restarts: int) -> dict[str, str]:
    """The labels of a child Job and of its pods; all of them are annotations too."""
    name, group = name_of(jobset), replicated.get("groupName") or "default"
    jobs = replicated_jobs(jobset)
    grouped = [one for one in jobs if (one.get("groupName") or "default") == group]
    key = f"{namespace_of(jobset)}/{job_name(name, replicated['name'], index)}"
    labels = {
        SET_NAME: name,
        SET_UID: jobset["metadata"].get("uid", ""),
        REPLICATED_JOB: replicated["name"],
        RESTARTS: str(restarts),
        _PREFIX + "replicatedjob-replicas": str(replicas_of(replicated)),
        _PREFIX + "global-replicas": str(sum(map(replicas_of, jobs))),
        JOB_INDEX: str(index),
        JOB_KEY: sha1(key.encode(), usedforsecurity=False).hexdigest(),
        _PREFIX + "job-global-index": str(_before(jobs, replicated) + index),
        _PREFIX + "group-name": group,
        _PREFIX + "group-replicas": str(sum(map(replicas_of, grouped))),
        _PREFIX + "job-group-index": str(_before(grouped, replicated) + index),
    }
    if spec_of(jobset).get("coordinator"):
        labels[COORDINATOR] = coordinator_of(jobset)
    return labels


def _before(jobs: list[Json], replicated: Json) -> int:
    """Number of Jobs in front of those of a replicated Job."""
    total = 0
    for one in jobs:
        if one["name"] == replicated["name"]:
            return total
        total += replicas_of(one)
    return total


def coordinator_of(jobset: Json) -> str:
    """The address of the pod that a JobSet names as its coordinator."""
    given = spec_of(jobset).get("coordinator") or {}
    job = job_name(name_of(jobset), given.get("replicatedJob", ""), count_in(given, "jobIndex"))
    return f"{job}-{count_in(given, 'podIndex')}.{subdomain_of(jobset)}"


def placement_annotations(jobset: Json, replicated: Json) -> Iterator[tuple[str, str]]:
    """Annotations about exclusive placement: of the JobSet, then those of the replicated Job, which win."""
    template = (replicated.get("template") or {}).get("metadata") or {}
    for given in (annotations_of(jobset), template.get("annotations") or {}):
        if EXCLUSIVE in given:
            yield EXCLUSIVE, given[EXCLUSIVE]
            if BY_NODE_SELECTOR in given:
                yield BY_NODE_SELECTOR, given[BY_NODE_SELECTOR]


def is_leader(pod: Json) -> bool:
    """True for the pod of a Job with completion index 0: it chooses the topology domain of the others."""
    return annotations_of(pod).get(COMPLETION_INDEX) == "0"


def leader_prefix(pod: Json) -> str:
    """Prefix of the name of the leader of a pod's Job."""
    labels = labels_of(pod)
    parts = (labels.get(SET_NAME), labels.get(REPLICATED_JOB), labels.get(JOB_INDEX))
    return "-".join(map(str, parts)) + "-0-"
