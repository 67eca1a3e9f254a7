"""Two releases decide the same scenarios differently only where docs/versions.md says so.

Run this file as a script to write its table anew: `python tests/parity/test_releases_differ.py`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from parity.releases_compared import ALONE, Fact, changes, differing, facts, scenarios
from releases import V1_36, V1_37
from stowplan.api.feature_gates import FeatureGates

PAGE = Path(__file__).parents[2] / "docs" / "versions.md"
BEGIN, END = "<!-- generated: decisions -->\n", "<!-- end of decisions -->\n"


def compared() -> tuple[set[Fact], dict[str, set[Fact]]]:
    """The facts in which the releases differ, and those that each change alone changes."""
    chosen = list(scenarios())
    old = facts(chosen, FeatureGates(ALONE, V1_36))
    new = facts(chosen, FeatureGates(ALONE, V1_37))
    alone = {name: differing(old, facts(chosen, gates)) for name, gates in changes(V1_36, V1_37).items()}
    return differing(old, new), {name: found for name, found in alone.items() if found}


def with_table(page: str, alone: dict[str, set[Fact]]) -> str:
    lines = ["", "| change | facts that differ |", "| --- | --- |"]
    for name, found in alone.items():
        lines.append(f"| {name} | {', '.join(sorted({subject for _, subject in found}))} |")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{chr(10).join(lines)}\n\n{END}{after}"


def test_releases_differ_exactly_where_it_is_documented() -> None:
    both, alone = compared()
    assert both
    assert both <= set().union(*alone.values())
    page = PAGE.read_text()
    assert page == with_table(page, alone), "run: python tests/parity/test_releases_differ.py"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(), compared()[1]))
