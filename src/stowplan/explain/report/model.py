"""Parts of a report. Everything is plain data, so that a report is JSON as it stands."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

Cell = str | int | float | None
"""Numbers are written with separators of thousands; None is an empty cell."""

GOOD: Final = "good"
BAD: Final = "bad"


class _Part(msgspec.Struct, frozen=True, rename="camel", tag_field="kind", kw_only=True):
    """Something that stands in a report below a title; the title may be empty."""

    title: str = ""


class Text(_Part, frozen=True, tag="text"):
    """A paragraph."""

    text: str


class Figure(msgspec.Struct, frozen=True):
    """A number that matters, with what it means. `tone` is GOOD, BAD or empty."""

    label: str
    value: Cell
    note: str = ""
    tone: str = ""


class Figures(_Part, frozen=True, tag="figures"):
    """The numbers to look at first."""

    figures: Sequence[Figure]


class Table(_Part, frozen=True, tag="table"):
    """Rows below headings. Columns in `numeric` are aligned to the right; `more` rows were left out."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numeric: Sequence[int] = ()
    more: int = 0


class Bar(msgspec.Struct, frozen=True):
    """A value with a label and words beside it."""

    label: str
    value: float
    note: str = ""


class Bars(_Part, frozen=True, tag="bars"):
    """Values side by side, the largest as wide as there is room."""

    bars: Sequence[Bar]
    unit: str = ""


class Funnel(_Part, frozen=True, tag="funnel"):
    """How a total shrinks by steps to what is left; `unit` says of what."""

    total: int
    steps: Sequence[Bar]
    unit: str = "nodes"

    @property
    def left(self) -> int:
        return self.total - int(sum(step.value for step in self.steps))


class StackedBar(msgspec.Struct, frozen=True):
    """A bar of several parts, in the order of the parts' names."""

    label: str
    values: Sequence[float]


class StackedBars(_Part, frozen=True, tag="stackedBars"):
    """Sums with what they are made of, such as the points of nodes by plugin."""

    names: Sequence[str]
    bars: Sequence[StackedBar]
    unit: str = ""


class Series(msgspec.Struct, frozen=True):
    """A value at each of the times, None where there is none."""

    name: str
    values: Sequence[float | None]


class TimeSeries(_Part, frozen=True, tag="timeSeries"):
    """Values over time. `times` are seconds since 1970 if they are `dates`, else since the beginning."""

    times: Sequence[float]
    series: Sequence[Series]
    unit: str = ""
    dates: bool = True


class TileGroup(msgspec.Struct, frozen=True):
    """Nodes of a group by column: name, how full (0 to 1), and optionally words and whether it is hatched."""

    name: str
    names: Sequence[str]
    fills: Sequence[float]
    notes: Sequence[str] = ()
    hatched: Sequence[int] = ()


class Tiles(_Part, frozen=True, tag="tiles"):
    """Every node a tile, filled from below."""

    groups: Sequence[TileGroup]
    what: str = ""
    """Measure that fills a tile, such as `cpu requested`."""


class Section(_Part, frozen=True, tag="section"):
    """Parts below a heading; a folded one is opened by its reader."""

    parts: "Sequence[Part]"
    folded: bool = False


class Columns(_Part, frozen=True, tag="columns"):
    """Sections side by side: before and after, one configuration and another."""

    columns: Sequence[Section]


Part = Text | Figures | Table | Bars | Funnel | StackedBars | TimeSeries | Tiles | Section | Columns


class Report(msgspec.Struct, frozen=True):
    """A result. `summary` is the answer in a sentence, `data` what `--json` prints."""

    title: str
    summary: str
    parts: Sequence[Part]
    data: Mapping[str, Any]

    def json(self) -> str:
        """The data, indented, for `--json`."""
        return msgspec.json.format(msgspec.json.encode(self.data), indent=2).decode()
