"""A report with one of everything, and malicious names."""

from stowplan.explain.report import (
    Bar,
    Bars,
    Columns,
    Figure,
    Figures,
    Funnel,
    Report,
    Section,
    Series,
    StackedBar,
    StackedBars,
    Table,
    Text,
    TileGroup,
    Tiles,
    TimeSeries,
)
from stowplan.explain.report.model import BAD, GOOD

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m"
START = 1_800_000_000.0


def everything() -> Report:
    pools = [
        TileGroup(
            zone,
            [f"{zone}-{number}" for number in range(120)],
            [(number * place % 101) / 100 for number in range(120)],
            hatched=[int(number % 40 == 0) for number in range(120)],
        )
        for place, zone in enumerate(("zone-a", "zone-b", "zone-c"), 7)
    ]
    series = [
        Series("running", [float(number % 13) * 100 for number in range(60)]),
        Series("pending", [None if number < 5 else number / 3 for number in range(60)]),
    ]
    times = [START + 60 * number for number in range(60)]
    return Report(
        f"What if {HOSTILE}",
        f"12 pods move, 2 stay pending: {HOSTILE}",
        [
            Figures(
                [
                    Figure("moved", 12, "of 4,000", GOOD),
                    Figure("pending", 2, HOSTILE, BAD),
                    Figure("cpu", 71.25, "% requested"),
                ]
            ),
            Text(f"First line.\nSecond line {HOSTILE}"),
            TimeSeries(times, series, "pods", title="Pods over time"),
            Funnel(
                200, [Bar("NodeAffinity", 180, HOSTILE), Bar("TaintToleration", 15)], title="Nodes ruled out"
            ),
            Bars([Bar(HOSTILE, 90.5), Bar("NodeResourcesFit", 9.5)], "%", title="Share of time"),
            StackedBars(
                ["Fit", "Balanced"],
                [StackedBar("node-1", [90, 40]), StackedBar(HOSTILE, [70, 30])],
                title="Points",
            ),
            Table(
                ["pod", "node", "points"],
                [[HOSTILE, "node-1", 12], ["default/web-2", None, 1234567], ["x" * 300, "y" * 80, 0.123456]],
                (2,),
                more=7,
                title="Moves",
            ),
            Columns(
                [
                    Section([Tiles(pools, "cpu requested")], title="before"),
                    Section([Tiles(pools[:1], "cpu requested"), Text("fewer")], title="after"),
                ],
                title="Nodes",
            ),
            Section([Text("hidden at first")], folded=True, title="Details"),
        ],
        {"moved": 12, "pending": [HOSTILE]},
    )
