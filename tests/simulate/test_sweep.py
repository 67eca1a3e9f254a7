"""`stowplan sweep`: every combination once, on any worker, and never twice."""

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from stowplan import __version__ as stowplan_version
from stowplan.cli.main import stowplan
from stowplan.scheduler import Settings
from stowplan.simulate.scenario import read_scenario, run
from stowplan.simulate.scenario import sweep as sweeps
from stowplan.simulate.scenario.report import figures_of
from waiting import PATIENCE

SCENARIO = """
cluster:
  nodes: [{name: n, count: 2, cpu: 4, memory: 16Gi, price: 0.5}]
workload:
  - {name: web, requests: {cpu: 500m, memory: 1Gi}, arrivals: {rate: 60/h}, lifetime: 10m}
"""
RATE = "workload.web.arrivals.rate"
EXPERIMENT = """
workloads: [scenario.yaml]
configurations: [default, pack.yaml]
seeds: 2
duration: 1m
parameters: {workload.web.arrivals.rate: [60/h, 300/h]}
"""
PACK = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    for name, text in (("scenario", SCENARIO), ("pack", PACK), ("experiment", EXPERIMENT)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path / "experiment.yaml"


def sweep(experiment: Path, *arguments: str) -> Result:
    return CliRunner().invoke(stowplan, ["sweep", str(experiment), *arguments], catch_exceptions=False)


def rows(experiment: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = parquet.read_table(experiment.with_suffix(".parquet")).to_pylist()
    return found


def test_every_combination_is_a_row_with_the_figures_of_its_simulation(experiment: Path) -> None:
    page = experiment.with_name("sweep.html")
    result = sweep(experiment, "--jobs", "1", "--json", "--html", str(page))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["runs"] == 8
    assert "Means over the seeds" in page.read_text()
    found = rows(experiment)
    about = [
        (one["configuration"], one["seed"], one["parameter.workload.web.arrivals.rate"]) for one in found
    ]
    expected = itertools.product(("default", "pack.yaml"), (0, 1), ("60/h", "300/h"))
    assert set(about) == set(expected)
    scenario = read_scenario(experiment.with_name("scenario.yaml"), 60.0)
    figures = figures_of(run(scenario, Settings.of(), seed=1))
    [row] = [one for one, key in zip(found, about, strict=True) if key == ("default", 1, "60/h")]
    assert {name: row[name] for name in figures} == figures


def test_an_interrupted_sweep_goes_on_and_more_seeds_run_alone(
    experiment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out: list[str] = []
    genuine = sweeps.carry_out

    def limited(one: sweeps.Run) -> sweeps.Row:
        if len(carried_out) == 3:
            raise KeyboardInterrupt
        carried_out.append(one.key)
        return genuine(one)

    def counted(one: sweeps.Run) -> sweeps.Row:
        carried_out.append(one.key)
        return genuine(one)

    monkeypatch.setattr(sweeps, "carry_out", limited)
    assert sweep(experiment, "--jobs", "1").exit_code != 0
    journal = experiment.with_name("experiment.parquet.journal")
    journal.write_bytes(journal.read_bytes() + b'{"run": "cut o')
    monkeypatch.setattr(sweeps, "carry_out", counted)
    assert json.loads(sweep(experiment, "--jobs", "1", "--json").stdout)["doneBefore"] == 3
    assert len(carried_out) == len(set(carried_out)) == 8
    assert not journal.exists()
    experiment.write_text(EXPERIMENT.replace("seeds: 2", "seeds: 3"))
    assert json.loads(sweep(experiment, "--jobs", "1", "--json").stdout)["doneBefore"] == 8
    assert len(carried_out) == len(set(carried_out)) == 12
    assert len(rows(experiment)) == 12


PLUGIN = """
from stowplan.framework import Plugin

class First(Plugin):
    def score_node(self, cycle, pod, node):
        return 10
"""


def edit(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new", "column"),
    [
        ("first.py", "return 10", "return 20", "digest.plugins"),
        ("pack.yaml", "weight: 1", "weight: 2", "digest.configuration"),
        ("scenario.yaml", "count: 2", "count: 3", "digest.scenario"),
        ("experiment.yaml", "duration: 20s", "duration: 30s", "durationSeconds"),
    ],
)
def test_results_of_another_experiment_are_not_mixed(
    experiment: Path, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str, column: str
) -> None:
    """Rows are made up here: that of a run tells where it comes from."""
    monkeypatch.setattr(sweeps, "carry_out", lambda one: {**one.about(), "bound": 1.0})
    experiment.with_name("first.py").write_text(PLUGIN)
    experiment.write_text(
        "workloads: [scenario.yaml]\nconfigurations: [default, pack.yaml]\nseeds: 1\nduration: 20s\n"
        "plugins: ['first.py:First']\n"
    )
    assert sweep(experiment, "--jobs", "1").exit_code == 0
    edit(experiment.with_name(file), old, new)
    refused = sweep(experiment, "--jobs", "1")
    assert refused.exit_code == 1
    assert f"rows are of another experiment ({column} differs): expected another output" in refused.stderr
    assert len(rows(experiment)) == 2
    assert sweep(experiment, "--jobs", "1", "--replace").exit_code == 0
    found = rows(experiment)
    assert len(found) == 2
    assert {one["stowplan"] for one in found} == {stowplan_version}
    assert len({one[column] for one in found}) == (2 if column == "digest.configuration" else 1)


def test_workers_end_with_a_sweep_that_is_killed(experiment: Path) -> None:
    experiment.write_text(EXPERIMENT.replace("duration: 1m", "duration: 48h"))
    command = [sys.executable, "-m", "stowplan", "sweep", str(experiment), "--jobs", "2"]
    main = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    workers: set[int] = set()
    try:
        until = time.monotonic() + PATIENCE
        while len(workers) < 2 and time.monotonic() < until:
            assert main.poll() is None
            workers = {pid for pid in children_of(main.pid) if b"spawn_main" in command_of(pid)}
            time.sleep(0.05)
        assert len(workers) == 2
    finally:
        main.kill()
        main.wait()
    until = time.monotonic() + PATIENCE
    while any(b"spawn_main" in command_of(pid) for pid in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [pid for pid in workers if b"spawn_main" in command_of(pid)]


def children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@contextmanager
def dask_cluster(folder: Path) -> Iterator[str]:
    """The address of a Dask scheduler with one worker, both processes of their own."""
    file = folder / "scheduler.json"
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    commands = [
        ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common],
        ["distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", *common],
    ]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            log = (folder / f"{command[0]}.log").open("wb")
            started.append(
                subprocess.Popen([sys.executable, "-m", *command], cwd=folder, stdout=log, stderr=log)
            )
            until = time.monotonic() + PATIENCE
            while not file.exists() or not file.read_text():
                assert time.monotonic() < until
                assert started[0].poll() is None, (folder / f"{command[0]}.log").read_text()
                time.sleep(0.05)
        yield json.loads(file.read_text())["address"].replace("tcp://", "dask://")
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(PATIENCE)


def test_a_dask_cluster_gives_the_same_results(experiment: Path, tmp_path: Path) -> None:
    experiment.write_text(EXPERIMENT.replace("seeds: 2", "seeds: 1"))
    assert sweep(experiment, "--jobs", "1").exit_code == 0
    here = rows(experiment)
    experiment.with_suffix(".parquet").unlink()
    (folder := tmp_path / "elsewhere").mkdir()
    with dask_cluster(folder) as address:
        result = sweep(experiment, "--on", address, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["doneBefore"] == 0
    assert rows(experiment) == here


@pytest.mark.parametrize(
    ("change", "arguments", "said"),
    [
        (("seeds: 2", "seed: 2"), [], "experiment.yaml:4: seed: unknown field"),
        (("seeds: 2", "seeds: 0"), [], "experiment.yaml:4: seeds: expected at least one, and none twice"),
        (("seeds: 2", "seeds: 1000000000000"), [], "expected at most 1,000,000 runs, got"),
        (("pack.yaml", "gone.yaml"), [], "configurations[1]: gone.yaml: No such file or directory"),
        (
            ("duration: 1m", "duration: soon"),
            [],
            "duration: expected a duration such as",
        ),
        (
            ("workload.web", "workload.api"),
            [],
            "parameters.workload.api.arrivals.rate: no workload.api in scenario.yaml",
        ),
        (
            ("[60/h", "[often"),
            [],
            "workload[0].arrivals.rate: expected a rate such as 200/h",
        ),
        (("", ""), ["--on", "tcp://x"], "--on: expected dask://HOST:PORT, got 'tcp://x'"),
    ],
)
def test_a_wrong_experiment_is_refused_in_one_line(
    change: tuple[str, str], arguments: list[str], said: str, experiment: Path
) -> None:
    experiment.write_text(EXPERIMENT.replace(*change) if change[0] else EXPERIMENT)
    result = sweep(experiment, "--jobs", "1", *arguments)
    assert result.exit_code == 1
    assert said in result.output.splitlines()[-1]
