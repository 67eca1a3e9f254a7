"""NodeUnschedulable: keeps pods off nodes marked unschedulable, unless they tolerate that."""

from collections.abc import Hashable, Iterable, Sequence

import msgspec
import numpy as np

from stowplan.api.node import Node, Taint
from stowplan.api.pod import Pod
from stowplan.api.rules.taints import tolerated
from stowplan.scheduler.framework import (
    Action,
    ClusterEvent,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Hint,
    NodeRows,
    Plugin,
    PodInfo,
    Reads,
    Resource,
    Signs,
    Status,
    queue_if,
    unresolvable,
)
from stowplan.scheduler.framework.advanced import Obstacle, Remedy, Shortfall, pod_resources
from stowplan.scheduler.table.changes import Rows

REASON = "node(s) were unschedulable"

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(Plugin):
    """A node with `spec.unschedulable` counts as having the taint of that name."""

    contract = Contract(
        reads=Reads.NODE,
        signs=Signs.TEMPLATE_WITHOUT_LABELS,
        constant_pre_filter=True,
        skips_deferred_resizes=True,
    )

    def sign(self, pod: PodInfo) -> Hashable:
        return self._tolerated(pod.pod)

    def _tolerated(self, pod: Pod) -> bool:
        compare = self.handle.gates["TaintTolerationComparisonOperators"]
        return tolerated(UNSCHEDULABLE_TAINT, pod.spec.tolerations, compare)

    def events(self) -> Sequence[EventRegistration]:
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        pods = ClusterEvent(pod_resources(self.handle.behaviour).of_target, Action.UPDATE_POD_TOLERATION)
        return (
            EventRegistration(nodes, self._after_node_change, by_template=True, ignores_labels=True),
            EventRegistration(pods, self._after_toleration, by_template=True, ignores_labels=True),
        )

    @staticmethod
    def _after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
        return queue_if(not new.spec.unschedulable and (old is None or old.spec.unschedulable))

    def _after_toleration(self, pod: PodInfo, old: Pod, new: Pod) -> Hint:
        return queue_if(pod.uid == new.metadata.uid and self._tolerated(new))

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        """A PreFilter plugin since 1.37, with nothing to prepare."""
        return None

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        if self.sign(pod):
            return None
        return nodes.table.unschedulable[nodes.rows].astype(np.int64)

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        return Shortfall("cordoned", "spec.unschedulable is true")

    def obstacle(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Obstacle | None:
        return Obstacle("cordoned", "is")

    def remedies(self, cycle: Cycle, pod: PodInfo, row: int) -> Iterable[Remedy]:
        """Uncordoning also takes away the taint, which the node controller sets for cordoned nodes."""
        node = cycle.table.nodes[row]
        taints = () if node is None else node.spec.taints
        left = [msgspec.to_builtins(one) for one in taints if one.key != UNSCHEDULABLE_TAINT.key]
        patch = {"spec": {"unschedulable": None, "taints": left}}
        yield Remedy("uncordon", f"uncordon {cycle.table.name_of(row)}", {}, node_patch=patch)

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(REASON)
