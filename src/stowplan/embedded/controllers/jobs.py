"""Jobs: pods that end, until enough of them have ended well."""

from collections.abc import Sequence
from typing import ClassVar

from stowplan.api.catalogue import JOBS, PODS
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.embedded.controllers.controller import Context, Controller, all_at_once, in_growing_batches
from stowplan.embedded.controllers.events import WARNING
from stowplan.embedded.controllers.jobdecisions import (
    INDEX,
    TRACKING,
    Failures,
    Tally,
    backoff,
    is_indexed,
    is_over,
    missing_indexes,
    status_for,
    tally,
    verdict,
    wanted_active,
)
from stowplan.embedded.controllers.objects import (
    condition_of,
    controller_of,
    finalizers_of,
    is_active,
    is_controlled_by,
    is_deleting,
    name_of,
    spec_of,
    split_key,
    status_of,
    time_of,
    uid_of,
    with_condition,
)
from stowplan.embedded.controllers.replicasets import pods_to_delete
from stowplan.embedded.controllers.templates import pod_from


class Jobs(Controller):
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
        if is_over(job):
            await self._free([pod for pod in pods if TRACKING in finalizers_of(pod)])
            await self._expire(key, job)
            return
        count = tally(job, pods)
        active = [pod for pod in pods if is_active(pod)]
        end = verdict(job, count, active, self.now())
        status = status_for(job, count, pods)
        status |= self._begin(job)
        if end is not None:
            status["conditions"] = self._end_conditions(job, end, bool(active or count.settled), status)
        await self.set_status(JOBS, job, status)
        await self._free(count.settled)
        if is_deleting(job):
            return
        if end is not None:
            await all_at_once(self.delete(PODS, pod) for pod in active)
            return
        await self._manage(key, job, count, active)
        self._watch_deadline(key, job)

    # Pods

    async def _manage(self, key: str, job: Json, count: Tally, active: Sequence[Json]) -> None:
        wanted = wanted_active(job, count, len(active))
        if len(active) > wanted:
            going = pods_to_delete(active, len(active) - wanted, {})
            await all_at_once(self.delete(PODS, pod) for pod in going)
        elif len(active) < wanted:
            pause = self._pause(job, count)
            if pause > 0:
                self.queue.add_after(key, pause)
                return
            await self._create(job, count, active, wanted - len(active))

    def _pause(self, job: Json, count: Tally) -> float:
        """How long to wait before the next pod: longer after every failure, until one succeeds."""
        record = self._failures.setdefault(uid_of(job), Failures())
        record.learn(count, self.monotonic())
        return record.since + backoff(record.in_a_row) - self.monotonic() if record.in_a_row else 0.0

    async def _create(self, job: Json, count: Tally, active: Sequence[Json], number: int) -> None:
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
                await self.tell(job, "FailedCreate", f"Error creating: {error}", WARNING)
                raise
            await self.tell(job, "SuccessfulCreate", f"Created pod: {name_of(made)}")

        await in_growing_batches(len(indexes) if is_indexed(job) else number, one)

    async def _free(self, pods: Sequence[Json]) -> None:
        """Let pods go that are written down."""
        await all_at_once(self._unhold(pod) for pod in pods)

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
        told = condition_of(job, "Suspended")
        status: Json = {}
        if suspended:
            new = {
                "type": "Suspended",
                "status": "True",
                "reason": "JobSuspended",
                "message": "Job suspended",
            }
            status = {"conditions": with_condition(held, new, self.stamp()), "startTime": None}
        elif told is not None and told.get("status") == "True":
            new = {**told, "status": "False", "reason": "JobResumed", "message": "Job resumed"}
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
