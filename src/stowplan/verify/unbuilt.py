"""Recordings of what stowplan does not do yet: counted, so that nobody takes them for equal."""

from stowplan.verify.recording import Line
from stowplan.verify.report import Report


def count_pod_groups(line: Line, report: Report) -> None:
    """Whole runs of a scheduler with pod groups: one fact per cycle, pod and group."""
    case = line.case()
    with line.understood():
        for part, facts in case["expected"].items():
            report.not_built(line.family, part, len(facts))


def count_expression(line: Line, report: Report) -> None:
    """Expressions that select devices."""
    report.not_built(line.family, "expression")
