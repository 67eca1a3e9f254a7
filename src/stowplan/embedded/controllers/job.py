"""The Job controller: pods that end, until enough of them have succeeded."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from stowplan.api.catalogue import JOBS, PODS
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.embedded.controllers.controller import Context, Controller, gather_writes, slow_start_batch
from stowplan.embedded.controllers.events import WARNING
from stowplan.embedded.controllers.objects import (
    annotations_of,
    condition_of,
    controller_of,
    count_in,
    finalizers_of,
    is_active,
    is_controlled_by,
    is_deleting,
    is_finished,
    is_ready,
    name_of,
    phase_of,
    spec_of,
    split_key,
    status_of,
    time_of,
    uid_of,
    with_condition,
)
from stowplan.embedded.controllers.podcontrol import pod_from
from stowplan.embedded.controllers.replicaset import pods_to_delete

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
REACHED: Final = ("CompletionsReached", "Reached expected number of succeeded pods")
TOO_OFTEN: Final = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
TOO_LONG: Final = ("DeadlineExceeded", "Job was active longer than specified deadline")
BASE_BACKOFF: Final = 10.0
MAX_BACKOFF: Final = 600.0


def is_job_finished(job: Json) -> bool:
    return any((condition_of(job, kind) or {}).get("status") == "True" for kind in ("Complete", "Failed"))


@dataclass(slots=True)
class PodCounts:
    """How many pods of a Job have ended how. Each counts once, also if it is deleted meanwhile.

    A pod that has ended is first written down by its uid, then loses its finalizer, then becomes a number.
    """

    succeeded: int = 0
    failed: int = 0
    indexes: set[int] = field(default_factory=set)
    uncounted_succeeded: list[str] = field(default_factory=list)
    uncounted_failed: list[str] = field(default_factory=list)
    settled: list[Json] = field(default_factory=list)

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted_succeeded)

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.uncounted_failed)


def count_pods(job: Json, pods: Sequence[Json]) -> PodCounts:
    """The count as it is to be written now; `settled` are the pods whose finalizer may go then."""
    status = status_of(job)
    known = status.get("uncountedTerminatedPods") or {}
    held = {uid_of(pod): pod for pod in pods if TRACKING in finalizers_of(pod)}
    result = PodCounts(
        count_in(status, "succeeded"),
        count_in(status, "failed"),
        read_indexes(status.get("completedIndexes") or ""),
    )
    for uid in known.get("succeeded") or ():
        if uid in held:
            result.uncounted_succeeded.append(uid)
        else:
            result.succeeded += 1
    for uid in known.get("failed") or ():
        if uid in held:
            result.uncounted_failed.append(uid)
        else:
            result.failed += 1
    listed = {*result.uncounted_succeeded, *result.uncounted_failed}
    for uid, pod in held.items():
        if uid in listed:
            continue
        if phase_of(pod) == "Succeeded":
            result.uncounted_succeeded.append(uid)
        elif is_finished(pod) or is_deleting(pod):
            result.uncounted_failed.append(uid)
    result.settled = [held[uid] for uid in (*result.uncounted_succeeded, *result.uncounted_failed)]
    if is_indexed(job):
        result.indexes |= {
            index
            for pod in result.settled
            if phase_of(pod) == "Succeeded" and (index := index_of(pod)) is not None
        }
        result.succeeded = len(result.indexes) - len(result.uncounted_succeeded)
    return result


def is_indexed(job: Json) -> bool:
    return spec_of(job).get("completionMode") == "Indexed"


def index_of(pod: Json) -> int | None:
    text = annotations_of(pod).get(INDEX, "")
    return int(text) if text.isdigit() else None


def finished_condition(
    job: Json, count: PodCounts, active: Sequence[Json], now: float
) -> tuple[str, str, str] | None:
    """How a Job has ended: the condition, its reason and message; None while it goes on."""
    for kind, over in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
        condition = condition_of(job, kind)
        if condition is not None and condition.get("status") == "True":
            return over, condition.get("reason", ""), condition.get("message", "")
    limit = count_in(spec_of(job), "backoffLimit", 6)
    if count.all_failed > limit or _restarts(job, active) > limit:
        return "Failed", *TOO_OFTEN
    deadline = spec_of(job).get("activeDeadlineSeconds")
    begun = status_of(job).get("startTime")
    if isinstance(deadline, int) and begun and now - time_of(begun) >= deadline:
        return "Failed", *TOO_LONG
    completions = spec_of(job).get("completions")
    if completions is None:
        done = count.all_succeeded > 0 and not active
    else:
        done = count.all_succeeded >= completions
    return ("Complete", *REACHED) if done else None


def _restarts(job: Json, active: Iterable[Json]) -> int:
    """Failures of containers that were started again within their pods."""
    if ((spec_of(job).get("template") or {}).get("spec") or {}).get("restartPolicy") != "OnFailure":
        return 0
    return sum(
        count_in(one, "restartCount")
        for pod in active
        for one in status_of(pod).get("containerStatuses") or ()
    )


def wanted_active(job: Json, count: PodCounts, active: int) -> int:
    """How many pods should run at the moment."""
    spec = spec_of(job)
    if spec.get("suspend"):
        return 0
    parallelism = count_in(spec, "parallelism", 1)
    completions: int | None = spec.get("completions")
    if completions is None:
        return min(active, parallelism) if count.all_succeeded else parallelism
    return min(parallelism, max(completions - count.all_succeeded, 0))


def missing_indexes(job: Json, count: PodCounts, active: Iterable[Json], number: int) -> list[int]:
    """The lowest indexes that neither are done nor have a pod."""
    taken = count.indexes | {index for pod in active if (index := index_of(pod)) is not None}
    found: list[int] = []
    for index in range(count_in(spec_of(job), "completions")):
        if len(found) == number:
            break
        if index not in taken:
            found.append(index)
    return found


def read_indexes(text: str) -> set[int]:
    """Indexes written as `0,2-5`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found |= set(range(int(first), int(last or first) + 1))
    return found


def write_indexes(indexes: Iterable[int]) -> str:
    ranges: list[list[int]] = []
    for index in sorted(indexes):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


@dataclass(slots=True)
class Failures:
    """How many pods of a Job have failed since one last succeeded, and when the last of them was noticed."""

    in_a_row: int = 0
    since: float = 0.0
    failed: int = 0
    succeeded: int = 0

    def learn(self, count: PodCounts, now: float) -> None:
        if count.all_succeeded > self.succeeded:
            self.in_a_row = 0
        elif count.all_failed > self.failed:
            self.in_a_row += count.all_failed - self.failed
            self.since = now
        self.failed, self.succeeded = count.all_failed, count.all_succeeded


def backoff(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return min(BASE_BACKOFF * 2 ** min(failures - 1, 10), MAX_BACKOFF) if failures else 0.0


def status_for(job: Json, count: PodCounts, pods: Sequence[Json]) -> Json:
    """The counts of a Job."""
    active = [pod for pod in pods if is_active(pod)]
    status: Json = {
        "active": len(active),
        "ready": sum(map(is_ready, active)),
        "terminating": sum(1 for pod in pods if is_deleting(pod) and not is_finished(pod)),
        "succeeded": count.succeeded,
        "failed": count.failed,
        "uncountedTerminatedPods": {
            kind: uids
            for kind, uids in (("succeeded", count.uncounted_succeeded), ("failed", count.uncounted_failed))
            if uids
        },
    }
    if is_indexed(job):
        status["completedIndexes"] = write_indexes(count.indexes)
    return status


class JobController(Controller):
    """Runs Jobs to their end, and cleans them up when they ask for that."""

    name: ClassVar[str] = "job-controller"
    workers: ClassVar[int] = 4

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.jobs = self.follow(JOBS)
        self.pods = self.follow_owned(PODS, JOBS.kind, self.jobs)
        self._failures: dict[str, Failures] = {}

    async def sync(self, key: str) -> None:
        job = self.jobs.get(key)
        if job is None:
            await self._release_orphans(key)
            return
        pods = [pod for pod in self.pods.by_owner[uid_of(job)].values() if is_controlled_by(pod, job)]
        self.rest(key, len(pods))
        if is_job_finished(job):
            await self._free([pod for pod in pods if TRACKING in finalizers_of(pod)])
            await self._expire(key, job)
            return
        count = count_pods(job, pods)
        active = [pod for pod in pods if is_active(pod)]
        end = finished_condition(job, count, active, self.now())
        status = status_for(job, count, pods)
        status |= self._begin(job)
        if end is not None:
            status["conditions"] = self._end_conditions(job, end, bool(active or count.settled), status)
        await self.set_status(JOBS, job, status)
        await self._free(count.settled)
        if is_deleting(job):
            return
        if end is not None:
            await gather_writes(self.delete(PODS, pod) for pod in active)
            return
        await self._manage(key, job, count, active)
        self._watch_deadline(key, job)

    # Pods

    async def _manage(self, key: str, job: Json, count: PodCounts, active: Sequence[Json]) -> None:
        wanted = wanted_active(job, count, len(active))
        if len(active) > wanted:
            going = pods_to_delete(active, len(active) - wanted, {}, self.now())
            await gather_writes(self.delete(PODS, pod) for pod in going)
        elif len(active) < wanted:
            pause = self._pause(job, count)
            if pause > 0:
                self.queue.add_after(key, pause)
                return
            await self._create(job, count, active, wanted - len(active))

    def _pause(self, job: Json, count: PodCounts) -> float:
        """How long to wait before the next pod: longer after every failure, until one succeeds."""
        record = self._failures.setdefault(uid_of(job), Failures())
        record.learn(count, self.monotonic())
        return record.since + backoff(record.in_a_row) - self.monotonic() if record.in_a_row else 0.0

    async def _create(self, job: Json, count: PodCounts, active: Sequence[Json], number: int) -> None:
        indexes = missing_indexes(job, count, active, number) if is_indexed(job) else []
        template = spec_of(job).get("template") or {}
        labels = {
            "batch.kubernetes.io/controller-uid": uid_of(job),
            "controller-uid": uid_of(job),
            "batch.kubernetes.io/job-name": name_of(job),
            "job-name": name_of(job),
        }

        async def one(position: int) -> None:
            pod = pod_from(template, JOBS, job, labels=labels, finalizers=(TRACKING,))
            if indexes:
                pod = _indexed(pod, job, indexes[position])
            try:
                made = await self.create(PODS, pod)
            except ApiError as error:
                await self.record_event(job, "FailedCreate", f"Error creating: {error}", WARNING)
                raise
            await self.record_event(job, "SuccessfulCreate", f"Created pod: {name_of(made)}")

        await slow_start_batch(len(indexes) if is_indexed(job) else number, one)

    async def _free(self, pods: Sequence[Json]) -> None:
        """Let pods go that are written down."""
        await gather_writes(self._unhold(pod) for pod in pods)

    async def _unhold(self, pod: Json) -> None:
        kept = [one for one in finalizers_of(pod) if one != TRACKING]
        await self.change(PODS, pod, {"metadata": {"finalizers": kept or None}})

    async def _release_orphans(self, key: str) -> None:
        """The Job is gone: nobody counts its pods any more."""
        namespace, name = split_key(key)
        held = [
            pod
            for pod in self.pods.in_namespace[namespace].values()
            if TRACKING in finalizers_of(pod) and (controller_of(pod) or {}).get("name") == name
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
        """When the Job began, and whether it is held back."""
        suspended = bool(spec_of(job).get("suspend"))
        held = list(status_of(job).get("conditions") or ())
        condition = condition_of(job, "Suspended")
        status: Json = {}
        if suspended:
            new = {
                "type": "Suspended",
                "status": "True",
                "reason": "JobSuspended",
                "message": "Job suspended",
            }
            status = {"conditions": with_condition(held, new, self.stamp()), "startTime": None}
        elif condition is not None and condition.get("status") == "True":
            new = {**condition, "status": "False", "reason": "JobResumed", "message": "Job resumed"}
            status = {"conditions": with_condition(held, new, self.stamp()), "startTime": self.stamp()}
        elif not status_of(job).get("startTime"):
            status = {"startTime": self.stamp()}
        return status

    def _end_conditions(self, job: Json, end: tuple[str, str, str], busy: bool, status: Json) -> list[Json]:
        """First what the Job will end as; when its last pod has gone, that it has."""
        kind, reason, message = end
        held = list(status.get("conditions") or status_of(job).get("conditions") or ())
        announced = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
        for one in (announced, *(() if busy else (kind,))):
            new = {"type": one, "status": "True", "reason": reason, "message": message}
            held = with_condition(held, {**new, "lastProbeTime": self.stamp()}, self.stamp())
        if not busy and kind == "Complete":
            status["completionTime"] = self.stamp()
        return held

    def _watch_deadline(self, key: str, job: Json) -> None:
        deadline = spec_of(job).get("activeDeadlineSeconds")
        begun = time_of(status_of(job).get("startTime")) or self.now()
        if isinstance(deadline, int) and not spec_of(job).get("suspend"):
            self.queue.add_after(key, max(begun + deadline - self.now(), 0.0) + 0.1)

    async def _expire(self, key: str, job: Json) -> None:
        """Delete a Job whose time after its end is over."""
        seconds = spec_of(job).get("ttlSecondsAfterFinished")
        if not isinstance(seconds, int) or is_deleting(job):
            return
        ends = [condition_of(job, kind) or {} for kind in ("Complete", "Failed")]
        since = max(time_of(one.get("lastTransitionTime")) for one in ends)
        left = since + seconds - self.now()
        if left > 0:
            self.queue.add_after(key, left)
        else:
            self._failures.pop(uid_of(job), None)
            await self.delete(JOBS, job)


def _indexed(pod: Json, job: Json, index: int) -> Json:
    metadata = pod["metadata"]
    return {
        "metadata": {
            **metadata,
            "generateName": f"{name_of(job)}-{index}-",
            "labels": {**metadata["labels"], INDEX: str(index)},
            "annotations": {**metadata["annotations"], INDEX: str(index)},
        },
        "spec": {**pod["spec"], "hostname": f"{name_of(job)}-{index}"},
    }
