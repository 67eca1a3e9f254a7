"""docs/versions.md lists every behaviour in which releases differ, as the code has them.

Run this file as a script to write the list anew: `python tests/docs/test_versions_page.py`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from stowplan.api.releases import RELEASES, choices

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "versions.md"
BEGIN, END = "<!-- generated: behaviours -->\n", "<!-- end -->\n"


def listed() -> Iterator[str]:
    """The lines of the list: a table by area."""
    releases = [*RELEASES.values()]
    area = ""
    for row in zip(*(choices(release.behaviour) for release in releases), strict=True):
        first = row[0]
        if first.area != area:
            area = first.area
            names = " | ".join(release.name for release in releases)
            yield from ("", f"### {area}", "", f"| choice | {names} | what differs |")
            yield f"| --- | {' | '.join('---' for _ in releases)} | --- |"
        values = " | ".join(choice.shown for choice in row)
        yield f"| `{first.name}` | {values} | {first.sentence} |"
    yield ""


def with_list(page: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{chr(10).join(listed())}\n{END}{after}"


def test_the_page_lists_every_behaviour_as_it_is() -> None:
    page = PAGE.read_text()
    assert page == with_list(page), "run: python tests/docs/test_versions_page.py"


def test_every_behaviour_is_followed_by_somebody() -> None:
    source = "".join(
        path.read_text() for path in (ROOT / "src").rglob("*.py") if "releases" not in path.parts
    )
    unread = {
        choice.name
        for choice in choices(RELEASES["1.37"].behaviour)
        if not re.search(rf"\.{choice.name}\b", source)
    }
    assert unread == set()


if __name__ == "__main__":
    PAGE.write_text(with_list(PAGE.read_text()))
