"""Decisions of the Job controller, by tables: no store, no waiting."""

from typing import Any

import pytest

from stowplan.api.requests import Json
from stowplan.localcluster.controllers.workloads.job import (
    MAX_UNCOUNTED,
    indexed_pod,
    is_managed_elsewhere,
    to_write_down,
)
from stowplan.localcluster.controllers.workloads.jobpods import (
    FAILURES,
    IGNORED_FAILURES,
    INDEX,
    MOST_INDEXES,
    REACHED,
    TOO_LONG,
    TOO_OFTEN,
    TRACKING,
    JobBackoff,
    JobPods,
    JobVerdict,
    early_ending,
    finished_at,
    index_pause_left,
    index_ranges,
    is_complete,
    missing_indexes,
    read_indexes,
    surplus,
    verdict_on,
    wanted_active,
    write_indexes,
)

STAMP = "2026-01-01T00:00:00Z"
INDEXED: Json = {"completionMode": "Indexed"}


def pod(
    name: str,
    phase: str = "Running",
    *,
    held: bool = True,
    index: int | None = None,
    deleting: bool = False,
    failures: int | None = None,
    code: int = 0,
    finished: str = STAMP,
) -> Json:
    annotations = {} if index is None else {INDEX: str(index)}
    if failures is not None:
        annotations[FAILURES] = str(failures)
    metadata: Json = {"name": name, "uid": name, "namespace": "d", "annotations": annotations}
    if held:
        metadata["finalizers"] = [TRACKING]
    if deleting:
        metadata["deletionTimestamp"] = STAMP
    status: Json = {"phase": phase, "conditions": [{"type": "Ready", "status": str(phase == "Running")}]}
    if phase in ("Succeeded", "Failed"):
        ended = {"exitCode": code, "finishedAt": finished}
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": ended}}]
    return {"metadata": metadata, "spec": {}, "status": status}


def job(status: Json | None = None, **spec: Any) -> Json:
    return {"metadata": {"name": "work", "uid": "j"}, "spec": spec, "status": status or {}}


def names(pods: list[Json]) -> list[str]:
    return [one["metadata"]["name"] for one in pods]


# Counting


def test_each_pod_is_written_down_before_it_is_let_go_and_counted_after() -> None:
    one = job()
    first = JobPods(one, [pod("a", "Succeeded"), pod("b", "Failed"), pod("c")])
    written, freed = to_write_down(first, None)
    assert written == {"succeeded": ["a"], "failed": ["b"]}
    assert names(freed) == ["a", "b"]
    assert (first.counted_succeeded, first.counted_failed, first.succeeded, first.failed) == (0, 0, 1, 1)
    one["status"] = {"uncountedTerminatedPods": written}
    again = JobPods(one, [pod("a", "Succeeded"), pod("b", "Failed", held=False)])
    assert (again.counted_succeeded, again.counted_failed) == (0, 1)
    assert (again.succeeded, again.failed) == (1, 1)
    gone = JobPods(one, [])
    assert (gone.counted_succeeded, gone.counted_failed) == (1, 1)
    assert to_write_down(gone, None) == ({"succeeded": [], "failed": []}, [])


def test_only_so_many_pods_are_written_down_at_a_time() -> None:
    written, freed = to_write_down(JobPods(job(), [pod(str(n), "Failed") for n in range(600)]), None)
    assert len(written["failed"]) == len(freed) == MAX_UNCOUNTED


@pytest.mark.parametrize(
    ("spec", "one", "failed"),
    [
        ({}, pod("a", deleting=True), 1),
        ({"podReplacementPolicy": "Failed"}, pod("a", deleting=True), 0),
        ({"podReplacementPolicy": "Failed"}, pod("a", "Failed", deleting=True), 1),
        ({}, pod("a", "Failed", held=False), 0),
        ({**INDEXED, "completions": 2}, pod("a", "Failed", index=2), 0),
        ({**INDEXED, "completions": 2}, pod("a", "Failed", index=1), 1),
    ],
)
def test_which_pods_have_failed(spec: Json, one: Json, failed: int) -> None:
    assert JobPods(job(**spec), [one]).failed == failed


@pytest.mark.parametrize(("end", "written"), [(None, []), (TOO_LONG, ["a"]), (REACHED, [])])
def test_active_pods_count_as_failed_only_when_the_job_fails(end: Any, written: list[str]) -> None:
    assert to_write_down(JobPods(job(), [pod("a")]), end)[0]["failed"] == written


def test_an_index_counts_once() -> None:
    one = job({"completedIndexes": "0", "succeeded": 1}, **INDEXED, completions=3)
    pods = JobPods(one, [pod("a", "Succeeded", index=0), pod("b", "Succeeded", index=2)])
    assert pods.completed_indexes == {0, 2}
    assert pods.succeeded == 2
    assert missing_indexes(pods, 5) == [1]
    assert to_write_down(pods, None)[0] == {"succeeded": [], "failed": []}


@pytest.mark.parametrize("text", ["", "0", "0-3", "1,3,4,9", "0,1,5-7"])
def test_indexes_are_written_as_they_are_read(text: str) -> None:
    assert write_indexes(read_indexes(text)) == text


def test_indexes_beyond_the_completions_are_forgotten() -> None:
    assert read_indexes("0-9,12", 4) == {0, 1, 2, 3}


def test_a_range_of_two_billion_indexes_is_not_written_out() -> None:
    assert sum(map(len, index_ranges("5,0-2147483646,3-9"))) == 2**31 - 1
    assert len(read_indexes("0-2147483646", 2**31 - 1)) == MOST_INDEXES
    rules = {"rules": [{"succeededIndexes": "0-2147483646", "succeededCount": 1}]}
    one = job(**INDEXED, completions=2**31 - 1, successPolicy=rules)
    pods = JobPods(one, [pod("a", "Succeeded", index=7)])
    found = early_ending(pods, 0.0)
    assert found is not None
    assert found.reason == "SuccessPolicy"


# Failure policies

RULES = [
    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "FailIndex", "onExitCodes": {"containerName": "main", "operator": "NotIn", "values": [1, 2]}},
    {"action": "Count", "onExitCodes": {"operator": "In", "values": [2]}},
]
WHY = "Container main for pod d/a failed with exit code 42 matching FailJob rule at index 0"


@pytest.mark.parametrize(
    ("code", "condition", "verdict"),
    [
        (1, "", JobVerdict()),
        (2, "", JobVerdict()),
        (3, "", JobVerdict(fails_index=True)),
        (1, "DisruptionTarget", JobVerdict(counts=False)),
        (42, "DisruptionTarget", JobVerdict(fails_job=WHY)),
    ],
)
def test_the_first_rule_that_fits_decides(code: int, condition: str, verdict: JobVerdict) -> None:
    failed = pod("a", "Failed", code=code)
    failed["status"]["conditions"].append({"type": condition, "status": "True"})
    assert verdict_on(job(podFailurePolicy={"rules": RULES}), failed) == verdict


def test_a_rule_about_conditions_can_fail_the_job() -> None:
    rule = {"action": "FailJob", "onPodConditions": [{"type": "Ready", "status": "False"}]}
    found = verdict_on(job(podFailurePolicy={"rules": [rule]}), pod("a", "Failed"))
    assert found.fails_job == "Pod d/a has condition Ready matching FailJob rule at index 0"


def test_ignored_failures_do_not_count() -> None:
    rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}}
    pods = JobPods(job(podFailurePolicy={"rules": [rule]}), [pod("a", "Failed", code=7)])
    assert pods.failed == 0
    written, freed = to_write_down(pods, None)
    assert (written["failed"], names(freed)) == ([], ["a"])


# The end


@pytest.mark.parametrize(
    ("spec", "failed", "reason"),
    [
        ({"backoffLimit": 1}, 1, None),
        ({"backoffLimit": 1}, 2, "BackoffLimitExceeded"),
        ({}, 6, None),
        ({}, 7, "BackoffLimitExceeded"),
        ({"activeDeadlineSeconds": 10}, 0, "DeadlineExceeded"),
        ({"activeDeadlineSeconds": 10, "suspend": True}, 0, None),
        ({"activeDeadlineSeconds": 1000}, 0, None),
    ],
)
def test_when_a_job_has_failed(spec: Json, failed: int, reason: str | None) -> None:
    one = job({"startTime": "1970-01-01T00:00:00Z", "failed": failed}, **spec)
    end = early_ending(JobPods(one, []), 100.0)
    assert (end.reason if end else None) == reason


@pytest.mark.parametrize(
    ("limit", "restarts", "ends"), [(0, 0, False), (0, 1, True), (2, 1, False), (2, 2, True)]
)
def test_restarts_within_pods_count_as_failures(limit: int, restarts: int, ends: bool) -> None:
    running = pod("a")
    running["status"]["containerStatuses"] = [{"name": "main", "restartCount": restarts}]
    one = job(backoffLimit=limit, template={"spec": {"restartPolicy": "OnFailure"}})
    assert (early_ending(JobPods(one, [running]), 0.0) == TOO_OFTEN) == ends


@pytest.mark.parametrize(
    ("spec", "pods", "reason"),
    [
        ({"backoffLimitPerIndex": 0}, [("Failed", 0, 0)], None),
        ({"backoffLimitPerIndex": 0}, [("Failed", 0, 0), ("Succeeded", 1, 0)], "FailedIndexes"),
        ({"backoffLimitPerIndex": 1}, [("Failed", 0, 0), ("Succeeded", 1, 0)], None),
        ({"backoffLimitPerIndex": 1}, [("Failed", 0, 1), ("Succeeded", 1, 0)], "FailedIndexes"),
        ({"backoffLimitPerIndex": 0, "maxFailedIndexes": 0}, [("Failed", 0, 0)], "MaxFailedIndexesExceeded"),
        ({"successPolicy": {"rules": [{"succeededIndexes": "1"}]}}, [("Succeeded", 0, 0)], None),
        ({"successPolicy": {"rules": [{"succeededIndexes": "1"}]}}, [("Succeeded", 1, 0)], "SuccessPolicy"),
        ({"successPolicy": {"rules": [{"succeededCount": 1}]}}, [("Succeeded", 0, 0)], "SuccessPolicy"),
        (
            {"successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]}},
            [("Succeeded", 1, 0)],
            "SuccessPolicy",
        ),
    ],
)
def test_when_the_indexes_of_a_job_end_it(
    spec: Json, pods: list[tuple[str, int, int]], reason: str | None
) -> None:
    made = [pod(f"{phase}{index}", phase, index=index, failures=count) for phase, index, count in pods]
    end = early_ending(JobPods(job(**INDEXED, completions=2, **spec), made), 0.0)
    assert (end.reason if end else None) == reason


def test_what_was_decided_stays() -> None:
    held = {"type": "FailureTarget", "status": "True", "reason": "PodFailurePolicy", "message": "why"}
    end = early_ending(JobPods(job({"conditions": [held], "succeeded": 5}), []), 0.0)
    assert end is not None
    assert (end.type, end.final, end.reason, end.message) == (
        "FailureTarget",
        "Failed",
        "PodFailurePolicy",
        "why",
    )


@pytest.mark.parametrize(
    ("completions", "succeeded", "active", "complete"),
    [
        (2, 1, 0, False),
        (2, 2, 0, True),
        (2, 2, 1, False),
        (None, 1, 1, False),
        (None, 1, 0, True),
        (0, 0, 0, True),
    ],
)
def test_when_a_job_is_complete(completions: int | None, succeeded: int, active: int, complete: bool) -> None:
    spec: Json = {} if completions is None else {"completions": completions}
    assert is_complete(JobPods(job({"succeeded": succeeded}, **spec), []), active) == complete


# Number of pods


@pytest.mark.parametrize(
    ("spec", "succeeded", "active", "wanted"),
    [
        ({}, 0, 0, 1),
        ({"parallelism": 3}, 0, 0, 3),
        ({"parallelism": 3}, 1, 2, 2),
        ({"parallelism": 3, "completions": 4}, 2, 0, 2),
        ({"parallelism": 3, "completions": 2}, 2, 0, 0),
        ({"suspend": True}, 0, 2, 0),
    ],
)
def test_how_many_pods_a_job_wants(spec: Json, succeeded: int, active: int, wanted: int) -> None:
    pods = JobPods(job({"succeeded": succeeded}, **spec), [pod(str(number)) for number in range(active)])
    assert wanted_active(pods) == wanted


def test_pods_of_wrong_and_of_taken_indexes_go_first() -> None:
    active = [pod("a", index=0), pod("b", index=0), pod("c", index=1), pod("d", index=2), pod("e")]
    pods = JobPods(job(**INDEXED, completions=2), active)
    going = names(surplus(pods, 0, 0.0))
    assert (sorted(going[:2]), len(going), going[2] in ("a", "b")) == (["d", "e"], 3, True)
    assert len(surplus(pods, 4, 0.0)) == 4


def test_an_index_is_not_taken_again_while_its_pod_stops_if_only_failed_ones_are_replaced() -> None:
    stopping = [pod("a", index=0, deleting=True)]
    assert missing_indexes(JobPods(job(**INDEXED, completions=2), stopping), 2) == [0, 1]
    only_failed = job(**INDEXED, completions=2, podReplacementPolicy="Failed")
    assert missing_indexes(JobPods(only_failed, stopping), 2) == [1]


def test_a_pod_knows_its_index_and_how_often_it_has_failed() -> None:
    plain = {"metadata": {"labels": {}, "annotations": {}}, "spec": {"containers": [{"name": "main"}]}}
    failed = pod("a", "Failed", index=3, failures=1)
    made = indexed_pod(plain, job(backoffLimitPerIndex=2), 3, failed)
    assert made["metadata"]["generateName"] == "work-3-"
    assert made["spec"]["hostname"] == "work-3"
    assert made["metadata"]["labels"] == {INDEX: "3"}
    assert made["metadata"]["annotations"] == {INDEX: "3", FAILURES: "2"}
    variable = made["spec"]["containers"][0]["env"][0]
    assert variable["valueFrom"] == {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}}
    ignoring = job(backoffLimitPerIndex=2, podFailurePolicy={"rules": [rule]})
    ignored = indexed_pod(plain, ignoring, 3, pod("a", "Failed", index=3, failures=1, code=7))
    assert ignored["metadata"]["annotations"] == {INDEX: "3", FAILURES: "1", IGNORED_FAILURES: "1"}


def test_a_failed_pod_stays_until_its_successor_knows_of_it() -> None:
    one = job(**INDEXED, completions=2, backoffLimitPerIndex=3)
    failed = pod("a", "Failed", index=0, failures=0)
    alone = JobPods(one, [failed])
    assert alone.delayed == {0: failed}
    assert to_write_down(alone, None)[1] == []
    assert index_pause_left(failed, finished_at(failed)) == 10.0
    replaced = JobPods(one, [failed, pod("b", index=0, failures=1)])
    assert names(to_write_down(replaced, None)[1]) == ["a"]


@pytest.mark.parametrize(
    ("by", "elsewhere"),
    [(None, False), ("kubernetes.io/job-controller", False), ("kueue.x-k8s.io/multikueue", True)],
)
def test_whose_job_it_is(by: str | None, elsewhere: bool) -> None:
    spec: Json = {} if by is None else {"managedBy": by}
    assert is_managed_elsewhere(job(**spec)) == elsewhere


# Pauses


def at(second: int, phase: str = "Failed") -> Json:
    return pod(f"{phase}{second}", phase, finished=f"1970-01-01T00:00:{second:02}Z")


def test_pauses_of_a_job_grow_until_a_pod_succeeds() -> None:
    assert [JobBackoff(number, 0.0).left(0.0) for number in (0, 1, 2, 3, 20)] == [0, 10, 20, 40, 600]
    assert JobBackoff(1, 5.0).left(20.0) == 0.0
    twice = JobBackoff().after([], [at(3), at(5)])
    assert twice == JobBackoff(2, 5.0)
    assert twice.after([], []) == twice
    assert twice.after([], [at(9)]) == JobBackoff(3, 9.0)
    assert twice.after([at(7, "Succeeded")], [at(6)]) == JobBackoff()
    assert twice.after([at(7, "Succeeded")], [at(6), at(8)]) == JobBackoff(1, 8.0)
