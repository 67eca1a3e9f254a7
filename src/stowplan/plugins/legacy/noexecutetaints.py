"""NoExecuteTaints: heeds only the taints that also drive running pods away, as the predicate
PodToleratesNodeNoExecuteTaints did. TaintToleration heeds NoSchedule, too."""

from collections.abc import Hashable, Sequence
from typing import Any, Final

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.taints import NO_EXECUTE, Tolerations, untolerated
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle_state import Cycle
from stowplan.framework.events import Action, ClusterEvent, EventRegistration, Hint, Resource, queue_if
from stowplan.framework.interface import Codes, Handle, Reads
from stowplan.framework.status import Status, unresolvable
from stowplan.plugins.legacy.base import LegacyPlugin
from stowplan.plugins.tainttoleration import SetVerdicts

REASON: Final = "node(s) had taints that the pod didn't tolerate"
_EFFECTS: Final = (NO_EXECUTE,)


class NoExecuteTaints(LegacyPlugin):
    """Each distinct set of taints is judged once per class of pods."""

    reads = Reads.NODE
    signs_template = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._compare = handle.gates["TaintTolerationComparisonOperators"]

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.spec.tolerations

    def events(self) -> Sequence[EventRegistration]:
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        pods = ClusterEvent(Resource.POD, Action.UPDATE_POD_TOLERATION)
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
        return unresolvable(REASON)


def _after_toleration(pod: PodInfo, old: Pod, new: Pod) -> Hint:
    return queue_if(pod.uid == new.metadata.uid)
