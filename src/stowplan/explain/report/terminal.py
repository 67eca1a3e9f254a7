"""A report as text: no line longer than the width, charts as bars and lines of block characters."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from stowplan.explain.layout import PLAIN, WIDTH, Palette, cleaned, hanging, middle, span
from stowplan.explain.report.model import (
    BAD,
    GOOD,
    Bar,
    Bars,
    Cell,
    Columns,
    Figures,
    Funnel,
    Part,
    Report,
    Section,
    StackedBars,
    Table,
    Text,
    Tiles,
    TimeSeries,
)

_SPARK: Final = "▁▂▃▄▅▆▇█"
_TONES: Final = {GOOD: "green", BAD: "red"}
_MOST_LABEL: Final = 40
_LEAST_COLUMN: Final = 12
_BAR: Final = 40


def render(report: Report, *, palette: Palette = PLAIN, width: int = WIDTH) -> list[str]:
    """The lines of a report. Texts come from anybody, so what a terminal would act upon is escaped."""
    writer = _Writer(palette, max(width, 40))
    lines = [palette.paint(cleaned(report.title), "bold")]
    lines += hanging("", cleaned(report.summary), writer.width) if report.summary else []
    for part in report.parts:
        lines += writer.part(part)
    return lines


def written(value: Cell) -> str:
    """A cell as text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return str(cleaned(value))
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"
    return f"{value:,}"


class _Writer:
    def __init__(self, palette: Palette, width: int) -> None:
        self._palette = palette
        self.width = width
        self._writers: dict[type[Any], Callable[[Any], list[str]]] = {
            Text: self._text,
            Figures: self._figures,
            Table: self._table,
            Bars: self._bars,
            Funnel: self._funnel,
            StackedBars: self._stacked,
            TimeSeries: self._series,
            Tiles: self._tiles,
            Section: self._section,
            Columns: self._columns,
        }

    def part(self, part: Part) -> list[str]:
        """An empty line, the title, the part."""
        title = [self._palette.paint(cleaned(part.title), "bold")] if part.title else []
        return ["", *title, *self._writers[type(part)](part)]

    def _text(self, part: Text) -> list[str]:
        lines: list[str] = []
        for line in part.text.splitlines() or [""]:
            lines += hanging("", cleaned(line), self.width)
        return lines

    def _figures(self, part: Figures) -> list[str]:
        values = [written(figure.value) for figure in part.figures]
        labels = [written(figure.label) for figure in part.figures]
        digits, long = _longest(values), _longest(labels)
        lines = []
        for figure, value, label in zip(part.figures, values, labels, strict=True):
            painted = self._palette.paint(value, _TONES.get(figure.tone, "bold"))
            begin = f"  {' ' * (digits - len(value))}{painted}  {label:<{long}}  "
            lines += hanging(begin, cleaned(figure.note), self.width)
        return lines

    def _table(self, part: Table) -> list[str]:
        cells = [[written(cell) for cell in row] for row in part.rows]
        headings = [written(heading) for heading in part.headings]
        widths = _column_widths([headings, *cells], self.width - 2)
        lines = [self._palette.paint(_aligned(headings, widths, part.numeric), "dim")]
        lines += [_aligned(row, widths, part.numeric) for row in cells]
        if part.more:
            lines.append(f"  … and {part.more:,} more")
        return lines

    def _bars(self, part: Bars) -> list[str]:
        most = max((bar.value for bar in part.bars), default=0.0)
        return self._bar_lines(part.bars, most, part.unit)

    def _bar_lines(self, bars: Sequence[Bar], most: float, unit: str) -> list[str]:
        labels = [middle(written(bar.label), _MOST_LABEL) for bar in bars]
        values = [f"{written(bar.value)}{unit and f' {unit}'}" for bar in bars]
        long, digits = _longest(labels), _longest(values)
        room = max(min(self.width - long - digits - 6, _BAR), 5)
        return [
            f"  {label:<{long}}  {value:>{digits}}  "
            f"{self._palette.paint(_block(bar.value, most, room), 'cyan')}"
            f"{f'  {written(bar.note)}' if bar.note else ''}".rstrip()
            for bar, label, value in zip(bars, labels, values, strict=True)
        ]

    def _funnel(self, part: Funnel) -> list[str]:
        figures = [f"{part.total:,}", *(f"-{written(step.value)}" for step in part.steps)]
        last = f"{part.left:,}"
        digits = max(_longest(figures), len(last) + 1)
        long = min(_longest(written(step.label) for step in part.steps), _MOST_LABEL)
        lines = [f"  {figures[0]:>{digits}}  {part.unit}"]
        for step, figure in zip(part.steps, figures[1:], strict=True):
            label = middle(written(step.label), _MOST_LABEL)
            lines += hanging(f"  {figure:>{digits}}  {label:<{long}}  ", written(step.note), self.width)
        return [*lines, f"  ={last:>{digits - 1}}"]

    def _stacked(self, part: StackedBars) -> list[str]:
        rows = [[bar.label, *bar.values, sum(bar.values)] for bar in part.bars]
        headings = ["", *part.names, part.unit or "total"]
        return self._table(Table(headings, rows, range(1, len(headings))))

    def _series(self, part: TimeSeries) -> list[str]:
        if not part.times or not part.series:
            return ["  no values"]
        long = min(_longest(one.name for one in part.series), 24)
        room = max(min(self.width - long - 44, 60), 10)
        lines = []
        for one in part.series:
            known = [value for value in one.values if value is not None]
            name = middle(written(one.name), 24)
            if not known:
                lines.append(f"  {name:<{long}}  no values")
                continue
            least, most, last = (f"{written(value)}" for value in (min(known), max(known), known[-1]))
            picture = self._palette.paint(_spark(one.values, room), "cyan")
            lines.append(f"  {name:<{long}}  {picture}  {least} to {most}, last {last} {part.unit}".rstrip())
        begin, end = _times(part.times[0], part.times[-1], dates=part.dates)
        return [*lines, self._palette.paint(f"  {begin} to {end}", "dim")]

    def _tiles(self, part: Tiles) -> list[str]:
        """Groups with the number of their tiles and how many are how full, from empty to full."""
        rows: list[list[Cell]] = []
        for group in part.groups:
            tenths = [0] * 10
            for fill in group.fills:
                tenths[min(max(int(fill * 10), 0), 9)] += 1
            mean = sum(group.fills) / max(len(group.fills), 1)
            rows.append([group.name or "(none)", len(group.fills), f"{mean:.0%}", _spark(tenths, 10)])
        return self._table(Table(["", "nodes", part.what or "filled", "0 … 100 %"], rows, (1, 2)))

    def _section(self, part: Section) -> list[str]:
        lines = [line for one in part.parts for line in self.part(one)]
        return lines[1:] if part.parts and not part.parts[0].title else lines

    def _columns(self, part: Columns) -> list[str]:
        """One below the other: a terminal is rarely wide enough for two."""
        return [line for column in part.columns for line in self.part(column)]


def _longest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


def _column_widths(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """As wide as the cells are; where that is too much the widest column gives way."""
    widths = [_longest(column) for column in zip(*rows, strict=True)]
    extra = sum(widths) + 2 * (len(widths) - 1) - room
    while extra > 0 and max(widths, default=0) > _LEAST_COLUMN:
        widest = widths.index(max(widths))
        second = max((width for place, width in enumerate(widths) if place != widest), default=0)
        less = min(extra, max(widths[widest] - max(second, _LEAST_COLUMN), 1))
        widths[widest] -= less
        extra -= less
    return widths


def _aligned(row: Sequence[str], widths: Sequence[int], numeric: Sequence[int]) -> str:
    cells = (
        middle(cell, width).rjust(width) if column in numeric else middle(cell, width).ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return f"  {'  '.join(cells)}".rstrip()


def _block(value: float, most: float, room: int) -> str:
    return "█" * (max(round(value / most * room), 1) if most > 0 and value > 0 else 0)


def _spark(values: Sequence[float | None], room: int) -> str:
    """Values as a line of blocks, the highest of those that share a column; a gap where there is none."""
    step = max(len(values) / room, 1.0)
    columns: list[float | None] = []
    place = 0.0
    while round(place) < len(values):
        share = values[round(place) : max(round(place + step), round(place) + 1)]
        known = [one for one in share if one is not None]
        columns.append(max(known) if known else None)
        place += step
    most = max((one for one in columns if one is not None), default=0.0)
    heights = (None if one is None else round(max(one, 0) / most * 7) if most > 0 else 0 for one in columns)
    return "".join(" " if height is None else _SPARK[height] for height in heights)


def _times(begin: float, end: float, *, dates: bool) -> tuple[str, str]:
    if not dates:
        return span(begin), span(end)
    first, last = (datetime.fromtimestamp(one, UTC) for one in (begin, end))
    shape = "%H:%M:%S" if first.date() == last.date() else "%Y-%m-%d %H:%M"
    return first.strftime(shape), f"{last.strftime(shape)} UTC"
