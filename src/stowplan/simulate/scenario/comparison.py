"""Configurations compared: each runs the same scenario from the same seeds; differences are paired by seed.

Arrivals, lifetimes and failures are drawn from the seed alone, so with one seed every configuration meets the
same pods. The interval of a mean difference is Student's, at 95 %.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, Final

from stowplan.explain.report import Cell, Figure, Figures, Part, Report, Series, Table, TimeSeries
from stowplan.explain.report.model import BAD, GOOD

_T: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 97.5th percentile of Student's distribution for 1 to 30 degrees of freedom."""
_T_LARGE: Final = 1.96

ENOUGH: Final = 3
"""Seeds from which on a difference has an interval."""

_COUNT: Final = "notCreated"
_LESS_IS_BETTER: Final = ("pending", "wait", "preemptions", "fragmentation", "cost", "notCreated")
_TITLES: Final = {
    "bound": "pods placed",
    "pendingAtEnd": "pending at the end",
    "pendingMean": "pending, mean",
    "waitP50": "wait, 50th percentile (s)",
    "waitP90": "wait, 90th percentile (s)",
    "waitP99": "wait, 99th percentile (s)",
    "waitMax": "longest wait (s)",
    "nodesMean": "nodes, mean",
    "notCreated": "refused and never created",
}
_CHARTS: Final = {
    "pending": "Pods pending",
    "waitP99": "Wait of the pods placed, 99th percentile (s)",
    "nodes": "Nodes",
    "costPerHour": "Cost per hour",
}


@dataclass(frozen=True, slots=True)
class Run:
    """Result of a run of a configuration with a seed: the data of its report."""

    configuration: str
    seed: int
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference to the first configuration, and its interval; `judged` is better, worse or nothing."""

    mean: float
    low: float
    high: float
    judged: str

    def unjudged(self) -> "Difference":
        """The same without an interval."""
        return Difference(self.mean, -inf, inf, "")

    def document(self) -> dict[str, Any]:
        known = self.high < inf
        return {
            "mean": round(self.mean, 6),
            "low": round(self.low, 6) if known else None,
            "high": round(self.high, 6) if known else None,
            "judged": self.judged,
        }


Values = Sequence[float | None]
"""A figure by seed; None where it was not measured."""


def difference(name: str, first: Values, other: Values) -> Difference | None:
    """The difference of paired values; None if no seed has both.

    With fewer than three pairs there is no interval, and no judgement.
    """
    pairs = zip(first, other, strict=True)
    found = [two - one for one, two in pairs if one is not None and two is not None]
    if not found:
        return None
    mean = sum(found) / len(found)
    if len(found) < ENOUGH:
        return Difference(mean, -inf, inf, "")
    spread = sqrt(sum((one - mean) ** 2 for one in found) / (len(found) - 1))
    freedom = len(found) - 1
    half = (_T[freedom - 1] if freedom <= len(_T) else _T_LARGE) * spread / sqrt(len(found))
    low, high = mean - half, mean + half
    judged = ""
    if low > 0 or high < 0:
        better = high < 0 if name.startswith(_LESS_IS_BETTER) else low > 0
        judged = ("better" if better else "worse") if _is_judged(name) else "different"
    return Difference(mean, low, high, judged)


def _is_judged(name: str) -> bool:
    return name == "bound" or name.startswith(_LESS_IS_BETTER)


def compared(runs: Sequence[Run], scenario: str, varies: Sequence[str] = ("arrivals",)) -> Report:
    """The report of runs: every configuration with the same seeds.

    `varies` is what differs between seeds besides choices between equal nodes. If nothing does, runs are no
    sample of anything, and no difference has an interval.
    """
    names = list(dict.fromkeys(run.configuration for run in runs))
    seeds = sorted({run.seed for run in runs})
    by = {(run.configuration, run.seed): run.data for run in runs}
    metrics = list(dict.fromkeys(name for run in runs for name in run.data["figures"]))
    values = {
        name: {metric: [_figure(by[name, one]["figures"], metric) for one in seeds] for metric in metrics}
        for name in names
    }
    first, *others = names
    differences = {
        name: {metric: difference(metric, values[first][metric], values[name][metric]) for metric in metrics}
        for name in others
    }
    if not varies:
        differences = {
            name: {metric: None if one is None else one.unjudged() for metric, one in found.items()}
            for name, found in differences.items()
        }
    judged = bool(varies) and len(seeds) >= ENOUGH
    data = {
        "scenario": scenario,
        "seeds": seeds,
        "seedsVary": [*varies, "ties"],
        "test": "paired Student's t, 95 %" if judged else None,
        "configurations": {
            name: {
                metric: {"mean": _mean(values[name][metric]), "bySeed": values[name][metric]}
                for metric in metrics
            }
            for name in names
        },
        "differences": {
            name: {metric: None if one is None else one.document() for metric, one in found.items()}
            for name, found in differences.items()
        },
    }
    parts: list[Part] = [_findings(name, differences[name]) for name in others]
    parts += [_table(first, name, values, differences[name]) for name in others]
    parts += _charts(names, seeds, by)
    summary = " ".join(_sentence(first, name, differences[name], len(seeds), varies) for name in others)
    if judged:
        summary += f" Intervals: paired Student's t over {len(seeds)} seeds, which vary {', '.join(varies)}."
    return Report(f"Comparison on {scenario}, {len(seeds)} seeds", summary, parts, data)


def _sentence(
    first: str, name: str, found: Mapping[str, Difference | None], seeds: int, varies: Sequence[str]
) -> str:
    better = [_title(metric) for metric, one in found.items() if one is not None and one.judged == "better"]
    worse = [_title(metric) for metric, one in found.items() if one is not None and one.judged == "worse"]
    if not varies:
        return (
            f"{name} against {first}: seeds vary only ties in this scenario, so differences have no "
            "interval; vary arrivals, lifetimes or failures."
        )
    if seeds < ENOUGH:
        some = "one seed says" if seeds == 1 else f"{seeds} seeds say"
        return f"{name} against {first}: {some} nothing about chance; use {ENOUGH} or more."
    if not better and not worse:
        return f"{name} against {first}: no difference that is more than chance."
    said = [f"better in {', '.join(better)}"] if better else []
    said += [f"worse in {', '.join(worse)}"] if worse else []
    return f"{name} against {first}: {'; '.join(said)}."


def _findings(name: str, found: Mapping[str, Difference | None]) -> Figures:
    shown = [
        Figure(
            _title(metric),
            f"{one.mean:+.4g}",
            f"{one.judged}, 95 %: {one.low:+.4g} to {one.high:+.4g}",
            GOOD if one.judged == "better" else BAD if one.judged == "worse" else "",
        )
        for metric, one in found.items()
        if one is not None and one.judged
    ]
    return Figures(figures=shown or [Figure("differences", "none", "that are more than chance")], title=name)


def _table(
    first: str,
    name: str,
    values: Mapping[str, Mapping[str, Values]],
    found: Mapping[str, Difference | None],
) -> Table:
    rows: list[list[Cell]] = []
    for metric, one in found.items():
        means = [_mean(values[first][metric]), _mean(values[name][metric])]
        if one is None:
            rows.append([_title(metric), *means, None, "not measured in both", ""])
            continue
        interval = f"{one.low:+.4g} to {one.high:+.4g}" if one.high < inf else "none"
        rows.append([_title(metric), *means, f"{one.mean:+.4g}", interval, one.judged])
    headings = ["mean over seeds", first, name, "difference", "95 %", ""]
    return Table(headings, rows, [1, 2, 3], title=f"{name} against {first}")


def _charts(
    names: Sequence[str], seeds: Sequence[int], by: Mapping[tuple[str, int], Mapping[str, Any]]
) -> list[Part]:
    """The mean over seeds, a line for every configuration."""
    charts: list[Part] = []
    times = by[names[0], seeds[0]]["series"]["seconds"]
    for key, title in _CHARTS.items():
        lines = [Series(name, _means([by[name, seed]["series"][key] for seed in seeds])) for name in names]
        if any(value for line in lines for value in line.values):
            charts.append(TimeSeries(times, lines, dates=False, title=title))
    for about, title in (("utilisation", "Requested of"), ("fragmentation", "Free, but too little, of")):
        resources = dict.fromkeys(one for run in by.values() for one in run["series"][about])
        for resource in resources:
            series = {
                name: [one for seed in seeds if (one := by[name, seed]["series"][about].get(resource))]
                for name in names
            }
            lines = [Series(name, _means(found)) for name, found in series.items() if found]
            charts.append(TimeSeries(times, lines, dates=False, title=f"{title} {resource}"))
    return charts


def _means(series: Sequence[Sequence[float | None]]) -> list[float | None]:
    found: list[float | None] = []
    for values in zip(*series, strict=False):
        known = [value for value in values if value is not None]
        found.append(round(sum(known) / len(known), 4) if known else None)
    return found


def _mean(values: Values) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 4) if known else None


def _figure(figures: Mapping[str, float], metric: str) -> float | None:
    """A figure of a run; None if it was not measured. Nothing refused is 0 of them."""
    found = figures.get(metric, 0 if metric == _COUNT else None)
    return None if found is None else float(found)


def _title(metric: str) -> str:
    return _TITLES.get(metric, metric)
