"""`stowplan bench loop`, `churn` and `soak` at sizes that take no time; how fast they are, is not tested."""

import asyncio
import gc
import json
import random
import shlex
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from stowplan.api.catalogue import NODES, PODS
from stowplan.api.meta import AnyObject
from stowplan.cli.lab.bench import bench
from stowplan.client.http import HttpClient, load_kubeconfig
from stowplan.lab.bench.engine.workloads import WORKLOADS
from stowplan.lab.bench.servers.processes import server_process
from stowplan.runtime.clock import RealClock

RUN = ("-m", "stowplan", "run")

WAITING = {"dra-shared"}
"""Workloads with pods that are tried again: others allocate the claim that they share."""


def figures(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(bench, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.output.splitlines()[-1])
    return found


@pytest.mark.parametrize("workload", sorted(WORKLOADS.keys() - {"volumes", "csi-limits"}))
def test_every_pod_of_every_workload_is_bound_and_told_of(workload: str) -> None:
    found = figures(
        "loop", "--workload", workload, "--nodes", "40", "--existing-per-node", "0", "--pods", "30"
    )
    assert (found["bound"], found["unschedulable"], found["events_dropped"]) == (30, 0, 0)
    assert 30 <= found["events"] <= found["attempts"]
    if workload not in WAITING:
        assert found["attempts"] == 30
    for name in ("pods_per_s", "cpu_us_per_pod", "peak_rss_mib", "seconds"):
        assert found[name] > 0, name


def test_with_churn_a_tenth_waits_and_nodes_change() -> None:
    found = figures("churn", "--nodes", "20", "--pods", "300")
    assert (found["bound"], found["unschedulable"]) == (270, 30)
    assert found["node_updates"] > 0
    assert found["attempts"] >= 300


def test_a_soak_reads_the_memory_and_leaves_nothing_behind() -> None:
    found = figures("soak", "--pods", "600", "--population", "100", "--nodes", "20")
    assert len(found["rss_mib"]) == 20
    remembered = found["remembered"]
    assert remembered["pods"] + remembered["queued"] <= 300
    assert remembered["nominated"] == 0


def test_the_collector_is_left_as_it_was_found() -> None:
    before = gc.get_threshold()
    figures("loop", "--nodes", "3", "--pods", "5")
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_a_process_over_https_is_measured_from_outside() -> None:
    result = CliRunner().invoke(bench, ["http", "--nodes", "5", "--pods", "20", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output.splitlines()[-1])
    assert figures["bound"] == 20
    assert 0 < figures["events"] <= 21, "the last of them may come after the end on a busy machine"
    for name in ("pods_per_s", "cpu_us_per_pod", "cpu_s", "peak_rss_mib"):
        assert figures[name] > 0, name


def test_a_scheduler_that_does_not_start_is_named() -> None:
    command = "sh -c 'echo no such thing >&2; exit 3'"
    result = CliRunner().invoke(bench, ["http", "--nodes", "1", "--pods", "1", "--command", command])
    assert result.exit_code == 1
    assert result.output.splitlines()[-1] == "Error: the scheduler ended with exit code 3: no such thing"


def test_the_start_of_a_process_is_measured_until_its_first_binding() -> None:
    result = CliRunner().invoke(bench, ["start", "--nodes", "3", "--pods", "9", "--rounds", "1", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output.splitlines()[-1])
    assert figures["ready_s"] > 0
    assert 0 < figures["bound_cpu_s"] <= figures["bound_s"]
    assert figures["peak_rss_mib"] > 10


def test_the_start_is_measured_on_an_api_server_that_is_filled_for_it_and_left_as_it_was() -> None:
    async def left() -> tuple[dict[str, Any], int]:
        async with server_process() as kubeconfig:
            arguments = ["--kubeconfig", str(kubeconfig), "--nodes", "3", "--pods", "9", "--rounds", "1"]
            command = shlex.join([sys.executable, *RUN, "--config", "{config}", "--secure-port", "{port}"])
            options = ["--fill", "--command", command]
            found = await asyncio.to_thread(figures, "start", *arguments, *options)
            server = load_kubeconfig(str(kubeconfig))
            async with HttpClient(server, clock=RealClock(), rng=random.Random(0)) as client:
                nodes, pods = await client.list(NODES, AnyObject), await client.list(PODS, AnyObject)
            return found, len(nodes.items) + len(pods.items)

    found, objects = asyncio.run(left())
    assert found["bound_cpu_s"] > 0
    assert found["bound_s"] > 0
    assert objects == 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--fill"], "--fill: expected --kubeconfig, too"),
        (["--command", "kube-scheduler"], "--command: expected {port} in it, got 'kube-scheduler'"),
    ],
)
def test_options_of_a_start_that_make_no_sense_are_refused(options: list[str], problem: str) -> None:
    result = CliRunner().invoke(bench, ["start", *options])
    assert result.exit_code == 2
    assert problem in result.output


@pytest.mark.parametrize("options", [[], ["--watch-lists"]])
def test_the_arrival_of_a_list_is_measured(options: list[str]) -> None:
    result = CliRunner().invoke(bench, ["list", "--nodes", "5", "--pods", "300", *options, "--json"])
    assert result.exit_code in (0, 1), result.output
    figures = json.loads(next(line for line in result.output.splitlines() if line.startswith("{")))
    assert (figures["nodes"], figures["pods"]) == (5, 300)
    assert figures["cpu_us_per_pod"] > 0


def test_costs_are_measured_at_several_sizes() -> None:
    arguments = ["--nodes", "3,6", "--existing-per-node", "1", "--pods", "5", "--json"]
    result = CliRunner().invoke(bench, ["scale", *arguments])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output.splitlines()[-1])["figures"]
    assert [(one["nodes"], one["existing"]) for one in figures] == [(3, 3), (6, 6)]
    refused = CliRunner().invoke(bench, ["scale", "--nodes", "3,many"])
    assert refused.exit_code == 2
    assert "expected numbers of nodes with commas, got '3,many'" in refused.output
