"""`stowplan demo`: the recordings that ship, replayed, and one decision explained."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stowplan.cli.hosts.demo import RECORDINGS, demo

GOLDEN = Path(__file__).parents[1] / "golden"
FAMILIES = ("interpod", "mixed", "resources", "spread", "taints")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(demo, [str(argument) for argument in arguments])


def test_it_runs_without_arguments_and_everything_is_as_recorded() -> None:
    result = run()
    assert result.exit_code == 0, result.output
    for family in FAMILIES:
        assert f"\n  {family} " in result.output
    assert "came out as recorded" in result.output
    assert "goes to" in result.output
    assert "wins by" in result.output
    assert result.output.endswith("kube-scheduler chose the same node.\n")


def test_what_ships_is_small_and_taken_from_the_recordings_that_are_tested() -> None:
    shipped = sorted(RECORDINGS.glob("*.jsonl.gz"))
    assert tuple(path.name.removesuffix(".jsonl.gz") for path in shipped) == FAMILIES
    assert sum(path.stat().st_size for path in shipped) < 300_000
    for path in shipped:
        recorded = set(gzip.decompress((GOLDEN / path.name).read_bytes()).splitlines())
        assert set(gzip.decompress(path.read_bytes()).splitlines()) <= recorded


def first_scenario(family: str) -> dict[str, Any]:
    with gzip.open(RECORDINGS / f"{family}.jsonl.gz") as lines:
        scenario: dict[str, Any] = json.loads(next(iter(lines)))
    return scenario


def test_a_pod_can_be_chosen() -> None:
    scenario = first_scenario("taints")
    attempt = scenario["expected"][5]
    result = run(
        "--file", RECORDINGS / "taints.jsonl.gz", "--pod", attempt["pod"], "--scenario", scenario["name"]
    )
    assert result.exit_code == 0, result.output
    assert f"(taints, scenario {scenario['name']})" in result.output
    assert f"Pod {attempt['pod']}: " in result.output


def test_a_pod_that_found_no_node_is_explained_by_its_message() -> None:
    for family in FAMILIES:
        scenario = first_scenario(family)
        for attempt in scenario["expected"]:
            if attempt["assigned"] is None and attempt["rejected"]:
                arguments = ("--pod", attempt["pod"], "--scenario", scenario["name"])
                output = run("--file", RECORDINGS / f"{family}.jsonl.gz", *arguments).output
                assert f"Pod {attempt['pod']}: no node fits" in output
                assert "nodes are available" in output
                return
    raise AssertionError("no such pod in the recordings")


def altered(tmp_path: Path, **changes: object) -> Path:
    """The first scenario of the taint recordings with some fields of its first attempt changed."""
    scenario = first_scenario("taints")
    scenario["expected"][0].update(changes)
    path = tmp_path / "altered.jsonl"
    path.write_text(json.dumps(scenario) + "\n")
    return path


def test_a_difference_is_shown_and_is_a_failure(tmp_path: Path) -> None:
    path = altered(tmp_path, feasible=["node-that-never-was"])
    result = run("--file", path)
    assert result.exit_code == 1
    assert "came out differently" in result.output
    assert "node-that-never-was" in result.output


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--file", "/nowhere.jsonl"), "/nowhere.jsonl: no such file or directory"),
        (("--pod", "no/pod"), "--pod no/pod: no such decision in the recordings"),
        (("--pod", "a/b", "--scenario", "c"), "--pod a/b, --scenario c: no such decision in the recordings"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments: tuple[str, ...], line: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.output == f"Error: {line}\n"


def test_a_file_that_is_no_recording_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("{}\n")
    result = run("--file", path)
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {path}: line 1: ")
    assert result.output.count("\n") == 1
