"""The CronJob controller: a Job whenever its schedule says so."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Final

from stowplan.api.catalogue import CRON_JOBS, JOBS
from stowplan.api.meta import timestamp
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import (
    BACKGROUND,
    Controller,
    ControllerContext,
)
from stowplan.localcluster.controllerruntime.events import WARNING, is_namespace_terminating
from stowplan.localcluster.controllers.workloads.jobpods import is_job_finished
from stowplan.localcluster.objects.cron import Schedule, ScheduleError, load_zone, parse_schedule
from stowplan.localcluster.objects.fields import (
    condition_of,
    controller_reference,
    created_at,
    is_controlled_by,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    time_of,
    uid_of,
)

SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
PADDING: Final = 0.1
"""Seconds after a scheduled time when it is looked at: clocks differ a little."""

MANY: Final = 100
"""More missed times than this are worth a warning."""

TOO_MANY: Final = (
    "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
)


class InvalidScheduleError(ValueError):
    """A schedule whose times never come."""


@dataclass(frozen=True, slots=True)
class Missed:
    """The scheduled time that came last, None if none has since `earliest`; `count` is a rough number."""

    earliest: float
    latest: float | None = None
    count: int = 0


def missed_times(cron_job: Json, schedule: Schedule, now: float, *, within_deadline: bool) -> Missed:
    """Which scheduled times have come since the last Job. Raises `InvalidScheduleError`."""
    last = status_of(cron_job).get("lastScheduleTime")
    earliest = time_of(last) if last else created_at(cron_job)
    deadline = spec_of(cron_job).get("startingDeadlineSeconds")
    if within_deadline and deadline is not None:
        earliest = max(earliest, now - deadline)
    first = schedule.next(earliest)
    if first is None:
        raise InvalidScheduleError("time difference between two schedules is less than 1 second")
    second = schedule.next(first)
    if now < first:
        return Missed(earliest)
    if second is None or now < second:
        return Missed(earliest, first)
    interval = int(second - first)
    count = int(now - first) // interval + 1
    latest: float | None = None
    moment = schedule.next(first + (count - 2) * interval)
    while moment is not None and moment <= now:
        latest, moment = moment, schedule.next(moment)
    return Missed(earliest, latest, count)


def next_look(cron_job: Json, schedule: Schedule, now: float) -> float:
    """Seconds until the next scheduled time should be looked at."""
    try:
        missed = missed_times(cron_job, schedule, now, within_deadline=False)
    except InvalidScheduleError:
        missed = Missed(now, now)
    since = missed.latest
    if since is None:
        since = now if missed.count else missed.earliest
    following = schedule.next(since)
    return max((following or now) + PADDING - now, 0.0)


def job_for(cron_job: Json, scheduled: float) -> Json:
    """The Job of a scheduled time, whose name is the same however often it is made."""
    template = spec_of(cron_job).get("jobTemplate") or {}
    given = template.get("metadata") or {}
    zone = load_zone(spec_of(cron_job).get("timeZone") or "")
    local = datetime.fromtimestamp(scheduled, zone).isoformat(timespec="seconds")
    stamp = timestamp(scheduled) if zone is UTC else local
    return {
        "metadata": {
            "name": job_name(cron_job, scheduled),
            "namespace": namespace_of(cron_job),
            "labels": dict(given.get("labels") or {}),
            "annotations": {**(given.get("annotations") or {}), SCHEDULED_AT: stamp},
            "ownerReferences": [controller_reference(CRON_JOBS, cron_job)],
        },
        "spec": template.get("spec") or {},
    }


def job_name(cron_job: Json, scheduled: float) -> str:
    return f"{name_of(cron_job)}-{int(scheduled) // 60}"


def finished_as(job: Json) -> str:
    """`Complete` or `Failed`, empty for a running Job."""
    kinds = ("Complete", "Failed")
    return next((k for k in kinds if (condition_of(job, k) or {}).get("status") == "True"), "")


def outdated(cron_job: Json, jobs: Sequence[Json]) -> list[Json]:
    """Finished Jobs that are kept no more: the oldest of those that succeeded, and of those that failed."""
    found: list[Json] = []
    for kind, field in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
        limit = spec_of(cron_job).get(field)
        if limit is None:
            continue
        ended = [job for job in jobs if finished_as(job) == kind]
        ended.sort(key=lambda job: (status_of(job).get("startTime") or "~", name_of(job)))
        found += ended[: max(len(ended) - limit, 0)]
    return found


class CronJobRecord:
    """A CronJob's status while it is worked on."""

    def __init__(self, cron_job: Json) -> None:
        status = status_of(cron_job)
        self.active: list[Json] = list(status.get("active") or ())
        self.last_scheduled: str | None = status.get("lastScheduleTime")
        self.last_successful: str | None = status.get("lastSuccessfulTime")

    def has(self, job: Json) -> bool:
        return any(one.get("uid") == uid_of(job) for one in self.active)

    def forget(self, uid: str) -> None:
        self.active = [one for one in self.active if one.get("uid") != uid]

    def add(self, job: Json) -> None:
        reference = {
            "kind": JOBS.kind,
            "namespace": namespace_of(job),
            "name": name_of(job),
            "uid": uid_of(job),
            "apiVersion": JOBS.api_version,
            "resourceVersion": job["metadata"].get("resourceVersion", ""),
        }
        self.active.append(reference)

    def status(self) -> Json:
        return {
            "active": self.active or None,
            "lastScheduleTime": self.last_scheduled,
            "lastSuccessfulTime": self.last_successful,
        }


class CronJobController(Controller):
    """Creates the Jobs of CronJobs in time and forgets those that are over."""

    name: ClassVar[str] = "cronjob-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.cron_jobs = self.informer(CRON_JOBS)
        self.cron_jobs.add_handler(self._cron_job_changed)
        self.jobs = self.follow_owned(JOBS, CRON_JOBS.kind, self.cron_jobs)

    def _cron_job_changed(self, old: Json | None, new: Json | None) -> None:
        """A new schedule counts from its next time on; times it would have had before are not made up for."""
        if new is None:
            return
        if old is not None and _timing(old) != _timing(new):
            try:
                self.queue.add_after(key_of(new), next_look(new, _schedule(new), self.now()))
            except ScheduleError:
                self.queue.add(key_of(new))
            return
        self.queue.add(key_of(new))

    async def sync(self, key: str) -> None:
        cron_job = self.cron_jobs.get(key)
        if cron_job is None:
            return
        jobs = [
            job for job in self.jobs.by_owner[uid_of(cron_job)].values() if is_controlled_by(job, cron_job)
        ]
        record = CronJobRecord(cron_job)
        try:
            for job in outdated(cron_job, jobs):
                await self._delete(cron_job, record, job)
            await self._look_at_jobs(cron_job, record, jobs)
            if not is_deleting(cron_job):
                await self._start_in_time(key, cron_job, record)
        finally:
            await self.set_status(CRON_JOBS, cron_job, record.status())

    # Jobs that are there

    async def _look_at_jobs(self, cron_job: Json, record: CronJobRecord, jobs: Sequence[Json]) -> None:
        for job in jobs:
            ended = finished_as(job)
            if not ended and not record.has(job):
                note = f"Saw a job that the controller did not create or forgot: {name_of(job)}"
                await self.record_event(cron_job, "UnexpectedJob", note, WARNING)
            elif ended and record.has(job):
                record.forget(uid_of(job))
                note = f"Saw completed job: {name_of(job)}, condition: {ended}"
                await self.record_event(cron_job, "SawCompletedJob", note)
            done = status_of(job).get("completionTime")
            if ended == "Complete" and time_of(done) > time_of(record.last_successful):
                record.last_successful = done
        known = {uid_of(job) for job in jobs}
        for one in [one for one in record.active if one.get("uid") not in known]:
            if not await self._exists(one):
                note = f"Active job went missing: {one.get('name')}"
                await self.record_event(cron_job, "MissingJob", note)
                record.forget(one.get("uid", ""))

    async def _exists(self, reference: Json) -> bool:
        try:
            await self.client.get(JOBS, reference.get("namespace", ""), reference.get("name", ""))
        except ApiError as error:
            if not error.is_not_found:
                raise
            return False
        return True

    async def _delete(self, cron_job: Json, record: CronJobRecord, job: Json) -> None:
        try:
            await self.delete(JOBS, job, BACKGROUND)
        except ApiError as error:
            await self.record_event(cron_job, "FailedDelete", f"Deleted job: {error}", WARNING)
            raise
        record.forget(uid_of(job))
        await self.record_event(cron_job, "SuccessfulDelete", f"Deleted job {name_of(job)}")

    # The next Job

    async def _start_in_time(self, key: str, cron_job: Json, record: CronJobRecord) -> None:
        spec, now = spec_of(cron_job), self.now()
        if spec.get("suspend"):
            return
        schedule = await self._read_schedule(cron_job)
        if schedule is None:
            return
        try:
            missed = missed_times(cron_job, schedule, now, within_deadline=True)
        except InvalidScheduleError as error:
            note = f"invalid schedule: {spec.get('schedule')} : {error}"
            await self.record_event(cron_job, "InvalidSchedule", note, WARNING)
            return
        if missed.latest is not None:
            if missed.count > MANY:
                await self.record_event(cron_job, "TooManyMissedTimes", TOO_MANY, WARNING)
            await self._start(cron_job, record, missed.latest)
        looked_at = {**cron_job, "status": record.status()}
        self.queue.add_after(key, next_look(looked_at, schedule, now))

    async def _read_schedule(self, cron_job: Json) -> Schedule | None:
        spec = spec_of(cron_job)
        text, zone = spec.get("schedule") or "", spec.get("timeZone")
        if zone is not None:
            try:
                load_zone(zone)
            except ScheduleError as error:
                note = f'invalid timeZone: "{zone}": {error}'
                await self.record_event(cron_job, "UnknownTimeZone", note, WARNING)
                return None
        if "TZ" in text:
            note = (
                f'CRON_TZ or TZ used in schedule "{text}" is not officially supported, see '
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            )
            await self.record_event(cron_job, "UnsupportedSchedule", note, WARNING)
        try:
            return _schedule(cron_job)
        except ScheduleError as error:
            note = f'unparseable schedule: "{text}" : {error}'
            await self.record_event(cron_job, "UnparseableSchedule", note, WARNING)
            return None

    async def _start(self, cron_job: Json, record: CronJobRecord, scheduled: float) -> None:
        """Create the Job of a scheduled time, unless it is too late, has been done or must not be."""
        spec = spec_of(cron_job)
        deadline, policy = spec.get("startingDeadlineSeconds"), spec.get("concurrencyPolicy")
        if deadline is not None and scheduled + deadline < self.now():
            when = datetime.fromtimestamp(scheduled, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
            note = f"Missed scheduled time to start a job: {when}"
            await self.record_event(cron_job, "MissSchedule", note, WARNING)
            return
        name = job_name(cron_job, scheduled)
        if any(one.get("name") == name for one in record.active) or record.last_scheduled == timestamp(
            scheduled
        ):
            return
        if policy == "Forbid" and record.active:
            note = "Not starting job because prior execution is running and concurrency policy is Forbid"
            await self.record_event(cron_job, "JobAlreadyActive", note)
            return
        if policy == "Replace":
            for one in list(record.active):
                running = await self.client.get(JOBS, one.get("namespace", ""), one.get("name", ""))
                await self._delete(cron_job, record, running)
        job = await self._create(cron_job, job_for(cron_job, scheduled))
        if job is not None and not record.has(job):
            if not is_job_finished(job):
                record.add(job)
            record.last_scheduled = timestamp(scheduled)

    async def _create(self, cron_job: Json, body: Json) -> Json | None:
        """The Job as it was created, now or before; None if another object has its name."""
        try:
            job = await self.create(JOBS, body)
        except ApiError as error:
            if error.is_already_exists:
                there = await self.client.get(JOBS, namespace_of(cron_job), name_of(body))
                return there if is_controlled_by(there, cron_job) else None
            if not is_namespace_terminating(error):
                await self.record_event(cron_job, "FailedCreate", f"Error creating job: {error}", WARNING)
            raise
        await self.record_event(cron_job, "SuccessfulCreate", f"Created job {name_of(job)}")
        return job


def _schedule(cron_job: Json) -> Schedule:
    spec = spec_of(cron_job)
    return parse_schedule(spec.get("schedule") or "", spec.get("timeZone"))


def _timing(cron_job: Json) -> tuple[object, object]:
    return spec_of(cron_job).get("schedule"), spec_of(cron_job).get("timeZone")
