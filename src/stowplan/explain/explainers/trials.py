"""A pod or a cluster with a change, for as long as it is tried: nodes that are added or labelled."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress, count
from operator import attrgetter, is_not
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from msgspec.structs import replace

from stowplan.api.devices import ResourceSlice
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.storage import CSINode
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable

_CONDITION: Final = "node.kubernetes.io/"
"""Begin of the taints that stand for a condition of a node: a new node has none of them."""
_MERGE_KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
    "volumes": "name",
    "resourceClaims": "name",
}
"""Lists that a strategic merge patch of a pod merges, and the field it goes by."""


def patched_pod(pod: Pod, patch: Mapping[str, Any]) -> Pod:
    """A pod after a strategic merge patch."""
    return msgspec.convert(merged(msgspec.to_builtins(pod), patch), Pod)


def merged(value: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A map after a strategic merge patch: null removes, lists without a merge key are replaced."""
    result = dict(value)
    for field, change in patch.items():
        if change is None:
            result.pop(field, None)
        elif isinstance(change, Mapping):
            result[field] = merged(result.get(field) or {}, change)
        elif field in _MERGE_KEYS and isinstance(change, list):
            result[field] = _merged_list(result.get(field) or [], change, _MERGE_KEYS[field])
        else:
            result[field] = change
    return result


def _merged_list(items: Sequence[Any], changes: Sequence[Any], key: str) -> list[Any]:
    by_key = {change[key]: change for change in changes}
    found = [merged(item, by_key.pop(item.get(key), {})) for item in items]
    return [*found, *by_key.values()]


@contextmanager
def changed_node(table: ClusterTable, node: Node, changed: Node) -> Iterator[None]:
    """A node as it would be, for as long as the block takes."""
    table.put_node(changed)
    try:
        yield
    finally:
        table.put_node(node)


@contextmanager
def added_node(table: ClusterTable, node: Node, example: str = "") -> Iterator[None]:
    """One more node for as long as the block takes, with the CSI drivers and the daemons of an `example`."""
    drivers = table.storage.csi_nodes.get(example)
    added = None if drivers is None else _csi_node(drivers, node.name)
    daemons = [] if not example else daemons_of(table, example)
    table.put_node(node)
    if added is not None:
        table.put(added)
    for one in daemons:
        table.place(one, node.name)
    try:
        yield
    finally:
        for one in daemons:
            table.remove_pod(one.uid)
        if added is not None:
            table.discard(added)
        table.remove_node(node.name)


@contextmanager
def added_object(table: ClusterTable, obj: Object, old: Object | None = None) -> Iterator[None]:
    """An object that is there, or has changed, for as long as the block takes."""
    table.put(obj)
    try:
        yield
    finally:
        if old is None:
            table.discard(obj)
        else:
            table.put(old)


def _csi_node(drivers: CSINode, name: str) -> CSINode:
    """The drivers of a node on another one."""
    return replace(drivers, metadata=replace(drivers.metadata, name=name, uid=""))


def daemons_of(table: ClusterTable, node: str) -> list[PodInfo]:
    """Pods that DaemonSets would have on a node like another one."""
    row = table.row_of(node)
    on_it = () if row is None else table.pods_on[row].values()
    return [table.info(_daemon(one.pod)) for one in on_it if _is_daemon(one.pod)]


def _is_daemon(pod: Pod) -> bool:
    return any(one.controller and one.kind == "DaemonSet" for one in pod.metadata.owner_references)


def _daemon(pod: Pod) -> Pod:
    """The pod of a DaemonSet for one more node."""
    metadata = replace(pod.metadata, name=f"{pod.metadata.name}-more", uid=f"{pod.metadata.uid}-more")
    return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""))


@contextmanager
def added_slices(table: ClusterTable, node: str, added: str) -> Iterator[None]:
    """The devices of a node once more, for an added one."""
    slices = table.devices.slices
    made = [_slice_for(view.slice, added) for view in slices.for_node(node) if _is_of(view.slice, node)]
    for one in made:
        slices.put(one)
    try:
        yield
    finally:
        for one in made:
            slices.remove(one.name)


def _is_of(slice: ResourceSlice, node: str) -> bool:
    return slice.spec.node_name == node


def _slice_for(slice: ResourceSlice, node: str) -> ResourceSlice:
    """The same devices on another node, in a pool of their own."""
    pool = replace(slice.spec.pool, name=f"{slice.spec.pool.name} on {node}")
    metadata = replace(slice.metadata, name=f"{slice.name} on {node}", uid="")
    return replace(slice, metadata=metadata, spec=replace(slice.spec, node_name=node, pool=pool))


def shapes(table: ClusterTable, preferred: Sequence[int]) -> list[Node]:
    """One node of every shape, those of preferred rows first, then the most frequent."""
    known = _SHAPES.get(table)
    if known is None:
        known = _SHAPES[table] = NodeShapes()
    known.update(table)
    return known.examples(table, preferred)


class NodeShapes:
    """The shapes of the nodes of a table, by number: same allocatable, labels (but for the name) and taints.

    Nodes rarely change, so a shape is worked out again only for a row that has another node than before.
    """

    def __init__(self) -> None:
        self._nodes: list[Node | None] = []
        self._of_row = np.zeros(0, dtype=np.int64)
        self._numbers: dict[Any, int] = {}

    def update(self, table: ClusterTable) -> None:
        """Look at the nodes that are new."""
        nodes = table.nodes[: table.rows_in_use]
        before = self._nodes
        more = len(nodes) - len(before)
        if more:
            before = [*before[: len(nodes)], *[None] * more]
            self._of_row = np.concatenate(
                (self._of_row[: len(nodes)], np.zeros(max(more, 0), dtype=np.int64))
            )
        for row in compress(count(), map(is_not, nodes, before)):
            node = nodes[row]
            if node is not None:
                self._of_row[row] = self._numbers.setdefault(_shape(node), len(self._numbers))
        self._nodes = list(nodes)

    def examples(self, table: ClusterTable, preferred: Sequence[int]) -> list[Node]:
        rows = np.array(
            [*preferred, *np.flatnonzero(table.valid[: len(self._nodes)]).tolist()], dtype=np.intp
        )
        if not len(rows):
            return []
        numbers, first, counts = np.unique(self._of_row[rows], return_index=True, return_counts=True)
        wanted = np.isin(numbers, self._of_row[list(preferred)])
        order = np.lexsort((first, -counts, ~wanted))
        found = (self._nodes[rows[first[place]]] for place in order)
        return [node for node in found if node is not None]


_PRIORITY: Final = attrgetter("pod.spec.priority")
_SHAPES: Final[WeakKeyDictionary[ClusterTable, NodeShapes]] = WeakKeyDictionary()


def _shape(node: Node) -> Any:
    labels = frozenset(item for item in node.metadata.labels.items() if item[1] != node.name)
    return (frozenset(node.status.allocatable.items()), labels, node.spec.taints)


def priorities(table: ClusterTable) -> list[int]:
    """The priorities of pods with a node, from the lowest."""
    return sorted({priority or 0 for priority in set(map(_PRIORITY, table.pods.values()))})


def like(node: Node, table: ClusterTable) -> Node:
    """A new node of the same shape, ready for pods."""
    name = f"{node.name}-more"
    while table.row_of(name) is not None:
        name += "-more"
    labels = {key: name if value == node.name else value for key, value in node.metadata.labels.items()}
    metadata = replace(node.metadata, name=name, uid="", labels=labels)
    taints = tuple(one for one in node.spec.taints if not one.key.startswith(_CONDITION))
    return replace(node, metadata=metadata, spec=replace(node.spec, unschedulable=False, taints=taints))


@contextmanager
def without_pod(table: ClusterTable, info: PodInfo) -> Iterator[str]:
    """The table without a pod for as long as the block takes; gives the node it is on."""
    node = table.name_of(info.row)
    table.remove_pod(info.uid)
    try:
        yield node
    finally:
        table.place(info, node)
