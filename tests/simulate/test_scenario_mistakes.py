"""Mistakes in scenario files: one line with file, line, field and the expected value."""

from pathlib import Path

import pytest

from stowplan.simulate.scenario import read_scenario
from stowplan.simulate.snapshot import SnapshotError

NODES = "cluster: {nodes: [{name: n, count: 2, cpu: 4}]}"
WORK = "workload: [{name: w, arrivals: {burst: 4}, lifetime: 10m, requests: {cpu: 1}}]"
RATE = WORK.replace("{burst: 4}", "{rate: 4/h, daily: {amplitude: 0.5, peak: 14h}}")


def scenario(cluster: str = NODES, workload: str = WORK, more: str = "") -> str:
    return f"duration: 1h\n{cluster}\n{workload}\n{more}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- 1\n", "scenario.yaml:1: expected a map with cluster and workload"),
        ("a: [\n", "scenario.yaml:2: "),
        (scenario("cluster: {}"), "scenario.yaml:2: cluster: expected nodes or from"),
        (scenario("cluster: {from: gone.yaml}"), "scenario.yaml:2: cluster.from: no such file: gone.yaml"),
        (
            scenario(NODES.replace("count: 2", "count: -1")),
            "cluster.nodes[0].count: expected a whole number of at least 0, got -1",
        ),
        (
            scenario(NODES.replace("count: 2", "count: true")),
            "cluster.nodes[0].count: expected a whole number of at least 0, got True",
        ),
        (scenario(NODES.replace("count: 2", "price: high")), "cluster.nodes[0].price"),
        (
            scenario("cluster: {nodes: [{name: n, cpu: 1}, {name: n, cpu: 2}]}"),
            "cluster.nodes[1].name: 'n' is there twice",
        ),
        (scenario(workload="workload: []"), "scenario.yaml:3: workload: expected at least one"),
        (
            scenario(workload=WORK.replace("]", ", {name: w, arrivals: {burst: 1}}]")),
            "scenario.yaml:3: workload: two have the same name",
        ),
        (
            scenario(workload=WORK.replace("name: w", "name: -w")),
            "workload[0].name: expected the beginning of a pod name, got '-w'",
        ),
        (
            scenario(workload=WORK.replace("arrivals: {burst: 4}, ", "")),
            "workload[0]: expected arrivals or trace",
        ),
        (
            scenario(workload=WORK.replace("requests: {cpu: 1}", "template: {status: {}}")),
            "workload[0].template.status: unknown field: expected metadata or spec",
        ),
        (
            scenario(
                workload=WORK.replace("requests: {cpu: 1}", "template: {spec: {priorityClassName: gone}}")
            ),
            "workload[0].template.spec.priorityClassName: no PriorityClass gone in cluster.from",
        ),
        (
            scenario(workload=WORK.replace("requests: {cpu: 1}", "template: {spec: {nodeSelector: 7}}")),
            "workload[0].template.spec.nodeSelector",
        ),
        (
            scenario(workload=WORK.replace("burst: 4", "burst: 4, rate: 1/h")),
            "workload[0].arrivals: expected rate or burst",
        ),
        (
            scenario(workload=WORK.replace("burst: 4", "burst: -4")),
            "workload[0].arrivals.burst: expected at least 1, got -4",
        ),
        (
            scenario(workload=RATE.replace("rate: 4/h", "burst: 4")),
            "workload[0].arrivals.daily: expected together with rate only",
        ),
        (
            scenario(workload=RATE.replace("rate: 4/h", "rate: 4/h, every: 5m")),
            "workload[0].arrivals.every: expected together with burst only",
        ),
        (
            scenario(workload=RATE.replace("0.5", "1.5")),
            "workload[0].arrivals.daily.amplitude: expected 0 to 1, got 1.5",
        ),
        (
            scenario(workload=WORK.replace("lifetime: 10m", "lifetime: {sigma: 2}")),
            "workload[0].lifetime: expected a duration, exponential, lognormal or uniform",
        ),
        (
            scenario(workload=WORK.replace("lifetime: 10m", "lifetime: {lognormal: 10m, sigma: 11}")),
            "workload[0].lifetime.sigma: expected 0 to 10, got 11",
        ),
        (
            scenario(workload=WORK.replace("lifetime: 10m", "lifetime: {uniform: [10m, 5m]}")),
            "workload[0].lifetime.uniform: expected the shorter time first",
        ),
        (scenario(more="failures: [{at: 5m}]"), "failures[0]: expected nodes, group or zone"),
        (
            scenario(more="failures: [{at: 5m, group: m}]"),
            "failures[0].group: expected a group of cluster.nodes (n)",
        ),
        (
            scenario(more="failures: [{at: 5m, group: n, count: -1}]"),
            "failures[0].count: expected at least 0, got -1",
        ),
    ],
)
def test_a_mistake_is_named_with_its_field(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    with pytest.raises(SnapshotError) as caught:
        read_scenario(path)
    assert problem in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/scenario.yaml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "workload",
    [
        WORK,
        RATE,
        WORK.replace("10m", "{lognormal: 10m, sigma: 1}"),
        WORK.replace("10m", "{uniform: [5m, 9m]}"),
    ],
)
def test_without_a_mistake_the_file_is_read(workload: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(scenario(workload=workload))
    assert [one.name for one in read_scenario(path).workload] == ["w"]
