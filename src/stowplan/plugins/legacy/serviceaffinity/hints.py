"""When to try a pod again that was not let near its service: pods, nodes or services changed."""

from collections.abc import Sequence
from typing import Final

from stowplan.api.labels import selector_from_labels
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.workloads import Service
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource, queue_if

SERVICES: Final = "services.v1."
"""How events call services, which are none of the kinds that plugins of today ask for."""


class ServiceHints:
    """The hints of ServiceAffinity for some labels."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = labels

    def registrations(self) -> Sequence[EventRegistration]:
        pods = ClusterEvent(Resource.POD, Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL)
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL)
        services = ClusterEvent(SERVICES, Action.ADD | Action.DELETE | Action.UPDATE)
        return (
            EventRegistration(pods, after_pod_change, by_template=True),
            EventRegistration(nodes, self.after_node_change, by_template=True),
            EventRegistration(services, after_service_change, by_template=True),
        )

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        """Another node to go to, or the pods of the service are elsewhere now."""
        if old is None or new is None:
            return Hint.QUEUE
        was, now = old.metadata.labels, new.metadata.labels
        return queue_if(any(was.get(label) != now.get(label) for label in self._labels))


def after_pod_change(pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
    """A pod that counts came, went, or began or ceased to count."""
    if new is not None and new.metadata.uid == pod.uid:
        return Hint.QUEUE
    counted = [changed is not None and _counts_for(pod, changed) for changed in (old, new)]
    return queue_if(counted[0] != counted[1])


def _counts_for(pod: PodInfo, changed: Pod) -> bool:
    return (
        changed.is_placed
        and changed.namespace == pod.namespace
        and selector_from_labels(pod.labels).matches(changed.metadata.labels)
    )


def after_service_change(pod: PodInfo, old: Service | None, new: Service | None) -> Hint:
    """A service has the pod now, or no longer."""
    selected = [service is not None and _selects(service, pod) for service in (old, new)]
    return queue_if(selected[0] != selected[1])


def _selects(service: Service, pod: PodInfo) -> bool:
    wanted = service.spec.selector
    if not wanted or service.namespace != pod.namespace:
        return False
    return selector_from_labels(wanted).matches(pod.labels)
