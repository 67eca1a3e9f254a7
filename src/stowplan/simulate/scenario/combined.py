"""The results of a sweep as a report: means over the seeds, by configuration, workload and parameters."""

from collections.abc import Sequence
from statistics import mean
from typing import Any, Final

from stowplan.explain.layout import plural
from stowplan.explain.report import Cell, Figure, Figures, Part, Report, Table
from stowplan.simulate.scenario.sweep import Row

_ABOUT: Final = ("run", "seed")
_SHOWN: Final = ("bound", "pendingMean", "waitP50", "waitP99", "preemptions", "nodesMean", "cost")
_PARAMETER: Final = "parameter."


def combined_report(name: str, rows: Sequence[Row], done_before: int, results: str) -> Report:
    """Result of all runs."""
    keys = [
        key
        for key in dict.fromkeys(key for row in rows for key in row)
        if key in ("configuration", "workload") or key.startswith(_PARAMETER)
    ]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    figures = [one for one in _SHOWN if any(one in row for row in rows)]
    varied = [place for place in range(len(keys)) if len({group[place] for group in groups}) > 1]
    table: list[list[Cell]] = [
        [*(str(group[place]) for place in varied), len(found), *(_mean(found, one) for one in figures)]
        for group, found in groups.items()
    ]
    headings = [*(keys[place].removeprefix(_PARAMETER) for place in varied), "runs", *figures]
    summary = f"{plural(len(rows), 'run')} of {name}, in {results}"
    data = {
        "experiment": name,
        "runs": len(rows),
        "doneBefore": done_before,
        "results": results,
        "groups": [
            {**dict(zip(keys, group, strict=True)), "runs": len(found), "means": _means(found)}
            for group, found in groups.items()
        ],
    }
    parts: list[Part] = [
        Figures(figures=[Figure("runs", len(rows)), Figure("of them done before", done_before)]),
        Table(
            title="Means over the seeds",
            headings=headings,
            rows=table,
            numeric=tuple(range(len(varied), len(headings))),
        ),
    ]
    return Report("sweep", summary, parts, data)


def _mean(rows: Sequence[Row], figure: str) -> float | None:
    values = [float(value) for row in rows if isinstance(value := row.get(figure), int | float)]
    return round(mean(values), 4) if values else None


def _means(rows: Sequence[Row]) -> dict[str, float | None]:
    names = dict.fromkeys(
        name for row in rows for name, value in row.items() if isinstance(value, int | float)
    )
    return {
        name: _mean(rows, name) for name in names if name not in _ABOUT and not name.startswith(_PARAMETER)
    }
