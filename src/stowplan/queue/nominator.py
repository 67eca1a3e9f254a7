"""Pods that a node is promised to: room is kept for them until they come or the promise is taken back."""

from collections.abc import Callable, Mapping, Sequence

from stowplan.api.pod import Pod
from stowplan.cluster.podinfo import PodInfo


class Nominator:
    """Nodes and the pods they are promised to.

    What is promised here runs ahead of what pods say in `status.nominatedNodeName`. `find` finds a pod as the
    API server last told of it by `namespace/name`; a pod that is gone or on a node gets no promise.
    """

    __slots__ = ("_by_node", "_find", "_nodes", "by_node")

    def __init__(self, find: Callable[[str], Pod | None] | None = None) -> None:
        self._find = find
        self._nodes: dict[str, str] = {}
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self.by_node: Mapping[str, Mapping[str, PodInfo]] = self._by_node
        """The pods of every node that is promised to any, by uid."""

    def __len__(self) -> int:
        return len(self._nodes)

    def node_of(self, uid: str) -> str | None:
        """The node promised to a pod."""
        return self._nodes.get(uid)

    def pods_for(self, node: str) -> Sequence[PodInfo]:
        """The pods a node is promised to."""
        return tuple(self._by_node.get(node, {}).values())

    def add(self, pod: PodInfo, node: str | None = None) -> None:
        """Promise a node to a pod in place of any other; "" promises none, None what its status says."""
        if pod.uid in self._nodes:
            self.remove(pod.uid)
        promised = pod.pod.status.nominated_node_name if node is None else node
        if not promised or not self._may_be_promised(pod):
            return
        self._nodes[pod.uid] = promised
        self._by_node.setdefault(promised, {})[pod.uid] = pod

    def update(self, old: Pod, pod: PodInfo) -> None:
        """Take in a pod's new state.

        The promise follows what its status says, unless it said nothing before and says nothing now: then it
        is news from before the promise was made.
        """
        kept = None
        if not old.status.nominated_node_name and not pod.pod.status.nominated_node_name:
            kept = self._nodes.get(old.metadata.uid)
        self.remove(old.metadata.uid)
        self.add(pod, kept)

    def remove(self, uid: str) -> None:
        """Take a promise back: the pod came, or is gone."""
        node = self._nodes.pop(uid, None)
        if node is None:
            return
        pods = self._by_node[node]
        del pods[uid]
        if not pods:
            del self._by_node[node]

    def _may_be_promised(self, pod: PodInfo) -> bool:
        if self._find is None:
            return True
        known = self._find(pod.key)
        return known is not None and not known.spec.node_name
