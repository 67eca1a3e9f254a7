"""All recorded primitives come out as recorded."""

import gzip
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stowplan.lab.verify import primitives
from stowplan.lab.verify.report import VerifyReport, render_text

RECORDING = Path(__file__).parents[1] / "golden" / "primitives.jsonl.gz"

CASES = {
    "quantity": 2600,
    "quantity-arith": 450,
    "label-selector": 600,
    "label-selector-string": 504,
    "node-selector": 700,
    "node-affinity": 250,
    "preferred-terms": 200,
    "tolerations": 500,
    "pod-requests": 900,
    "host-ports": 400,
    "host-ports-pods": 200,
    "num-feasible": 584,
    "backoff": 280,
    "node-tree": 250,
    "zone-key": 60,
}


@pytest.fixture(scope="module")
def cases() -> dict[str, list[dict[str, Any]]]:
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with gzip.open(RECORDING) as lines:
        for line in lines:
            case = msgspec.json.decode(line)
            by_kind[case["kind"]].append(case)
    return by_kind


@pytest.mark.parametrize("kind", CASES)
def test_every_recorded_case_of_a_kind_comes_out_the_same(
    cases: dict[str, list[dict[str, Any]]], kind: str
) -> None:
    differences = [primitives.check(case) for case in cases[kind]]
    assert [difference for difference in differences if difference][:3] == []
    assert len(differences) == CASES[kind]


def test_a_replay_of_the_whole_recording_reports_no_difference() -> None:
    report = VerifyReport()
    primitives.replay(RECORDING, report)
    assert not report.failed, render_text(report)
    assert {subject: counted.compared for (_, subject), counted in report.counts.items()} == CASES


def test_a_wrong_result_is_reported_with_its_line_its_input_and_only_what_differs(tmp_path: Path) -> None:
    right = {"kind": "zone-key", "node": {"metadata": {"name": "n"}}, "result": {"zone": ""}}
    wrong = {"kind": "quantity-arith", "in": "1", "in2": "2", "result": {"cmp": -1, "add": "4", "sub": "-1"}}
    recording = tmp_path / "recording.jsonl.gz"
    with gzip.open(recording, "wb") as file:
        file.writelines(msgspec.json.encode(case) + b"\n" for case in (right, wrong))
    report = VerifyReport()
    primitives.replay(recording, report)
    [difference] = report.differences["primitives", "quantity-arith"]
    assert difference.where == 'line 2, {"in":"1","in2":"2"}'
    assert (difference.expected, difference.actual) == ({"add": "4"}, {"add": "3"})
    assert report.total.equal == 1
