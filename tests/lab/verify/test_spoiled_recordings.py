"""A recording with one fact changed is caught: the right subject, one difference, exit code 1."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stowplan.cli.main import stowplan

GOLDEN = Path(__file__).parents[2] / "golden"
PROGRAM = Path(sys.executable).with_name("stowplan")

Attempt = dict[str, Any]


def verify(*arguments: str | Path) -> Result:
    return CliRunner().invoke(stowplan, ["verify", *map(str, arguments), "--json"])


def summary(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def spoil(path: Path, family: str, change: Callable[[Attempt], bool]) -> Path:
    """Write the first recorded scenario of a family in which something could be changed, so changed."""
    with gzip.open(GOLDEN / f"{family}.jsonl.gz") as lines:
        for line in lines:
            scenario = json.loads(line)
            if any(change(attempt) for attempt in scenario["expected"]):
                path.write_text(json.dumps(scenario) + "\n")
                return path
    raise AssertionError("nothing to spoil")


def a_score(attempt: Attempt) -> bool:
    scores = attempt.get("scores", {}).get("NodeResourcesFit")
    if scores:
        scores[min(scores)] += 1
    return bool(scores)


def a_total(attempt: Attempt) -> bool:
    total = attempt.get("total")
    if total:
        total[min(total)] -= 1
    return bool(total)


def a_reason(attempt: Attempt) -> bool:
    for verdict in attempt["rejected"].values():
        if verdict["plugin"] == "TaintToleration":
            verdict["reasons"] = ["node(s) had untolerated taints"]
            return True
    return False


def a_code(attempt: Attempt) -> bool:
    for verdict in attempt["rejected"].values():
        if verdict["plugin"] == "NodeResourcesFit":
            verdict["code"] = "Pending"
            return True
    return False


def a_skipped_filter(attempt: Attempt) -> bool:
    return bool(attempt["preFilter"]["skipped"] and attempt["preFilter"]["skipped"].pop())


def a_skipped_score(attempt: Attempt) -> bool:
    return bool(attempt.get("skippedScore") and attempt["skippedScore"].pop())


def a_feasible_node(attempt: Attempt) -> bool:
    return bool(attempt["feasible"] and attempt["feasible"].pop())


def a_best_node(attempt: Attempt) -> bool:
    return bool(len(attempt["best"]) > 1 and attempt["best"].pop())


def a_count_in_the_message(attempt: Attempt) -> bool:
    message = attempt["fitError"]
    if not message or "0/" not in message:
        return False
    attempt["fitError"] = message.replace("0/", "0/1", 1)
    return True


def a_reason_in_the_message(attempt: Attempt) -> bool:
    message = attempt["fitError"]
    if not message or "Too many pods" not in message:
        return False
    attempt["fitError"] = message.replace("Too many pods", "Too few pods", 1)
    return True


def words_after_room_was_made(attempt: Attempt) -> bool:
    if not attempt["preemption"] or attempt["preemption"]["code"] != "Success":
        return False
    attempt["fitError"] += " no new claims to deallocate"
    return True


def the_way_to_the_node(attempt: Attempt) -> bool:
    return bool(attempt.pop("viaNominatedNode", False))


def an_error(attempt: Attempt) -> bool:
    attempt["error"] = "something broke"
    return True


def the_outcome_of_post_filter(attempt: Attempt) -> bool:
    if not attempt["preemption"] or attempt["preemption"]["message"] != "not found":
        return False
    attempt["preemption"]["code"] = "Unschedulable"
    return True


SPOILED = [
    ("resources", a_score, "score NodeResourcesFit"),
    ("resources", a_total, "total"),
    ("resources", a_code, "filter NodeResourcesFit"),
    ("resources", a_reason_in_the_message, "fitError"),
    ("resources", the_way_to_the_node, "viaNominatedNode"),
    ("taints", a_reason, "filter TaintToleration"),
    ("taints", a_feasible_node, "feasible"),
    ("taints", a_best_node, "best"),
    ("taints", a_skipped_filter, "preFilter"),
    ("taints", a_skipped_score, "preScore skipped"),
    ("taints", a_count_in_the_message, "fitError"),
    ("preemption", words_after_room_was_made, "fitError"),
    ("nodeaffinity", the_outcome_of_post_filter, "preemption"),
]


@pytest.mark.parametrize(("family", "change", "subject"), SPOILED)
def test_one_changed_fact_is_one_difference_under_its_subject(
    tmp_path: Path, family: str, change: Callable[[Attempt], bool], subject: str
) -> None:
    result = verify(spoil(tmp_path / "spoiled.jsonl", family, change))
    assert result.exit_code == 1
    found = summary(result)
    assert [difference["subject"] for difference in found["differences"]] == [subject]
    assert found["total"]["different"] == 1
    assert found["families"]["spoiled"][subject]["different"] == 1
    assert f"spoiled / {subject}: {family}-" in result.stdout


def test_an_error_that_did_not_happen_is_a_difference(tmp_path: Path) -> None:
    found = summary(verify(spoil(tmp_path / "spoiled.jsonl", "spread", an_error)))
    [difference] = [each for each in found["differences"] if each["subject"] == "error"][:1]
    assert difference["expected"] == {"text": "something broke", "nodes": []}
    assert difference["actual"] is None


def test_the_program_shows_a_difference_and_exits_with_1(tmp_path: Path) -> None:
    recording = spoil(tmp_path / "spoiled.jsonl", "resources", a_score)
    run = subprocess.run([PROGRAM, "verify", recording], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "spoiled / score NodeResourcesFit: resources-00001, default/pod-000, attempt 1" in run.stdout
    assert run.stderr == ""


def test_the_program_tells_a_missing_file_in_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "missing.jsonl.gz"
    run = subprocess.run([PROGRAM, "verify", missing], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr == f"Error: {missing}: no such file or directory\n"
