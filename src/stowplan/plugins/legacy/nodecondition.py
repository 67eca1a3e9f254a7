"""NodeCondition: keeps pods off nodes that are not ready, as the predicate CheckNodeCondition did.

Since then a controller taints such nodes, and TaintToleration keeps pods away.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final

from stowplan.api.node import Node
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource, queue_if
from stowplan.framework.interface import Codes, Handle, Reads
from stowplan.framework.status import Status, unresolvable
from stowplan.plugins.legacy.base import LegacyPlugin
from stowplan.plugins.legacy.noderows import NodeFacts

# Codes are bit sets of these.
_NOT_READY, _OUT_OF_DISK, _NO_NETWORK, _UNSCHEDULABLE = 1, 2, 4, 8

REASONS: Final = {
    _NOT_READY: "node(s) were not ready",
    _OUT_OF_DISK: "node(s) were out of disk space",
    _NO_NETWORK: "node(s) had unavailable network",
    _UNSCHEDULABLE: "node(s) were unschedulable",
}

_WANTED: Final = {
    "Ready": ("True", _NOT_READY),
    "OutOfDisk": ("False", _OUT_OF_DISK),
    "NetworkUnavailable": ("False", _NO_NETWORK),
}
"""By condition: the status it should have, and what it means if it has another, even an unknown one."""


class NodeCondition(LegacyPlugin):
    """A condition that a node does not report says nothing; no toleration helps."""

    reads = Reads.NODE
    signs_template = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._troubles = NodeFacts(handle.table, troubles_of)

    def sign(self, pod: PodInfo) -> Hashable:
        return None

    def events(self) -> Sequence[EventRegistration]:
        changes = Action.ADD | Action.UPDATE_NODE_CONDITION | Action.UPDATE_NODE_TAINT
        return (
            EventRegistration(ClusterEvent(Resource.NODE, changes), _after_node_change, by_template=True),
        )

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes:
        return self._troubles.column()[nodes.rows]

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(*(text for bit, text in REASONS.items() if code & bit))


def troubles_of(node: Node) -> int:
    """What is wrong with a node, as a bit set."""
    found = _UNSCHEDULABLE if node.spec.unschedulable else 0
    for condition in node.status.conditions:
        wanted, trouble = _WANTED.get(condition.type, (condition.status, 0))
        if condition.status != wanted:
            found |= trouble
    return found


def _after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    return queue_if(not troubles_of(new) and (old is None or bool(troubles_of(old))))
