"""Reports as text, JSON and page: everything is there, nothing breaks out."""

import json
import re
from base64 import b64encode
from hashlib import sha256

from explain.samples import HOSTILE, everything
from stowplan.explain.layout import Palette, visible
from stowplan.explain.report import (
    Bar,
    Bars,
    Funnel,
    Report,
    Series,
    Table,
    Text,
    TileGroup,
    Tiles,
    TimeSeries,
    page,
    terminal,
)


def text_of(*parts: object) -> list[str]:
    report = Report("Title", "", parts, {})  # type: ignore[arg-type]
    return terminal.render(report)[2:]


def test_text_has_everything_and_fits() -> None:
    lines = terminal.render(everything(), palette=Palette(True))
    whole = "\n".join(lines)
    for expected in (
        "Moves",
        "1,234,567",
        "… and 7 more",
        "Pods over time",
        "zone-b",
        "before",
        "hidden at first",
    ):
        assert expected in whole
    assert max(map(visible, lines)) <= 100
    assert "\x1b[31mwas" not in whole
    assert "onerror=alert(1)>\\x1b[31m" in whole, "control characters of a name do not reach the terminal"


def test_a_table_cuts_the_widest_column_in_the_middle_and_aligns_numbers() -> None:
    heading, first, second = text_of(Table(["pod", "points"], [["a" * 90 + "-end", 7], ["b", 1234]], (1,)))
    assert heading == "  pod" + " " * 87 + "  points"
    assert re.fullmatch("  a+…a+-end       7", first)
    assert second.endswith("   1,234")


def test_a_funnel_adds_up() -> None:
    assert text_of(
        Funnel(192, [Bar("NodeAffinity", 180, "no match"), Bar("TaintToleration", 12, "taint")])
    ) == [
        "   192  nodes",
        "  -180  NodeAffinity     no match",
        "   -12  TaintToleration  taint",
        "  =  0",
    ]


def test_bars_and_lines_are_drawn_to_scale() -> None:
    assert text_of(Bars([Bar("a", 4), Bar("b", 1), Bar("c", 0)], "s")) == [
        "  a  4 s  " + "█" * 40,
        "  b  1 s  " + "█" * 10,
        "  c  0 s",
    ]
    [line, dates] = text_of(TimeSeries([0, 60, 120, 3600], [Series("p", [0, 7, None, 14])], dates=False))
    assert line == "  p  ▁▅ █  0 to 14, last 14"
    assert dates == "  0s to 1h00m"


def test_tiles_become_a_histogram_by_group() -> None:
    lines = text_of(Tiles([TileGroup("zone-a", ["n1", "n2", "n3"], [0.0, 0.95, 1.0])], "cpu"))
    assert lines[1] == "  zone-a      3  65%  ▅▁▁▁▁▁▁▁▁█"


def test_empty_parts_are_no_error() -> None:
    assert text_of(TimeSeries([], []), Bars([]), Table(["a"], []), Tiles([]), Text("")) != []


def test_json_is_the_data() -> None:
    assert json.loads(everything().json()) == {"moved": 12, "pending": [HOSTILE]}


def test_the_page_is_one_file_that_lets_nothing_but_its_own_script_run() -> None:
    html = page.render(everything())
    assert "<img" not in html
    assert "&lt;/script&gt;" in html.split("</title>")[0], "the title is text"
    assert "http:" not in html.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "https:" not in html
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    [script] = re.findall(r'<script type="module">(.*?)</script>', html, re.DOTALL)
    [style] = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    for text, directive in ((script, "script-src"), (style, "style-src")):
        assert f"{directive} 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    [data] = re.findall(r'id="report">(.*?)</script>', html, re.DOTALL)
    assert json.loads(data)["data"] == {"moved": 12, "pending": [HOSTILE]}


def test_the_same_report_is_the_same_file() -> None:
    assert page.render(everything()) == page.render(everything())
