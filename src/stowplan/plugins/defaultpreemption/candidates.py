"""Nodes where preemption would help, and what it would cost on each.

Candidates are kept as columns of numbers: with thousands of nodes the choice among them is made by comparing
arrays, and only the pods of the chosen one are ever asked for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stowplan.api.node import Node
from stowplan.cluster.changes import NO_ROWS, Rows
from stowplan.cluster.columns import BoolColumn, IntArray
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.interface import Victims
from stowplan.plugins.defaultpreemption.importance import NOT_STARTED, start_of
from stowplan.plugins.defaultpreemption.reprieve import Sacrifice

VIOLATIONS, HIGHEST_PRIORITY, SUM_OF_PRIORITIES, NUMBER_OF_VICTIMS, AGE = COSTS = range(5)
"""Lines of what a node's victims cost, in the order in which they are compared: less is better.

The budgets they exceed; the priority of the most important one; the sum of their priorities; how many they
are; and how long ago the first of the most important ones started."""

_LOWEST_PRIORITY = -(2**31)
"""Priorities are counted from here in sums, so that one more victim never makes a sum smaller."""

VictimsOf = Callable[[Sequence[int]], Sequence[Sequence[PodInfo]]]
"""Who would have to go from each of some rows, the most important first; while the table stands still."""


@dataclass(slots=True)
class Candidates:
    """One entry per node: its row, when its turn came, and what its victims cost, a line per criterion."""

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


def from_sacrifices(found: Sequence[tuple[int, int, Sacrifice]]) -> Candidates:
    """Candidates from (turn, row, sacrifice) each."""
    if not found:
        return NO_CANDIDATES
    pods = [info for _, _, sacrifice in found for info in sacrifice.victims]
    costs = costs_of(
        _ints(sacrifice.violations for _, _, sacrifice in found),
        bounds_of(_ints(len(sacrifice.victims) for _, _, sacrifice in found)),
        _ints(info.priority for info in pods),
        _ints(start_of(info.pod) for info in pods),
    )
    rows = np.array([row for _, row, _ in found], dtype=np.intp)
    return Candidates(rows, _ints(turn for turn, _, _ in found), costs)


def costs_of(violations: IntArray, bounds: IntArray, priorities: IntArray, starts: IntArray) -> IntArray:
    """What victims cost. Those of entry i, at least one, are `bounds[i]` up to `bounds[i + 1]`, the most
    important first; `priorities` and `starts` are theirs."""
    begins, counts = bounds[:-1], np.diff(bounds)
    highest = priorities[begins]
    of_the_highest = priorities == np.repeat(highest, counts)
    costs = np.empty((len(COSTS), len(counts)), dtype=np.int64)
    costs[VIOLATIONS] = violations
    costs[HIGHEST_PRIORITY] = highest
    costs[SUM_OF_PRIORITIES] = np.add.reduceat(priorities - _LOWEST_PRIORITY, begins)
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
    """Candidates by node name, put into words only where somebody looks, while the table stands still."""

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
