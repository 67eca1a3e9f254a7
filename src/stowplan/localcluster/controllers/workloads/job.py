"""The Job controller: pods that end, until enough of them have succeeded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from stowplan.api.catalogue import JOBS, PODS
from stowplan.api.requests import DeleteOptions, Json, PatchType
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import (
    MAX_BURST,
    Controller,
    ControllerContext,
    gather_writes,
    slow_start_batch,
)
from stowplan.localcluster.controllerruntime.events import NORMAL, WARNING
from stowplan.localcluster.controllers.workloads.jobgroups import JobGroups, in_group
from stowplan.localcluster.controllers.workloads.jobpods import (
    FAILURE,
    FAILURES,
    IGNORED_FAILURES,
    INDEX,
    MOST_INDEXES,
    REACHED,
    SUCCESS,
    TRACKING,
    Ending,
    JobBackoff,
    JobPods,
    deadline_left,
    early_ending,
    failures_of,
    index_pause_left,
    is_complete,
    is_failed,
    is_indexed,
    is_job_finished,
    is_suspended,
    is_tracked,
    limits_each_index,
    missing_indexes,
    replaces_only_failed,
    surplus,
    verdict_on,
    wanted_active,
    write_indexes,
)
from stowplan.localcluster.controllers.workloads.podcontrol import claim_objects, pod_from
from stowplan.localcluster.objects.fields import (
    condition_of,
    controller_of,
    is_controlled_by,
    is_deleting,
    is_ready,
    key_of,
    name_of,
    namespace_of,
    omit_empty,
    phase_of,
    selector_in,
    spec_of,
    split_key,
    status_of,
    time_of,
    uid_of,
)

CONTROLLER_NAME: Final = "kubernetes.io/job-controller"
MAX_UNCOUNTED: Final = 500
"""Maximum number of pods listed by uid in a status, to keep it small."""

ORPHAN: Final = "orphan:"
"""Begins keys of pods that have lost their Job."""

MAX_GENERATED_PREFIX: Final = 58
_FOREGROUND: Final = DeleteOptions(propagation="Foreground")
_ALWAYS_WRITTEN: Final = ("ready", "terminating", "uncountedTerminatedPods", "failedIndexes")


def is_managed_elsewhere(job: Json) -> bool:
    """True if another controller manages a Job."""
    return spec_of(job).get("managedBy") not in (None, CONTROLLER_NAME)


@dataclass(slots=True)
class JobProgress:
    """Numbers for a Job's status after its pods were created or deleted."""

    active: int
    ready: int
    terminating: int
    failure: ApiError | None = None

    def deleted(self, pods: Sequence[Json]) -> None:
        self.active -= len(pods)
        self.ready -= sum(map(is_ready, pods))
        self.terminating += len(pods)


class JobController(Controller):
    """Runs Jobs to their end, and cleans them up when they ask for that."""

    name: ClassVar[str] = "job-controller"
    workers: ClassVar[int] = 4

    def __init__(self, context: ControllerContext, *, groups: bool = False) -> None:
        """`groups`: Jobs have Workloads and PodGroups, which their gate says."""
        super().__init__(context)
        self._groups = JobGroups(self) if groups else None
        self.jobs = self.follow(JOBS)
        self.pods = self.follow_owned(PODS, JOBS.kind, self.jobs)
        self.pods.add_handler(self._pod_changed)
        self._backoffs: dict[str, JobBackoff] = {}
        self._freed: dict[str, set[str]] = {}

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        """Nobody counts a pod that has lost its Job: it must not be held."""
        if new is not None and is_tracked(new) and controller_of(new) is None:
            self.queue.add(ORPHAN + key_of(new))

    async def sync(self, key: str) -> None:
        if key.startswith(ORPHAN):
            await self._free_orphan(key.removeprefix(ORPHAN))
            return
        job = self.jobs.get(key)
        if job is None:
            self._forget(key)
            await self._free_pods_of_missing(key)
            return
        if is_managed_elsewhere(job):
            return
        if is_job_finished(job):
            self._forget(key)
            await self._free(list(filter(is_tracked, self._owned(job))))
            await self._expire(key, job)
            return
        pods = await self._claimed(job)
        self._freed[key] = self._freed.get(key, set()) & {uid_of(pod) for pod in pods if is_tracked(pod)}
        group = None
        if self._groups is not None and not is_deleting(job):
            group = await self._groups.group_of(job, pods)
        await self._run(key, job, JobPods(job, pods, self._freed[key], group))

    def _forget(self, key: str) -> None:
        self._backoffs.pop(key, None)
        self._freed.pop(key, None)

    def _owned(self, job: Json) -> list[Json]:
        return [pod for pod in self.pods.by_owner[uid_of(job)].values() if is_controlled_by(pod, job)]

    async def _claimed(self, job: Json) -> list[Json]:
        if not spec_of(job).get("selector"):
            return self._owned(job)
        return await claim_objects(self, self.pods, JOBS, job, selector_in(job), finalizer=TRACKING)

    async def _run(self, key: str, job: Json, pods: JobPods) -> None:
        self.rest(key, len(pods.pods))
        progress = JobProgress(len(pods.active), sum(map(is_ready, pods.active)), len(pods.terminating))
        backoff = self._backoffs.get(key, JobBackoff()).after(pods.new_succeeded, pods.new_failed)
        begun = self._begin(job)
        end = early_ending(pods, self.now())
        if end is not None:
            await gather_writes(self.delete_pod(job, pod) for pod in pods.active)
            progress.deleted(pods.active)
        elif not is_deleting(job):
            await self._manage(key, job, pods, backoff, progress)
        if end is None and is_complete(pods, progress.active):
            end = REACHED
        if end is None and not is_deleting(job):
            begun |= await self._suspension(job)
        await self._track(key, job, pods, backoff, progress, begun, end)
        left = deadline_left({**job, "status": {**status_of(job), **begun}}, self.now())
        if left is not None and end is None:
            self.queue.add_after(key, left)
        if progress.failure is not None:
            raise progress.failure

    # Pods come and go

    async def _manage(
        self, key: str, job: Json, pods: JobPods, backoff: JobBackoff, progress: JobProgress
    ) -> None:
        wanted = wanted_active(pods)
        going = surplus(pods, max(len(pods.active) - wanted, 0), self.now())[:MAX_BURST]
        if going:
            await gather_writes(self._dismiss(job, pod) for pod in going)
            progress.deleted(going)
            return
        missing = wanted - len(pods.active)
        if replaces_only_failed(job):
            missing -= len(pods.terminating)
        if missing <= 0:
            return
        pause = 0.0 if limits_each_index(job) else backoff.left(self.now())
        indexes: Sequence[int | None] = [None] * min(missing, MAX_BURST)
        if is_indexed(job):
            indexes = pending = missing_indexes(pods, min(missing, MOST_INDEXES))
            pauses = {index: index_pause_left(pods.delayed.get(index), self.now()) for index in pending}
            indexes = [index for index in pending if not pauses[index]]
            pause = max(pause, min(pauses.values(), default=0.0) if not indexes else 0.0)
        if pause > 0:
            self.queue.add_after(key, pause)
            return
        await self._create(job, pods, indexes[:MAX_BURST], progress)

    async def _create(
        self, job: Json, pods: JobPods, indexes: Sequence[int | None], progress: JobProgress
    ) -> None:
        template = spec_of(job).get("template") or {}

        async def one(position: int) -> None:
            pod = pod_from(template, JOBS, job, finalizers=(TRACKING,))
            index = indexes[position]
            if index is not None:
                pod = indexed_pod(pod, job, index, pods.delayed.get(index))
            if pods.group is not None:
                pod = in_group(pod, pods.group)
            await self.create_pod(job, pod)
            progress.active += 1

        try:
            await slow_start_batch(len(indexes), one)
        except ApiError as error:
            progress.failure = error

    async def _dismiss(self, job: Json, pod: Json) -> None:
        """Delete a pod that is one too many: it does not count."""
        await self._unhold(pod)
        await self.delete_pod(job, pod)

    async def _free(self, pods: Sequence[Json]) -> None:
        """Let pods go that are written down."""
        await gather_writes(self._unhold(pod) for pod in pods)

    async def _unhold(self, pod: Json) -> None:
        if not is_tracked(pod):
            return
        patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING], "uid": uid_of(pod)}}
        where = namespace_of(pod), name_of(pod)
        try:
            self.note(PODS, await self.client.patch(PODS, *where, patch, PatchType.STRATEGIC))
        except ApiError as error:
            if not error.is_not_found:
                raise

    async def _free_orphan(self, key: str) -> None:
        pod = self.pods.get(key)
        if pod is not None and controller_of(pod) is None:
            await self._unhold(pod)

    async def _free_pods_of_missing(self, key: str) -> None:
        """Release the pods of a deleted Job, which are not counted any more."""
        namespace, name = split_key(key)
        held = [
            pod
            for pod in self.pods.in_namespace[namespace].values()
            if is_tracked(pod) and (controller_of(pod) or {}).get("name") == name
        ]
        if not held:
            return
        try:
            await self.client.get(JOBS, namespace, name)
        except ApiError as error:
            if not error.is_not_found:
                raise
            await self._free(held)

    # Status

    def _begin(self, job: Json) -> Json:
        first = not status_of(job).get("startTime") and not is_suspended(job)
        return {"startTime": self.stamp()} if first else {}

    async def _suspension(self, job: Json) -> Json:
        """The condition Suspended, and when a Job that is resumed begins anew."""
        suspended = is_suspended(job)
        held = condition_of(job, "Suspended")
        if held is None and not suspended:
            return {}
        word = "Suspended" if suspended else "Resumed"
        reason, message = f"Job{word}", f"Job {word.lower()}"
        if held is not None and (held.get("status"), held.get("reason")) == (str(suspended), reason):
            return {}
        new = self._condition("Suspended", str(suspended), reason, message)
        await self.record_event(job, word, message)
        conditions = _with(status_of(job).get("conditions") or (), new)
        return {"conditions": conditions, "startTime": None if suspended else self.stamp()}

    async def _track(
        self,
        key: str,
        job: Json,
        pods: JobPods,
        backoff: JobBackoff,
        progress: JobProgress,
        begun: Json,
        end: Ending | None,
    ) -> None:
        """Record ended pods in the status, release and count them, and set the final condition if any."""
        written, freed = to_write_down(pods, end)
        has_more = len(freed) >= MAX_UNCOUNTED
        status: Json = {
            "active": progress.active,
            "ready": progress.ready,
            "terminating": progress.terminating,
            "succeeded": pods.succeeded if is_indexed(job) else pods.counted_succeeded,
            "failed": pods.counted_failed,
            "uncountedTerminatedPods": {kind: uids for kind, uids in written.items() if uids},
            **begun,
        }
        if is_indexed(job):
            status["completedIndexes"] = write_indexes(pods.completed_indexes)
            if limits_each_index(job):
                status["failedIndexes"] = write_indexes(pods.failed_indexes)
        conditions = list(status.get("conditions") or status_of(job).get("conditions") or ())
        if end is not None and not any(one.get("type") == end.type for one in conditions):
            conditions.append(self._condition(end.type, "True", end.reason, end.message))
        status["conditions"] = conditions or None
        # The uids are written before the finalizers go: a pod that is gone and not recorded is never counted.
        job = await self._set_status(job, status)
        self._backoffs[key] = backoff
        await self._free(freed)
        counted = {uid_of(pod) for pod in freed}
        self._freed[key] |= counted
        left = {kind: [uid for uid in uids if uid not in counted] for kind, uids in written.items()}
        if not is_indexed(job):
            status["succeeded"] += len(written["succeeded"]) - len(left["succeeded"])
        status["failed"] += len(written["failed"]) - len(left["failed"])
        status["uncountedTerminatedPods"] = {kind: uids for kind, uids in left.items() if uids}
        is_over = not has_more and not any(left.values()) and not progress.terminating
        if end is not None and is_over:
            status["conditions"] = [
                *conditions,
                self._condition(end.final, "True", end.reason, end.message),
            ]
            if end.type == SUCCESS:
                status["completionTime"] = self.stamp()
        await self._set_status(job, status)
        if end is not None and is_over:
            await self._told_end(job, status, end)

    async def _set_status(self, job: Json, status: Json) -> Json:
        return await self.set_status(JOBS, job, omit_empty(status, *_ALWAYS_WRITTEN))

    def _condition(self, kind: str, status: str, reason: str, message: str) -> Json:
        now = self.stamp()
        return {
            "type": kind,
            "status": status,
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }

    async def _told_end(self, job: Json, status: Json, end: Ending) -> None:
        if end.type == FAILURE:
            await self.record_event(job, end.reason, end.message, WARNING)
            return
        completions = spec_of(job).get("completions")
        if completions is not None and status["succeeded"] > completions:
            note = "Too many succeeded pods running after completion count reached"
            await self.record_event(job, "TooManySucceededPods", note, WARNING)
        await self.record_event(job, "Completed", "Job completed", NORMAL)

    async def _expire(self, key: str, job: Json) -> None:
        """Delete a Job whose time after its end is over."""
        seconds = spec_of(job).get("ttlSecondsAfterFinished")
        if not isinstance(seconds, int) or is_deleting(job):
            return
        ends = [condition_of(job, kind) or {} for kind in ("Complete", "Failed")]
        left = max(time_of(one.get("lastTransitionTime")) for one in ends) + seconds - self.now()
        if left > 0:
            self.queue.add_after(key, left)
        else:
            await self.delete(JOBS, job, _FOREGROUND)


def to_write_down(pods: JobPods, end: Ending | None) -> tuple[dict[str, list[str]], list[Json]]:
    """Uids of pods that have ended but are not counted yet, by result; and the pods to release then.

    No more than `MAX_UNCOUNTED` at a time.
    """
    written = {"succeeded": list(pods.uncounted_succeeded), "failed": list(pods.uncounted_failed)}
    freed: list[Json] = []
    for pod in pods.tracked:
        if not pods.can_be_freed(pod, is_over=end is not None):
            continue
        freed.append(pod)
        uid = uid_of(pod)
        has_failed = is_failed(pods.job, pod) or (end is not None and end.type == FAILURE)
        if phase_of(pod) == "Succeeded" and uid not in written["failed"]:
            if not is_indexed(pods.job) and uid not in written["succeeded"]:
                written["succeeded"].append(uid)
        elif (
            has_failed
            and uid not in written["failed"]
            and pods.has_valid_index(pod)
            and verdict_on(pods.job, pod).counts
        ):
            written["failed"].append(uid)
        if len(freed) >= MAX_UNCOUNTED:
            break
    return written, freed


def indexed_pod(pod: Json, job: Json, index: int, replaced: Json | None) -> Json:
    """A pod that knows its index, and how often that has failed."""
    metadata, spec = pod["metadata"], pod["spec"]
    annotations = {**metadata["annotations"], INDEX: str(index)}
    if limits_each_index(job):
        counted, ignored = (0, 0) if replaced is None else failures_of(replaced)
        if replaced is not None:
            counts = verdict_on(job, replaced).counts
            counted, ignored = counted + counts, ignored + (not counts)
        annotations[FAILURES] = str(counted)
        if ignored:
            annotations[IGNORED_FAILURES] = str(ignored)
    suffix = f"-{index}-"
    kinds = ("initContainers", "containers")
    containers = {kind: [*map(_with_index_variable, spec[kind])] for kind in kinds if spec.get(kind)}
    return {
        "metadata": {
            **metadata,
            "generateName": f"{name_of(job)[: MAX_GENERATED_PREFIX - len(suffix)]}{suffix}",
            "labels": {**metadata["labels"], INDEX: str(index)},
            "annotations": annotations,
        },
        "spec": {**spec, **containers, "hostname": f"{name_of(job)}-{index}"},
    }


def _with_index_variable(container: Json) -> Json:
    env = container.get("env") or ()
    if any(one.get("name") == "JOB_COMPLETION_INDEX" for one in env):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*env, {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]}


def _with(conditions: Sequence[Json], new: Json) -> list[Json]:
    """Conditions with one in the place of the one of its type."""
    if not any(one.get("type") == new["type"] for one in conditions):
        return [*conditions, new]
    return [new if one.get("type") == new["type"] else one for one in conditions]
