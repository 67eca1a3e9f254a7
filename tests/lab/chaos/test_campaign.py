"""Real processes through kills, pauses and outages: pods are bound once, and there is always a leader
again."""

import asyncio
import json
import re
import signal
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from stowplan.cli.main import stowplan
from stowplan.lab.chaos import campaign
from stowplan.lab.chaos.campaign import FAULTS, LEADER_WITHIN, PODS, PODS_PER_NODE, run_campaign
from stowplan.testing.processes import Process

TRIED = ["half-open", "kill-leader", "reload", "restart-server", "step-clock", "terminate"]
SEEDS = ["16", "6", "2", "3", "1", "0"]


def test_pods_are_bound_once_and_somebody_leads() -> None:
    """Rounds of one campaign, whose seeds have been chosen so that each brings another fault."""
    result = run_campaign(SEEDS, schedulers=3, faults=TRIED)
    assert not result.failed, "\n".join(map(str, result.failed))
    assert [one.bound for one in result.rounds] == [campaign.PODS] * len(TRIED)
    assert sorted(one.fault for one in result.rounds) == TRIED


async def _sabotage(running: Any, rng: Random) -> None:
    """Too many pods on one node, a process that ends by itself, and a while without a leader."""
    leader = await running.leader()
    for one in running.schedulers:
        one.signal(signal.SIGSTOP)
    await asyncio.sleep(LEADER_WITHIN + 1)
    for number in range(PODS - PODS_PER_NODE - 1, PODS):
        name = f"r{running._result.number}-{number}"
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-0"}}
        path = f"/api/v1/namespaces/default/pods/{name}/binding"
        await running.server.request("POST", path, body)
    leader.signal(signal.SIGKILL)
    for one in running.schedulers:
        one.signal(signal.SIGCONT)
    running.server.lines += ["PATCH /api/v1/pods/p", "Traceback (most recent call last):"]


def test_what_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAULTS, "sabotage", _sabotage)
    (one,) = run_campaign(["1"], faults=["sabotage"]).rounds
    found = "\n".join(one.findings)
    assert re.search(rf"node-0 has \d+ pods, and room for {PODS_PER_NODE}", found)
    assert "ended with -9" in found
    assert "s without a leader" in found
    assert "the API server failed 1 times: PATCH /api/v1/pods/p" in found


class _Sleeping(Process):
    async def start(self) -> None:
        await self.spawn(sys.executable, "-c", "import time; time.sleep(60)")


async def _killed_and_signalled() -> int | None:
    process = _Sleeping("sleeper")
    await process.start()
    process.signal(signal.SIGKILL)
    until = time.monotonic() + 0.05
    while time.monotonic() < until:  # the event loop notices nothing
        process.signal(signal.SIGCONT)
    await process.kill()
    return process.code


def test_how_a_process_ended_is_known_though_it_gets_another_signal_meanwhile() -> None:
    assert {asyncio.run(_killed_and_signalled()) for _ in range(5)} == {-9}


class _Growing(Process):
    """A process that holds more after every round, and is started again at last."""

    def __init__(self) -> None:
        super().__init__("scheduler-0")
        self.measured = iter([50, 60, 70, 75, 80, 90, 50])

    @property
    def pid(self) -> int:
        return 1

    def resident(self) -> int:
        return next(self.measured) * 2**20


def test_memory_that_grows_with_the_rounds_is_noticed(tmp_path: Path) -> None:
    running = campaign._Campaign(tmp_path, 2)
    process = _Growing()
    found = []
    for _ in range(6):
        running._measure(process)
        found.append(list(running._result.findings))
    assert found == [[]] * 5 + [["memory grows: scheduler-0: 70 → 90 MiB in 6 rounds"]]


def test_the_command_shows_each_round_and_a_summary() -> None:
    done = CliRunner().invoke(
        stowplan, ["lab", "chaos", "--processes", "--rounds", "1", "--seed", "7", "--fault", "calm", "--json"]
    )
    assert done.exit_code == 0, done.output
    round_line, summary, *memory, document = done.output.splitlines()
    assert round_line.startswith("round 1 (seed 7) calm: ")
    assert summary.startswith("1 rounds, 0 failed: ")
    told = json.loads(document)
    assert told["faults"] == {"calm": 1}
    assert told["rounds"][0]["findings"] == []
    assert [line.split(":")[0] for line in memory] == [
        "memory of apiserver",
        "memory of scheduler-0",
        "memory of scheduler-1",
    ]
    assert all(len(life["resident"]) == 1 and life["resident"][0] > 2**20 for life in told["memory"])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--processes", "--seeds", "5"], "--seeds: expected only without --processes"),
        (["--rounds", "5"], "--rounds: expected only with --processes"),
        (["--processes", "--rounds", "5", "--minutes", "1"], "--minutes: expected only without --rounds"),
        (["--processes", "--fault", "flood"], "--fault: expected one of calm, kill-leader, "),
    ],
)
def test_options_that_would_have_no_effect_are_refused(arguments: list[str], problem: str) -> None:
    done = CliRunner().invoke(stowplan, ["lab", "chaos", *arguments])
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {problem}")
