"""NodePorts: a host port can be taken once per node."""

from collections.abc import Hashable

import numpy as np

from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Codes, Plugin, Reads
from stowplan.framework.status import SKIP, Status, unschedulable

REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts(Plugin):
    """Finds the rows where a wanted port is taken from the index of ports in use."""

    reads = Reads.USAGE
    signs_template = True
    constant_pre_filter = True

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.template.ports

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        return None if pod.template.ports else SKIP

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        taken = nodes.table.host_ports.conflicting_rows(pod.template.ports)
        if not taken:
            return None
        codes = np.zeros(nodes.table.capacity, dtype=np.int64)
        codes[list(taken)] = 1
        result: Codes = codes[nodes.rows]
        return result

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unschedulable(REASON)
