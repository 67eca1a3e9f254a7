"""Sum of judgements: figures, agreement over time, and the disagreements with both sides' points.

The figures are `Figures`; `written` makes a report of them for a terminal, a page and JSON.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from stowplan.api.meta import timestamp
from stowplan.explain.report import (
    Bar,
    Bars,
    Figure,
    Figures,
    Part,
    Report,
    Section,
    Series,
    StackedBar,
    StackedBars,
    Table,
    Text,
    TimeSeries,
)
from stowplan.explain.report.model import BAD, GOOD
from stowplan.scheduler.node_sampler import MIN_NODES
from stowplan.simulate.shadow.judge import AGREE, INFEASIBLE, LOWER, UNJUDGED, Judgement

KEPT: Final = 1000
"""Maximum number of disagreements kept with all their details."""
SHOWN: Final = 10
"""Number of them that the text shows."""
ON_PAGE: Final = 100
"""Number of them that the page shows."""
COMPARED: Final = 25
"""Of how many the page shows the points of both nodes."""
BUCKETS: Final = 120
"""Maximum number of steps of agreement over time."""
REASONS: Final = 50
"""Maximum number of reasons for not judging that are told apart."""
SAMPLED: Final = "not among the best of all nodes, best of those looked at"
WITHOUT_PLUGIN: Final = "(none)"


class Timeline:
    """Agreement over time in a bounded number of steps; when they are used up, each becomes twice as long."""

    def __init__(self, step: float = 1.0) -> None:
        self.step = step
        self._began: float | None = None
        self._steps: list[list[int]] = []

    def add(self, time: float, agrees: bool) -> None:
        """Count a binding that was judged."""
        if self._began is None:
            self._began = time
        place = max(int((time - self._began) / self.step), 0)
        while place >= BUCKETS:
            pairs = zip(self._steps[::2], [*self._steps[1::2], [0, 0]], strict=False)
            self._steps = [[one[0] + two[0], one[1] + two[1]] for one, two in pairs]
            self.step *= 2
            place //= 2
        while len(self._steps) <= place:
            self._steps.append([0, 0])
        self._steps[place][0 if agrees else 1] += 1

    @property
    def length(self) -> int:
        """Number of steps so far."""
        return len(self._steps)

    def document(self) -> list[dict[str, Any]]:
        began = self._began or 0.0
        return [
            {"time": timestamp(began + place * self.step), "agree": agree, "disagree": disagree}
            for place, (agree, disagree) in enumerate(self._steps)
        ]

    def part(self) -> TimeSeries:
        began = self._began or 0.0
        shares = [100 * agree / (agree + not_) if agree + not_ else None for agree, not_ in self._steps]
        times = [began + place * self.step for place in range(len(self._steps))]
        return TimeSeries(
            title="Agreement over time", times=times, series=[Series("agree", shares)], unit="%"
        )


@dataclass(slots=True)
class Tally:
    """The judgements so far."""

    nodes: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    raced: int = 0
    sampled: int = 0
    plugins: Counter[str] = field(default_factory=Counter)
    """Disagreements by the plugin that makes the difference."""
    unjudged: Counter[str] = field(default_factory=Counter)
    """Bindings that could not be judged, by reason."""
    lag: float = 0.0
    most_lag: float = 0.0
    timeline: Timeline = field(default_factory=Timeline)
    disagreements: list[Judgement] = field(default_factory=list)

    def add(self, judgement: Judgement) -> None:
        self.verdicts[judgement.verdict] += 1
        self.raced += judgement.raced
        self.sampled += judgement.sampled
        self.lag = judgement.lag
        self.most_lag = max(self.most_lag, judgement.lag)
        if judgement.verdict == UNJUDGED:
            known = judgement.reason in self.unjudged or len(self.unjudged) < REASONS
            self.unjudged[judgement.reason if known else "other reasons"] += 1
            return
        self.timeline.add(judgement.time, judgement.agrees)
        if not judgement.agrees:
            self.plugins[judgement.plugin or WITHOUT_PLUGIN] += 1
            if len(self.disagreements) < KEPT:
                self.disagreements.append(judgement)

    @property
    def bindings(self) -> int:
        return self.verdicts.total()

    @property
    def agree(self) -> int:
        return self.verdicts[AGREE]

    @property
    def disagree(self) -> int:
        return self.verdicts[LOWER] + self.verdicts[INFEASIBLE]

    def document(self) -> dict[str, Any]:
        """The figures as plain data: `bindings` is `agree`, `disagree` and `unjudged` together."""
        return {
            "bindings": self.bindings,
            "agree": self.agree,
            "disagree": self.disagree,
            "lowerScore": self.verdicts[LOWER],
            "infeasible": self.verdicts[INFEASIBLE],
            "unjudged": self.verdicts[UNJUDGED],
            "raced": self.raced,
            "sampled": self.sampled,
            "nodes": self.nodes,
            "plugins": dict(self.plugins.most_common()),
            "unjudgedReasons": dict(self.unjudged.most_common()),
            "lag": {"last": round(self.lag, 3), "most": round(self.most_lag, 3)},
            "timeline": self.timeline.document(),
            "disagreements": [judgement.document() for judgement in self.disagreements],
        }

    def line(self) -> str:
        """The figures in one line."""
        judged = self.agree + self.disagree
        share = f" ({100 * self.agree / judged:.2f} %)" if judged else ""
        return (
            f"{self.bindings} bindings: {self.agree} agree{share}, {self.disagree} disagree, "
            f"{self.verdicts[UNJUDGED]} not judged"
        )


def written(tally: Tally, against: str = "", rows: int = SHOWN) -> Report:
    """The report with so many disagreements. `against` names the configuration, if it is another one."""
    title = f"Bindings compared with {against}" if against else "Bindings compared with stowplan"
    return Report(title, tally.line(), [*_parts(tally, rows)], tally.document())


def _parts(tally: Tally, rows: int) -> Iterator[Part]:
    yield Figures(figures=[*_figures(tally)])
    notes = "\n".join(_notes(tally))
    if notes:
        yield Text(text=notes)
    if tally.plugins:
        bars = [Bar(name, count) for name, count in tally.plugins.most_common()]
        yield Bars(title="Disagreements by the plugin that makes the difference", bars=bars)
    if tally.unjudged:
        reasons = [Bar(reason, count) for reason, count in tally.unjudged.most_common(SHOWN)]
        yield Bars(title="Not judged", bars=reasons)
    if tally.timeline.length > 1:
        yield tally.timeline.part()
    if tally.disagreements:
        shown = tally.disagreements[:rows]
        yield Table(
            title="Disagreements",
            headings=["pod", "their node", "our node", "points behind", "why"],
            rows=[[one.pod, one.node, one.ours or "none", one.behind, _why(one)] for one in shown],
            numeric=[3],
            more=tally.disagree - len(shown),
        )


def _figures(tally: Tally) -> Iterator[Figure]:
    yield Figure("bindings", tally.bindings)
    yield Figure("agree", tally.agree, "the node is among the best", GOOD if tally.agree else "")
    if tally.raced:
        yield Figure("of them raced", tally.raced, "best on a slightly older or newer state than we saw")
    if tally.sampled:
        yield Figure("of them sampled", tally.sampled, SAMPLED)
    if tally.verdicts[LOWER]:
        yield Figure("lower score", tally.verdicts[LOWER], "the node fits, others have more points", BAD)
    if tally.verdicts[INFEASIBLE]:
        yield Figure("infeasible", tally.verdicts[INFEASIBLE], "by our filters the node does not fit", BAD)
    if not tally.disagree:
        yield Figure("disagree", 0)
    yield Figure("not judged", tally.verdicts[UNJUDGED])
    yield Figure("seconds of lag", round(tally.most_lag, 1), "from a binding to when we saw it, at most")


def _notes(tally: Tally) -> Iterator[str]:
    if tally.raced:
        yield (
            "A decision is judged on the states it can have been made on: with and without the bindings of "
            "the seconds around it."
        )
    if tally.sampled:
        yield (
            "A scheduler that samples nodes (percentageOfNodesToScore) does not look at all of them. Sampled "
            f"means: {SAMPLED}."
        )
    if tally.verdicts[LOWER] and tally.nodes >= MIN_NODES:
        yield (
            "A lower score means: not among the best of all nodes, nor of those that a scheduler with this "
            "percentageOfNodesToScore may have looked at; if it looks at fewer, say so with "
            "--percentage-of-nodes-to-score."
        )


def _why(judgement: Judgement) -> str:
    if judgement.verdict == INFEASIBLE:
        return judgement.reason
    largest = list(judgement.gaps.items())[:2]
    return ", ".join(f"{name} {points:+d}" for name, points in largest) or judgement.reason


def details(tally: Tally) -> Section:
    """The points of both nodes by plugin for the first disagreements, for the page."""
    parts: list[Part] = []
    for one in tally.disagreements[:COMPARED]:
        best = None if one.decision is None or not one.decision.best else one.decision.best[0]
        title = f"{one.pod}: {one.node}, ours {one.ours or 'none'}"
        if best is None or not one.theirs:
            parts.append(Text(title=title, text=one.reason))
            continue
        names = list(best.scores)
        bars = [
            StackedBar(one.ours, [best.scores[name] for name in names]),
            StackedBar(one.node, [one.theirs.get(name, 0) for name in names]),
        ]
        parts.append(StackedBars(title=title, names=names, bars=bars, unit="points"))
    return Section(title="Points of both nodes", parts=parts, folded=True)


def page_of(tally: Tally, against: str = "") -> Report:
    """The report for a page: it has room for the points of both sides."""
    report = written(tally, against, ON_PAGE)
    if not tally.disagreements:
        return report
    return Report(report.title, report.summary, [*report.parts, details(tally)], report.data)
