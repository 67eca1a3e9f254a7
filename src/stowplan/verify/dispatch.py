"""Replays recordings: every line says by its fields what kind of fact it holds and how to replay it."""

from collections.abc import Callable
from pathlib import Path

from stowplan.verify import config, decisions, expressions, hints, primitives
from stowplan.verify.recording import ABSENT, Line, read_lines
from stowplan.verify.report import Report

Replayer = Callable[[Line, Report], None]


def replay(path: Path, report: Report, after_line: Callable[[], None] = lambda: None) -> None:
    """Replay a recording into a report. Raises RecordingError."""
    for line in read_lines(path):
        replayer_of(line)(line, report)
        after_line()


def replayer_of(line: Line) -> Replayer:
    """What replays a line. Raises RecordingError."""
    head = line.head
    if head.kind is not None:
        if head.kind not in _BY_KIND:
            raise line.error(
                f"kind {head.kind!r} is not known, expected one of {', '.join(sorted(_BY_KIND))}"
            )
        return _BY_KIND[head.kind]
    for field, replayer in _BY_FIELD.items():
        if getattr(head, field) is not ABSENT:
            return replayer
    raise line.error(f"expected a field `kind` or one of {', '.join(_BY_FIELD)}")


def count_pod_groups(line: Line, report: Report) -> None:
    """Whole runs of a scheduler with pod groups: one fact per cycle, pod and group."""
    case = line.case()
    with line.case_errors():
        for part, facts in case["expected"].items():
            report.not_built(line.family, part, len(facts))


_BY_KIND: dict[str, Replayer] = {
    "config": config.replay_line,
    **dict.fromkeys(primitives.KINDS, primitives.replay_line),
    **dict.fromkeys(hints.KINDS, hints.replay_line),
}
_BY_FIELD: dict[str, Replayer] = {
    "batches": count_pod_groups,
    "expression": expressions.replay_line,
    "expected": decisions.replay_line,
}
"""For lines without a `kind`: the first of these fields that is there decides."""
