"""How full the nodes of a placement would be with the pods of a group on them: the fuller the better.

Whatever strategy nodes are scored by, placements are packed: large ones stay free for large groups.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from stowplan.api.rules.resources import is_scalar
from stowplan.gocompat.numbers import MAX_INT64
from stowplan.scheduler.framework import MAX_NODE_SCORE, Scores
from stowplan.scheduler.framework.advanced import PodGroupAssignments
from stowplan.scheduler.plugins.noderesources.resource_allocation import ResourceSpec
from stowplan.scheduler.table.columns import MEMORY, IntArray
from stowplan.scheduler.table.podinfo import PodInfo, PodTemplate
from stowplan.scheduler.table.table import ClusterTable


def placement_scores(
    table: ClusterTable,
    resources: Sequence[ResourceSpec],
    placements: Sequence[PodGroupAssignments],
    asked: Callable[[PodInfo], Sequence[int]],
) -> Scores:
    """The average share of resources that would be in use, by weight; what a placement lacks does not count.

    `asked` gives what a pod asks of each resource. Other resources than cpu, memory and storage count only
    where a pod of the group asks for them.
    """
    known: dict[int, list[int]] = {}
    wanted = []
    for placement in placements:
        key = id(placement.assignments)
        if key not in known:
            known[key] = _wanted(placement, asked, len(resources))
        wanted.append(known[key])
    nodes = _Nodes(table, placements)
    weighted = [0] * len(placements)
    weights = [0] * len(placements)
    for index, spec in enumerate(resources):
        line = table.line_of(spec.name)
        used = table.non_zero[line] if line <= MEMORY else table.requested[line]
        capacities = nodes.sums(table.allocatable[line])
        in_use = nodes.sums(used)
        for place, capacity in enumerate(capacities):
            mine = wanted[place][index]
            if not capacity or (is_scalar(spec.name) and not mine):
                continue
            weighted[place] += min(mine + in_use[place], capacity) * MAX_NODE_SCORE // capacity * spec.weight
            weights[place] += spec.weight
    return np.array(
        [total // weight if weight else 0 for total, weight in zip(weighted, weights, strict=True)],
        dtype=np.int64,
    )


def _wanted(
    placement: PodGroupAssignments, asked: Callable[[PodInfo], Sequence[int]], resources: int
) -> list[int]:
    """Sum of the pods' requests for each resource; pods of one template have equal requests."""
    counts: Counter[PodTemplate] = Counter()
    examples: dict[PodTemplate, PodInfo] = {}
    for assignment in placement.assignments:
        template = assignment.pod.template
        counts[template] += 1
        examples[template] = assignment.pod
    totals = [0] * resources
    for template, pod in examples.items():
        for index, amount in enumerate(asked(pod)):
            totals[index] += amount * counts[template]
    return totals


class _Nodes:
    """The rows of all placements one after the other, to add columns up over each of them."""

    def __init__(self, table: ClusterTable, placements: Sequence[PodGroupAssignments]) -> None:
        rows = [one.placement.rows_of(table) for one in placements]
        sizes = np.array([len(some) for some in rows])
        self._rows = np.concatenate(rows)
        self._ends = np.cumsum(sizes)
        self._starts = self._ends - sizes

    def sums(self, column: IntArray) -> list[int]:
        """The sum of a column over the nodes of every placement, however large it is."""
        values = column[self._rows]
        if int(values.max(initial=0)) >= MAX_INT64 // max(len(values), 1):
            values = values.astype(object)
        running = np.concatenate(([0], np.cumsum(values)))
        found: list[int] = (running[self._ends] - running[self._starts]).tolist()
        return found
