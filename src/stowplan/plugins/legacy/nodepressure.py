"""NodeMemoryPressure, NodeDiskPressure, NodePIDPressure: keep pods off nodes that run short of something, as
the predicates CheckNodeMemoryPressure, CheckNodeDiskPressure and CheckNodePIDPressure did.

Since then a controller taints such nodes, and TaintToleration keeps pods away.
"""

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Final

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.quantity import milli_value_of
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource, queue_if
from stowplan.framework.interface import Codes, Handle, Reads
from stowplan.framework.status import Status, unresolvable
from stowplan.plugins.legacy.base import LegacyPlugin
from stowplan.plugins.legacy.noderows import NodeFacts

_HUGE_PAGES: Final = "hugepages-"


class _Pressure(LegacyPlugin):
    """One condition, which should not be true."""

    condition: ClassVar[str]
    text: ClassVar[str]

    reads = Reads.NODE
    signs_template = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._pressed = NodeFacts(handle.table, self._is_pressed)

    def concerns(self, pod: Pod) -> bool:
        """Whether a pod is kept away at all."""
        return True

    def sign(self, pod: PodInfo) -> Hashable:
        return self.concerns(pod.pod)

    def events(self) -> Sequence[EventRegistration]:
        changes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_CONDITION)
        return (EventRegistration(changes, self._after_node_change, by_template=True),)

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        return queue_if(not self._is_pressed(new) and (old is None or self._is_pressed(old)))

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        return self._pressed.column()[nodes.rows] if self.concerns(pod.pod) else None

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(self.text)

    def _is_pressed(self, node: Node) -> bool:
        return any(
            condition.type == self.condition and condition.status == "True"
            for condition in node.status.conditions
        )


class NodeMemoryPressure(_Pressure):
    """Memory runs short: no more pods that do not say what they need."""

    condition = "MemoryPressure"
    text = "node(s) had memory pressure"

    def concerns(self, pod: Pod) -> bool:
        return is_best_effort(pod)


class NodeDiskPressure(_Pressure):
    """Disk space runs short."""

    condition = "DiskPressure"
    text = "node(s) had disk pressure"


class NodePIDPressure(_Pressure):
    """Process numbers run short."""

    condition = "PIDPressure"
    text = "node(s) had pid pressure"


def is_best_effort(pod: Pod) -> bool:
    """Whether no container of a pod asks for or is limited in cpu, memory or huge pages."""
    return not any(
        _is_compute(name) and milli_value_of(amount) > 0
        for container in pod.spec.containers
        for resources in (container.resources.requests, container.resources.limits)
        for name, amount in resources.items()
    )


def _is_compute(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith(_HUGE_PAGES)
