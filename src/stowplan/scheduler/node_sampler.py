"""percentageOfNodesToScore: looking at only some of the nodes, where a configuration asks for that.

The default is to score every node. With a percentage the search stops when enough nodes are found, and begins
where the last one ended, zone by zone in turn, so that in time every node gets its chance.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from stowplan.api.node import Node
from stowplan.runtime.logs import Logger, Ref
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.table.changes import Rows
from stowplan.scheduler.table.nodetree import NodeTree, zone_key
from stowplan.scheduler.table.table import ClusterTable

MIN_NODES: Final = 100
MIN_PERCENTAGE: Final = 5


def nodes_to_find(nodes: int, percentage: int | None = None, default_percentage: int = 0) -> int:
    """The number of feasible nodes to stop at, out of `nodes`.

    `percentage` is the profile's setting; where it has none, the scheduler-wide `default_percentage` holds.
    0 per cent means adaptive: 50 % of a small cluster, falling by 1 % per 125 nodes to 5 %.
    """
    if nodes < MIN_NODES:
        return nodes
    share = default_percentage if percentage is None else percentage
    if share == 0:
        share = max(50 - nodes // 125, MIN_PERCENTAGE)
    return max(nodes * share // 100, MIN_NODES)


class NodeSampler:
    """The order of nodes and where the next search begins; one for all profiles of a scheduler.

    As in kube-scheduler a node whose zone changes keeps its place until a node comes or goes.
    """

    def __init__(self, table: ClusterTable, logger: Logger | None = None) -> None:
        self._table = table
        self._logger = Logger() if logger is None else logger
        self._tree = NodeTree()
        self._nodes: dict[str, Node] = {}
        self._order: Rows | None = None
        self.next_start = 0

    @property
    def names(self) -> Iterable[str]:
        """The nodes in the order in which they came."""
        return self._nodes.keys()

    def put(self, node: Node) -> None:
        """A node is there, new or changed."""
        old = self._nodes.get(node.name)
        self._nodes[node.name] = node
        if old is None:
            self._tree.add(node)
            self._order = None
            self._tell("Added node to NodeTree", node)
        else:
            self._tree.update(old, node)
            if self._logger.enabled(2) and zone_key(old) != zone_key(node):
                self._tell("Removed node from NodeTree", old)
                self._tell("Added node to NodeTree", node)

    def remove(self, node: Node) -> None:
        old = self._nodes.pop(node.name, None)
        if old is not None:
            self._tree.remove(old)
            self._order = None
            self._tell("Removed node from NodeTree", old)

    def _tell(self, message: str, node: Node) -> None:
        if self._logger.enabled(2):
            self._logger.info(2, message, node=Ref(node.name), zone=zone_key(node))

    def narrow(self, evaluation: Evaluation, percentage: int) -> None:
        """Leave out the nodes that a search which stops at enough nodes would not have reached."""
        order = self._rows()
        searched = self.searched(evaluation)
        if not len(searched):
            return
        searched = np.roll(searched, -(self.next_start % len(searched)))
        feasible = evaluation.pod_class.filters.feasible[searched]
        found = np.cumsum(feasible)
        wanted = nodes_to_find(len(searched), percentage)
        looked_at = len(searched)
        if found[-1] > wanted:
            looked_at = int(np.searchsorted(found, wanted)) + 1
            rest = searched[looked_at:]
            evaluation.leave_out(rest[feasible[looked_at:]])
            evaluation.unexamined = len(rest)
        self.next_start = (self.next_start + looked_at) % _nodes_at_hand(order, evaluation)

    def searched(self, evaluation: Evaluation) -> Rows:
        """The rows that a search for nodes visits, in its order, from its starting point on."""
        order, filters = self._rows(), evaluation.pod_class.filters
        for mask in (filters.asked_for, filters.inside):
            if mask is not None:
                order = order[mask[order]]
        return order

    def _rows(self) -> Rows:
        """The rows of all nodes in the order of a search."""
        if self._order is None:
            rows = [self._table.row_of(name) for name in self._tree.names()]
            self._order = np.array([row for row in rows if row is not None], dtype=np.intp)
        return self._order


def _nodes_at_hand(order: Rows, evaluation: Evaluation) -> int:
    """Number of nodes, or of those in the placement that a group is tried in."""
    inside = evaluation.pod_class.filters.inside
    return len(order) if inside is None else int(np.count_nonzero(inside[order]))
