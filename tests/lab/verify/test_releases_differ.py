"""Two releases make different things of the same inputs only where docs/versions.md says so.

A sample of every recording is replayed as both releases; `stowplan verify --differences tests/golden
tests/golden-1.37` replays all of them. Run this file as a script to write the table of the page anew:
`python tests/lab/verify/test_releases_differ.py`.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from releases import V1_36, V1_37
from stowplan.lab.verify.differences import Comparer, ReleaseComparison, render_differences
from stowplan.lab.verify.documented import DIFFERENCES, FOLLOWS, is_documented
from stowplan.lab.verify.recording import Line, read_lines

TESTS = Path(__file__).parents[2]
PAGE = TESTS.parent / "docs" / "versions.md"
BEGIN, END = "<!-- generated: decisions -->\n", "<!-- end of decisions -->\n"

SAMPLE = {
    "golden/cel": (13,),
    "golden/config": (2,),
    "golden/dra": (48,),
    "golden/dra-advanced": (0,),
    "golden/extenders": (0,),
    "golden/hints": (736, 2153, 2333, 2714, 2759, 2875, 4776, 4905, 5647, 5693),
    "golden/interpod": (32,),
    "golden/mixed": (48,),
    "golden/nodeaffinity": (32,),
    "golden/ports-images": (64,),
    "golden/preemption": (0,),
    "golden/resources": (0,),
    "golden/spread": (0,),
    "golden/taints": (0,),
    "golden/volumes": (0,),
    "golden-1.37/cel": (36, 42),
    "golden-1.37/config": (112, 217),
    "golden-1.37/dra": (32,),
    "golden-1.37/dra-advanced": (0, 32),
    "golden-1.37/extenders": (35,),
    "golden-1.37/hints": (1126, 1148, 1366, 1454),
    "golden-1.37/interpod": (5,),
    "golden-1.37/mixed": (15,),
    "golden-1.37/new137-csi-prevent": (35,),
    "golden-1.37/new137-dra-alloc": (0, 16, 32),
    "golden-1.37/new137-image-volumes": (35,),
    "golden-1.37/new137-ns-selector": (5,),
    "golden-1.37/new137-pdb-overlap": (20,),
    "golden-1.37/new137-resize": (10,),
    "golden-1.37/new137-storage-scoring": (35,),
    "golden-1.37/new137-taintrules": (0,),
    "golden-1.37/nodeaffinity": (35,),
    "golden-1.37/ports-images": (10,),
    "golden-1.37/preemption": (0,),
    "golden-1.37/resources": (35,),
    "golden-1.37/spread": (20,),
    "golden-1.37/taints": (15,),
    "golden-1.37/volumes": (10,),
}
"""Lines of each recording by their place, chosen so that every documented difference is seen."""

FEW = 8
"""Attempts of scenarios with devices that are compared: they take long."""

WITHOUT_RELEASES = {"golden/primitives", "golden/podgroups", "golden-1.37/podgroups"}
"""Recordings that are not replayed as both: functions of a library, and pod groups, which are off."""


def lines() -> Iterator[Line]:
    for name, places in SAMPLE.items():
        for place, line in enumerate(read_lines(TESTS / f"{name}.jsonl.gz")):
            if place in places:
                yield line
            if place >= max(places):
                break


def with_table(page: str) -> str:
    rows = ["", "| change | facts that differ |", "| --- | --- |"]
    rows += [f"| {change} | {', '.join(subjects)} |" for change, subjects in DIFFERENCES.items()]
    rows += ["", "| of | follow |", "| --- | --- |"]
    rows += [f"| `{cause}` | {', '.join(f'`{one}`' for one in found)} |" for cause, found in FOLLOWS.items()]
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{chr(10).join(rows)}\n\n{END}{after}"


def compared() -> ReleaseComparison:
    comparer = Comparer(V1_36, V1_37)
    for line in lines():
        comparer.compare(line, attempts=FEW if "dra" in line.family else None)
    return comparer.found


def test_releases_differ_exactly_where_it_is_documented() -> None:
    found = compared()
    assert not found.failed, render_differences(found, V1_36, V1_37)
    seen = {(change, subject) for change, subjects in found.by_change.items() for subject in subjects}
    documented = {(change, subject) for change, subjects in DIFFERENCES.items() for subject in subjects}
    assert documented - seen == set()


def test_the_page_has_the_table_of_differences() -> None:
    page = PAGE.read_text()
    assert page == with_table(page), "run: python tests/lab/verify/test_releases_differ.py"


def test_every_recording_is_in_the_sample() -> None:
    recordings = {
        f"{path.parent.name}/{path.name.removesuffix('.jsonl.gz')}"
        for folder in ("golden", "golden-1.37")
        for path in (TESTS / folder).glob("*.jsonl.gz")
    }
    assert recordings == SAMPLE.keys() | WITHOUT_RELEASES


def test_what_follows_is_documented_with_its_cause_and_nothing_else() -> None:
    assert is_documented("gate VolumeLimitScaling", "score NodeResourcesFit")
    assert is_documented("rules.image_locality_counts_image_volumes", "best")
    assert not is_documented("rules.image_locality_counts_image_volumes", "feasible")
    assert not is_documented("devices.cel_costs", "result")
    assert not is_documented("nothing known", "best")


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
