"""Check if a node can have been the best of those that a scheduler looked at which does not look at all.

kube-scheduler stops searching when it has found enough nodes (`percentageOfNodesToScore`; where nothing is
configured an adaptive share from 100 nodes on), and the next search goes on where this one ended. Where it
began is not known. So every stretch of enough nodes, in the order of its search, is one it may have looked
at. Scores depend on the nodes that are looked at, so a stretch counts only if the node is best when no other
nodes are there.
"""

from typing import Final

import numpy as np

from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.node_sampler import NodeSampler, nodes_to_find
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.columns import IntArray
from stowplan.scheduler.table.podinfo import PodInfo

TRIES: Final = 6
"""Number of stretches that are tried."""


class Sampling:
    """The stretches of nodes that a scheduler may have looked at.

    `percentage` is its percentageOfNodesToScore: 0 is adaptive, None is that of our profile for the pod,
    which looks at all nodes unless it has one.
    """

    def __init__(self, sampler: NodeSampler, percentage: int | None = None) -> None:
        self._sampler = sampler
        self._percentage = percentage

    def looks_at(self, framework: Framework, nodes: int) -> int:
        """Number of feasible nodes, of n nodes, that are enough for the scheduler."""
        percentage = self._percentage
        if percentage is None:
            percentage = framework.profile.percentage_of_nodes_to_score
        return nodes if percentage is None else nodes_to_find(nodes, percentage)

    def may_be_best(self, framework: Framework, pod: PodInfo, row: int) -> bool:
        """True if there is a stretch of nodes among which the row is best. Raises PluginError."""
        evaluation = framework.evaluate(pod)
        searched = self._sampler.searched(evaluation)
        wanted = self.looks_at(framework, len(searched))
        if not evaluation.scored:
            return False
        found = searched[evaluation.pod_class.filters.feasible[searched]]
        place = np.flatnonzero(found == row)
        if wanted >= len(found) or not len(place):
            return False
        scores = evaluation.totals()[found]
        return any(
            self._is_best(framework, pod, row, np.roll(found, -start)[:wanted])
            for start in _starts(scores, int(place[0]), wanted)
        )

    @staticmethod
    def _is_best(framework: Framework, pod: PodInfo, row: int, looked_at: Rows) -> bool:
        evaluation = framework.run_filters(pod)
        evaluation.leave_out(_others(evaluation, looked_at))
        framework.run_scores(evaluation)
        return not evaluation.scored or row in evaluation.best_rows()


def _others(evaluation: Evaluation, looked_at: Rows) -> Rows:
    feasible = np.flatnonzero(evaluation.pod_class.filters.feasible)
    others: Rows = feasible[~np.isin(feasible, looked_at)]
    return others


def _starts(scores: IntArray, place: int, wanted: int) -> list[int]:
    """Where stretches with the place in them begin, those first in which fewest nodes have more points."""
    better = np.roll(scores > scores[place], -place)
    before = np.concatenate(([0], np.cumsum(better[::-1][: wanted - 1])))
    after = np.concatenate(([0], np.cumsum(better[1:wanted])))
    ahead = before + after[::-1]
    nearest = np.argsort(ahead, kind="stable")[:TRIES]
    return [(place - back) % len(scores) for back in nearest.tolist()]
