"""Plugins that were predicates: node conditions and pressure, NoExecute taints, Cinder volumes."""

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Final

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.quantity import milli_value_of
from stowplan.api.rules.csitranslation import CINDER
from stowplan.api.rules.taints import NO_EXECUTE, Tolerations, untolerated
from stowplan.scheduler.framework import (
    Action,
    ClusterEvent,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    Handle,
    Hint,
    NodeRows,
    PodInfo,
    Reads,
    Resource,
    Signs,
    Status,
    queue_if,
    unresolvable,
)
from stowplan.scheduler.framework.advanced import pod_resources
from stowplan.scheduler.plugins.legacy.base import LegacyPlugin, NodeFacts
from stowplan.scheduler.plugins.nodevolumelimits.non_csi import LimitByKind, MaxVolumeCountArgs
from stowplan.scheduler.plugins.tainttoleration import SetVerdicts

REASON_TAINTS: Final = "node(s) had taints that the pod didn't tolerate"

# Codes of NodeCondition are bit sets of these.
_NOT_READY, _OUT_OF_DISK, _NO_NETWORK, _UNSCHEDULABLE = 1, 2, 4, 8

CONDITION_REASONS: Final = {
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

_HUGE_PAGES: Final = "hugepages-"
_EFFECTS: Final = (NO_EXECUTE,)
_MOST: Final = 256


class NodeCondition(LegacyPlugin):
    """Rejects nodes that are not ready: the predicate CheckNodeCondition.

    A condition that a node does not report says nothing; no toleration helps. Today a controller taints such
    nodes, and TaintToleration rejects them.
    """

    contract = Contract(reads=Reads.NODE, signs=Signs.TEMPLATE)

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
        return unresolvable(*(text for bit, text in CONDITION_REASONS.items() if code & bit))


def troubles_of(node: Node) -> int:
    """Problems of a node, as a bit set."""
    found = _UNSCHEDULABLE if node.spec.unschedulable else 0
    for condition in node.status.conditions:
        wanted, trouble = _WANTED.get(condition.type, (condition.status, 0))
        if condition.status != wanted:
            found |= trouble
    return found


def _after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    return queue_if(not troubles_of(new) and (old is None or bool(troubles_of(old))))


class _Pressure(LegacyPlugin):
    """Rejects nodes on which a condition is true. Today a controller taints such nodes."""

    condition: ClassVar[str]
    text: ClassVar[str]

    contract = Contract(reads=Reads.NODE, signs=Signs.TEMPLATE)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._pressed = NodeFacts(handle.table, self._is_pressed)

    def concerns(self, pod: Pod) -> bool:
        """True if the pressure keeps a pod away at all."""
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
    """Best-effort pods do not go where memory is short: the predicate CheckNodeMemoryPressure."""

    condition = "MemoryPressure"
    text = "node(s) had memory pressure"

    def concerns(self, pod: Pod) -> bool:
        return is_best_effort(pod)


class NodeDiskPressure(_Pressure):
    """The predicate CheckNodeDiskPressure."""

    condition = "DiskPressure"
    text = "node(s) had disk pressure"


class NodePIDPressure(_Pressure):
    """The predicate CheckNodePIDPressure."""

    condition = "PIDPressure"
    text = "node(s) had pid pressure"


def is_best_effort(pod: Pod) -> bool:
    """True if no container of a pod has requests or limits for cpu, memory or huge pages."""
    return not any(
        _is_compute(name) and milli_value_of(amount) > 0
        for container in pod.spec.containers
        for resources in (container.resources.requests, container.resources.limits)
        for name, amount in resources.items()
    )


def _is_compute(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith(_HUGE_PAGES)


class NoExecuteTaints(LegacyPlugin):
    """Rejects nodes with NoExecute taints: the predicate PodToleratesNodeNoExecuteTaints.

    TaintToleration rejects NoSchedule, too. Each distinct set of taints is checked once per class of pods.
    """

    contract = Contract(reads=Reads.NODE, signs=Signs.TEMPLATE)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._compare = handle.gates["TaintTolerationComparisonOperators"]

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.spec.tolerations

    def events(self) -> Sequence[EventRegistration]:
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        pods = ClusterEvent(pod_resources(self.handle.behaviour).of_target, Action.UPDATE_POD_TOLERATION)
        return (
            EventRegistration(nodes, self._after_node_change, by_template=True),
            EventRegistration(pods, _after_toleration, by_template=True),
        )

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        was_kept_off = old is None or self._keeps_off(old.spec.taints, pod)
        return queue_if(was_kept_off and not self._keeps_off(new.spec.taints, pod))

    def _keeps_off(self, taints: Sequence[Any], pod: PodInfo) -> bool:
        return untolerated(taints, pod.spec.tolerations, _EFFECTS, self._compare) is not None

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        table = nodes.table
        if table.taint_sets.is_trivial:
            return None
        verdicts: SetVerdicts | None = cycle.memo(self)
        if verdicts is None:
            tolerations = Tolerations(pod.spec.tolerations, self._compare)
            verdicts = SetVerdicts(table.taint_sets, lambda taints: tolerations.keep_off(taints, _EFFECTS))
            cycle.remember(self, verdicts)
        codes: Codes = verdicts.current()[table.taint_set[nodes.rows]]
        return codes

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        return unresolvable(REASON_TAINTS)


def _after_toleration(pod: PodInfo, old: Pod, new: Pod) -> Hint:
    return queue_if(pod.uid == new.metadata.uid)


class MaxCinderVolumeCountArgs(MaxVolumeCountArgs, frozen=True, forbid_unknown_fields=True):
    """Arguments of MaxCinderVolumeCount, which are read like those of plugins of earlier releases."""

    api_version: str = ""
    kind: str = ""


class MaxCinderVolumeCount(LegacyPlugin, LimitByKind):
    """The limit of OpenStack's disks per node. In Kubernetes 1.18 the plugin was called CinderLimits."""

    args_type = MaxCinderVolumeCountArgs
    args: MaxCinderVolumeCountArgs
    kind = CINDER
    field = "cinder"
    resource = "attachable-volumes-cinder"

    def limit_of_machine(self, machine: str) -> int:
        return _MOST
