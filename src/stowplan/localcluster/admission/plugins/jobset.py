"""Admission of JobSets and their pods, as JobSet's own webhooks do it.

A JobSet gets its defaults and is checked. Pods of a JobSet with exclusive placement follow the pod with index
0 of their Job: that one keeps other Jobs out of its topology domain by affinity, the others are created only
once it is scheduled, with a node selector for its domain.
"""

from collections.abc import Iterator
from typing import Final

from stowplan.api import fielderrors
from stowplan.api.catalogue import NODES, PODS
from stowplan.api.fielderrors import FieldError
from stowplan.api.names import service_name_problems, subdomain_problems
from stowplan.api.requests import Json
from stowplan.localcluster.admission.refusals import refused_by_webhook
from stowplan.localcluster.objects import jobsets
from stowplan.localcluster.objects.fields import (
    annotations_of,
    controller_of,
    count_in,
    is_deleting,
    is_finished,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    spec_of,
)
from stowplan.localcluster.objects.jobsets import (
    BY_NODE_SELECTOR,
    EXCLUSIVE,
    JOB_KEY,
    PRIORITY,
    SET_NAME,
    is_suspended,
    replicas_of,
    replicated_jobs,
)
from stowplan.localcluster.store.registry import Lookup

_POD_WEBHOOK: Final = "vpod.kb.io"
_SET_WEBHOOK: Final = "vjobset.kb.io"
_ACTIONS: Final = ("FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts")
_REASONS: Final = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
_SUFFIX: Final = "-abcde"
"""As long as the random suffix of a pod's name."""

_CHANGED_WHILE_SUSPENDED: Final = ("nodeSelector", "tolerations", "schedulingGates")


def default_jobset(lookup: Lookup, jobset: Json) -> None:
    jobset["spec"] = jobsets.with_defaults(jobset)["spec"]


def check_jobset(lookup: Lookup, jobset: Json) -> None:
    """Refuse a JobSet whose Jobs could not be created, or whose policies name Jobs that it does not have."""
    problems = [*_shape_problems(jobset), *_policy_problems(jobset)]
    if problems:
        raise refused_by_webhook(_SET_WEBHOOK, "\n".join(problems))


def _shape_problems(jobset: Json) -> Iterator[str]:
    jobs, spec = replicated_jobs(jobset), spec_of(jobset)
    if jobs and jobs[0].get("dependsOn"):
        yield "DependsOn can't be set for the first ReplicatedJob"
    subdomain = (spec.get("network") or {}).get("subdomain")
    if subdomain:
        for problem in (*subdomain_problems(subdomain), *service_name_problems(subdomain)):
            yield str(fielderrors.invalid("spec.network.subdomain", subdomain, problem))
    seen: set[str] = set()
    for i, job in enumerate(jobs):
        seen.add(job["name"])
        path, inner = f"spec.replicatedJobs[{i}]", (job.get("template") or {}).get("spec") or {}
        group = job.get("groupName") or "default"
        for problem in service_name_problems(group):
            yield str(fielderrors.invalid(f"{path}.groupName", group, problem))
        longest = jobsets.job_name(name_of(jobset), job["name"], max(replicas_of(job) - 1, 0))
        yield from _name_problems(f"{path}.name", longest, longest)
        if inner.get("completionMode") == "Indexed" and inner.get("completions"):
            pod = f"{longest}-{count_in(inner, 'completions') - 1}{_SUFFIX}"
            if len(pod) > 63:
                yield from _name_problems(f"{path}.name", longest, pod)
        for dependency in job.get("dependsOn") or ():
            if dependency.get("name") not in seen:
                yield f"replicatedJob: {job['name']} cannot depend on replicatedJob: {dependency.get('name')}"
    yield from _coordinator_problems(jobset)


def _name_problems(path: str, shown: str, name: str) -> Iterator[str]:
    for problem in service_name_problems(name):
        yield str(fielderrors.invalid(path, shown, problem))


def _coordinator_problems(jobset: Json) -> Iterator[str]:
    given = spec_of(jobset).get("coordinator")
    if not given:
        return
    name, index, pod = (
        given.get("replicatedJob", ""),
        count_in(given, "jobIndex"),
        count_in(given, "podIndex"),
    )
    job = next((one for one in replicated_jobs(jobset) if one["name"] == name), None)
    if job is None:
        yield f"coordinator replicatedJob {name} does not exist"
        return
    inner = (job.get("template") or {}).get("spec") or {}
    if not 0 <= index < replicas_of(job):
        yield f"coordinator job index {index} is invalid for replicatedJob {name}"
    elif inner.get("completionMode") != "Indexed" or inner.get("completions") is None:
        yield "job for coordinator pod must be indexed completion mode, and completions number must be set"
    elif not 0 <= pod < count_in(inner, "completions"):
        yield f"coordinator pod index {pod} is invalid for replicatedJob {name} job index {index}"


def _policy_problems(jobset: Json) -> Iterator[str]:
    spec, names = spec_of(jobset), {one["name"] for one in replicated_jobs(jobset)}
    for target in (spec.get("successPolicy") or {}).get("targetReplicatedJobs") or ():
        if target not in names:
            yield f"invalid replicatedJob name '{target}' does not appear in .spec.ReplicatedJobs"
    rules: list[Json] = (spec.get("failurePolicy") or {}).get("rules") or []
    held = [rule.get("name", "") for rule in rules]
    for rule in rules:
        if rule.get("action") not in _ACTIONS:
            yield f"failure policy action '{rule.get('action')}' is not one of {', '.join(_ACTIONS)}"
        for target in rule.get("targetReplicatedJobs") or ():
            if target not in names:
                yield (
                    f"invalid replicatedJob name '{target}' in failure policy does not appear in "
                    ".spec.ReplicatedJobs"
                )
        for reason in rule.get("onJobFailureReasons") or ():
            if reason not in _REASONS:
                yield (
                    f"invalid job failure reason '{reason}' in failure policy is not a recognized job "
                    "failure reason"
                )
    for name in dict.fromkeys(one for one in held if held.count(one) > 1):
        places = " ".join(str(i) for i, one in enumerate(held) if one == name)
        yield f"rule names are not unique, rules with indices [{places}] all have the same name '{name}'"


def check_jobset_update(lookup: Lookup, old: Json, new: Json) -> None:
    """Replicated Jobs stay as they are. Of a suspended JobSet the fields that queues set may change."""
    free = is_suspended(old) or is_suspended(new)
    before = {one["name"]: one for one in replicated_jobs(old)}
    seen = [_unchangeable(one, before.get(one["name"]), free=free) for one in replicated_jobs(new)]
    problems: list[FieldError] = []
    if seen != replicated_jobs(old):
        problems.append(fielderrors.invalid("spec.replicatedJobs", seen, "field is immutable"))
    manager = spec_of(new).get("managedBy")
    if manager != spec_of(old).get("managedBy"):
        problems.append(fielderrors.invalid("spec.managedBy", manager, "field is immutable"))
    if problems:
        raise refused_by_webhook(_SET_WEBHOOK, "\n".join(map(str, problems)))


def _unchangeable(replicated: Json, before: Json | None, *, free: bool) -> Json:
    """A replicated Job with those parts as before that may be changed."""
    if before is None or not free:
        return replicated
    pods, held = _pod_template(replicated), _pod_template(before)
    metadata = {**(pods.get("metadata") or {})}
    for name in ("labels", "annotations"):
        _restore(metadata, held.get("metadata") or {}, name)
    pod_spec = {**(pods.get("spec") or {})}
    for name in _CHANGED_WHILE_SUSPENDED:
        _restore(pod_spec, held.get("spec") or {}, name)
    restored = {**pods, "spec": pod_spec}
    if metadata or "metadata" in held:
        restored["metadata"] = metadata
    else:
        restored.pop("metadata", None)
    template = replicated["template"]
    return {**replicated, "template": {**template, "spec": {**template["spec"], "template": restored}}}


def _pod_template(replicated: Json) -> Json:
    return ((replicated.get("template") or {}).get("spec") or {}).get("template") or {}


def _restore(holder: Json, held: Json, name: str) -> None:
    if name in held:
        holder[name] = held[name]
    else:
        holder.pop(name, None)


# Pods


def place_exclusively(lookup: Lookup, pod: Json) -> None:
    """Keep the pods of a Job together, and other Jobs of its priority out of their topology domain."""
    annotations = annotations_of(pod)
    if SET_NAME not in annotations or BY_NODE_SELECTOR in annotations:
        return
    labels, spec = pod["metadata"].setdefault("labels", {}), pod["spec"]
    if spec.get("priority") is not None:
        labels[PRIORITY] = str(spec["priority"])
    topology = annotations.get(EXCLUSIVE)
    if topology is None:
        return
    if jobsets.is_leader(pod):
        _keep_others_out(spec, labels, topology)
        return
    leader = _leader_of(lookup, pod)
    if leader is None or not node_of(leader):
        return
    node = lookup.find(NODES, "", node_of(leader))
    if node is not None and topology in labels_of(node):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), topology: labels_of(node)[topology]}


def _keep_others_out(spec: Json, labels: Json, topology: str) -> None:
    key = labels.get(JOB_KEY, "")
    other = [
        {"key": JOB_KEY, "operator": "Exists"},
        {"key": JOB_KEY, "operator": "NotIn", "values": [key]},
        {"key": PRIORITY, "operator": "In", "values": [labels.get(PRIORITY, "")]},
    ]
    affinity = {**(spec.get("affinity") or {})}
    for kind, expressions in (
        ("podAffinity", [{"key": JOB_KEY, "operator": "In", "values": [key]}]),
        ("podAntiAffinity", other),
    ):
        held = {**(affinity.get(kind) or {})}
        term = {
            "labelSelector": {"matchExpressions": expressions},
            "topologyKey": topology,
            "namespaceSelector": {},
        }
        name = "requiredDuringSchedulingIgnoredDuringExecution"
        held[name] = [*(held.get(name) or ()), term]
        affinity[kind] = held
    spec["affinity"] = affinity


def check_leader_first(lookup: Lookup, pod: Json) -> None:
    """Refuse the pods of a Job with exclusive placement until the one with index 0 is scheduled."""
    annotations = annotations_of(pod)
    topology = annotations.get(EXCLUSIVE)
    if topology is None or SET_NAME not in annotations or BY_NODE_SELECTOR in annotations:
        return
    if jobsets.is_leader(pod):
        return
    selector = pod["spec"].get("nodeSelector")
    if selector is None:
        raise refused_by_webhook(_POD_WEBHOOK, "follower pod node selector not set")
    if topology not in selector:
        why = f"follower pod node selector for topology domain not found. missing selector: {topology}"
        raise refused_by_webhook(_POD_WEBHOOK, why)
    leader = _leader_of(lookup, pod)
    if leader is None or not node_of(leader):
        why = "leader pod not yet scheduled, not creating follower pod. this is an expected, transient error"
        raise refused_by_webhook(_POD_WEBHOOK, why)


def _leader_of(lookup: Lookup, pod: Json) -> Json | None:
    """The pod with index 0 of the same Job."""
    prefix, owner = jobsets.leader_prefix(pod), (controller_of(pod) or {}).get("uid")
    for other in lookup.within(PODS, namespace_of(pod)):
        if not name_of(other).startswith(prefix) or is_deleting(other) or is_finished(other):
            continue
        if (controller_of(other) or {}).get("uid") == owner:
            return other
    return None
