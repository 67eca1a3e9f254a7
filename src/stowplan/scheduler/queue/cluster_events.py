"""Which events an update of a pod or a node amounts to."""

from collections.abc import Callable, Mapping
from functools import partial

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.node import Node
from stowplan.api.pod import Pod, ResourceList
from stowplan.api.quantity import Quantity, quantity_of
from stowplan.api.rules.resources import pod_requests, resize_is_infeasible
from stowplan.api.rules.taints import same_taints
from stowplan.scheduler.framework.events import Action, ClusterEvent, Resource, pod_resources

PodCheck = Callable[[Pod, Pod], bool]
NodeCheck = Callable[[Node, Node], bool]


class UpdateEvents:
    """Finds the events of updates, as a release has them."""

    def __init__(self, gates: FeatureGates) -> None:
        queueing, rules = gates.behaviour.queueing, gates.behaviour.rules
        self._resources = pod_resources(gates.behaviour)
        requests = partial(pod_requests, accounting=rules.resize_accounting)
        scaled: list[tuple[Action, PodCheck]] = [
            (Action.UPDATE_POD_SCALE_DOWN, lambda old, new: _requests_less(old, new, requests))
        ]
        if queueing.pod_scale_up_events:
            scaled.append((Action.UPDATE_POD_SCALE_UP, lambda old, new: _requests_less(new, old, requests)))
        self._pod_checks = (*_POD_CHECKS[:1], *scaled, *_POD_CHECKS[1:])
        without = set() if gates["NodeDeclaredFeatures"] else {Action.UPDATE_NODE_DECLARED_FEATURE}
        if not queueing.node_preemption_policy_events:
            without.add(Action.UPDATE_NODE_PREEMPTION_POLICY)
        self._node_checks = [check for check in _NODE_CHECKS if check[0] not in without]

    def of_pod(self, old: Pod, new: Pod, *, is_target: bool = False) -> list[ClusterEvent]:
        """Events of an updated pod, in order. An update of no known kind is an event, too.

        `is_target`: the updated pod is itself the waiting pod.
        """
        if new.spec.node_name:
            resource = Resource.ASSIGNED_POD
        else:
            resource = self._resources.target if is_target else self._resources.unscheduled
        happened = [action for action, check in self._pod_checks if check(old, new)]
        found = [ClusterEvent(resource, action) for action in happened]
        return found or [ClusterEvent(resource, Action.UPDATE)]

    def of_node(self, old: Node, new: Node) -> list[ClusterEvent]:
        """The events of an updated node, in order; none if nothing changed that scheduling looks at."""
        happened = [action for action, check in self._node_checks if check(old, new)]
        return [ClusterEvent(Resource.NODE, action) for action in happened]


def _pod_labels_changed(old: Pod, new: Pod) -> bool:
    return old.metadata.labels != new.metadata.labels


def _requests_less(old: Pod, new: Pod, requests: Callable[[Pod], Mapping[str, Quantity]]) -> bool:
    """Some request of `new` is smaller than that of `old`, or not there."""
    if _same_resources(old, new):
        return False
    before, now = requests(old), requests(new)
    return any(
        name not in now or amount.milli_value() > now[name].milli_value() for name, amount in before.items()
    )


def _same_resources(old: Pod, new: Pod) -> bool:
    """True if nothing changed that requests are computed from: a quick check that holds for most updates."""
    was, now = old.spec, new.spec
    return (
        was.containers == now.containers
        and was.init_containers == now.init_containers
        and was.resources == now.resources
        and was.overhead == now.overhead
        and old.status.container_statuses == new.status.container_statuses
        and old.status.init_container_statuses == new.status.init_container_statuses
        and old.status.resources == new.status.resources
        and old.status.allocated_resources == new.status.allocated_resources
        and resize_is_infeasible(old) == resize_is_infeasible(new)
    )


def _gates_are_gone(old: Pod, new: Pod) -> bool:
    return bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates


def _tolerations_changed(old: Pod, new: Pod) -> bool:
    """Tolerations can only be added, so counting them is enough."""
    return len(old.spec.tolerations) != len(new.spec.tolerations)


def _claims_were_made(old: Pod, new: Pod) -> bool:
    was, now = old.status, new.status
    return (
        was.resource_claim_statuses != now.resource_claim_statuses
        or was.extended_resource_claim_status != now.extended_resource_claim_status
    )


def _became_schedulable(old: Node, new: Node) -> bool:
    return old.spec.unschedulable and not new.spec.unschedulable


def _allocatable_changed(old: Node, new: Node) -> bool:
    was, now = old.status.allocatable, new.status.allocatable
    return was != now and not _same_amounts(was, now)


def _same_amounts(old: ResourceList, new: ResourceList) -> bool:
    """True if two lists have equal amounts, regardless of spelling."""
    return old.keys() == new.keys() and all(
        quantity_of(raw).cmp(quantity_of(new[name])) == 0 for name, raw in old.items()
    )


def _node_labels_changed(old: Node, new: Node) -> bool:
    return old.metadata.labels != new.metadata.labels


def _taints_changed(old: Node, new: Node) -> bool:
    return not same_taints(old.spec.taints, new.spec.taints)


def _conditions_changed(old: Node, new: Node) -> bool:
    return _conditions(old) != _conditions(new)


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def _annotations_changed(old: Node, new: Node) -> bool:
    return old.metadata.annotations != new.metadata.annotations


def _features_changed(old: Node, new: Node) -> bool:
    return old.status.declared_features != new.status.declared_features


def _preemption_policy_changed(old: Node, new: Node) -> bool:
    return old.spec.pod_preemption_policy != new.spec.pod_preemption_policy


_POD_CHECKS: tuple[tuple[Action, PodCheck], ...] = (
    (Action.UPDATE_POD_LABEL, _pod_labels_changed),
    (Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _gates_are_gone),
    (Action.UPDATE_POD_TOLERATION, _tolerations_changed),
    (Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, _claims_were_made),
)

_NODE_CHECKS: tuple[tuple[Action, NodeCheck], ...] = (
    (Action.UPDATE_NODE_TAINT, _became_schedulable),
    (Action.UPDATE_NODE_ALLOCATABLE, _allocatable_changed),
    (Action.UPDATE_NODE_LABEL, _node_labels_changed),
    (Action.UPDATE_NODE_TAINT, _taints_changed),
    (Action.UPDATE_NODE_CONDITION, _conditions_changed),
    (Action.UPDATE_NODE_ANNOTATION, _annotations_changed),
    (Action.UPDATE_NODE_DECLARED_FEATURE, _features_changed),
    (Action.UPDATE_NODE_PREEMPTION_POLICY, _preemption_policy_changed),
)
"""A node that becomes schedulable and has other taints, too, is two events of one kind."""
