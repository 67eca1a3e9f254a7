"""Hints, requeueing and event handlers with pod groups as recorded from kube-scheduler 1.37."""

from itertools import islice
from pathlib import Path

from stowplan.lab.verify.hints import replay_line
from stowplan.lab.verify.recording import read_lines
from stowplan.lab.verify.report import VerifyReport, render_text

RECORDING = Path(__file__).parents[2] / "golden-1.37" / "hints.jsonl.gz"


def test_all_that_was_recorded_with_groups_comes_out_the_same() -> None:
    report = VerifyReport()
    for line in islice(read_lines(RECORDING), None):
        if "GenericWorkload" in line.case().get("gates", ()):
            replay_line(line, report)
    assert not report.failed, render_text(report)
    assert report.total.compared >= 300
