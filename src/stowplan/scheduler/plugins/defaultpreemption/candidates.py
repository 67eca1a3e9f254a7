"""Victims on one node, candidate nodes with the cost of their victims, and the choice among candidates.

Candidates are columns of numbers: with thousands of nodes the choice is made by comparing arrays, and only
the victims on the chosen node are ever looked up.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stowplan.api.node import Node
from stowplan.gocompat.quoting import quote
from stowplan.scheduler.framework import PodInfo, Status, error, unresolvable
from stowplan.scheduler.framework.advanced import NotBuiltError, PluginError, Victims
from stowplan.scheduler.framework.pod_groups.placement import finish
from stowplan.scheduler.framework.simulation import Simulation, Simulations
from stowplan.scheduler.plugins.defaultpreemption.importance import (
    NOT_STARTED,
    by_importance,
    reprieve_order,
    start_of,
    violations_of,
)
from stowplan.scheduler.plugins.defaultpreemption.units import Units, UnknownNodeError
from stowplan.scheduler.table.changes import NO_ROWS, Rows
from stowplan.scheduler.table.columns import BoolColumn, IntArray
from stowplan.scheduler.table.lookups import DisruptionBudgets

REASON_NO_VICTIMS = "No preemption victims found for incoming pod"

VIOLATIONS, HIGHEST_PRIORITY, SUM_OF_PRIORITIES, NUMBER_OF_VICTIMS, AGE = COSTS = range(5)
"""Lines of the costs of a node's victims, in the order in which they are compared: less is better.

Number of budget violations; the highest priority; the sum of priorities; the number of victims; and the time
since the first of those with the highest priority started.
"""

LOWEST_PRIORITY = -(2**31)
"""Priorities are counted from here in sums, so that one more victim never makes a sum smaller."""


class NodeVictims(NamedTuple):
    """The victims on one node, the most important first, and how many of them violate a budget."""

    victims: list[PodInfo]
    violations: int


def select_victims(
    simulations: Simulations, row: int, budgets: DisruptionBudgets, units: Units | None = None
) -> NodeVictims | Status:
    """The victims on a row that make the pod fit; or why preemption does not help there.

    All pods of lower priority are removed. If the pod fits then, they are reprieved one by one as long as it
    still fits: first those whose eviction would violate a budget, among these and among the others the most
    important first. The pods that cannot be reprieved are the victims. With `units`, pods that go together
    are removed and reprieved together, those on other rows too.
    """
    table, priority = simulations.table, simulations.pod.priority
    here = table.pods_on[row].values()
    if units is None:
        found = [info for info in here if (info.pod.spec.priority or 0) < priority]
        lower = [[info] for info in by_importance(found)] if found else []
    else:
        try:
            lower = [unit.pods for unit in finish(units.below(here, priority))]
        except UnknownNodeError as cause:
            return error(str(cause))
    if not lower:
        return unresolvable(REASON_NO_VICTIMS)
    with simulations.row(row) as simulation:
        for pods in lower:
            _remove(simulation, pods)
        status = _verdict(simulation)
        if status is not None:
            return status
        protected = violations_of(lower, budgets)
        spared = {
            position for position in reprieve_order(protected) if _reprieved(simulation, lower[position])
        }
    victims = [position for position in range(len(lower)) if position not in spared]
    if not victims:
        return error(f"expected at least one victim pod on node {quote(table.name_of(row))}")
    return NodeVictims(
        [info for position in victims for info in lower[position]], sum(protected[p] for p in victims)
    )


def _remove(simulation: Simulation, pods: Iterable[PodInfo]) -> None:
    for info in pods:
        simulation.remove_pod(info)


def _reprieved(simulation: Simulation, pods: Sequence[PodInfo]) -> bool:
    """Put pods back if the preemptor still fits."""
    for info in pods:
        simulation.restore_pod(info)
    if _verdict(simulation) is None:
        return True
    _remove(simulation, pods)
    return False


def _verdict(simulation: Simulation) -> Status | None:
    """The result of the filters. The error of a plugin rejects this node, not the others."""
    try:
        return simulation.verdict()
    except NotBuiltError:
        raise
    except PluginError as failure:
        return error(failure.message)


VictimsOf = Callable[[Sequence[int]], Sequence[Sequence[PodInfo]]]
"""The victims on each of some rows, the most important first; while the table does not change."""


@dataclass(slots=True)
class Candidates:
    """One entry per node: its row, its turn in the dry run, and its victims' costs, a line per criterion."""

    rows: Rows
    turns: IntArray
    costs: IntArray

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def violations(self) -> IntArray:
        line: IntArray = self.costs[VIOLATIONS]
        return line

    def take(self, entries: Rows) -> "Candidates":
        """Some of the entries, in the order asked for."""
        return Candidates(self.rows[entries], self.turns[entries], self.costs[:, entries])


NO_CANDIDATES = Candidates(NO_ROWS, np.zeros(0, dtype=np.int64), np.zeros((len(COSTS), 0), dtype=np.int64))


def candidates_of(found: Sequence[tuple[int, int, NodeVictims]]) -> Candidates:
    """Candidates from (turn, row, victims) each."""
    if not found:
        return NO_CANDIDATES
    pods = [info for _, _, node in found for info in node.victims]
    costs = costs_of(
        _ints(node.violations for _, _, node in found),
        bounds_of(_ints(len(node.victims) for _, _, node in found)),
        _ints(info.priority for info in pods),
        _ints(start_of(info.pod) for info in pods),
    )
    rows = np.array([row for _, row, _ in found], dtype=np.intp)
    return Candidates(rows, _ints(turn for turn, _, _ in found), costs)


def costs_of(violations: IntArray, bounds: IntArray, priorities: IntArray, starts: IntArray) -> IntArray:
    """The costs of victims. Those of entry i, at least one, are `bounds[i]` up to `bounds[i + 1]`, the most
    important first; `priorities` and `starts` are theirs."""
    begins, counts = bounds[:-1], np.diff(bounds)
    highest = priorities[begins]
    # Members of a group go by its priority: their own may be higher than that of the first victim.
    of_the_highest = priorities == np.repeat(np.maximum.reduceat(priorities, begins), counts)
    costs = np.empty((len(COSTS), len(counts)), dtype=np.int64)
    costs[VIOLATIONS] = violations
    costs[HIGHEST_PRIORITY] = highest
    costs[SUM_OF_PRIORITIES] = np.add.reduceat(priorities - LOWEST_PRIORITY, begins)
    costs[NUMBER_OF_VICTIMS] = counts
    costs[AGE] = -np.minimum.reduceat(np.where(of_the_highest, starts, NOT_STARTED), begins)
    return costs


def joined(parts: Sequence[Candidates]) -> Candidates:
    """Candidates of several parts in the order of their turns."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return NO_CANDIDATES
    if len(parts) == 1:
        return parts[0]
    whole = Candidates(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.turns for part in parts]),
        np.concatenate([part.costs for part in parts], axis=1),
    )
    return whole.take(np.argsort(whole.turns, kind="stable"))


def _ints(values: Iterator[int]) -> IntArray:
    return np.fromiter(values, dtype=np.int64)


def bounds_of(counts: IntArray | BoolColumn) -> IntArray:
    """Where the parts of a list begin and end, given how long they are."""
    bounds = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=bounds[1:])
    return bounds


class VictimsByNode(Mapping[str, Victims]):
    """Candidates by node name, looked up only when read, while the table does not change."""

    __slots__ = ("_candidates", "_found", "_nodes", "_victims_of")

    def __init__(self, nodes: Sequence[Node | None], candidates: Candidates, victims_of: VictimsOf) -> None:
        self._nodes = nodes
        self._candidates = candidates
        self._victims_of = victims_of
        self._found: dict[str, Victims] | None = None

    def __len__(self) -> int:
        return len(self._candidates)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name())

    def __getitem__(self, name: str) -> Victims:
        return self._by_name()[name]

    def _by_name(self) -> dict[str, Victims]:
        if self._found is None:
            rows = self._candidates.rows.tolist()
            violations = self._candidates.violations.tolist()
            self._found = {
                node.name: Victims(tuple(info.pod for info in victims), violated)
                for row, victims, violated in zip(rows, self._victims_of(rows), violations, strict=True)
                if (node := self._nodes[row]) is not None
            }
        return self._found


class CandidateComparison(NamedTuple):
    """The best candidates, equal by all criteria, and the others by the criterion that ruled them out."""

    best: Rows
    worse: list[tuple[int, Rows]]


def compare(candidates: Candidates) -> CandidateComparison:
    """Compare candidates: one of the best is chosen at random.

    Fewest violated budgets; lowest highest priority; lowest sum of priorities; fewest victims; latest start
    of the victims with the highest priority.
    """
    entries = np.arange(len(candidates))
    worse: list[tuple[int, Rows]] = []
    for criterion, line in enumerate(candidates.costs):
        if len(entries) <= 1:
            break
        values = line[entries]
        lowest = values == values.min()
        if not lowest.all():
            worse.append((criterion, entries[~lowest]))
            entries = entries[lowest]
    return CandidateComparison(entries, worse)
