"""Events after which a pod that NodeResourcesFit rejected may fit."""

from collections.abc import Mapping, Sequence

from stowplan.api.devices import DeviceClass
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.rules.resources import accounted_requests, is_scalar, pod_requests
from stowplan.scheduler.framework import (
    Action,
    ClusterEvent,
    EventRegistration,
    Handle,
    Hint,
    PodInfo,
    Resource,
    queue_if,
)
from stowplan.scheduler.framework.advanced import ignoring_labels, pod_resources
from stowplan.scheduler.framework.resizes import RESIZE_PREEMPTION
from stowplan.scheduler.table.table import allocatable_amounts

Amounts = Mapping[str, int]


class FitHints:
    """The hints of NodeResourcesFit.

    They take the pod's requests as they are, also those the profile tells the filter to ignore; that is how
    Kubernetes does it.
    """

    def __init__(self, handle: Handle) -> None:
        self._with_devices = handle.gates["DRAExtendedResource"]
        self._resizes = handle.gates[RESIZE_PREEMPTION]
        self._classes = handle.table.devices.classes
        self._pods = pod_resources(handle.behaviour)
        self._accounting = handle.behaviour.rules.resize_accounting

    def registrations(self) -> Sequence[EventRegistration]:
        deleted, shrunk = Action.DELETE, Action.UPDATE_POD_SCALE_DOWN
        if self._pods.of_target is self._pods.of_assigned:
            pods = [ClusterEvent(self._pods.of_assigned, deleted | shrunk)]
        else:
            assigned, own = self._pods.of_assigned, self._pods.of_target
            pods = [
                ClusterEvent(assigned, deleted),
                ClusterEvent(assigned, shrunk),
                ClusterEvent(own, shrunk),
            ]
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        classes = ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE)
        if self._resizes:
            found = self._for_resizes(pods, nodes)
        else:
            found = [ignoring_labels(event, self.after_pod_change) for event in pods]
            found.append(ignoring_labels(nodes, self.after_node_change))
        if self._with_devices:
            found.append(ignoring_labels(classes, after_class_change))
        return found

    def _for_resizes(self, pods: Sequence[ClusterEvent], nodes: ClusterEvent) -> list[EventRegistration]:
        """The same where deferred resizes are scheduled: what happens on other nodes does not help them. If
        anything on theirs grows they may have to preempt others."""

        def after_pod_change(pod: PodInfo, old: Pod, new: Pod | None) -> Hint:
            changed = old if new is None else new
            if pod.template.resize_deferred and changed.spec.node_name != pod.spec.node_name:
                return Hint.SKIP
            return self.after_pod_change(pod, old, new)

        def after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
            if pod.template.resize_deferred and new.name != pod.spec.node_name:
                return Hint.SKIP
            return self.after_node_change(pod, old, new)

        def after_growth(pod: PodInfo, old: Pod, new: Pod) -> Hint:
            return queue_if(pod.template.resize_deferred and new.spec.node_name == pod.spec.node_name)

        growth = [
            ClusterEvent(resource, Action.UPDATE_POD_SCALE_UP)
            for resource in (self._pods.of_assigned, self._pods.of_target)
        ]
        return [
            *(EventRegistration(event, after_pod_change) for event in pods),
            *(EventRegistration(event, after_growth) for event in growth),
            EventRegistration(nodes, after_node_change),
        ]

    def after_pod_change(self, pod: PodInfo, old: Pod, new: Pod | None) -> Hint:
        if new is None:
            return queue_if(old.is_placed)
        if not new.spec.node_name:
            return queue_if(new.metadata.uid == pod.uid)
        before = accounted_requests(old, self._accounting).amounts()
        now = accounted_requests(new, self._accounting).amounts()
        wanted = pod.template.accounted.amounts()
        return queue_if(any(before.get(name, 0) > now.get(name, 0) for name in wanted))

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        wanted, offered = pod.requests.amounts(), allocatable_amounts(new)
        if not self._fits(wanted, offered):
            return Hint.SKIP
        return queue_if(old is None or self._offers_more(wanted, allocatable_amounts(old), offered))

    def _fits(self, wanted: Amounts, offered: Amounts) -> bool:
        """True if a node could take the pod if it were empty."""
        return offered.get("pods", 0) >= 1 and all(
            amount <= offered.get(name, 0) or self._by_devices(name, offered)
            for name, amount in wanted.items()
        )

    def _offers_more(self, wanted: Amounts, before: Amounts, now: Amounts) -> bool:
        """True if a node has more room than before for something the pod requests."""
        return any(now.get(name, 0) > before.get(name, 0) for name in ("pods", *wanted)) or any(
            self._by_devices(name, now) for name in wanted
        )

    def _by_devices(self, name: str, offered: Amounts) -> bool:
        """True if a resource the node itself does not have can be provided by devices."""
        return (
            self._with_devices
            and is_scalar(name)
            and not offered.get(name, 0)
            and name in self._classes.resources
        )


def after_class_change(pod: PodInfo, old: DeviceClass | None, new: DeviceClass) -> Hint:
    """A class of devices that now stands for a resource the pod asks for."""
    given = new.spec.extended_resource_name
    if old is None:
        names: Sequence[str] = new.resource_names
    elif given is None or (old.spec.extended_resource_name or "") == given:
        names = ()
    else:
        names = (given,)
    wanted = pod_requests(pod.pod, use_status=False)
    return queue_if(any(name in wanted for name in names))
