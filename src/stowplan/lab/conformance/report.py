"""Results of Kubernetes' end-to-end tests as tables: by group, and by the name of each test."""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Final

from stowplan.explain.layout import table
from stowplan.gocompat.yamltext import load_yaml_documents
from stowplan.lab.conformance.suite import Outcome, TestResult

_GROUP: Final = re.compile(r"\[sig-[a-z-]+\]")
_WIDTH: Final = 100


class Excuses:
    """Tests that cannot pass in a cluster without containers, by a part of their name, with the reason."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self._reasons = reasons

    @classmethod
    def ours(cls) -> "Excuses":
        text = files("stowplan.lab.conformance").joinpath("excused.yaml").read_text(encoding="utf-8")
        found = load_yaml_documents(text)[0] or []
        return cls({test: group["reason"] for group in found for test in group["tests"]})

    def reason_for(self, name: str) -> str:
        """Why a test cannot pass; "" for one that should."""
        return next((reason for part, reason in self._reasons.items() if part in name), "")


def group_of(name: str) -> str:
    found = _GROUP.search(name)
    return found.group() if found else "other"


def is_failure(result: TestResult, excuses: Excuses) -> bool:
    """True if a test should have passed and has not."""
    ended_badly = result.outcome in (Outcome.FAILED, Outcome.UNFINISHED)
    return ended_badly and not excuses.reason_for(result.name)


def report_of(results: Sequence[TestResult], excuses: Excuses) -> list[str]:
    """Counts by group, then the tests that did not pass, each with its message."""
    rows = [
        (group, *map(str, _counts([one for one in results if group_of(one.name) == group], excuses)))
        for group in sorted({group_of(one.name) for one in results})
    ]
    headings = ("tests", "passed", "failed", "unfinished", "cannot pass here", "skipped")
    lines = table(headings, [*rows, ("all", *map(str, _counts(results, excuses)))], range(1, 6))
    for result in results:
        if is_failure(result, excuses):
            lines += ["", f"{result.outcome}: {result.name}", f"  {result.message}"]
    return lines


def _counts(results: Sequence[TestResult], excuses: Excuses) -> tuple[int, ...]:
    excused = [
        one
        for one in results
        if one.outcome in (Outcome.FAILED, Outcome.UNFINISHED) and not is_failure(one, excuses)
    ]
    counted = (Outcome.PASSED, Outcome.FAILED, Outcome.UNFINISHED)
    passed, failed, unfinished = (
        sum(1 for one in results if one.outcome == outcome and one not in excused) for outcome in counted
    )
    skipped = sum(1 for one in results if one.outcome == Outcome.SKIPPED)
    return passed, failed, unfinished, len(excused), skipped


def table_of(results: Iterable[TestResult], excuses: Excuses) -> list[str]:
    """A Markdown table of all tests by name."""
    lines = ["| test | result |", "| --- | --- |"]
    for result in sorted(results, key=lambda one: (group_of(one.name), one.name)):
        reason = excuses.reason_for(result.name)
        shown = str(result.outcome)
        if result.outcome in (Outcome.FAILED, Outcome.UNFINISHED) and reason:
            shown = f"cannot pass here: {reason}"
        elif result.outcome == Outcome.SKIPPED:
            shown = f"skipped: {_cell(result.message)}"
        elif result.outcome != Outcome.PASSED:
            shown = f"{result.outcome}: {_cell(result.message)}"
        lines.append(f"| {_cell(result.name)} | {shown} |")
    return lines


def _cell(text: str) -> str:
    plain = text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
    return plain if len(plain) <= 2 * _WIDTH else f"{plain[: 2 * _WIDTH]} …"
