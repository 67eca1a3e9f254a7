"""Nodes where preemption would help, and the pods that would have to go from each.

Candidates are kept as columns: with thousands of nodes the choice among them is made by comparing arrays,
and only the chosen one is ever looked at pod by pod.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stowplan.api.node import Node
from stowplan.cluster.changes import NO_ROWS, Rows
from stowplan.cluster.counts import IntArray
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.postfilter import Victims
from stowplan.plugins.defaultpreemption.importance import start_of
from stowplan.plugins.defaultpreemption.reprieve import Sacrifice

_NONE: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(slots=True)
class Candidates:
    """One entry per node: its row, when its turn came, and the budgets its victims exceed.

    The victims of entry i are `pods[bounds[i]:bounds[i + 1]]`, the most important first; `priorities` and
    `starts` are theirs.
    """

    rows: Rows
    turns: IntArray
    violations: IntArray
    bounds: IntArray
    pods: list[PodInfo]
    priorities: IntArray
    starts: IntArray

    def __len__(self) -> int:
        return len(self.rows)

    def victims(self, entry: int) -> Victims:
        first, last = self.bounds[entry : entry + 2].tolist()
        return Victims(tuple(info.pod for info in self.pods[first:last]), int(self.violations[entry]))

    def take(self, entries: Rows) -> "Candidates":
        """Some of the entries, in the order asked for."""
        counts = np.diff(self.bounds)[entries]
        bounds = bounds_of(counts)
        places = np.repeat(self.bounds[:-1][entries] - bounds[:-1], counts) + np.arange(bounds[-1])
        return Candidates(
            self.rows[entries],
            self.turns[entries],
            self.violations[entries],
            bounds,
            [self.pods[place] for place in places.tolist()],
            self.priorities[places],
            self.starts[places],
        )


NO_CANDIDATES = Candidates(NO_ROWS, _NONE, _NONE, np.zeros(1, dtype=np.int64), [], _NONE, _NONE)


def from_sacrifices(found: Sequence[tuple[int, int, Sacrifice]]) -> Candidates:
    """Candidates from (turn, row, sacrifice) each."""
    if not found:
        return NO_CANDIDATES
    pods = [info for _, _, sacrifice in found for info in sacrifice.victims]
    return Candidates(
        np.array([row for _, row, _ in found], dtype=np.intp),
        _ints(turn for turn, _, _ in found),
        _ints(sacrifice.violations for _, _, sacrifice in found),
        bounds_of(_ints(len(sacrifice.victims) for _, _, sacrifice in found)),
        pods,
        _ints(info.priority for info in pods),
        _ints(start_of(info.pod) for info in pods),
    )


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
        np.concatenate([part.violations for part in parts]),
        bounds_of(np.concatenate([np.diff(part.bounds) for part in parts])),
        [info for part in parts for info in part.pods],
        np.concatenate([part.priorities for part in parts]),
        np.concatenate([part.starts for part in parts]),
    )
    return whole.take(np.argsort(whole.turns, kind="stable"))


def _ints(values: Iterator[int]) -> IntArray:
    return np.fromiter(values, dtype=np.int64)


def bounds_of(counts: IntArray) -> IntArray:
    """Where the parts of a list begin and end, given how long they are."""
    bounds: IntArray = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))
    return bounds


class VictimsByNode(Mapping[str, Victims]):
    """Candidates by node name, put into words only where somebody looks."""

    __slots__ = ("_candidates", "_entries", "_nodes")

    def __init__(self, nodes: Sequence[Node | None], candidates: Candidates) -> None:
        self._nodes = [nodes[row] for row in candidates.rows.tolist()]
        self._candidates = candidates
        self._entries: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name())

    def __getitem__(self, name: str) -> Victims:
        return self._candidates.victims(self._by_name()[name])

    def _by_name(self) -> dict[str, int]:
        if self._entries is None:
            self._entries = {node.name: entry for entry, node in enumerate(self._nodes) if node is not None}
        return self._entries
