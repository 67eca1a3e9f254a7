"""What judgements add up to: figures, the disagreements with both sides' points, as text and as JSON."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from stowplan.shadow.judge import AGREE, INFEASIBLE, LOWER, UNJUDGED, Judgement

KEPT: Final = 1000
"""How many disagreements are kept with all their details."""
SHOWN: Final = 10
SAMPLING: Final = 100
"""From so many nodes on kube-scheduler looks at a part of them unless it is told otherwise."""


@dataclass(slots=True)
class Report:
    """The judgements so far."""

    nodes: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    raced: int = 0
    disagreements: list[Judgement] = field(default_factory=list)

    def add(self, judgement: Judgement) -> None:
        self.verdicts[judgement.verdict] += 1
        self.raced += judgement.raced
        if judgement.verdict in (LOWER, INFEASIBLE) and len(self.disagreements) < KEPT:
            self.disagreements.append(judgement)

    @property
    def bindings(self) -> int:
        return self.verdicts.total()

    @property
    def disagree(self) -> int:
        return self.verdicts[LOWER] + self.verdicts[INFEASIBLE]

    def document(self) -> dict[str, Any]:
        return {
            "bindings": self.bindings,
            "agree": self.verdicts[AGREE],
            "disagree": self.disagree,
            "lowerScore": self.verdicts[LOWER],
            "infeasible": self.verdicts[INFEASIBLE],
            "unjudged": self.verdicts[UNJUDGED],
            "raced": self.raced,
            "nodes": self.nodes,
            "disagreements": [judgement.document() for judgement in self.disagreements],
        }

    def line(self) -> str:
        """The figures in one line."""
        judged = self.bindings - self.verdicts[UNJUDGED]
        share = f" ({100 * self.verdicts[AGREE] / judged:.2f} %)" if judged else ""
        return (
            f"{self.bindings} bindings: {self.verdicts[AGREE]} agree{share}, {self.disagree} disagree, "
            f"{self.verdicts[UNJUDGED]} not judged"
        )

    def text(self) -> str:
        lines = [self.line()]
        if self.raced:
            lines.append(f"{self.raced} of them were decided on a slightly older or newer state than we saw.")
        if self.disagreements:
            lines += ["", "Disagreements"]
            lines += [_line(judgement) for judgement in self.disagreements[:SHOWN]]
            if self.disagree > SHOWN:
                lines.append(f"  … and {self.disagree - SHOWN} more (-o json has them)")
        if self.verdicts[LOWER] and self.nodes >= SAMPLING:
            lines += [
                "",
                "A lower score means: not among the best of all nodes. A scheduler that samples nodes",
                "(percentageOfNodesToScore) may have chosen the best of those it looked at.",
            ]
        return "\n".join(lines) + "\n"


def _line(judgement: Judgement) -> str:
    where = f"{judgement.pod} → {judgement.node}"
    if judgement.verdict == INFEASIBLE:
        ours = f"; we: {judgement.ours}" if judgement.ours else "; we: no node"
        return f"  {where}: would not fit ({judgement.reason}){ours}"
    differing = _differing(judgement)
    return f"  {where}: {judgement.reason}{f' ({differing})' if differing else ''}"


def _differing(judgement: Judgement) -> str:
    """The plugins that make the difference, largest first."""
    best = None if judgement.decision is None or not judgement.decision.best else judgement.decision.best[0]
    if best is None:
        return ""
    gaps = {name: points - judgement.theirs.get(name, 0) for name, points in best.scores.items()}
    largest = sorted(gaps, key=lambda name: -abs(gaps[name]))[:2]
    return ", ".join(f"{name} {gaps[name]:+d}" for name in largest if gaps[name])
