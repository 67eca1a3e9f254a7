"""NodeName: a pod that names its node runs there or nowhere."""

from collections.abc import Hashable, Sequence

import numpy as np

from stowplan.scheduler.framework import (
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    NodeRows,
    Plugin,
    PodInfo,
    PreFilterResult,
    Reads,
    Signs,
    Status,
    unresolvable,
)
from stowplan.scheduler.framework.advanced import NODE_ADD, Shortfall

REASON = "node(s) didn't match the requested node name"


class NodeName(Plugin):
    """Compares `spec.nodeName`, where it is set, with the node."""

    contract = Contract(reads=Reads.NODE, signs=Signs.NODE_NAME, constant_pre_filter=True)

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.pod.spec.node_name

    def events(self) -> Sequence[EventRegistration]:
        return (EventRegistration(NODE_ADD),)

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> PreFilterResult | None:
        """Since 1.37 only the named node is looked at."""
        name = pod.spec.node_name
        return PreFilterResult(frozenset({name})) if name else None

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        wanted = pod.spec.node_name
        if not wanted:
            return None
        codes = np.ones(nodes.table.capacity, dtype=np.int64)
        row = nodes.table.row_of(wanted)
        if row is not None:
            codes[row] = 0
        result: Codes = codes[nodes.rows]
        return result

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        return Shortfall("another node", f"the pod names node {pod.spec.node_name}")

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(REASON)
