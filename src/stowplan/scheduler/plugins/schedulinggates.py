"""SchedulingGates: a pod with gates waits outside the queue until they are gone."""

from collections.abc import Sequence

from stowplan.api.pod import Pod
from stowplan.scheduler.framework import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Plugin,
    PodInfo,
    Status,
    queue_if,
    unresolvable,
)
from stowplan.scheduler.framework.advanced import pod_resources


class SchedulingGates(Plugin):
    """Holds back pods whose `spec.schedulingGates` is not empty."""

    def events(self) -> Sequence[EventRegistration]:
        own = pod_resources(self.handle.behaviour).of_target
        pods = ClusterEvent(own, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return (EventRegistration(pods, self._after_gates_are_gone, by_template=True, ignores_labels=True),)

    @staticmethod
    def _after_gates_are_gone(pod: PodInfo, old: Pod, new: Pod) -> Hint:
        return queue_if(pod.uid == new.metadata.uid)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return None
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")

    def always_enqueues(self, pod: PodInfo) -> bool:
        return not pod.pod.spec.scheduling_gates
