"""Replays recordings: every line says by its fields what kind of fact it holds and how to replay it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from stowplan.api.releases import Release
from stowplan.lab.verify import config, decisions, expressions, hints, primitives
from stowplan.lab.verify.recording import ABSENT, Line, read_lines
from stowplan.lab.verify.report import VerifyReport

Replayer = Callable[[Line, VerifyReport], None]


def replay(
    path: Path,
    report: VerifyReport,
    after_line: Callable[[], None] = lambda: None,
    replayed_as: Release | None = None,
) -> None:
    """Replay a recording into a report, as the release given or as the one of each line.

    Raises RecordingError.
    """
    for line in read_lines(path):
        replayer_of(line)(line if replayed_as is None else replace(line, replayed_as=replayed_as), report)
        after_line()


def replayer_of(line: Line) -> Replayer:
    """Replayer of a line. Raises RecordingError."""
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


def _replay_pod_groups(line: Line, report: VerifyReport) -> None:
    """Runs of a whole scheduler, which takes a server, too: that is loaded when there is one to replay.

    Pod groups of 1.36, an alpha form that the next release replaced, are not built.
    """
    if not line.release.behaviour.queueing.group_entities:
        with line.case_errors():
            for part, facts in line.case()["expected"].items():
                report.not_built(line.family, part, len(facts))
        return
    from stowplan.lab.verify import pod_groups

    pod_groups.replay_line(line, report)


_BY_KIND: dict[str, Replayer] = {
    "config": config.replay_line,
    **dict.fromkeys(primitives.KINDS, primitives.replay_line),
    **dict.fromkeys(hints.KINDS, hints.replay_line),
}
_BY_FIELD: dict[str, Replayer] = {
    "batches": _replay_pod_groups,
    "expression": expressions.replay_line,
    "expected": decisions.replay_line,
}
"""For lines without a `kind`: the first of these fields that is there decides."""
