"""Results of simulations for notebooks and scripts: tables, summaries, and where the figures come from."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final, overload

from stowplan.explain.report import Report
from stowplan.explain.report.page import render

if TYPE_CHECKING:
    import pandas
    import pyarrow

Value = str | int | float | bool | None
Row = Mapping[str, Value]

_SHOWN: Final = 10
_FRAME: Final = "width:100%;height:640px;border:0"


class Rows(Sequence[Row]):
    """A table: its rows are maps, and it is a pandas DataFrame or an Arrow table on request.

    A figure that was not measured is None.
    """

    def __init__(self, rows: Iterable[Row], name: str = "") -> None:
        self._rows = list(rows)
        self.name = name

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the order in which rows have them."""
        return list(dict.fromkeys(column for row in self._rows for column in row))

    def column(self, name: str) -> list[Value]:
        """One column. Raises KeyError if no row has it."""
        if not any(name in row for row in self._rows):
            raise KeyError(f"no column {name!r}: expected one of {', '.join(self.columns) or 'none'}")
        return [row.get(name) for row in self._rows]

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> "Rows": ...

    def __getitem__(self, index: int | slice) -> "Row | Rows":
        return Rows(self._rows[index], self.name) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"<{self.name or 'table'}: {len(self):,} rows, columns {', '.join(self.columns)}>"

    def to_frame(self) -> "pandas.DataFrame":
        """The table as a pandas DataFrame. Raises ImportError without pandas."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise ImportError("to_frame needs pandas: pip install 'stowplan[pandas]'") from None
        return pandas.DataFrame(self._rows, columns=self.columns)

    def to_arrow(self) -> "pyarrow.Table":
        """The table as an Arrow table. Raises ImportError without pyarrow."""
        try:
            import pyarrow
        except ModuleNotFoundError:
            raise ImportError("to_arrow needs pyarrow: pip install 'stowplan[sweep]'") from None
        return pyarrow.Table.from_pydict({name: self.column(name) for name in self.columns})

    def _repr_html_(self) -> str:
        """The first rows, for a notebook."""
        columns = self.columns
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{_shown(row.get(name))}</td>' for name in columns)}</tr>"
            for row in self._rows[:_SHOWN]
        )
        more = f"<p>{len(self) - _SHOWN:,} more rows</p>" if len(self) > _SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _shown(value: Value) -> str:
    return "–" if value is None else escape(f"{value:,.4g}" if isinstance(value, float) else str(value))


class _Result(ABC):
    """A result with a report: as text, as a page, and in a notebook. Showing it loads nothing."""

    @property
    @abstractmethod
    def report(self) -> Report: ...

    def html(self) -> str:
        """The report as a page that stands by itself."""
        return render(self.report)

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style and a notebook's do not mix."""
        return f'<iframe srcdoc="{escape(self.html())}" style="{_FRAME}"></iframe>'

    def __repr__(self) -> str:
        return f"<{self.report.title}: {self.report.summary}>"


@dataclass(frozen=True, repr=False)
class Simulation(_Result):
    """Result of one run.

    `pods` has a row for each pod (times in seconds of the run), `nodes` one for each node, `series` one for
    each sample. `summary` are the figures of the run; `provenance` says what they were made from.
    """

    pods: Rows
    nodes: Rows
    series: Rows
    summary: Mapping[str, float]
    provenance: Mapping[str, Value]
    made: Report

    @property
    def report(self) -> Report:
        return self.made


@dataclass(frozen=True, repr=False)
class Comparison(_Result):
    """Configurations on one scenario with the same seeds.

    `runs` has a row for each run with its figures and provenance, `differences` one for each figure and
    configuration: the mean difference from the first configuration, and its interval where there is one.
    """

    runs: Rows
    differences: Rows
    made: Report

    @property
    def report(self) -> Report:
        return self.made


@dataclass(frozen=True, repr=False)
class Sweep(_Result):
    """All runs of an experiment, a row for each. `repeated` is the number of runs that were done before."""

    runs: Rows
    done_before: int
    made: Report

    @property
    def report(self) -> Report:
        return self.made
