"""`stowplan bench` at sizes that take no time; how fast anything is, is not tested."""

import gc
import json

import pytest
from click.testing import CliRunner

from stowplan.cli.lab.bench import bench
from stowplan.lab.bench.engine.workloads import ENGINE_WORKLOADS
from stowplan.lab.bench.scale.hostile import CASES, LADEN

SMALL = ["--nodes", "7", "--existing-per-node", "2", "--pods", "12"]


@pytest.mark.parametrize("workload", list(ENGINE_WORKLOADS))
def test_every_workload_runs_and_ends_with_one_line_of_json(workload: str) -> None:
    result = CliRunner().invoke(bench, ["engine", "--workload", workload, *SMALL, "--seed", "3", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output.splitlines()[-1])
    given = {"workload": workload, "nodes": 7, "existing_per_node": 2, "pods": 12, "seed": 3, "reuse": True}
    assert figures.items() >= given.items()
    for name in ("us_per_pod", "us_per_pod_mean", "us_per_pod_p99", "pods_per_s", "build_s", "peak_rss_mib"):
        assert figures[name] > 0, name


def test_without_json_only_people_are_spoken_to() -> None:
    result = CliRunner().invoke(bench, ["engine", *SMALL])
    assert result.exit_code == 0
    assert "µs" in result.output
    assert "{" not in result.output


def test_the_http_client_is_measured_beside_another_one() -> None:
    result = CliRunner().invoke(bench, ["http-client", "--pods", "30", "--at-once", "4", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output.splitlines()[-1])
    assert (figures["pods"], figures["at_once"]) == (30, 4)
    for client in ("stowplan", "aiohttp"):
        assert all(figure > 0 for figure in figures[client].values())


def test_pods_that_find_no_node_are_counted() -> None:
    result = CliRunner().invoke(
        bench, ["engine", "--nodes", "1", "--existing-per-node", "108", "--pods", "5", "--json"]
    )
    assert json.loads(result.output.splitlines()[-1])["unschedulable"] == 3


def test_every_pod_is_placed_and_confirmed_with_and_without_reuse() -> None:
    for extra in ([], ["--no-reuse"]):
        result = CliRunner().invoke(bench, ["engine", "--workload", "mixed", *SMALL, *extra, "--json"])
        assert json.loads(result.output.splitlines()[-1])["unschedulable"] == 0


def test_the_collector_is_left_as_it_was_found() -> None:
    before = gc.isenabled()
    CliRunner().invoke(bench, ["engine", *SMALL])
    assert gc.isenabled() == before
    assert gc.get_freeze_count() == 0


def test_every_hostile_pod_is_tried_and_the_collector_left_alone() -> None:
    result = CliRunner().invoke(bench, ["hostile", "--nodes", "20", "--count", "8", "--json"])
    assert result.exit_code == 0, result.output
    attempts = json.loads(result.output.splitlines()[-1])["attempts"]
    assert [attempt["case"] for attempt in attempts] == list(CASES)
    assert {attempt["case"]: attempt["node"] for attempt in attempts}[
        "nodeSelector, keys of one node"
    ] == LADEN
    assert gc.get_freeze_count() == 0


def test_the_table_is_measured_per_node_and_per_pod() -> None:
    result = CliRunner().invoke(bench, ["table", "--nodes", "64", "--pods-per-node", "5", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output.splitlines()[-1])
    assert figures.items() >= {"nodes": 64, "pods_per_node": 5}.items()
    for name in (
        "build_s",
        "table_bytes_per_node",
        "decoded_bytes_per_pod",
        "peak_rss_mib",
    ):
        assert figures[name] > 0, name
    # Identical pods share their decoded parts, so the table may take less than nothing.
    assert -figures["decoded_bytes_per_pod"] < figures["table_bytes_per_pod"] < 600


def test_a_table_without_pods_is_measured_too() -> None:
    result = CliRunner().invoke(bench, ["table", "--nodes", "3", "--pods-per-node", "0"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["engine", "--nodes", "0"], "--nodes: expected a whole number of at least 1, got '0'"),
        (["engine", "--pods", "-1"], "--pods: expected a whole number of at least 1, got '-1'"),
        (["engine", "--pods", "many"], "--pods: expected a whole number of at least 1, got 'many'"),
        (
            ["engine", "--existing-per-node", "-1"],
            "--existing-per-node: expected a whole number of at least 0, got '-1'",
        ),
        (["engine", "--seed", "x"], "--seed: expected a whole number of at least 0, got 'x'"),
        (
            ["engine", "--workload", "huge"],
            f"--workload: expected one of {', '.join(ENGINE_WORKLOADS)}, got 'huge'",
        ),
        (["table", "--nodes", "0"], "--nodes: expected a whole number of at least 1, got '0'"),
    ],
)
def test_a_bad_value_is_told_in_one_line(arguments: list[str], line: str) -> None:
    result = CliRunner().invoke(bench, arguments)
    assert result.exit_code == 1
    assert result.output == f"Error: {line}\n"


def test_a_cluster_is_measured_that_makes_its_pods_and_one_that_loads_them() -> None:
    result = CliRunner().invoke(bench, ["up", "--nodes", "4", "--pods", "9", "--idle", "0.1", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output.splitlines()[-1])
    assert (figures["nodes"], figures["pods"], figures["idle"]) == (4, 9, 0.1)
    for cluster in ("made", "loaded"):
        assert figures[cluster]["ready_s"] > 0
        assert figures[cluster]["cpu_s"] > 0
        assert figures[cluster]["list_s"] > 0
        assert figures[cluster]["idle_cpu"] >= 0
