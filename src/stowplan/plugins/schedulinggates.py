"""SchedulingGates: a pod with gates waits outside the queue until they are gone."""

from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import Status, unresolvable


class SchedulingGates(Plugin):
    """Holds back pods whose `spec.schedulingGates` is not empty."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gates = [gate.name for gate in pod.spec.scheduling_gates]
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gates)}]") if gates else None
