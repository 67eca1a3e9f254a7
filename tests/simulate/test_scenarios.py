"""Scenarios: what arrives is placed, waits, leaves; a run repeats; mistakes name file, line and field."""

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from click.testing import CliRunner

from stowplan.cli.main import stowplan
from stowplan.scheduler.settings import Settings
from stowplan.simulate.scenario import Measures, read_scenario, report_of, run
from stowplan.simulate.scenario.report import data_of
from stowplan.simulate.snapshot import SnapshotError


def simulated(folder: Path, text: str, seed: int | None = None) -> Measures:
    path = folder / "scenario.yaml"
    path.write_text(dedent(text))
    return run(read_scenario(path), Settings.of(), seed=seed)


def result(folder: Path, text: str) -> dict[str, Any]:
    return data_of(simulated(folder, text))


BURST = """
duration: 1h
cluster: {nodes: [{name: one, count: 1, cpu: 4}]}
workload:
  - {name: job, requests: {cpu: 2}, arrivals: {burst: 4, at: 1m}, lifetime: 10m}
"""


def test_pods_that_find_no_room_wait_until_others_have_ended(tmp_path: Path) -> None:
    found = result(tmp_path, BURST)
    assert found["pods"] == {
        "created": 4,
        "bound": 4,
        "finished": 4,
        "preempted": 0,
        "evicted": 0,
        "pending": 0,
        "longestPendingSeconds": None,
    }
    waits = found["waits"]["all"]
    assert waits["p50"] == 0.0
    assert waits["max"] == pytest.approx(601, abs=1.1)
    assert max(found["series"]["utilisation"]["cpu"]) == 1.0


def test_pods_of_higher_priority_preempt_and_victims_come_back(tmp_path: Path) -> None:
    found = result(
        tmp_path,
        """
        duration: 1h
        cluster: {nodes: [{count: 1, cpu: 4}]}
        workload:
          - {name: low, requests: {cpu: 2}, arrivals: {burst: 2}, lifetime: 30m}
          - {name: high, priority: 9, requests: {cpu: 2}, arrivals: {burst: 1, at: 5m}, lifetime: 5m}
        """,
    )
    assert found["preemptedByPriority"] == {"0": 1}
    assert found["pods"]["created"] == 4
    assert found["pods"]["bound"] == 4
    assert 1 <= found["waits"]["byPriority"]["9"]["max"] < 10
    assert found["waits"]["byPriority"]["0"]["max"] > 290


def test_failed_nodes_lose_their_pods_after_five_minutes_and_come_back(tmp_path: Path) -> None:
    found = result(
        tmp_path,
        """
        duration: 1h
        sample: 1m
        cluster: {nodes: [{name: n, count: 2, cpu: 4}]}
        workload:
          - {name: web, requests: {cpu: 1}, arrivals: {burst: 4}}
          - name: stays
            arrivals: {burst: 1}
            template:
              spec:
                nodeSelector: {kubernetes.io/hostname: n-0}
                tolerations: [{operator: Exists}]
        failures:
          - {at: 10m, nodes: [n-0], repair: 20m}
          - {at: 40m, nodes: [n-1], repair: 2m}
        """,
    )
    assert found["nodes"]["failures"] == 2
    assert found["pods"]["evicted"] == 2
    assert found["pods"]["pending"] == 0
    assert found["pods"]["bound"] == 5 + 2


def test_the_autoscaler_adds_nodes_for_pods_and_removes_empty_ones(tmp_path: Path) -> None:
    found = result(
        tmp_path,
        """
        duration: 1h
        cluster:
          nodes:
            - {name: dear, count: 0, cpu: 4, price: 3, autoscale: {max: 5}}
            - {name: cheap, count: 0, cpu: 4, price: 1, autoscale: {max: 5, provisioning: 1m, idle: 5m}}
        workload:
          - {name: job, requests: {cpu: 2}, arrivals: {burst: 5, at: 5m}, lifetime: 10m}
          - {name: huge, requests: {cpu: 99}, arrivals: {burst: 1}}
        """,
    )
    assert found["nodes"]["added"] == found["nodes"]["removed"] == 3
    assert found["pods"]["bound"] == 5
    assert found["pods"]["pending"] == 1
    assert 60 <= found["waits"]["all"]["max"] <= 85
    assert found["nodes"]["hours"].keys() == {"cheap"}
    assert found["cost"] == pytest.approx(3 * 15.2 / 60, abs=0.02)


TRACE = """
duration: 1h
cluster: {nodes: [{count: 1, cpu: 4}]}
workload:
  - name: traced
    trace:
      file: pods.csv
      columns: {arrival: t, end: u, cpu: milli, namespace: who, count: n}
      units: {cpu: 1m}
"""


def test_a_trace_says_when_pods_come_what_they_request_and_when_they_end(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text("t,u,milli,who,n\n1000,1600,1500,a,2\n1060,,500,b,1\n9000,,1,c,1\n")
    found = result(tmp_path, TRACE)
    assert found["pods"]["created"] == found["pods"]["bound"] == 3
    assert found["pods"]["finished"] == 2
    assert {name: one["pods"] for name, one in found["waits"]["byNamespace"].items()} == {"a": 2, "b": 1}
    assert max(found["series"]["utilisation"]["cpu"]) == 0.875


def test_a_run_repeats_byte_by_byte_and_another_seed_is_another_run(tmp_path: Path) -> None:
    text = """
    duration: 3h
    cluster:
      nodes:
        - {name: n, count: 4, cpu: 4, zones: [a, b], failures: {mtbf: 5h, repair: 10m}}
        - {name: more, count: 0, cpu: 4, autoscale: {max: 3}}
    workload:
      - {name: low, requests: {cpu: 1}, arrivals: {rate: 40/h}, lifetime: {exponential: 30m}}
      - name: high
        priority: 5
        requests: {cpu: 2}
        arrivals: {rate: 10/h, daily: {amplitude: 1}}
        lifetime: {uniform: [5m, 1h]}
    """
    first, again, other = (
        report_of(simulated(tmp_path, text, seed), "defaults").json() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("lifetime: 10m", "lifetme: 10m"), "scenario.yaml:5: workload[0].lifetme: unknown field"),
        (("lifetime: 10m", "lifetime: soon"), "scenario.yaml:5: workload[0].lifetime: expected a duration"),
        (("burst: 4", "rate: 4"), "scenario.yaml:5: workload[0].arrivals.rate: expected"),
        (("burst: 4", "rate: fast"), "scenario.yaml:5: workload[0].arrivals.rate: expected a rate such as"),
        (("cpu: 2}", "cpu: much}"), "scenario.yaml:5: workload[0].requests.cpu: expected a quantity"),
        (("cpu: 4}", "cpus: 4}"), "scenario.yaml:3: cluster.nodes[0]"),
        (("cpu: 4}", "autoscale: {max: 0}}"), "scenario.yaml:3: cluster.nodes[0].autoscale: expected min"),
        (("duration: 1h", "duration: -1h"), "scenario.yaml:2: duration: expected a duration"),
        (("workload:", "work:"), "scenario.yaml:4: work: unknown field"),
        (
            ("cpu: 4}", "cpu: 4, count: 1000000000}"),
            "nodes[0].count: expected at most 1,000,000 nodes",
        ),
        (("cpu: 4}", "cpu: 4, failures: {mtbf: 1ns}}"), "failures.mtbf: expected at most 1,000,000 failures"),
        (("burst: 4", "burst: 4, every: 1ns"), "arrivals.every: expected at most 1,000,000 bursts"),
        (("burst: 4", "burst: 1000000000"), "arrivals.burst: expected at most 100,000,000 pods"),
        (("burst: 4", "rate: 1000000000/s"), "arrivals.rate: expected at most 100,000,000 pods"),
        (("duration: 1h", "duration: 1h\nsample: 1ns"), "sample: expected at most 1,000,000 samples"),
    ],
)
def test_mistakes_name_file_line_and_field(tmp_path: Path, change: tuple[str, str], problem: str) -> None:
    path = tmp_path / "scenario.yaml"
    assert change[0] in BURST
    path.write_text(BURST.replace(*change))
    found = CliRunner().invoke(stowplan, ["simulate", str(path)])
    assert found.exit_code == 1
    assert problem in found.stderr
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("t,u,cpu,who,n\n", r"pods.csv:1: milli: no such column: expected one of t, u, cpu, who, n"),
        ("t,u,milli,who,n\n1,2,x,a,1\n", r"pods.csv:2: milli: expected a number, got 'x'"),
        ("t,u,milli,who,n\n1,2\n", r"pods.csv:2: n: missing: expected 5 columns, got 2|pods.csv:2: milli"),
    ],
)
def test_mistakes_of_a_trace_name_line_and_column(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "pods.csv").write_text(text)
    with pytest.raises(SnapshotError, match=problem):
        result(tmp_path, TRACE)


def test_the_command_writes_text_json_and_a_page(tmp_path: Path) -> None:
    path, page = tmp_path / "scenario.yaml", tmp_path / "page.html"
    path.write_text(BURST)
    text = CliRunner().invoke(stowplan, ["simulate", str(path), "--report", str(page)])
    assert text.exit_code == 0, text.output
    assert "4 pods were placed in 1h00m" in text.stdout
    assert "Simulation of scenario" in page.read_text()
    data = CliRunner().invoke(stowplan, ["simulate", str(path), "--json"])
    assert '"bound": 4' in data.stdout


def test_the_benchmark_of_a_day_repeats() -> None:
    command = ["bench", "day", "--nodes", "5", "--pods", "60", "--hours", "1", "--json"]
    first, again = (json.loads(CliRunner().invoke(stowplan, command).stdout) for _ in range(2))
    assert first["digest"] == again["digest"]
    assert first["bound"] > 30


DUMP = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: old, uid: u1},
   status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
- {apiVersion: v1, kind: Pod, metadata: {name: there, namespace: x, uid: u2}, status: {phase: Running},
   spec: {nodeName: old, containers: [{name: c, resources: {requests: {cpu: "3"}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: waiting, namespace: x, uid: u3}, status: {phase: Pending},
   spec: {schedulerName: default-scheduler, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: gold, uid: u4}, value: 77}
"""
OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time\n"
    "openb-pod-0000,1000,16,1,1000,,LS,Running,0,120\n"
)


def test_a_scenario_begins_with_the_cluster_of_a_dump(tmp_path: Path) -> None:
    """Existing pods count: the node is full until the pod of the higher class preempts."""
    (tmp_path / "dump.yaml").write_text(DUMP)
    (tmp_path / "pods.csv").write_text(OPENB)
    found = result(
        tmp_path,
        """
        duration: 10m
        cluster: {from: dump.yaml}
        workload:
          - name: gold
            requests: {cpu: 1}
            arrivals: {burst: 1, at: 1m}
            template: {spec: {priorityClassName: gold}}
          - {name: traced, trace: {file: pods.csv, layout: openb}}
        """,
    )
    assert found["waits"]["byPriority"].keys() == {"77", "0"}
    assert found["pods"]["created"] == 3
    assert found["pods"]["preempted"] == 1
    assert found["pods"]["pending"] == 1
