"""Simulations from Python: tables of pods, nodes and samples, figures of one's own, and their provenance."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stowplan.framework import Cycle, NodeRow, Plugin, PodInfo
from stowplan.simulate import Metric, Moment, Rows, Simulation, compare, simulate, sweep
from stowplan.simulate.snapshot.files import SnapshotError

SCENARIO = """
duration: 30m
sample: 5m
cluster:
  nodes: [{name: n, count: 2, cpu: 4, memory: 16Gi, price: 0.5}]
workload:
  - {name: small, requests: {cpu: 1}, arrivals: {burst: 6}, lifetime: 20m}
  - {name: urgent, requests: {cpu: 3}, priority: 1000, arrivals: {burst: 1, at: 1m}, lifetime: 5m}
"""
PACK = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}],
                        }
                    },
                }
            ]
        }
    ],
}


class First(Plugin):
    """Prefers the first node by far."""

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
        return 100 if node.name == "n-0" else 0


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO)
    return path


def test_every_pod_is_a_row_with_what_became_of_it(scenario: Path) -> None:
    day = simulate(scenario)
    pods = {row["pod"]: row for row in day.pods}
    urgent = pods["default/urgent-0"]
    assert urgent["arrived"] == 60.0
    assert urgent["node"] in ("n-0", "n-1")
    assert isinstance(urgent["waited"], float)
    assert urgent["placed"] == 60.0 + urgent["waited"]
    assert urgent["attempts"] == 2
    preempted = [row for row in day.pods if row["preempted_by"]]
    assert {row["preempted_by"] for row in preempted} == {"default/urgent-0"}
    assert len(preempted) == day.summary["preemptions"] >= 1
    assert all(row["ended"] is not None for row in preempted)
    assert sum(row["placed"] is not None for row in day.pods) == day.summary["bound"]


def test_nodes_and_samples_are_rows(scenario: Path) -> None:
    day = simulate(scenario)
    assert [(row["node"], row["group"], row["removed"], row["price"]) for row in day.nodes] == [
        ("n-0", "n", None, 0.5),
        ("n-1", "n", None, 0.5),
    ]
    assert day.series.column("second") == [300.0 * number for number in range(7)]
    assert day.series.column("utilisation.cpu")[1] == 1.0


def test_a_metric_of_ones_own_is_a_column_and_a_mean(scenario: Path) -> None:
    def crowding(moment: Moment) -> float | None:
        return None if moment.second == 0 else float(moment.table.pod_count.max())

    day = simulate(scenario, metrics=[Metric("crowding", crowding, "pods"), Metric("cpu", cpu)])
    found = day.series.column("crowding")
    assert found[0] is None
    known = [value for value in found if isinstance(value, float)]
    assert len(known) == 6
    assert day.summary["crowding"] == pytest.approx(sum(known) / 6, abs=1e-4)
    assert [row["cpu"] for row in day.series] == [row["utilisation.cpu"] for row in day.series]
    assert "crowding" in day.html()
    for name in ("pending", "twice"):
        with pytest.raises(ValueError, match=f"metrics: {name}: expected a name that no other figure has"):
            simulate(scenario, metrics=[Metric(name, cpu), Metric("twice", cpu), Metric("twice", cpu)])


def cpu(moment: Moment) -> float | None:
    share = moment.share("cpu")
    return None if share is None else round(share, 4)


def test_figures_say_where_they_come_from(scenario: Path) -> None:
    def provenance(**options: Any) -> dict[str, Any]:
        found = simulate(scenario, **options)
        assert found.report.data["provenance"] == found.provenance
        return dict(found.provenance)

    first = provenance()
    assert first.keys() == {
        "stowplan",
        "release",
        "seed",
        "durationSeconds",
        "digest.configuration",
        "digest.plugins",
        "digest.scenario",
    }
    assert provenance() == first

    def differs(other: dict[str, Any]) -> set[str]:
        return {name for name in first if other[name] != first[name]}

    assert differs(provenance(seed=3)) == {"seed"}
    assert differs(provenance(config=PACK)) == {"digest.configuration"}
    assert differs(provenance(duration=60.0)) == {"durationSeconds"}
    assert differs(provenance(plugins=[First])) >= {"digest.plugins"}
    scenario.write_text(SCENARIO.replace("count: 2", "count: 3"))
    assert differs(provenance()) == {"digest.scenario"}


def test_it_runs_in_the_event_loop_of_a_notebook(scenario: Path) -> None:
    async def cell() -> Simulation:
        return simulate(scenario)

    inside, outside = asyncio.run(cell()), simulate(scenario)
    assert list(inside.pods) == list(outside.pods)
    page = inside._repr_html_()
    assert page.startswith("<iframe srcdoc=")
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_configurations_are_compared_by_name(scenario: Path) -> None:
    shares: list[float] = []
    found = compare(scenario, {"spread": None, "pack": PACK}, seeds=2, progress=shares.append)
    assert [(row["configuration"], row["seed"]) for row in found.runs] == [
        ("spread", 0),
        ("pack", 0),
        ("spread", 1),
        ("pack", 1),
    ]
    assert shares == [0.25, 0.5, 0.75, 1.0]
    digests = {row["configuration"]: row["digest.configuration"] for row in found.runs}
    assert len(set(digests.values())) == 2
    assert {row["configuration"] for row in found.differences} == {"pack"}
    assert all(row["low"] is None for row in found.differences)
    with pytest.raises(ValueError, match="configurations: expected at least two with different names"):
        compare(scenario, {"spread": None})


def test_a_sweep_without_a_file_gives_rows(scenario: Path) -> None:
    experiment = scenario.with_name("experiment.yaml")
    experiment.write_text("workloads: [scenario.yaml]\nseeds: 2\nduration: 2m\n")
    first = sweep(experiment)
    assert [row["seed"] for row in first.runs] == [0, 1]
    output = scenario.with_name("results.parquet")
    sweep(experiment, output=output)
    again = sweep(experiment, output=output)
    assert again.done_before == 2
    assert list(again.runs) == list(first.runs)
    scenario.write_text(SCENARIO.replace("count: 2", "count: 3"))
    with pytest.raises(SnapshotError, match=r"2 rows are of another experiment \(digest.scenario differs\)"):
        sweep(experiment, output=output)


def test_progress_is_lines_that_can_be_redirected(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulate(scenario, progress=True)
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == "simulating: 80 %"
    assert all(line.startswith("simulating: ") for line in told)


def test_tables_become_frames_and_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Rows([{"a": 1, "b": None}, {"a": 2, "c": "x<y"}], "rows")
    assert table.to_arrow().to_pylist() == [
        {"a": 1, "b": None, "c": None},
        {"a": 2, "b": None, "c": "x<y"},
    ]
    frame = SimpleNamespace(DataFrame=lambda rows, columns: (rows, columns))
    monkeypatch.setitem(sys.modules, "pandas", frame)
    assert table.to_frame() == ([{"a": 1, "b": None}, {"a": 2, "c": "x<y"}], ["a", "b", "c"])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_frame needs pandas: pip install 'stowplan\[pandas\]'"):
        table.to_frame()
    assert "x&lt;y" in table._repr_html_()
    assert len(table[:1]) == 1
    with pytest.raises(KeyError, match="no column 'd': expected one of a, b, c"):
        table.column("d")
