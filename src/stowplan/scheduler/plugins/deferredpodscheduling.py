"""DeferredPodScheduling: a pod whose resize waits for room is scheduled on its own node (since 1.37).

In the default profile with the gate InPlacePodVerticalScalingSchedulerPreemption. It is before
NodeResourcesFit, so that a node that forbids preemption for resizes is rejected in its name, and a change of
that has the pod tried again.
"""

from collections.abc import Hashable, Sequence

import numpy as np

from stowplan.api.node import Node
from stowplan.scheduler.framework import (
    SKIP,
    Action,
    ClusterEvent,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Handle,
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
from stowplan.scheduler.framework.advanced import NODE_ADD
from stowplan.scheduler.framework.resizes import RESIZE_PREEMPTION

REASON_OTHER_NODE = "pod assigned to different node"
REASON_DISABLED = "node had resize preemption disabled"
REASON_FITS = "pod resize fits, waiting for Kubelet actuation"

_OTHER_NODE, _DISABLED = 1, 2


class DeferredPodScheduling(Plugin):
    """Leaves a deferred resize its node, unless the node disables preemption for resizes."""

    contract = Contract(reads=Reads.NODE, signs=Signs.NODE_NAME)

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._on = handle.gates[RESIZE_PREEMPTION]

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.spec.node_name if self._concerns(pod) else ""

    def events(self) -> Sequence[EventRegistration]:
        policy = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_PREEMPTION_POLICY)
        return (
            EventRegistration(policy, self._after_policy_change),
            EventRegistration(NODE_ADD, self._after_policy_change),
        )

    def _after_policy_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        return queue_if(
            self._concerns(pod)
            and new.name == pod.spec.node_name
            and not _is_disabled(new)
            and (old is None or _is_disabled(old))
        )

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        return None if self._concerns(pod) else SKIP

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        table, own = nodes.table, pod.spec.node_name
        codes = np.zeros(table.capacity, dtype=np.int64)
        for row, node in enumerate(table.nodes):
            if node is not None:
                codes[row] = _code(node, own)
        result: Codes = codes[nodes.rows]
        return result

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(REASON_DISABLED if code == _DISABLED else REASON_OTHER_NODE)

    def permit(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        """A resize that fits is up to the kubelet: nothing is bound, and the pod waits."""
        return unresolvable(REASON_FITS) if self._concerns(pod) else None

    def _concerns(self, pod: PodInfo) -> bool:
        return self._on and pod.template.resize_deferred


def _code(node: Node, own: str) -> int:
    if own and node.name != own:
        return _OTHER_NODE
    return _DISABLED if _is_disabled(node) else 0


def _is_disabled(node: Node) -> bool:
    policy = node.spec.pod_preemption_policy
    return policy is not None and bool(policy.disable_resize_preemption)
