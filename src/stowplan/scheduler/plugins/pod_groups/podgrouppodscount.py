"""PodGroupPodsCount: a placement is the better the more pods of the group it can take."""

from collections.abc import Sequence

import numpy as np

from stowplan.scheduler.framework import (
    MAX_NODE_SCORE,
    Contract,
    Plugin,
    Reads,
    Scores,
)
from stowplan.scheduler.framework.advanced import GroupCycle, PluginError, PodGroupAssignments, PodGroupInfo


class PodGroupPodsCount(Plugin):
    """Counts the pods that would get a node, and those of the group that have one."""

    contract = Contract(reads=Reads.NOTHING, scores_placements_by_count=True)

    def score_placements(
        self, cycle: GroupCycle, group: PodGroupInfo, placements: Sequence[PodGroupAssignments]
    ) -> Scores:
        if problem := group.too_deep():
            raise PluginError(self.name, problem)
        return np.array([len(group.running) + len(placement) for placement in placements], dtype=np.int64)

    def normalize_placement_scores(self, cycle: GroupCycle, group: PodGroupInfo, scores: Scores) -> Scores:
        most = int(scores.max(initial=0))
        if not most:
            message = "no pods from pod group are assigned to any of the candidate placements"
            raise PluginError(self.name, message)
        return scores * MAX_NODE_SCORE // most
