"""The JobSet controller: the Jobs of a JobSet, their order, and what their ends mean for it.

It acts like the controller of kubernetes-sigs/jobset with its default feature gates: names, labels, statuses,
conditions and events are that controller's. `docs/kinds.md` lists what is left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

from stowplan.api.catalogue import JOBS, PERSISTENT_VOLUME_CLAIMS, SERVICES
from stowplan.api.requests import DeleteOptions, Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext, gather_writes
from stowplan.localcluster.controllerruntime.events import NORMAL, WARNING
from stowplan.localcluster.controllers.sets.failurepolicy import Verdict, verdict_on
from stowplan.localcluster.objects import jobsets
from stowplan.localcluster.objects.fields import (
    condition_of,
    count_in,
    is_controlled_by,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    own_reference,
    spec_of,
    status_of,
    time_of,
    uid_of,
    with_condition,
)
from stowplan.localcluster.objects.jobsets import (
    BY_NODE_SELECTOR,
    EXCLUSIVE,
    JOB_SETS,
    REPLICATED_JOB,
    RESTARTS,
    SET_NAME,
    job_name,
    labels_for,
    replicas_of,
    replicated_jobs,
    subdomain_of,
)

COMPLETED: Final = "Completed"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
RESTARTING: Final = "RestartingJobSet"
IN_PROGRESS: Final = "StartupPolicyInProgress"
STARTED: Final = "StartupPolicyCompleted"
FOREGROUND: Final = DeleteOptions(propagation="Foreground")
_MERGED_MAPS: Final = ("labels", "annotations")
_MERGED_LISTS: Final = ("tolerations", "schedulingGates")


class Noted(NamedTuple):
    """An event that is recorded once the status that it is about has been written."""

    type: str
    reason: str
    note: str


@dataclass(slots=True)
class JobSetRun:
    """A JobSet while it is worked on: its Jobs by state, and the status that it is going to have.

    `previous` are the Jobs of earlier restarts, which have to go.
    """

    jobset: Json
    stamp: str
    active: list[Json] = field(default_factory=list)
    successful: list[Json] = field(default_factory=list)
    failed: list[Json] = field(default_factory=list)
    previous: list[Json] = field(default_factory=list)
    events: list[Noted] = field(default_factory=list)
    conditions: list[Json] = field(init=False)
    restarts: int = field(init=False)
    counted_restarts: int = field(init=False)
    terminal_state: str = field(init=False)

    def __post_init__(self) -> None:
        status = status_of(self.jobset)
        self.conditions = list(status.get("conditions") or ())
        self.restarts = count_in(status, "restarts")
        self.counted_restarts = count_in(status, "restartsCountTowardsMax")
        self.terminal_state = status.get("terminalState") or ""

    def sort(self, jobs: Sequence[Json]) -> None:
        for job in jobs:
            attempt = labels_of(job).get(RESTARTS, "")
            if not attempt.isdigit() or int(attempt) < self.restarts:
                self.previous.append(job)
            elif _is(job, "Complete"):
                self.successful.append(job)
            elif _is(job, "Failed"):
                self.failed.append(job)
            else:
                self.active.append(job)

    @property
    def names(self) -> set[str]:
        """Names of the Jobs that exist, those that are about to go included."""
        return {name_of(one) for one in (*self.active, *self.successful, *self.failed, *self.previous)}

    @property
    def is_finished(self) -> bool:
        return any(one["type"] in (COMPLETED, FAILED) and one["status"] == "True" for one in self.conditions)

    def job_statuses(self) -> list[Json]:
        """The status of each replicated Job; in upstream's order, which is by name, backwards."""
        return sorted(map(self._job_status, replicated_jobs(self.jobset)), key=lambda s: s["name"])[::-1]

    def _job_status(self, replicated: Json) -> Json:
        def among(jobs: Sequence[Json]) -> list[Json]:
            return [job for job in jobs if labels_of(job).get(REPLICATED_JOB) == replicated["name"]]

        active = among(self.active)
        return {
            "name": replicated["name"],
            "ready": sum(map(_is_ready, active)),
            "succeeded": len(among(self.successful)),
            "failed": len(among(self.failed)),
            "active": sum(1 for job in active if count_in(status_of(job), "active")),
            "suspended": sum(1 for job in active if spec_of(job).get("suspend")),
        }

    def started(self, replicated: Json) -> bool:
        """True if all its Jobs have been ready or have ended."""
        status = self._job_status(replicated)
        return bool(replicas_of(replicated) == status["failed"] + status["ready"] + status["succeeded"])

    def may_start(self, replicated: Json) -> bool:
        """True if the replicated Jobs that it depends on are as far as it says."""
        by_name = {one["name"]: one for one in replicated_jobs(self.jobset)}
        for dependency in replicated.get("dependsOn") or ():
            first = by_name.get(dependency.get("name", ""))
            if first is None:
                return False
            if dependency.get("status") == "Complete":
                if self._job_status(first)["succeeded"] != replicas_of(first):
                    return False
            elif not self.started(first):
                return False
        return True

    def set_condition(self, type_: str, status: str, reason: str, note: str, event: str = NORMAL) -> None:
        """Set a condition, with an event. One that is not there yet is only added if it is true."""
        held = next((one for one in self.conditions if one["type"] == type_), None)
        new = {"type": type_, "status": status, "reason": reason, "message": note}
        if status == "True" and type_ in (IN_PROGRESS, STARTED):
            other = IN_PROGRESS if type_ == STARTED else STARTED
            self.conditions = [
                {**one, "status": "False"} if one["type"] == other else one for one in self.conditions
            ]
        if held is None and status != "True":
            return
        if held is not None and all(held.get(name) == value for name, value in new.items()):
            return
        self.conditions = with_condition(self.conditions, new, self.stamp)
        self.events.append(Noted(event, reason, note))

    def end(self, state: str, reason: str, note: str, event: str, restarting: tuple[str, str]) -> None:
        self.set_condition(state, "True", reason, note, event)
        self.set_condition(RESTARTING, "False", *restarting)
        self.terminal_state = state

    def take(self, verdict: Verdict) -> None:
        """Act on a verdict about failed Jobs: fail, or count a restart, for which all Jobs are replaced."""
        if verdict.fails:
            not_restarting = ("JobSetFailed", "jobset failed")
            self.end(FAILED, verdict.reason, verdict.note, WARNING, not_restarting)
            return
        self.restarts += 1
        self.counted_restarts += verdict.counts
        self.set_condition(RESTARTING, "True", verdict.condition_reason, verdict.note, WARNING)
        self.events.append(Noted(WARNING, verdict.reason, verdict.note))

    def succeeds(self) -> bool:
        """True if enough Jobs have succeeded; the JobSet is then complete."""
        policy = spec_of(self.jobset).get("successPolicy") or {}
        targets = policy.get("targetReplicatedJobs") or [one["name"] for one in replicated_jobs(self.jobset)]
        done = sum(1 for job in self.successful if labels_of(job).get(REPLICATED_JOB) in targets)
        needed = 1
        if policy.get("operator") != "Any":
            needed = sum(replicas_of(one) for one in replicated_jobs(self.jobset) if one["name"] in targets)
        if done < needed:
            return False
        note = "jobset completed successfully"
        self.end(COMPLETED, "AllJobsCompleted", note, NORMAL, ("JobSetCompleted", note))
        return True

    @property
    def all_ready(self) -> bool:
        wanted = sum(map(replicas_of, replicated_jobs(self.jobset)))
        return bool(wanted == sum(one["ready"] + one["succeeded"] for one in self.job_statuses()))

    @property
    def in_order(self) -> bool:
        policy = spec_of(self.jobset).get("startupPolicy") or {}
        return policy.get("startupPolicyOrder") == "InOrder"

    def next_jobs(self) -> list[Json]:
        """The Jobs to create now: of the replicated Jobs whose turn it is, those that do not exist."""
        blocking = (spec_of(self.jobset).get("failurePolicy") or {}).get("restartStrategy")
        if self.previous and blocking == "BlockingRecreate":
            return []
        suspended, existing, found = jobsets.is_suspended(self.jobset), self.names, []
        for replicated in replicated_jobs(self.jobset):
            if not self.may_start(replicated):
                continue
            if not suspended and self.in_order and self.started(replicated):
                continue
            for index in range(replicas_of(replicated)):
                if job_name(name_of(self.jobset), replicated["name"], index) not in existing:
                    found.append(child_job(self.jobset, replicated, index, self.restarts))
            if not suspended and self.in_order:
                self._in_progress()
                return found
        if not suspended and self.in_order:
            self.set_condition(
                STARTED, "True", "InOrderStartupPolicyCompleted", "in order startup policy has completed"
            )
        return found

    def _in_progress(self) -> None:
        note = "in order startup policy is in progress"
        self.set_condition(IN_PROGRESS, "True", "InOrderStartupPolicyInProgress", note)

    def jobs_to_resume(self) -> list[tuple[Json, Json]]:
        """Suspended Jobs whose turn it is, each with its replicated Job."""
        found: list[tuple[Json, Json]] = []
        for replicated in replicated_jobs(self.jobset):
            if not self.may_start(replicated) or (self.in_order and self.started(replicated)):
                continue
            found += [
                (job, replicated)
                for job in self.active
                if labels_of(job).get(REPLICATED_JOB) == replicated["name"] and spec_of(job).get("suspend")
            ]
            if self.in_order:
                self._in_progress()
                return found
        self.set_condition(SUSPENDED, "False", "ResumeJobs", "jobset is resumed")
        return found

    def status(self) -> Json:
        return {
            "conditions": self.conditions or None,
            "restarts": self.restarts,
            "restartsCountTowardsMax": self.counted_restarts or None,
            "terminalState": self.terminal_state or None,
            "replicatedJobsStatus": self.job_statuses() or None,
        }

    def expires_in(self, now: float) -> float | None:
        """Seconds until the finished JobSet is deleted; None if it is kept."""
        limit = spec_of(self.jobset).get("ttlSecondsAfterFinished")
        if limit is None:
            return None
        ends = [one for one in self.conditions if one["type"] in (COMPLETED, FAILED)]
        finished = next(one for one in ends if one["status"] == "True")
        return time_of(finished.get("lastTransitionTime")) + float(limit) - now


def _is(job: Json, kind: str) -> bool:
    return (condition_of(job, kind) or {}).get("status") == "True"


def _is_ready(job: Json) -> bool:
    """True if all pods that a Job runs at a time are ready or have succeeded."""
    spec, status = spec_of(job), status_of(job)
    pods = min(count_in(spec, "parallelism", 1), count_in(spec, "completions", 1 << 31))
    return count_in(status, "succeeded") + count_in(status, "ready") >= pods


def child_job(jobset: Json, replicated: Json, index: int, restarts: int) -> Json:
    """The Job of an index of a replicated Job."""
    template = replicated.get("template") or {}
    given = template.get("metadata") or {}
    labels = labels_for(jobset, replicated, index, restarts)
    annotations = {**labels, **dict(jobsets.placement_annotations(jobset, replicated))}
    spec = dict(template.get("spec") or {})
    pods = dict(spec.get("template") or {})
    pod_metadata, pod_spec = dict(pods.get("metadata") or {}), dict(pods.get("spec") or {})
    pod_metadata["labels"] = {**(pod_metadata.get("labels") or {}), **labels}
    pod_metadata["annotations"] = {**(pod_metadata.get("annotations") or {}), **annotations}
    name = job_name(name_of(jobset), replicated["name"], index)
    if jobsets.has_hostnames(jobset):
        pod_spec["subdomain"] = subdomain_of(jobset)
    if EXCLUSIVE in annotations and BY_NODE_SELECTOR in annotations:
        own = {"alpha.jobset.sigs.k8s.io/namespaced-job": f"{namespace_of(jobset)}_{name}"}
        pod_spec["nodeSelector"] = {**(pod_spec.get("nodeSelector") or {}), **own}
        taint = {"key": "alpha.jobset.sigs.k8s.io/no-schedule", "operator": "Exists", "effect": "NoSchedule"}
        pod_spec["tolerations"] = [*(pod_spec.get("tolerations") or ()), taint]
    volumes = list(_claimed_volumes(jobset, pod_spec))
    if volumes:
        pod_spec["volumes"] = [*(pod_spec.get("volumes") or ()), *volumes]
    spec["template"] = {**pods, "metadata": pod_metadata, "spec": pod_spec}
    spec["suspend"] = jobsets.is_suspended(jobset)
    return {
        "metadata": {
            "name": name,
            "namespace": namespace_of(jobset),
            "labels": {**(given.get("labels") or {}), **labels},
            "annotations": {**(given.get("annotations") or {}), **annotations},
            "ownerReferences": [own_reference(jobset)],
        },
        "spec": spec,
    }


def _claim_templates(jobset: Json) -> Iterator[tuple[Json, bool]]:
    """Claims of a JobSet, each with True if it goes when the JobSet goes."""
    for policy in spec_of(jobset).get("volumeClaimPolicies") or ():
        kept = (policy.get("retentionPolicy") or {}).get("whenDeleted") == "Retain"
        for template in policy.get("templates") or ():
            yield template, not kept


def _claim_name(jobset: Json, template: Json) -> str:
    return f"{(template.get('metadata') or {}).get('name', '')}-{name_of(jobset)}"


def _claimed_volumes(jobset: Json, pod_spec: Json) -> Iterator[Json]:
    """Volumes of a pod for those claims of its JobSet that one of its containers mounts."""
    containers = [*(pod_spec.get("initContainers") or ()), *(pod_spec.get("containers") or ())]
    mounted = {mount.get("name") for one in containers for mount in one.get("volumeMounts") or ()}
    for template, _ in _claim_templates(jobset):
        name = (template.get("metadata") or {}).get("name", "")
        if name in mounted:
            yield {"name": name, "persistentVolumeClaim": {"claimName": _claim_name(jobset, template)}}


def claims_for(jobset: Json) -> list[Json]:
    found: list[Json] = []
    for template, is_owned in _claim_templates(jobset):
        given = template.get("metadata") or {}
        metadata: Json = {
            "name": _claim_name(jobset, template),
            "namespace": namespace_of(jobset),
            "labels": {**(given.get("labels") or {}), SET_NAME: name_of(jobset)},
        }
        if given.get("annotations"):
            metadata["annotations"] = given["annotations"]
        if is_owned:
            metadata["ownerReferences"] = [own_reference(jobset)]
        found.append({"metadata": metadata, "spec": template.get("spec") or {}})
    return found


def service_for(jobset: Json) -> Json:
    """The headless service that gives the pods of a JobSet their names."""
    network = spec_of(jobset).get("network") or {}
    return {
        "metadata": {
            "name": subdomain_of(jobset),
            "namespace": namespace_of(jobset),
            "ownerReferences": [own_reference(jobset)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": {SET_NAME: name_of(jobset)},
            "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True),
        },
    }


def resumed(job: Json, replicated: Json) -> Json:
    """The patch that resumes a suspended Job, with what was changed in its pods' template meanwhile."""
    wanted = ((replicated.get("template") or {}).get("spec") or {}).get("template") or {}
    held = spec_of(job).get("template") or {}
    held_metadata, wanted_metadata = held.get("metadata") or {}, wanted.get("metadata") or {}
    held_spec, wanted_spec = held.get("spec") or {}, wanted.get("spec") or {}
    metadata: Json = {key: wanted_metadata[key] for key in _MERGED_MAPS if wanted_metadata.get(key)}
    metadata = {
        key: values
        for key, values in metadata.items()
        if values.items() - (held_metadata.get(key) or {}).items()
    }
    spec: Json = {}
    if wanted_spec.get("nodeSelector"):
        spec["nodeSelector"] = wanted_spec["nodeSelector"]
    for key in _MERGED_LISTS:
        before: list[Json] = held_spec.get(key) or []
        added = [one for one in wanted_spec.get(key) or () if one not in before]
        if added:
            spec[key] = [*before, *added]
    template = {name: part for name, part in (("metadata", metadata), ("spec", spec)) if part}
    return {"spec": {"suspend": False, **({"template": template} if template else {})}}


class JobSetController(Controller):
    """Creates, suspends and replaces the Jobs of JobSets."""

    name: ClassVar[str] = "jobset-controller"
    event_source: ClassVar[str] = "jobset"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.sets = self.follow(JOB_SETS)
        self.jobs = self.follow_owned(JOBS, jobsets.KIND, self.sets)
        self.services = self.follow_owned(SERVICES, jobsets.KIND, self.sets)
        self.claims = self.informer(PERSISTENT_VOLUME_CLAIMS)

    async def sync(self, key: str) -> None:
        found = self.sets.get(key)
        if found is None or is_deleting(found):
            return
        jobset = jobsets.with_defaults(found)
        if spec_of(jobset).get("managedBy", jobsets.MANAGER) != jobsets.MANAGER:
            return
        run = JobSetRun(jobset, self.stamp())
        owned = self.jobs.by_owner[uid_of(jobset)].values()
        run.sort([job for job in owned if is_controlled_by(job, jobset)])
        self.rest(key, len(owned))
        if run.is_finished:
            await self._delete_jobs(run.active)
            await self._expire(key, run)
        else:
            await self._go_on(run)
        await self.set_status(JOB_SETS, found, run.status())
        for event in run.events:
            await self.record_event(found, event.reason, event.note, event.type)

    async def _go_on(self, run: JobSetRun) -> None:
        """Failed Jobs are looked at before successful ones, and both before new Jobs are created."""
        jobset = run.jobset
        await self._delete_jobs(run.previous)
        if not jobsets.is_suspended(jobset) and run.all_ready:
            run.set_condition(RESTARTING, "False", "JobsReady", "all jobs are ready")
        if run.failed:
            run.take(verdict_on(jobset, run.failed, run.counted_restarts))
            return
        if run.successful and run.succeeds():
            return
        await self._create_service(jobset)
        await self._create_claims(jobset)
        new = run.next_jobs()
        try:
            await gather_writes(self.create(JOBS, job) for job in new)
        except ApiError as error:
            await self.record_event(jobset, "JobCreationFailed", error.message, WARNING)
            raise
        if jobsets.is_suspended(jobset):
            running = [job for job in run.active if not spec_of(job).get("suspend")]
            await gather_writes(self.change(JOBS, job, {"spec": {"suspend": True}}) for job in running)
            note = "jobset is suspended"
            run.set_condition(SUSPENDED, "True", "SuspendedJobs", note)
            run.set_condition(RESTARTING, "False", "JobSetSuspended", note)
        else:
            await gather_writes(self._resume(*pair) for pair in run.jobs_to_resume())

    async def _resume(self, job: Json, replicated: Json) -> None:
        if status_of(job).get("startTime"):
            job = await self.change(JOBS, job, {"status": {"startTime": None}}, subresource="status")
        await self.change(JOBS, job, resumed(job, replicated))

    async def _delete_jobs(self, jobs: Sequence[Json]) -> None:
        await gather_writes(self.delete(JOBS, job, FOREGROUND) for job in jobs if not is_deleting(job))

    async def _create_service(self, jobset: Json) -> None:
        key = f"{namespace_of(jobset)}/{subdomain_of(jobset)}"
        if not jobsets.has_hostnames(jobset) or self.services.get(key) is not None:
            return
        try:
            await self.create(SERVICES, service_for(jobset))
        except ApiError as error:
            if error.is_already_exists:
                return
            await self.record_event(jobset, "HeadlessServiceCreationFailed", error.message, WARNING)
            raise

    async def _create_claims(self, jobset: Json) -> None:
        for claim in claims_for(jobset):
            if self.claims.get(f"{namespace_of(jobset)}/{name_of(claim)}") is not None:
                continue
            try:
                await self.create(PERSISTENT_VOLUME_CLAIMS, claim)
            except ApiError as error:
                if error.is_already_exists:
                    continue
                await self.record_event(jobset, "PVCCreationFailed", error.message, WARNING)
                raise

    async def _expire(self, key: str, run: JobSetRun) -> None:
        left = run.expires_in(self.now())
        if left is None:
            return
        if left <= 0:
            await self.delete(JOB_SETS, run.jobset, FOREGROUND)
        else:
            self.queue.add_after(key, left)
