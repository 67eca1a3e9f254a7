"""Scenarios: pods pass the API server's admission over the objects of the cluster; refusals are counted."""

from pathlib import Path
from textwrap import dedent
from typing import Any

from click.testing import CliRunner

from stowplan.cli.main import stowplan
from stowplan.scheduler.settings import Settings
from stowplan.simulate.scenario import Measures, read_scenario, run
from stowplan.simulate.scenario.report import data_of

JOBS = "requests: {cpu: 1}, arrivals: {burst: 4}, lifetime: 10m"


def simulated(folder: Path, objects: str, workload: str, *, cpu: int = 4) -> Measures:
    """One node, these objects, and workloads (a line each)."""
    (folder / "objects.yaml").write_text(dedent(objects))
    lines = "".join(f"  - {{{line.strip()}}}\n" for line in workload.strip().splitlines())
    path = folder / "scenario.yaml"
    cluster = f"{{from: objects.yaml, nodes: [{{name: n, count: 1, cpu: {cpu}}}]}}"
    path.write_text(f"duration: 1h\nsample: 1m\ncluster: {cluster}\nworkload:\n{lines}")
    return run(read_scenario(path), Settings.of())


def result(folder: Path, objects: str, workload: str, *, cpu: int = 4) -> dict[str, Any]:
    return data_of(simulated(folder, objects, workload, cpu=cpu))


LIMITS = """
    apiVersion: v1
    kind: LimitRange
    metadata: {name: limits, namespace: default}
    spec:
      limits:
        - {type: Container, defaultRequest: {cpu: "2"}, max: {cpu: "3"}}
"""


def test_a_limit_range_says_what_a_container_requests_that_does_not(tmp_path: Path) -> None:
    found = result(tmp_path, LIMITS, "name: job, arrivals: {burst: 3}")
    assert (found["pods"]["bound"], found["pods"]["pending"]) == (2, 1)
    assert max(found["series"]["utilisation"]["cpu"]) == 1.0


def test_a_pod_beyond_the_maximum_of_a_limit_range_is_refused_and_counted(tmp_path: Path) -> None:
    found = result(
        tmp_path,
        LIMITS,
        """
        name: large, arrivals: {burst: 3}, template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}, limits: {cpu: 4}}}]}}
        name: other, namespace: free, requests: {cpu: 4}, arrivals: {burst: 1}
        """,  # noqa: E501
    )
    [refused] = found["refused"]
    assert (refused["workload"], refused["pods"], refused["notCreated"]) == ("large", 3, 3)
    assert "maximum cpu usage per Container is 3, but limit is 4" in refused["message"]
    assert found["pods"]["created"] == found["pods"]["bound"] == 1
    assert found["figures"]["notCreated"] == 3


def test_the_overhead_of_a_runtime_class_takes_room(tmp_path: Path) -> None:
    overhead = """
        apiVersion: node.k8s.io/v1
        kind: RuntimeClass
        metadata: {name: vm}
        handler: vm
        overhead: {podFixed: {cpu: "1"}}
    """
    template = "template: {spec: {runtimeClassName: vm}}"
    found = result(tmp_path, overhead, f"name: job, requests: {{cpu: 1}}, arrivals: {{burst: 4}}, {template}")
    assert (found["pods"]["bound"], found["pods"]["pending"]) == (2, 2)


QUOTA = """
    apiVersion: v1
    kind: ResourceQuota
    metadata: {name: team, namespace: default}
    spec: {hard: {requests.cpu: "3"}}
"""


def test_controllers_try_again_when_a_quota_has_room(tmp_path: Path) -> None:
    """Four pods of ten minutes, three at a time: the fourth is created when the first has ended."""
    found = result(tmp_path, QUOTA, f"name: job, {JOBS}")
    [refused] = found["refused"]
    assert (refused["pods"], refused["notCreated"]) == (1, 0)
    assert "exceeded quota: team, requested: requests.cpu=1, used: requests.cpu=3" in refused["message"]
    assert found["pods"]["finished"] == 4
    assert max(found["series"]["utilisation"]["cpu"]) == 0.75


def test_a_pod_without_a_controller_that_a_quota_refuses_never_comes(tmp_path: Path) -> None:
    found = result(tmp_path, QUOTA, f"name: job, controller: false, {JOBS}")
    assert [(one["pods"], one["notCreated"]) for one in found["refused"]] == [(1, 1)]
    assert found["pods"]["created"] == found["pods"]["finished"] == 3


def test_a_quota_counts_the_pods_that_are_there_at_the_beginning(tmp_path: Path) -> None:
    there = """
        apiVersion: v1
        kind: Pod
        metadata: {name: there, namespace: default, uid: u1}
        spec: {nodeName: n-0, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
        status: {phase: Running}
    """
    found = result(tmp_path, f"{dedent(QUOTA)}---{dedent(there)}", f"name: job, controller: false, {JOBS}")
    assert [one["pods"] for one in found["refused"]] == [2]


def test_pods_get_the_priority_and_the_policy_of_their_class(tmp_path: Path) -> None:
    """`patient` comes first in the queue but does not preempt; `low` has the default class."""
    classes = """
        apiVersion: scheduling.k8s.io/v1
        kind: PriorityClass
        metadata: {name: patient}
        value: 9
        preemptionPolicy: Never
        ---
        apiVersion: scheduling.k8s.io/v1
        kind: PriorityClass
        metadata: {name: usual}
        value: 5
        globalDefault: true
    """
    patient = "template: {spec: {priorityClassName: patient}}"
    found = result(
        tmp_path,
        classes,
        f"""
        name: low, requests: {{cpu: 4}}, arrivals: {{burst: 1}}, lifetime: 30m
        name: high, requests: {{cpu: 4}}, arrivals: {{burst: 1, at: 5m}}, lifetime: 5m, {patient}
        """,
    )
    assert found["waits"]["byPriority"].keys() == {"9", "5"}
    assert found["pods"]["preempted"] == 0
    assert found["waits"]["byPriority"]["9"]["max"] > 1400


def test_a_priority_and_extended_resources_need_no_more_than_their_amount(tmp_path: Path) -> None:
    found = result(
        tmp_path,
        QUOTA,
        "name: job, priority: 7, requests: {cpu: 1, example.com/gpu: 1}, arrivals: {burst: 1}",
    )
    assert found["refused"] == []
    assert found["waits"]["byPriority"].keys() == set()
    assert found["pods"]["pending"] == 1


def test_the_report_says_what_was_refused(tmp_path: Path) -> None:
    simulated(tmp_path, QUOTA, f"name: job, controller: false, {JOBS}")
    page = tmp_path / "page.html"
    done = CliRunner().invoke(stowplan, ["simulate", str(tmp_path / "scenario.yaml"), "--report", str(page)])
    assert "The API server refused 1, and 1 were never created." in " ".join(done.stdout.split())
    assert "exceeded quota: team" in page.read_text()
