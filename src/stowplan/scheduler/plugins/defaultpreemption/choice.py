"""Why one candidate was chosen and no other: a few numbers and names kept with the decision.

Every preemption leaves one, so it is made of the comparison's intermediate results, for a few nodes each; it
is put into words on request.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from stowplan.api.meta import timestamp
from stowplan.scheduler.framework import PodInfo
from stowplan.scheduler.framework.advanced import RuledOut, RuledOutNode
from stowplan.scheduler.plugins.defaultpreemption.candidates import (
    AGE,
    HIGHEST_PRIORITY,
    LOWEST_PRIORITY,
    NUMBER_OF_VICTIMS,
    SUM_OF_PRIORITIES,
    VIOLATIONS,
    CandidateComparison,
    Candidates,
    VictimsOf,
)
from stowplan.scheduler.plugins.defaultpreemption.importance import NOT_STARTED
from stowplan.scheduler.plugins.defaultpreemption.units import Units
from stowplan.scheduler.table.table import ClusterTable

TIES: Final = 2
"""Number of equally good nodes that are kept by name."""
NAMES: Final = 4
"""Number of pods of a node that are kept by name."""

_NAMES: Final = {
    VIOLATIONS: "pdbViolations",
    HIGHEST_PRIORITY: "highestPriority",
    SUM_OF_PRIORITIES: "sumOfPriorities",
    NUMBER_OF_VICTIMS: "victims",
    AGE: "startTime",
}
_CHOSEN: Final = {
    VIOLATIONS: "fewest violations of disruption budgets",
    HIGHEST_PRIORITY: "lowest priority of the most important victim",
    SUM_OF_PRIORITIES: "smallest sum of the victims' priorities",
    NUMBER_OF_VICTIMS: "fewest victims",
    AGE: "latest start of the most important victims",
}
_REASONS: Final = {
    VIOLATIONS: "more violations of disruption budgets",
    HIGHEST_PRIORITY: "a victim of higher priority",
    SUM_OF_PRIORITIES: "larger sum of the victims' priorities",
    NUMBER_OF_VICTIMS: "more victims",
    AGE: "the most important victims started earlier",
}
ONLY: Final = "only"
RANDOM: Final = "random"


class _Node(NamedTuple):
    """A candidate: its costs, and some of its victims."""

    name: str
    costs: list[int]
    victims: list[str]


class _Worse(NamedTuple):
    """Candidates that a criterion ruled out, and the one of them that lost by least."""

    criterion: int
    candidates: int
    nearest: _Node


@dataclass(slots=True)
class CandidateChoice:
    """The choice of a candidate, see `framework.explanation.Choice`."""

    node: _Node
    worse: list[_Worse]
    ties: list[str]
    tie_count: int
    spared: Sequence[str]
    spared_count: int

    @property
    def criterion(self) -> str:
        if self.tie_count > 1:
            return RANDOM
        return _NAMES[self.worse[-1].criterion] if self.worse else ONLY

    @property
    def text(self) -> str:
        if self.tie_count > 1:
            return f"at random among {self.tie_count} equal candidates"
        return _CHOSEN[self.worse[-1].criterion] if self.worse else "the only candidate"

    def ruled_out(self) -> list[RuledOut]:
        found = [
            RuledOut(
                _REASONS[worse.criterion],
                worse.candidates,
                (_shown(worse.criterion, worse.nearest, self.node),),
                _NAMES[worse.criterion],
            )
            for worse in self.worse
        ]
        if self.tie_count > 1:
            others = tuple(RuledOutNode(name) for name in self.ties[:TIES])
            found.append(RuledOut("equally good: chosen at random", self.tie_count - 1, others, RANDOM))
        return found


def choice_of(
    table: ClusterTable,
    candidates: Candidates,
    victims_of: VictimsOf,
    compared: CandidateComparison,
    chosen: int,
    below: int | None,
    units: Units | None = None,
) -> CandidateChoice:
    """The choice of an entry, one of the best; `below` is the preemptor's priority, if it is known."""
    costs, worse = candidates.costs, compared.worse
    nearest = [entries.item(costs[line, entries].argmin()) for line, entries in worse]
    entries = [chosen, *nearest]
    rows = candidates.rows[entries].tolist()
    victims = victims_of(rows)
    node, *others = [
        _Node(table.names[row], own, [info.key for info in going[:NAMES]])
        for row, own, going in zip(rows, costs[:, entries].T.tolist(), victims, strict=True)
    ]
    return CandidateChoice(
        node,
        [_Worse(line, len(some), lost) for (line, some), lost in zip(worse, others, strict=True)],
        [table.names[row] for row in candidates.rows[compared.best[: TIES + 1]].tolist() if row != rows[0]],
        len(compared.best),
        *((), 0) if below is None else _spared(table, rows[0], victims[0], below, units),
    )


def _spared(
    table: ClusterTable, row: int, victims: Sequence[PodInfo], below: int, units: Units | None
) -> tuple[Sequence[str], int]:
    """Pods of lower priority that stay on the node, some of them by name."""
    here = table.pods_on[row].values()
    if units is None:
        lower = [info for info in here if info.priority < below]
    else:
        lower = [info for info in here if units.priority_of(info) < below]
    if len(lower) == len(victims):
        return (), 0
    going = {info.uid for info in victims}
    staying = [info.key for info in lower if info.uid not in going]
    return tuple(staying[:NAMES]), len(staying)


def _shown(criterion: int, node: _Node, chosen: _Node) -> RuledOutNode:
    text = f"{_measure(criterion, node)}, {chosen.name}: {_measure(criterion, chosen)}"
    return RuledOutNode(node.name, text, tuple(node.victims))


def _measure(criterion: int, node: _Node) -> str:
    """Value of a criterion on a node, in words."""
    value, count = node.costs[criterion], node.costs[NUMBER_OF_VICTIMS]
    if criterion == SUM_OF_PRIORITIES:
        # Priorities are added up from the lowest there is, so the number of victims weighs most.
        return f"{count} {'victim' if count == 1 else 'victims'} sum {value + count * LOWEST_PRIORITY}"
    if criterion != AGE:
        return str(value)
    return "not yet" if -value == NOT_STARTED else timestamp(-value / 1_000_000)
