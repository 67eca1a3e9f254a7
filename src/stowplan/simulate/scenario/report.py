"""The report of a run: one document as text, JSON and page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from stowplan.explain.layout import plural, span
from stowplan.explain.report import Cell, Figure, Figures, Part, Report, Series, Table, TimeSeries
from stowplan.explain.report.model import BAD, GOOD
from stowplan.simulate.scenario.measures import PERCENTILES, Measures, Sample, percentile

MOST_ROWS: Final = 20
MOST_SERIES: Final = 8


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return round(sum(found) / len(found), 4) if found else 0.0


def figures_of(measures: Measures) -> dict[str, float]:
    """The numbers of a run that another run can be compared by. What was not measured is absent."""
    samples = measures.samples
    waits = measures.waits_of_all.document()
    found: dict[str, float | None] = {
        "bound": waits["pods"],
        "pendingAtEnd": measures.pending,
        "pendingMean": mean(one.pending for one in samples),
        **{f"waitP{percent}": waits[f"p{percent}"] for percent in PERCENTILES},
        "waitMax": waits["max"],
        "preemptions": measures.preemptions,
        **_means_of("utilisation", [one.utilisation for one in samples]),
        **_means_of("fragmentation", [one.fragmentation for one in samples]),
        **_own_means(samples),
        "nodesMean": mean(one.nodes for one in samples),
        "cost": round(measures.cost, 4) if any(measures.prices.values()) else None,
        "notCreated": measures.not_created if measures.refused else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _means_of(figure: str, samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of a figure by resource, over the samples in which it was measured."""
    names = dict.fromkeys(name for one in samples for name in one)
    return {f"{figure} {name}": mean(one[name] for one in samples if name in one) for name in names}


def _own_means(samples: Sequence[Sample]) -> dict[str, float]:
    """The means of metrics of one's own, over the samples in which they could be measured."""
    known: dict[str, list[float]] = {}
    for one in samples:
        for name, value in one.metrics.items():
            if value is not None:
                known.setdefault(name, []).append(value)
    return {name: mean(values) for name, values in known.items()}


def data_of(measures: Measures) -> dict[str, Any]:
    """All of a run, as plain data."""
    samples = measures.samples
    return {
        "scenario": measures.scenario.name,
        "seed": measures.seed,
        "durationSeconds": measures.scenario.duration,
        "figures": figures_of(measures),
        "pods": {
            "created": measures.created_pods,
            "bound": len(measures.waits_of_all),
            "finished": measures.finished,
            "preempted": measures.preemptions,
            "evicted": measures.evicted,
            "pending": measures.pending,
            "longestPendingSeconds": round(measures.left_waiting[-1], 3) if measures.left_waiting else None,
        },
        "refused": [
            {"workload": name, "pods": one.pods, "notCreated": one.not_created, "message": one.message}
            for name, one in measures.refused.items()
        ],
        "nodes": {
            "failures": measures.failures,
            "added": measures.scaled_up,
            "removed": measures.scaled_down,
            "hours": {
                group or "(from)": round(hours, 4) for group, hours in sorted(measures.node_hours.items())
            },
        },
        "cost": round(measures.cost, 4),
        "waits": {
            "all": measures.waits_of_all.document(),
            "byPriority": {
                str(key): measures.by_priority[key].document()
                for key in sorted(measures.by_priority, reverse=True)
            },
            "byNamespace": {
                key: measures.by_namespace[key].document() for key in sorted(measures.by_namespace)
            },
        },
        "preemptedByPriority": {
            str(key): count for key, count in sorted(measures.preempted_by_priority.items(), reverse=True)
        },
        "series": {
            "seconds": [one.second for one in samples],
            "pending": [one.pending for one in samples],
            "running": [one.running for one in samples],
            "nodes": [one.nodes for one in samples],
            "preemptions": [one.preemptions for one in samples],
            "costPerHour": [one.cost_per_hour for one in samples],
            "utilisation": _by_key(samples, lambda one: one.utilisation),
            "fragmentation": _by_key(samples, lambda one: one.fragmentation),
            "waitP50": [one.wait_p50 for one in samples],
            "waitP99": [one.wait_p99 for one in samples],
            "waitP99ByPriority": _by_key(samples, lambda one: one.wait_p99_by_priority),
            "waitP99ByNamespace": _by_key(samples, lambda one: one.wait_p99_by_namespace),
            **({"metrics": _by_key(samples, lambda one: one.metrics)} if measures.metrics else {}),
        },
    }


def report_of(measures: Measures, configuration: str) -> Report:
    """Result of a run."""
    data = {**data_of(measures), "configuration": configuration}
    pods, waits = data["pods"], data["waits"]["all"]
    length = span(measures.scenario.duration)
    summary = (
        f"{pods['bound']:,} pods were placed in {length} with {configuration}; "
        f"half of them waited {_seconds(waits['p50'])}, one in a hundred {_seconds(waits['p99'])} or longer."
    )
    if pods["pending"]:
        summary += f" {pods['pending']:,} are pending at the end."
    if measures.refused:
        refused = sum(one.pods for one in measures.refused.values())
        summary += f" The API server refused {refused:,}, and {measures.not_created:,} were never created."
    return Report(
        f"Simulation of {measures.scenario.name}, seed {measures.seed}", summary, _parts(measures, data), data
    )


def _parts(measures: Measures, data: Mapping[str, Any]) -> list[Part]:
    pods, nodes = data["pods"], data["nodes"]
    left = percentile(measures.left_waiting, 100)
    parts: list[Part] = [
        Figures(
            figures=[
                Figure("pods placed", pods["bound"], f"of {pods['created']:,} created"),
                Figure(
                    "pending at the end",
                    pods["pending"],
                    "" if left is None else f"for {_seconds(left)} at most",
                    BAD if pods["pending"] else GOOD,
                ),
                Figure("preempted", pods["preempted"], "pods that had to go for others"),
                Figure(
                    "evicted",
                    pods["evicted"],
                    f"by {plural(nodes['failures'], 'failure')} of nodes",
                ),
                Figure(
                    "nodes",
                    measures.samples[-1].nodes,
                    f"{nodes['added']:,} added, {nodes['removed']:,} removed",
                ),
                *([Figure("cost", data["cost"], "price × hours of all nodes")] if data["cost"] else []),
            ]
        ),
        _waits("Seconds from creation to binding, by priority", "priority", data["waits"]["byPriority"]),
        _waits("By namespace", "namespace", data["waits"]["byNamespace"]),
        *_refusals(data["refused"]),
    ]
    series = data["series"]
    parts += [
        _chart("Pods", series, {"pending": series["pending"], "running": series["running"]}),
        _chart("Wait of the pods placed, 99th percentile", series, {"all": series["waitP99"]}, "s"),
        _chart("Wait by priority, 99th percentile", series, series["waitP99ByPriority"], "s"),
        _chart("Wait by namespace, 99th percentile", series, series["waitP99ByNamespace"], "s"),
        _chart("Requested of what nodes offer", series, series["utilisation"]),
        _chart("Free, but too little for the usual pods", series, series["fragmentation"]),
        _chart("Nodes", series, {"nodes": series["nodes"]}),
    ]
    if data["pods"]["preempted"]:
        parts.append(_chart("Preemptions", series, {"pods": series["preemptions"]}))
    if data["cost"]:
        parts.append(_chart("Cost per hour", series, {"cost": series["costPerHour"]}))
    parts += [
        _chart(metric.name, series, {metric.name: series["metrics"][metric.name]}, metric.unit)
        for metric in measures.metrics
    ]
    return [part for part in parts if not isinstance(part, TimeSeries) or part.series]


def _waits(title: str, what: str, found: Mapping[str, Mapping[str, Any]]) -> Table:
    headings = [what, "pods", *(f"p{percent}" for percent in PERCENTILES), "max"]
    rows: list[list[Cell]] = [
        [key, one["pods"], *(one[f"p{percent}"] for percent in PERCENTILES), one["max"]]
        for key, one in found.items()
    ]
    more = max(len(rows) - MOST_ROWS, 0)
    return Table(headings, rows[:MOST_ROWS], list(range(1, len(headings))), more, title=title)


def _refusals(found: Sequence[Mapping[str, Any]]) -> list[Part]:
    """The workloads whose pods the API server refused, if any."""
    if not found:
        return []
    rows: list[list[Cell]] = [
        [one["workload"], one["pods"], one["notCreated"], one["message"]] for one in found[:MOST_ROWS]
    ]
    headings = ["workload", "pods", "never created", "first message"]
    more = max(len(found) - MOST_ROWS, 0)
    return [Table(headings, rows, [1, 2], more, title="Refused by the API server")]


def _chart(
    title: str, series: Mapping[str, Any], lines: Mapping[str, Sequence[float | None]], unit: str = ""
) -> TimeSeries:
    shown = [Series(name, values) for name, values in list(lines.items())[:MOST_SERIES]]
    return TimeSeries(series["seconds"], shown, unit, dates=False, title=title)


def _by_key(
    samples: Sequence[Sample], of: Callable[[Sample], Mapping[Any, float | None]]
) -> dict[str, list[float | None]]:
    keys = sorted({key for one in samples for key in of(one)})
    return {str(key): [of(one).get(key) for one in samples] for key in keys}


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.3g} s" if value < 120 else span(value)
