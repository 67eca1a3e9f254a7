"""docs/parity.md is complete, and what it names exists: files, tests, counts."""

import ast
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

from docs.pages import ROOT
from lab.verify.test_recorded_1_37 import FACTS_1_37
from lab.verify.test_recorded_decisions import FACTS, FACTS_IN_ALL

PAGE = ROOT / "docs" / "parity.md"
SECTIONS = "ABCDEFGHIJKLMN"
BUILT = {*range(47, 63), *range(75, 92)}
"""Filters and scores that the engine has to have."""
NOTHING = "–"
SAME = "same"
ADDED = 152
"""Rows after this one are features that 1.37 added."""


@dataclass(frozen=True, slots=True)
class Row:
    """One feature and its state in each release. `where` are paths, `tests` are `path::name`."""

    number: int
    older: str
    newer: str
    where: tuple[str, ...]
    tests: tuple[str, ...]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def named(cell: str) -> tuple[str, ...]:
    """Names in a cell, in backticks, one per line; none for a dash."""
    if cell == NOTHING:
        return ()
    parts = cell.split("<br>")
    assert all(re.fullmatch(r"`[^`]+`", part) for part in parts), cell
    return tuple(part.strip("`") for part in parts)


def table_after(heading: str) -> list[list[str]]:
    """The lines of the first table after a line of headings."""
    lines = PAGE.read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("|") and cells(line)[0] == heading)
    end = next((at for at in range(start, len(lines)) if not lines[at].startswith("|")), len(lines))
    return [cells(line) for line in lines[start + 2 : end]]


def features() -> list[Row]:
    return [
        Row(int(number), older, older if newer == SAME else newer, named(where), named(tests))
        for number, _, older, newer, where, tests in table_after("#")
        if number
    ]


@lru_cache
def functions_of(path: Path) -> frozenset[str]:
    return frozenset(
        item.name for item in ast.walk(ast.parse(path.read_text())) if isinstance(item, ast.FunctionDef)
    )


def test_every_feature_has_its_row_in_order_and_under_its_section() -> None:
    numbers = [row.number for row in features()]
    assert len(numbers) >= ADDED
    assert numbers == list(range(1, len(numbers) + 1))
    assert all((row.older == NOTHING) == (row.number > ADDED) for row in features())
    headings = [feature for number, feature, *_ in table_after("#") if not number]
    assert [heading.removeprefix("**")[:2] for heading in headings] == [f"{letter}." for letter in SECTIONS]


def test_every_row_says_one_of_three_states_and_rests_on_code_and_tests_unless_it_is_missing() -> None:
    for row in features():
        states = [state for state in (row.older, row.newer) if state != NOTHING]
        assert states, row
        assert all(re.fullmatch(r"works(; .+)?|missing|partly: .+", state) for state in states), row
        built = any(state != "missing" for state in states)
        assert (bool(row.where), bool(row.tests)) == (built, built), row


def test_all_filters_and_scores_of_the_engine_work() -> None:
    assert {row.number for row in features() if row.older == row.newer == "works"} >= BUILT


@pytest.mark.parametrize("path", sorted({path for row in features() for path in row.where}))
def test_a_place_that_is_named_exists(path: str) -> None:
    assert path.startswith(("src/stowplan/", "deploy/"))
    assert (ROOT / path).exists()


@pytest.mark.parametrize("test", sorted({test for row in features() for test in row.tests}))
def test_a_test_that_is_named_exists(test: str) -> None:
    path, name = test.split("::")
    assert name.startswith("test_")
    assert name in functions_of(ROOT / path)


def test_the_rows_of_each_state_are_counted_rightly() -> None:
    for column, states in (
        (2, [row.older for row in features()]),
        (3, [row.newer for row in features()]),
    ):
        counted = Counter({cells[0]: int(cells[column]) for cells in table_after("state")})
        assert counted == Counter(re.split("[:;]", state)[0] for state in states if state != NOTHING)


def test_the_counts_of_the_recordings_are_those_the_tests_insist_on() -> None:
    *families, total = [
        (name.strip("*"), *(int(figure.replace(",", "")) for figure in figures))
        for name, *figures in table_after("recording")
    ]
    assert {name: compared for name, _, compared, _, _ in families if compared} == FACTS
    assert {name: left for name, _, compared, _, left in families if not compared} == FACTS_IN_ALL
    assert all(compared == equal for _, _, compared, equal, _ in families)
    assert total == ("all", *(sum(column) for column in zip(*(row[1:] for row in families), strict=True)))


def test_the_counts_of_the_recordings_of_1_37_are_those_the_tests_insist_on() -> None:
    *families, total = [
        (name.strip("*"), *(int(figure.replace(",", "")) for figure in figures))
        for name, *figures in table_after("of 1.37")
    ]
    assert {name: compared for name, _, compared, _, _ in families} == FACTS_1_37
    assert all(compared == equal and not left for _, _, compared, equal, left in families)
    assert total == ("all", *(sum(column) for column in zip(*(row[1:] for row in families), strict=True)))


def test_the_readme_has_the_number_of_facts_that_are_compared() -> None:
    totals = [table_after(heading)[-1] for heading in ("recording", "of 1.37")]
    compared = sum(int(total[2].replace(",", "")) for total in totals)
    assert f"({compared:,} recorded facts are compared)" in (ROOT / "README.md").read_text()
