"""When to try a pod again that did not fit: nodes with more room, pods that left or shrank, new devices."""

from collections.abc import Callable, Mapping, Sequence

from stowplan.api.devices import DeviceClass
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.resources import accounted_requests, is_scalar, pod_requests
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import allocatable_amounts
from stowplan.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource, queue_if
from stowplan.framework.interface import Handle

Amounts = Mapping[str, int]


class FitHints:
    """The hints of NodeResourcesFit.

    They take the pod's requests as they are, also those the profile tells the filter to ignore; that is how
    Kubernetes does it.
    """

    def __init__(self, handle: Handle) -> None:
        self._with_devices = handle.gates["DRAExtendedResource"]
        self._means_devices: Callable[[str], bool] = handle.table.lookups.means_devices

    def registrations(self) -> Sequence[EventRegistration]:
        pods = ClusterEvent(Resource.POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN)
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        classes = ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE)
        found = [
            EventRegistration(pods, after_pod_change, by_template=True),
            EventRegistration(nodes, self.after_node_change, by_template=True),
        ]
        if self._with_devices:
            found.append(EventRegistration(classes, after_class_change, by_template=True))
        return found

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        wanted, offered = pod.requests.amounts(), allocatable_amounts(new)
        if not self._fits(wanted, offered):
            return Hint.SKIP
        return queue_if(old is None or self._offers_more(wanted, allocatable_amounts(old), offered))

    def _fits(self, wanted: Amounts, offered: Amounts) -> bool:
        """Whether a node could take the pod if it were empty."""
        return offered.get("pods", 0) >= 1 and all(
            amount <= offered.get(name, 0) or self._by_devices(name, offered)
            for name, amount in wanted.items()
        )

    def _offers_more(self, wanted: Amounts, before: Amounts, now: Amounts) -> bool:
        """Whether a node has more room than before for something the pod wants."""
        return any(now.get(name, 0) > before.get(name, 0) for name in ("pods", *wanted)) or any(
            self._by_devices(name, now) for name in wanted
        )

    def _by_devices(self, name: str, offered: Amounts) -> bool:
        """Whether a resource the node itself does not have can come as devices."""
        return (
            self._with_devices and is_scalar(name) and not offered.get(name, 0) and self._means_devices(name)
        )


def after_pod_change(pod: PodInfo, old: Pod, new: Pod | None) -> Hint:
    if new is None:
        return queue_if(old.is_placed)
    if new.metadata.uid == pod.uid:
        return Hint.QUEUE
    if not new.spec.node_name:
        return Hint.SKIP
    before, now = accounted_requests(old).amounts(), accounted_requests(new).amounts()
    wanted = pod.template.accounted.amounts()
    return queue_if(any(before.get(name, 0) > now.get(name, 0) for name in wanted))


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
