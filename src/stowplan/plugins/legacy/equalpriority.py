"""EqualPriority: gives every node one point, as the priority of that name did; it changes no choice."""

from collections.abc import Hashable

import numpy as np

from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.interface import Reads, Scores
from stowplan.plugins.args import EqualPriorityArgs
from stowplan.plugins.legacy.base import LegacyPlugin


class EqualPriority(LegacyPlugin):
    """Whoever used it wanted no priorities at all, and had to name one."""

    args_type = EqualPriorityArgs
    args: EqualPriorityArgs
    reads = Reads.NODE
    signs_template = True

    def sign(self, pod: PodInfo) -> Hashable:
        return None

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores:
        return np.full(nodes.count, self.args.unit, dtype=np.int64)
