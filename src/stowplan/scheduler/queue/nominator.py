"""Nominated pods by node: other pods of lower priority leave room for them."""

from collections.abc import Callable, Collection, Mapping, Sequence

from stowplan.api.pod import Pod
from stowplan.scheduler.table.podinfo import PodInfo


class Nominator:
    """Nominated nodes and their pods.

    A nomination holds here before the API server has it in `status.nominatedNodeName`. `find` looks up the
    last known state of a pod by `namespace/name`; a pod that is deleted or assigned is not nominated.
    """

    __slots__ = ("_by_node", "_changed", "_find", "_nodes", "by_node")

    def __init__(self, find: Callable[[str], Pod | None] | None = None) -> None:
        self._find = find
        self._nodes: dict[str, str] = {}
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self.by_node: Mapping[str, Mapping[str, PodInfo]] = self._by_node
        """The nominated pods of every node that has any, by uid."""
        self._changed: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def node_of(self, uid: str) -> str | None:
        """The nominated node of a pod."""
        return self._nodes.get(uid)

    def take_changed(self) -> Collection[str]:
        """The nodes to which other pods are nominated than when this was asked last."""
        changed, self._changed = self._changed, {}
        return changed

    def pods_for(self, node: str) -> Sequence[PodInfo]:
        """The pods nominated to a node."""
        return tuple(self._by_node.get(node, {}).values())

    def add(self, pod: PodInfo, node: str | None = None) -> None:
        """Nominate a node for a pod in place of any other; "" is none, None the one in its status."""
        if pod.uid in self._nodes:
            self.remove(pod.uid)
        nominated = pod.pod.status.nominated_node_name if node is None else node
        if not nominated or not self._may_be_nominated(pod):
            return
        self._nodes[pod.uid] = nominated
        self._changed[nominated] = None
        self._by_node.setdefault(nominated, {})[pod.uid] = pod

    def update(self, old: Pod, pod: PodInfo) -> None:
        """Follow an update of a pod.

        The nomination follows its status, unless the status had none before and has none now: then the update
        is older than the nomination.
        """
        kept = None
        if not old.status.nominated_node_name and not pod.pod.status.nominated_node_name:
            kept = self._nodes.get(old.metadata.uid)
        self.remove(old.metadata.uid)
        self.add(pod, kept)

    def remove(self, uid: str) -> None:
        """End a nomination: the pod is assumed or deleted."""
        node = self._nodes.pop(uid, None)
        if node is None:
            return
        self._changed[node] = None
        pods = self._by_node[node]
        del pods[uid]
        if not pods:
            del self._by_node[node]

    def _may_be_nominated(self, pod: PodInfo) -> bool:
        if self._find is None:
            return True
        known = self._find(pod.key)
        return known is not None and not known.spec.node_name
