"""When CronJobs are due, and what becomes of their Jobs."""

from datetime import datetime
from typing import Any

import pytest

from localcluster.controllers.small_clusters import World, live, template
from stowplan.api.catalogue import CRON_JOBS, EVENTS, JOBS, PODS
from stowplan.api.meta import seconds_of, timestamp
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.garbagecollector import GarbageCollector
from stowplan.localcluster.controllers.workloads.cronjob import (
    CronJobController,
    InvalidScheduleError,
    job_for,
    missed_times,
    next_look,
    outdated,
)
from stowplan.localcluster.controllers.workloads.job import JobController
from stowplan.localcluster.objects.cron import ScheduleError, parse_schedule

# Schedules


@pytest.mark.parametrize(
    ("schedule", "after", "times"),
    [
        ("* * * * *", "2026-01-01T00:00:30Z", ["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"]),
        ("*/15 * * * *", "2026-01-01T00:40:00Z", ["2026-01-01T00:45:00Z", "2026-01-01T01:00:00Z"]),
        ("5/20 3 * * *", "2026-01-01T00:00:00Z", ["2026-01-01T03:05:00Z", "2026-01-01T03:25:00Z"]),
        ("30 6-16/4 * * 1-5", "2026-01-02T15:00:00Z", ["2026-01-05T06:30:00Z", "2026-01-05T10:30:00Z"]),
        ("0 0 1,15 * *", "2026-01-01T00:00:00Z", ["2026-01-15T00:00:00Z", "2026-02-01T00:00:00Z"]),
        ("0 0 13 * FRI", "2026-01-05T00:00:00Z", ["2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"]),
        ("0 0 */2 * FRI", "2026-01-05T00:00:00Z", ["2026-01-07T00:00:00Z", "2026-01-09T00:00:00Z"]),
        ("0 0 ? mar,Dec ?", "2026-02-01T00:00:00Z", ["2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"]),
        ("0 12 29 2 *", "2026-01-01T00:00:00Z", ["2028-02-29T12:00:00Z", "2032-02-29T12:00:00Z"]),
        ("@hourly", "2026-01-01T00:00:00Z", ["2026-01-01T01:00:00Z"]),
        ("@daily", "2026-01-01T00:00:00Z", ["2026-01-02T00:00:00Z"]),
        ("@weekly", "2026-01-01T00:00:00Z", ["2026-01-04T00:00:00Z"]),
        ("@monthly", "2026-01-01T00:00:00Z", ["2026-02-01T00:00:00Z"]),
        ("@yearly", "2026-01-01T00:00:00Z", ["2027-01-01T00:00:00Z"]),
        ("@every 1h30m", "2026-01-01T00:00:00.7Z", ["2026-01-01T01:30:00Z", "2026-01-01T03:00:00Z"]),
        ("@every 10ms", "2026-01-01T00:00:00Z", ["2026-01-01T00:00:01Z"]),
        ("TZ=Asia/Kolkata 30 5 * * *", "2026-01-01T00:00:00Z", ["2026-01-02T00:00:00Z"]),
    ],
)
def test_when_a_schedule_is_due(schedule: str, after: str, times: list[str]) -> None:
    moment, found = seconds_of(after), []
    for _ in times:
        following = parse_schedule(schedule).next(moment)
        assert following is not None
        moment = following
        found.append(timestamp(moment))
    assert found == times


@pytest.mark.parametrize(
    ("schedule", "after", "times"),
    [
        # The hour from 2 to 3 is left out on 29 March 2026, and comes twice on 25 October.
        ("30 2 * * *", "2026-03-28T12:00:00", ["2026-03-30T02:30:00+02:00"]),
        ("30 2 * * *", "2026-10-24T12:00:00", ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"]),
        ("0 0 * * *", "2026-03-28T12:00:00", ["2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"]),
        ("0 */6 * * *", "2026-03-29T00:00:00", ["2026-03-29T06:00:00+02:00"]),
    ],
)
def test_clocks_that_are_set_forward_and_back(schedule: str, after: str, times: list[str]) -> None:
    cron = parse_schedule(schedule, "Europe/Berlin")
    moment, found = datetime.fromisoformat(f"{after}+01:00").timestamp(), []
    for expected in times:
        following = cron.next(moment)
        assert following is not None
        moment = following
        found.append(datetime.fromtimestamp(moment, datetime.fromisoformat(expected).tzinfo).isoformat())
    assert found == times


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("bad", "expected exactly 5 fields, found 1: [bad]"),
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* 5-3 * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        ("TZ=Nowhere/Land * * * * *", "provided bad location Nowhere/Land: unknown time zone Nowhere/Land"),
        (f"{'9' * 5000} * * * *", "value out of range"),
    ],
)
def test_schedules_that_make_no_sense(schedule: str, why: str) -> None:
    with pytest.raises(ScheduleError) as told:
        parse_schedule(schedule)
    assert why in str(told.value)


# Due times


def cron_job(schedule: str = "* * * * *", last: str = "", **spec: Any) -> Json:
    metadata = {"name": "tick", "namespace": "d", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    status = {"lastScheduleTime": last} if last else {}
    return {"metadata": metadata, "spec": {"schedule": schedule, **spec}, "status": status}


@pytest.mark.parametrize(
    ("one", "now", "latest", "count"),
    [
        (cron_job(), "2026-01-01T00:00:30Z", None, 0),
        (cron_job(), "2026-01-01T00:01:00Z", "2026-01-01T00:01:00Z", 0),
        (cron_job(), "2026-01-01T00:05:30Z", "2026-01-01T00:05:00Z", 5),
        (cron_job(last="2026-01-01T00:05:00Z"), "2026-01-01T00:05:30Z", None, 0),
        (cron_job(last="2026-01-01T00:04:00Z"), "2026-01-01T00:05:30Z", "2026-01-01T00:05:00Z", 0),
        (cron_job(startingDeadlineSeconds=10), "2026-01-01T00:05:30Z", None, 0),
        (cron_job(startingDeadlineSeconds=40), "2026-01-01T00:05:30Z", "2026-01-01T00:05:00Z", 0),
        (cron_job(), "2026-01-01T03:00:00Z", "2026-01-01T03:00:00Z", 180),
        (cron_job("@every 5m"), "2026-01-01T00:17:00Z", "2026-01-01T00:15:00Z", 3),
    ],
)
def test_which_time_is_due(one: Json, now: str, latest: str | None, count: int) -> None:
    schedule = parse_schedule(one["spec"]["schedule"])
    found = missed_times(one, schedule, seconds_of(now), within_deadline=True)
    assert (found.latest and timestamp(found.latest), found.count) == (latest, count)


def test_a_time_that_never_comes_is_an_error_and_the_next_look_is_not_at_once() -> None:
    never = cron_job("0 0 31 2 *")
    with pytest.raises(InvalidScheduleError):
        missed_times(never, parse_schedule("0 0 31 2 *"), 0.0, within_deadline=True)


def test_the_next_look_is_just_after_the_next_time() -> None:
    now = seconds_of("2026-01-01T00:05:30Z")
    assert next_look(cron_job(), parse_schedule("* * * * *"), now) == pytest.approx(30.1)
    done = cron_job(last="2026-01-01T00:05:00Z")
    assert next_look(done, parse_schedule("* * * * *"), now) == pytest.approx(30.1)


def test_a_job_says_for_which_time_it_is() -> None:
    one = cron_job(jobTemplate={"metadata": {"labels": {"a": "b"}}, "spec": {"parallelism": 2}})
    made = job_for(one, seconds_of("2026-01-01T00:05:00Z"))
    assert made["metadata"]["name"] == "tick-29453765"
    assert made["metadata"]["labels"] == {"a": "b"}
    key = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    assert made["metadata"]["annotations"] == {key: "2026-01-01T00:05:00Z"}
    there = job_for({**one, "spec": {**one["spec"], "timeZone": "Europe/Berlin"}}, 0.0)
    assert there["metadata"]["annotations"] == {key: "1970-01-01T01:00:00+01:00"}


def test_only_so_many_finished_jobs_are_kept_of_each_kind() -> None:
    def ended(name: str, kind: str, started: str) -> Json:
        conditions = [{"type": kind, "status": "True"}]
        return {"metadata": {"name": name}, "status": {"startTime": started, "conditions": conditions}}

    jobs = [
        ended("c", "Complete", "2026-01-03T00:00:00Z"),
        ended("a", "Complete", "2026-01-01T00:00:00Z"),
        ended("b", "Complete", "2026-01-02T00:00:00Z"),
        ended("f", "Failed", "2026-01-01T00:00:00Z"),
        {"metadata": {"name": "running"}, "status": {}},
    ]
    going = outdated(cron_job(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=1), jobs)
    assert [one["metadata"]["name"] for one in going] == ["a", "b"]
    assert outdated(cron_job(), jobs) == []


# End to end


def controllers(context: ControllerContext) -> list[Controller]:
    return [CronJobController(context), JobController(context), GarbageCollector(context)]


def put(world: World, schedule: str = "* * * * *", **spec: Any) -> None:
    job = {"template": template(restartPolicy="Never")}
    world.put(
        CRON_JOBS,
        {"metadata": {"name": "tick"}, "spec": {"schedule": schedule, "jobTemplate": {"spec": job}, **spec}},
    )


def finish(world: World, phase: str = "Succeeded") -> None:
    for pod in world.pods("Pending"):
        world.patch(PODS, pod["metadata"]["name"], {"status": {"phase": phase}}, "status")


def reasons(world: World) -> list[str]:
    return [event["reason"] for event in world.all(EVENTS) if event["regarding"]["kind"] == "CronJob"]


def test_a_day_of_a_cron_job() -> None:
    async def story(world: World) -> None:
        put(world, "0 */6 * * *", successfulJobsHistoryLimit=2)
        for number in range(1, 5):
            await world.settle(6 * 3600)
            finish(world)
            await world.settle(1)
            assert len(world.all(JOBS)) == min(number, 2)
        status = world.get(CRON_JOBS, "tick")["status"]
        assert status["lastScheduleTime"] == "2026-01-02T00:00:00Z"
        assert status["lastSuccessfulTime"] >= "2026-01-02T00:00:00Z"
        assert "active" not in status
        assert len(world.pods()) == 2

    live(story, controllers)


@pytest.mark.parametrize(("policy", "jobs", "reason"), [("Allow", 3, ""), ("Forbid", 1, "JobAlreadyActive")])
def test_jobs_at_a_time(policy: str, jobs: int, reason: str) -> None:
    async def story(world: World) -> None:
        put(world, concurrencyPolicy=policy)
        await world.settle(181)
        assert len(world.all(JOBS)) == len(world.get(CRON_JOBS, "tick")["status"]["active"]) == jobs
        assert not reason or reason in reasons(world)

    live(story, controllers)


def test_a_job_is_replaced_by_the_next() -> None:
    async def story(world: World) -> None:
        put(world, concurrencyPolicy="Replace")
        await world.settle(61)
        [first] = world.names(JOBS)
        await world.settle(60)
        [second] = world.names(JOBS)
        assert second != first
        [active] = world.get(CRON_JOBS, "tick")["status"]["active"]
        assert active["name"] == second
        assert reasons(world).count("SuccessfulDelete") == 1

    live(story, controllers)


def test_a_cron_job_that_is_resumed_starts_the_last_job_it_missed_unless_it_is_too_late() -> None:
    async def story(world: World) -> None:
        put(world, "0 * * * *", suspend=True)
        await world.settle(2.5 * 3600)
        assert world.all(JOBS) == []
        world.patch(CRON_JOBS, "tick", {"spec": {"suspend": False, "startingDeadlineSeconds": 600}})
        await world.settle(5)
        assert world.all(JOBS) == []
        world.patch(CRON_JOBS, "tick", {"spec": {"startingDeadlineSeconds": 7200}})
        await world.settle(5)
        assert len(world.all(JOBS)) == 1
        assert world.get(CRON_JOBS, "tick")["status"]["lastScheduleTime"] == "2026-01-01T02:00:00Z"

    live(story, controllers)


def test_a_new_schedule_counts_from_now_on() -> None:
    async def story(world: World) -> None:
        put(world, "0 0 1 6 *")
        await world.settle(3600)
        world.patch(CRON_JOBS, "tick", {"spec": {"schedule": "*/10 * * * *", "timeZone": "Europe/Berlin"}})
        await world.settle(660)
        assert len(world.all(JOBS)) == 1

    live(story, controllers)


def test_an_hour_missed_minute_by_minute_is_one_job_and_a_warning() -> None:
    async def story(world: World) -> None:
        put(world, suspend=True)
        await world.settle(7230)
        world.patch(CRON_JOBS, "tick", {"spec": {"suspend": False}})
        await world.settle(5)
        assert len(world.all(JOBS)) == 1
        assert "TooManyMissedTimes" in reasons(world)

    live(story, controllers)


@pytest.mark.parametrize(
    ("spec", "field", "why"),
    [
        ({"schedule": "bad"}, "spec.schedule", "expected exactly 5 fields, found 1: [bad]"),
        ({"schedule": "TZ=UTC * * * * *"}, "spec.schedule", "cannot use TZ or CRON_TZ in schedule"),
        ({"timeZone": "Nowhere"}, "spec.timeZone", "unknown time zone Nowhere"),
        ({"timeZone": "../etc"}, "spec.timeZone", "unknown time zone ../etc"),
        ({"timeZone": "Local"}, "spec.timeZone", "timeZone must be an explicit time zone"),
        ({"timeZone": ""}, "spec.timeZone", "timeZone must be nil or non-empty string"),
    ],
)
def test_a_cron_job_that_cannot_be_kept_is_refused(spec: Json, field: str, why: str) -> None:
    async def story(world: World) -> None:
        with pytest.raises(ApiError) as told:
            put(world, **spec)
        assert told.value.code == 422
        assert [cause["field"] for cause in told.value.details["causes"]] == [field]
        assert why in told.value.message

    live(story, controllers)
