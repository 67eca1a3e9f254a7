"""When to try a pod again that no domain had room for: pods it counts, or nodes, came, went or changed."""

from collections.abc import Callable, Sequence

from stowplan.api.labels import SelectorError
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.taints import same_taints
from stowplan.cluster.podinfo import PodInfo
from stowplan.framework.events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintError,
    Resource,
    queue_if,
)
from stowplan.plugins.podtopologyspread.constraints import Constraint

Constraints = Sequence[Constraint]


class SpreadHints:
    """The hints of PodTopologySpread; `hard` gives a pod's hard constraints."""

    def __init__(self, hard: Callable[[PodInfo], Constraints]) -> None:
        self._hard = hard

    def registrations(self) -> Sequence[EventRegistration]:
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return (
            EventRegistration(ClusterEvent(Resource.POD, pods), self.after_pod_change, by_template=True),
            EventRegistration(ClusterEvent(Resource.NODE, nodes), self.after_node_change, by_template=True),
        )

    def after_pod_change(self, pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
        if any(changed is not None and not _counts_for(pod, changed) for changed in (old, new)):
            return Hint.SKIP
        constraints = self._constraints(pod)
        if old is not None and new is not None:
            return queue_if(_update_matters(pod, old, new, constraints))
        changed = new or old
        assert changed is not None
        return queue_if(any(entry.selector.matches(changed.metadata.labels) for entry in constraints))

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        constraints = self._constraints(pod)
        had_keys = old is not None and _has_all_keys(old, constraints)
        has_keys = new is not None and _has_all_keys(new, constraints)
        if old is None or new is None:
            return queue_if(had_keys or has_keys)
        if had_keys != has_keys:
            return Hint.QUEUE
        changed = not same_taints(old.spec.taints, new.spec.taints) or _moved(old, new, constraints)
        return queue_if(has_keys and changed)

    def _constraints(self, pod: PodInfo) -> Constraints:
        try:
            return self._hard(pod)
        except SelectorError as cause:
            raise HintError(f"obtaining pod's hard topology spread constraints: {cause}") from None


def _counts_for(pod: PodInfo, changed: Pod) -> bool:
    """Whether a pod can count for a waiting one: it is that pod, or it has a place in its namespace."""
    if changed.metadata.uid == pod.uid:
        return True
    return changed.is_placed and changed.namespace == pod.namespace


def _update_matters(pod: PodInfo, old: Pod, new: Pod, constraints: Constraints) -> bool:
    """Whether a pod counts that did not, or no longer counts, or the waiting pod tolerates more nodes."""
    tolerates_more = pod.uid == new.metadata.uid and old.spec.tolerations != new.spec.tolerations
    if tolerates_more and any(entry.honors_taints for entry in constraints):
        return True
    before, now = old.metadata.labels, new.metadata.labels
    return any(entry.selector.matches(before) != entry.selector.matches(now) for entry in constraints)


def _has_all_keys(node: Node, constraints: Constraints) -> bool:
    return all(entry.key in node.metadata.labels for entry in constraints)


def _moved(old: Node, new: Node, constraints: Constraints) -> bool:
    """Whether a node is in another domain than before."""
    before, now = old.metadata.labels, new.metadata.labels
    return any(before.get(entry.key) != now.get(entry.key) for entry in constraints)
