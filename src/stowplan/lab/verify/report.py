"""Result of a comparison with recorded facts: counts, and the first differences in full.

A *family* is the kind of recording (`primitives`, `spread`, `config`), a *subject* one kind of fact in it
(`quantity`, `scores`, `fitError`). Replayers call `VerifyReport.add` once per fact compared, or
`VerifyReport.not_built` for facts about missing features; only differences make a report fail.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

_HEADINGS = ("family", "subject", "compared", "equal", "different", "not built")
_LONGEST_PLACE = 500
_LONGEST_VALUE = 2000


@dataclass(slots=True)
class FactCounts:
    """Number of facts of one subject that were compared, were equal, or were left out as not built."""

    compared: int = 0
    equal: int = 0
    not_built: int = 0

    @property
    def different(self) -> int:
        return self.compared - self.equal


@dataclass(frozen=True, slots=True)
class FactDifference:
    """One fact that came out otherwise. `where` says which, precisely enough to find it again."""

    where: str
    expected: Any
    actual: Any


@dataclass(slots=True)
class VerifyReport:
    """Counts by family and subject, and the first differences of each, at most `keep` per subject."""

    keep: int = 20
    counts: dict[tuple[str, str], FactCounts] = field(default_factory=dict)
    differences: dict[tuple[str, str], list[FactDifference]] = field(default_factory=dict)

    def add(self, family: str, subject: str, equal: bool, difference: FactDifference | None = None) -> None:
        """Count one compared fact, and keep the difference if there was one."""
        counted = self._counts_of(family, subject)
        counted.compared += 1
        counted.equal += equal
        if not equal and difference is not None:
            kept = self.differences.setdefault((family, subject), [])
            if len(kept) < self.keep:
                kept.append(difference)

    def not_built(self, family: str, subject: str, n: int = 1) -> None:
        """Count facts about something that stowplan does not do yet."""
        self._counts_of(family, subject).not_built += n

    @property
    def total(self) -> FactCounts:
        """All counts added up."""
        counts = self.counts.values()
        return FactCounts(
            sum(counted.compared for counted in counts),
            sum(counted.equal for counted in counts),
            sum(counted.not_built for counted in counts),
        )

    @property
    def failed(self) -> bool:
        return self.total.different > 0

    def _counts_of(self, family: str, subject: str) -> FactCounts:
        return self.counts.setdefault((family, subject), FactCounts())


def render_text(report: VerifyReport, limit: int = 10) -> str:
    """The report as text: a table of counts, then up to `limit` differences."""
    lines = _table(report)
    shown = list(islice(_in_turn(report), limit))
    for family, subject, difference in shown:
        lines += ["", *_described(family, subject, difference)]
    hidden = report.total.different - len(shown)
    if hidden and limit:
        lines += ["", f"… and {hidden:,} more"]
    return "\n".join(lines) + "\n"


def _in_turn(report: VerifyReport) -> Iterator[tuple[str, str, FactDifference]]:
    """The first difference of each subject, then the second of each, so that all are seen."""
    for round_number in range(report.keep):
        for (family, subject), kept in sorted(report.differences.items()):
            if round_number < len(kept):
                yield family, subject, kept[round_number]


def _table(report: VerifyReport) -> list[str]:
    rows = [_row(family, subject, counted) for (family, subject), counted in sorted(report.counts.items())]
    if len(rows) != 1:
        rows.append(_row("total", "", report.total))
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    ruler = ["-" * width for width in widths]
    return [_aligned(row, widths) for row in (_HEADINGS, ruler, *rows)]


def _row(family: str, subject: str, counted: FactCounts) -> tuple[str, ...]:
    figures = (counted.compared, counted.equal, counted.different, counted.not_built)
    return (family, subject, *(f"{figure:,}" if figure else "-" for figure in figures))


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """Words to the left, figures to the right."""
    words = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
    figures = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
    return "  ".join((*words, *figures)).rstrip()


def _described(family: str, subject: str, difference: FactDifference) -> list[str]:
    return [
        f"{family} / {subject}: {_shortened(difference.where, _LONGEST_PLACE)}",
        f"  expected  {_shown(difference.expected)}",
        f"  actual    {_shown(difference.actual)}",
    ]


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError):
        text = repr(value)
    return _shortened(text, _LONGEST_VALUE)


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"
