"""Decisions, hints, configurations and expressions recorded from kube-scheduler 1.37 come out the same here.

Of the larger recordings a part of the lines is replayed, all of them with STOWPLAN_LONG_TESTS;
`stowplan verify tests/golden-1.37` replays everything.
"""

from itertools import islice
from pathlib import Path

import pytest

from effort import LONG
from stowplan.lab.verify.dispatch import replayer_of
from stowplan.lab.verify.recording import read_lines
from stowplan.lab.verify.report import VerifyReport, render_text

GOLDEN = Path(__file__).parents[2] / "golden-1.37"

FACTS_1_37 = {
    "resources": 10_263,
    "nodeaffinity": 8_667,
    "taints": 10_305,
    "ports-images": 11_254,
    "interpod": 9_733,
    "spread": 11_121,
    "preemption": 7_981,
    "volumes": 10_202,
    "mixed": 24_024,
    "extenders": 8_158,
    "dra": 8_271,
    "dra-advanced": 4_444,
    "new137-csi-prevent": 8_113,
    "new137-dra-alloc": 5_011,
    "new137-image-volumes": 7_914,
    "new137-ns-selector": 7_573,
    "new137-pdb-overlap": 8_024,
    "new137-resize": 7_339,
    "new137-storage-scoring": 7_253,
    "new137-taintrules": 6_001,
    "cel": 209,
    "config": 1_020,
    "hints": 2_220,
    "podgroups": 10_966,
}
"""Number of facts that are compared when every line is replayed."""

WHOLE = {"cel", "config", "hints", "podgroups"}
STEP = 4
"""Every fourth line of the other recordings is replayed; a mistake about a group may show in one line."""


@pytest.mark.parametrize("family", sorted(FACTS_1_37))
def test_every_fact_of_1_37_comes_out_the_same(family: str) -> None:
    step = 1 if LONG or family in WHOLE else STEP
    report = VerifyReport()
    for line in islice(read_lines(GOLDEN / f"{family}.jsonl.gz"), 0, None, step):
        assert line.release.name == "1.37"
        replayer_of(line)(line, report)
    assert not report.failed, render_text(report)
    assert report.total.compared >= (FACTS_1_37[family] if step == 1 else FACTS_1_37[family] / step / 2)


def test_every_recording_of_1_37_is_replayed_by_one_of_these_tests() -> None:
    recordings = {path.name.removesuffix(".jsonl.gz") for path in GOLDEN.glob("*.jsonl.gz")}
    assert recordings == FACTS_1_37.keys()
