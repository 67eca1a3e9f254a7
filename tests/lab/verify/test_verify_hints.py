"""A recorded fact of the queue that is changed is a difference under its subject."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stowplan.lab.verify.dispatch import replay
from stowplan.lab.verify.hints import replay as replay_hints
from stowplan.lab.verify.report import VerifyReport

GOLDEN = Path(__file__).parents[2] / "golden" / "hints.jsonl.gz"
Case = dict[str, Any]


def first(path: Path, change: Callable[[Case], bool]) -> Path:
    """Write the first recorded case that a change can be made to, so changed."""
    with gzip.open(GOLDEN) as lines:
        for line in lines:
            case = json.loads(line)
            if change(case):
                path.write_text(json.dumps(case) + "\n")
                return path
    raise AssertionError("nothing to change")


def a_hint(case: Case) -> bool:
    hints = case.get("hints", {})
    if hints.get("NodeAffinity") != "QueueSkip":
        return False
    case["hints"] = {**hints, "NodeAffinity": "Queue"}
    return True


def an_error(case: Case) -> bool:
    answer = case.get("hints", {}).get("PodTopologySpread")
    if not isinstance(answer, dict):
        return False
    answer["error"] += "!"
    return True


def a_plugin_that_was_asked(case: Case) -> bool:
    return case.get("hints", {}).pop("NodePorts", None) is not None


def an_event(case: Case) -> bool:
    return case["kind"] == "node-events" and len(case["events"]) > 1 and bool(case["events"].pop())


def an_action(case: Case) -> bool:
    if case["kind"] != "pod-events":
        return False
    case["events"][0]["action"] = "Delete"
    return True


def a_call(case: Case) -> bool:
    return case["kind"] == "handler" and len(case["calls"]) > 1 and bool(case["calls"].pop())


def a_priority(case: Case) -> bool:
    for call in case.get("calls", ()):
        if "onlyPodsWithPriorityAtMost" in call:
            call["onlyPodsWithPriorityAtMost"] += 1
            return True
    return False


def a_decision(case: Case) -> bool:
    if case.get("result") != "Immediately" or "NodeAffinity" not in case["pendingPlugins"]:
        return False
    case["result"] = "AfterBackoff"
    return True


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        (a_hint, "hint NodeAffinity"),
        (an_error, "hint PodTopologySpread"),
        (a_plugin_that_was_asked, "hint NodePorts"),
        (an_event, "node-events"),
        (an_action, "pod-events"),
        (a_call, "handler"),
        (a_priority, "handler"),
        (a_decision, "requeue"),
    ],
)
def test_one_changed_fact_is_one_difference(
    tmp_path: Path, change: Callable[[Case], bool], subject: str
) -> None:
    report = VerifyReport()
    replay(first(tmp_path / "changed.jsonl", change), report)
    assert [key for key, counted in report.counts.items() if counted.different] == [("changed", subject)]
    assert report.total.different == 1


def about_device_claims(case: Case) -> bool:
    return bool(case["kind"] == "hint" and case["event"]["resource"] == "resource.k8s.io/ResourceClaim")


def test_plugins_that_are_not_built_are_counted_apart(tmp_path: Path) -> None:
    case = json.loads(first(tmp_path / "r.jsonl", about_device_claims).read_text(encoding="utf-8"))
    recording = tmp_path / "missing.jsonl"
    recording.write_text(json.dumps({**case, "hints": {"Unheard": "Queue"}}), encoding="utf-8")
    report = VerifyReport()
    replay_hints(recording, report)
    assert report.counts["missing", "hint Unheard"].not_built == 1
    assert report.counts["missing", "hint Unheard"].compared == 0
