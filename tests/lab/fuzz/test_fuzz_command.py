"""The command `stowplan lab fuzz`."""

import json

import pytest
from click.testing import CliRunner

from stowplan.cli.main import stowplan
from stowplan.scheduler.plugins.nodeaffinity import NodeAffinity

SMALL = ["--size", "30", "--nodes", "12", "--limit", "5000"]


def test_it_runs_a_seed_and_says_what_took_longest() -> None:
    done = CliRunner().invoke(stowplan, ["lab", "fuzz", "--case", "3", *SMALL, "--json"])
    assert done.exit_code == 0, done.output
    *_, slowest, summary, document = done.output.splitlines()
    assert " ms held by " in slowest
    assert summary.startswith("1 cases, 0 failed: ")
    result = json.loads(document)
    assert (result["cases"], result["findings"]) == (1, [])
    assert result["counts"]["decisions"] > 0


def test_a_finding_names_its_case_and_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeAffinity, "filter", lambda self, cycle, pod, nodes: None)
    monkeypatch.setattr(NodeAffinity, "pre_filter", lambda self, cycle, pod: None)
    done = CliRunner().invoke(stowplan, ["lab", "fuzz", "--case", "node selector", *SMALL])
    assert done.exit_code == 1
    assert "10,000 node selector keys: no pod is bound to an infeasible node: fuzz/keys to " in done.output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--nodes", "3"], "--nodes: expected a whole number of at least 10, got '3'"),
        (["--case", "nobody"], "--case: expected a seed or a part of one of: sums of requests that wrap; "),
    ],
)
def test_bad_options_are_refused_in_one_line(arguments: list[str], problem: str) -> None:
    done = CliRunner().invoke(stowplan, ["lab", "fuzz", *arguments])
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {problem}")
    assert done.output.count("\n") == 1
