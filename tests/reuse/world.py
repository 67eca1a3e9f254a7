"""A cluster kept two ways: in one table that lives through every change, and as plain objects."""

from msgspec.structs import replace

from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.table import ClusterTable


class World:
    """Applies every change to `table` and remembers the objects, from which `rebuilt` makes a table anew."""

    def __init__(self) -> None:
        self.table = ClusterTable()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.assumed: set[str] = set()
        self.around: dict[tuple[str, str], Object] = {}
        self._uids = 0

    def named(self, template: Pod, name: str = "") -> Pod:
        """A pod of its own made from a template."""
        self._uids += 1
        name = name or f"p{self._uids}"
        return replace(template, metadata=replace(template.metadata, name=name, uid=f"u{self._uids}"))

    # Nodes

    def put_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.table.put_node(node)

    def remove_node(self, name: str) -> None:
        del self.nodes[name]
        self.table.remove_node(name)

    # Pods

    def put_pod(self, pod: Pod, node_name: str) -> None:
        placed = replace(pod, spec=replace(pod.spec, node_name=node_name))
        self.pods[placed.metadata.uid] = placed
        self.assumed.discard(placed.metadata.uid)
        self.table.put_pod(placed)

    def remove_pod(self, uid: str) -> None:
        del self.pods[uid]
        self.assumed.discard(uid)
        self.table.remove_pod(uid)

    def assume(self, pod: Pod, node_name: str) -> None:
        info = self.table.info(pod)
        self.table.assume(info, node_name)
        self.pods[pod.metadata.uid] = replace(pod, spec=replace(pod.spec, node_name=node_name))
        self.assumed.add(pod.metadata.uid)

    def confirm(self, uid: str, node_name: str | None, *, dying: bool, relabelled: bool = False) -> None:
        pod = self.pods[uid]
        if relabelled:
            labels = {**pod.metadata.labels, "topology.kubernetes.io/zone": "z1"}
            pod = replace(pod, metadata=replace(pod.metadata, labels=labels))
        if node_name is not None:
            pod = replace(pod, spec=replace(pod.spec, node_name=node_name))
        if dying:
            pod = marked_for_deletion(pod)
        self.pods[uid] = pod
        self.assumed.discard(uid)
        self.table.confirm(pod)

    def forget(self, uid: str) -> None:
        del self.pods[uid]
        self.assumed.discard(uid)
        self.table.forget(uid)

    # Objects around pods

    def knows(self, obj: Object) -> bool:
        return (type(obj).__name__, obj.key) in self.around

    def put(self, obj: Object) -> None:
        self.around[type(obj).__name__, obj.key] = obj
        self.table.put(obj)

    def discard(self, obj: Object) -> None:
        self.table.discard(self.around.pop((type(obj).__name__, obj.key)))

    # The same from scratch

    def rebuilt(self) -> ClusterTable:
        """A table made from the objects as they are now, each taken in when all it refers to is there."""
        table = ClusterTable()
        for obj in self.around.values():
            table.put(obj)
        for name in sorted(self.nodes, reverse=True):
            table.put_node(self.nodes[name])
        for pod in self.pods.values():
            table.put_pod(pod)
        return table


def marked_for_deletion(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


def on_rows(table: ClusterTable, promised: dict[str, list[Pod]]) -> dict[int, list[PodInfo]]:
    """Nominations by node name as a table wants them."""
    found: dict[int, list[PodInfo]] = {}
    for name, pods in promised.items():
        row = table.row_of(name)
        if row is not None:
            found[row] = [table.info(pod) for pod in pods]
    return found
