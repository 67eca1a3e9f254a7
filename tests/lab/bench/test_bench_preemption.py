"""`stowplan bench preemption` at sizes that take no time; how fast it is, is not tested."""

import gc
import json
from typing import Any

import pytest
from click.testing import CliRunner

from stowplan.cli.lab.bench import bench


def figures(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(bench, ["preemption", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.output.splitlines()[-1])
    return found


def test_it_ends_with_one_line_of_json() -> None:
    found = figures("--nodes", "7", "--existing-per-node", "4", "--preemptors", "5", "--seed", "3")
    given = {"nodes": 7, "existing_per_node": 4, "preemptors": 5, "budgets": 0, "seed": 3}
    assert found.items() >= given.items()
    for name in (
        "decision_ms_per_preemptor",
        "decision_ms_per_preemptor_mean",
        "decision_ms_per_preemptor_p99",
        "preemptors_per_s",
        "cpu_ms_per_preemptor",
        "peak_rss_mib",
    ):
        assert found[name] > 0, name


@pytest.mark.parametrize("budgets", ["0", "3"])
def test_every_preemptor_costs_somebody_while_there_is_anybody_left(budgets: str) -> None:
    found = figures("--nodes", "2", "--existing-per-node", "2", "--preemptors", "3", "--budgets", budgets)
    assert (found["decision_victims"], found["victims"]) == (4, 4)
    assert (found["decision_unhelped"], found["unhelped"]) == (1, 1)
    assert found["bound"] == 2


def test_without_json_only_people_are_spoken_to_and_the_collector_is_left_as_it_was() -> None:
    result = CliRunner().invoke(bench, ["preemption", "--nodes", "3", "--preemptors", "2"])
    assert result.exit_code == 0
    assert "preemptors/s" in result.output
    assert "{" not in result.output
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
