"""The command `stowplan lab chaos`."""

import json

import pytest
from click.testing import CliRunner

from stowplan.cli.main import stowplan
from stowplan.lab.chaos import plan_of
from stowplan.scheduler.cache import Cache


def test_it_runs_as_many_seeds_as_asked_for() -> None:
    done = CliRunner().invoke(stowplan, ["lab", "chaos", "--seeds", "3", "--from", "5", "--json"])
    assert done.exit_code == 0, done.output
    summary, document = done.output.splitlines()
    assert summary.startswith("3 runs, 0 failed: ")
    result = json.loads(document)
    assert (result["from"], result["seeds"], result["failed"]) == (5, 3, [])
    assert result["counts"]["bound"] > 0


def test_claims_can_be_asked_for_in_every_run() -> None:
    """The seed alone has none, and gives the same pods with them."""
    alone, with_claims = plan_of(2), plan_of(2, claims=True)
    assert not alone.devices
    assert with_claims.devices

    done = CliRunner().invoke(stowplan, ["lab", "chaos", "--seed", "2", "--claims", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output.splitlines()[-1])["counts"]["claims allocated"] > 0


def test_a_failure_is_told_with_its_seed_and_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cache, "forget", lambda self, uid: False)
    done = CliRunner().invoke(stowplan, ["lab", "chaos", "--from", "20", "--seeds", "2", "--json"])
    assert done.exit_code == 1
    lines = done.output.splitlines()
    failed = json.loads(lines[-1])["failed"]
    seed = failed[0]["seed"]
    finding = failed[0]["broken"][0]
    assert lines[0].startswith(f"seed {seed}: {finding['invariant']}: {finding['detail']} (at ")
    assert lines[1] == f"  again: stowplan lab chaos --seed {seed} --verbose"

    again = CliRunner().invoke(stowplan, ["lab", "chaos", "--seed", str(seed), "--verbose"])
    assert again.exit_code == 1
    assert lines[0] in again.output.splitlines()
    assert f"seed {seed}: digest " in again.output
    assert "BROKEN" in again.output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--seeds", "0"], "--seeds: expected a whole number of at least 1, got '0'"),
        (["--seed", "x"], "--seed: expected a whole number of at least 0, got 'x'"),
    ],
)
def test_bad_options_are_refused_in_one_line(arguments: list[str], problem: str) -> None:
    done = CliRunner().invoke(stowplan, ["lab", "chaos", *arguments])
    assert done.exit_code == 1
    assert done.output == f"Error: {problem}\n"
