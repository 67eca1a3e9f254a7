"""When to try a pod again that other pods kept away, or did not draw near enough.

The hints see namespaces as terms name them. What a term's namespace selector chooses is not looked up, as in
Kubernetes, so a pod in a namespace that is only chosen by its labels wakes nobody.
"""

from collections.abc import Mapping, Sequence

from stowplan.api.labels import SelectorError
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.terms import Term, TermRole, terms_of
from stowplan.framework.events import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintError,
    Resource,
    queue_if,
)

Terms = Sequence[Term]


def registrations() -> Sequence[EventRegistration]:
    pods = ClusterEvent(Resource.POD, Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL)
    nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
    return (
        EventRegistration(pods, after_pod_change, by_template=True),
        EventRegistration(nodes, after_node_change, by_template=True),
    )


def after_pod_change(pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
    if old is not None and new is not None and new.metadata.uid == pod.uid:
        return Hint.QUEUE
    if any(changed is not None and not changed.is_placed for changed in (old, new)):
        return Hint.SKIP
    near = _required(pod, TermRole.REQUIRED_AFFINITY)
    away = _required(pod, TermRole.REQUIRED_ANTI_AFFINITY)
    if new is None:
        assert old is not None
        return queue_if(_chosen(away, old) or _chosen(_anti_affinity_of(old), pod.pod))
    if old is None:
        return queue_if(_chosen(near, new))
    drawn = _chosen(near, new) and not _chosen(near, old)
    freed = _chosen(away, old) and not _chosen(away, new)
    return queue_if(drawn or freed)


def after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    now = new.metadata.labels
    before = None if old is None else old.metadata.labels
    if any(_joined(term.topology_key, before, now) for term in _required(pod, TermRole.REQUIRED_AFFINITY)):
        return Hint.QUEUE
    away = _required(pod, TermRole.REQUIRED_ANTI_AFFINITY)
    return queue_if(any(_left(term.topology_key, before, now) for term in away))


def _required(pod: PodInfo, role: TermRole) -> Terms:
    """The pod's terms with one role. Raises HintError if they cannot be read."""
    terms = pod.template.terms
    if terms.error is None:
        return terms.of(role)
    try:
        return terms_of(role, pod.namespace, pod.spec.affinity)
    except SelectorError as cause:
        raise HintError(str(cause)) from None


def _anti_affinity_of(pod: Pod) -> Terms:
    try:
        return terms_of(TermRole.REQUIRED_ANTI_AFFINITY, pod.namespace, pod.spec.affinity)
    except SelectorError as cause:
        raise HintError(str(cause)) from None


def _chosen(terms: Terms, pod: Pod) -> bool:
    """Whether there are terms and a pod is chosen by all of them."""
    return bool(terms) and all(term.selects(pod.namespace, pod.metadata.labels) for term in terms)


def _joined(key: str, before: Mapping[str, str] | None, now: Mapping[str, str]) -> bool:
    """Whether a node is new in a domain of a topology key."""
    return key in now and (before is None or before.get(key) != now[key])


def _left(key: str, before: Mapping[str, str] | None, now: Mapping[str, str]) -> bool:
    """Whether a node is new, or left a domain of a topology key."""
    return before is None or (key in before and before[key] != now.get(key))
