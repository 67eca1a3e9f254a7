"""NodeUnschedulable: keeps pods off nodes marked unschedulable, unless they tolerate that."""

from collections.abc import Hashable

import numpy as np

from stowplan.api.node import Taint
from stowplan.api.taints import tolerated
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Codes, Plugin, Reads
from stowplan.framework.status import Status, unresolvable

REASON = "node(s) were unschedulable"
UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(Plugin):
    """A node with `spec.unschedulable` counts as having the taint of that name."""

    reads = Reads.NODE
    signs_template = True

    def sign(self, pod: PodInfo) -> Hashable:
        compare = self.handle.gates["TaintTolerationComparisonOperators"]
        return tolerated(UNSCHEDULABLE_TAINT, pod.spec.tolerations, compare)

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        if self.sign(pod):
            return None
        return nodes.table.unschedulable[nodes.rows].astype(np.int64)

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(REASON)
