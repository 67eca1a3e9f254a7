"""Every recorded configuration document gets the recorded verdict, text and result."""

from pathlib import Path

from stowplan.lab.verify.config import VERDICT, outcome, replay
from stowplan.lab.verify.report import VerifyReport, render_text

RECORDING = Path(__file__).parent.parent / "golden" / "config.jsonl.gz"


def test_all_recorded_documents_come_out_as_recorded() -> None:
    report = VerifyReport()
    replay(RECORDING, report)
    assert not report.failed, render_text(report)
    assert report.counts["config", VERDICT].equal == 384
    assert report.counts["config", "config"].equal == 202
    assert report.counts["config", "plugins"].equal == 202
    assert report.counts["config", "extenders"].equal == 202


def test_a_refused_document_is_described_by_stage_and_text() -> None:
    assert outcome("kind: X") == {
        "ok": False,
        "stage": "decode",
        "error": "Object 'apiVersion' is missing in 'kind: X'",
    }
