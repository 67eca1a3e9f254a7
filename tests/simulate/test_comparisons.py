"""Comparisons: configurations meet the same pods, and only what is more than chance is judged."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stowplan.cli.main import stowplan
from stowplan.simulate.scenario.comparison import Difference, difference

SCENARIO = """
duration: 1h
seed: 3
cluster: {nodes: [{name: n, count: 2, cpu: 8}]}
workload:
  - {name: small, requests: {cpu: 1}, arrivals: {burst: 2}}
  - {name: large, requests: {cpu: 7}, arrivals: {burst: 1, at: 1m}, lifetime: {uniform: [10m, 20m]}}
"""
PACK = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
EXTENDED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders: [{urlPrefix: "http://127.0.0.1:1/", filterVerb: filter}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "pack.yaml").write_text(PACK)
    (tmp_path / "extended.yaml").write_text(EXTENDED)
    return tmp_path


def compare(*arguments: str) -> Result:
    return CliRunner().invoke(stowplan, ["compare", *arguments, "--workload", "scenario.yaml"])


def test_packing_and_spreading_are_compared_seed_by_seed(folder: Path) -> None:
    found = compare("default", "pack.yaml", "--seeds", "3", "--json")
    assert found.exit_code == 0, found.output
    data = json.loads(found.stdout)
    assert data["seeds"] == [3, 4, 5]
    assert data["configurations"].keys() == {"default", "pack.yaml"}
    bound = data["configurations"]["pack.yaml"]["bound"]
    assert bound == {"mean": 3.0, "bySeed": [3.0, 3.0, 3.0]}
    fragments = data["differences"]["pack.yaml"]["fragmentation cpu"]
    assert fragments["judged"] in ("better", "worse")
    assert data["differences"]["pack.yaml"]["waitMax"]["judged"] == ""
    assert "cost" not in data["differences"]["pack.yaml"]


def test_processes_give_the_same_answer_as_one_and_the_page_is_written(folder: Path) -> None:
    alone = compare("default", "pack.yaml", "--seeds", "2", "--json")
    more = ("--jobs", "2", "--report", "page.html")
    several = compare("default", "pack.yaml", "--seeds", "2", "--json", *more)
    assert several.exit_code == 0, several.output
    assert alone.stdout == several.stdout
    assert "pack.yaml against default" in (folder / "page.html").read_text()


def test_text_names_what_is_compared(folder: Path) -> None:
    text = compare("default", "pack.yaml", "--seeds", "1")
    assert "one seed says nothing about chance" in " ".join(text.stdout.split())
    text = compare("default", "pack.yaml", "--seeds", "2")
    assert "2 seeds say nothing about chance; use 3 or more" in " ".join(text.stdout.split())


def test_seeds_that_vary_only_ties_have_no_interval(folder: Path) -> None:
    (folder / "scenario.yaml").write_text(SCENARIO.replace("{uniform: [10m, 20m]}", "15m"))
    found = compare("default", "pack.yaml", "--seeds", "3", "--json")
    data = json.loads(found.stdout)
    assert (data["seedsVary"], data["test"]) == (["ties"], None)
    differences = [one for one in data["differences"]["pack.yaml"].values() if one is not None]
    assert differences
    assert all(one["low"] is None and one["judged"] == "" for one in differences)
    assert "seeds vary only ties in this scenario" in " ".join(
        compare("default", "pack.yaml", "--seeds", "3").stdout.split()
    )


def test_the_test_and_what_seeds_vary_are_named(folder: Path) -> None:
    found = compare("default", "pack.yaml", "--seeds", "3", "--json")
    data = json.loads(found.stdout)
    assert (data["seedsVary"], data["test"]) == (["lifetimes", "ties"], "paired Student's t, 95 %")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("default",), "CONFIG: expected at least two different configurations"),
        (("default", "gone.yaml"), "gone.yaml: no such file"),
        (("default", "scenario.yaml"), "scenario.yaml: Object 'Kind' is missing"),
        (("default", "extended.yaml"), "extended.yaml: extenders: expected none"),
    ],
)
def test_mistakes_are_one_line(folder: Path, arguments: tuple[str, ...], problem: str) -> None:
    found = compare(*arguments)
    assert found.exit_code == 1
    assert problem in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_differences_are_paired_and_judged_by_their_interval() -> None:
    found = judged("waitP99", [10, 20, 30], [8, 17, 28])
    assert found.mean == pytest.approx(-7 / 3)
    assert (found.low, found.high) == pytest.approx((-7 / 3 - 1.4343, -7 / 3 + 1.4343), abs=1e-3)
    assert found.judged == "better"
    assert judged("waitP99", [10, 20, 30], [30, 20, 11]).judged == ""
    assert judged("bound", [10, 20, 30], [12, 22, 33]).judged == "better"
    assert judged("cost", [1, 2, 3], [2, 3, 4]).judged == "worse"
    assert judged("nodesMean", [1, 2, 3], [2, 3, 4]).judged == "different"
    assert judged("cost", [1, 2], [2, 3]).document()["low"] is None
    assert judged("cost", [1], [2]).judged == ""


def judged(name: str, first: Sequence[float | None], other: Sequence[float | None]) -> Difference:
    found = difference(name, first, other)
    assert found is not None
    return found


def test_only_seeds_that_measured_a_figure_in_both_count() -> None:
    assert judged("cost", [1, None, 3, None], [2, 5, 4, None]).mean == 1
    assert difference("cost", [1, None], [None, 2]) is None


GPU = "alibabacloud.com/gpu-count"
GPU_NODES = f"""
kind: NodeList
items:
- metadata: {{name: a}}
  status: {{allocatable: {{cpu: "8", pods: "20", {GPU}: "4", example.com/fpga: "2"}}}}
- metadata: {{name: b}}
  status: {{allocatable: {{cpu: "8", pods: "20", {GPU}: "4", example.com/fpga: "2"}}}}
"""
GPU_PODS = """
duration: 10m
cluster: {from: nodes.yaml}
workload:
  - name: shared
    arrivals: {burst: 3}
    template:
      metadata:
        annotations: {alibabacloud.com/gpu-count: "1", alibabacloud.com/gpu-milli: "500"}
      spec: {containers: [{name: c, image: c, resources: {requests: {cpu: "1"}}}]}
"""


def test_a_figure_that_was_not_measured_is_absent_and_no_difference(folder: Path) -> None:
    """Requests by annotation are seen; of a resource that no pod requests there is no figure at all."""
    (folder / "nodes.yaml").write_text(GPU_NODES)
    (folder / "scenario.yaml").write_text(GPU_PODS)
    found = compare("default", "pack.yaml", "--seeds", "2", "--json")
    assert found.exit_code == 0, found.output
    figures = json.loads(found.stdout)["configurations"]["default"]
    assert 0 < figures[f"utilisation {GPU}"]["mean"] <= 3 * 500 / 8000
    names = {*figures, *json.loads(found.stdout)["differences"]["pack.yaml"]}
    assert not {name for name in names if "fpga" in name or name == f"fragmentation {GPU}"}
    assert "fpga" not in compare("default", "pack.yaml", "--seeds", "2").stdout
