"""A simple autoscaler of node groups: more nodes for pods that fit nowhere, fewer when nodes are empty.

Like cluster-autoscaler it looks every ten seconds at the pods that the scheduler found unschedulable, asks
the filters of the configuration whether they would fit on new nodes of a group, first fit, and takes the
group with the lowest price per pod that is helped. Nodes on their way count as there. Pods are judged
against empty nodes alone: an affinity to pods elsewhere is not seen. A node goes when nothing but daemons was
on it for the idle time; nodes in use are not emptied.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from stowplan.api.catalogue import PODS
from stowplan.api.decode import convert
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.settings import Settings
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.scenario.model import NodeGroup
from stowplan.simulate.scenario.objects import node_body

if TYPE_CHECKING:
    from stowplan.simulate.scenario.world import World

SCAN: Final = 10.0
"""Seconds between two looks."""

SETTLED: Final = 15.0
"""Seconds after which every pod that waited for a node has been tried: more than the longest backoff."""

MOST_PODS: Final = 500
"""Number of pods considered at a time; the others next time."""

MOST_NODES: Final = 200
"""Number of nodes that a group gets at a time."""


class Autoscaler:
    """Adds and removes nodes of the groups that are to be scaled."""

    def __init__(self, world: "World", groups: Sequence[NodeGroup], settings: Settings) -> None:
        self._world = world
        self._groups = groups
        self._settings = settings
        self._coming = {group.name: 0 for group in groups}
        self._awaited = {group.name: 0 for group in groups}
        """Nodes on their way, and those that came so recently that pods in backoff have not seen them."""
        self._objects: list[Object] = [
            obj for obj in world.scenario.objects if not isinstance(obj, Node | Pod)
        ]

    def begin(self) -> None:
        self._world.agenda.after(SCAN, self._scan)

    def _scan(self) -> None:
        self._scale_up()
        self._scale_down()
        self._world.agenda.after(SCAN, self._scan)

    # More

    def _scale_up(self) -> None:
        waiting = self._not_awaited(self._unschedulable())
        if not waiting:
            return
        best: tuple[float, int, NodeGroup, int] | None = None
        for number, group in enumerate(self._groups):
            helped, new = self._estimate(group, waiting)
            if new:
                price = new * group.price / helped
                if best is None or (price, number) < best[:2]:
                    best = price, number, group, new
        if best is not None:
            _, _, group, new = best
            assert group.autoscale is not None
            self._coming[group.name] += new
            self._awaited[group.name] += new
            for _ in range(new):
                self._world.agenda.after(group.autoscale.provisioning, self._arrives, group)

    def _unschedulable(self) -> list[Pod]:
        """Pods that the scheduler could not place and that are not promised a node, the oldest first."""
        found = []
        for namespace, name in self._world.measures.unschedulable():
            pod = self._world.store.find(PODS, namespace, name)
            if pod is not None and not pod["status"].get("nominatedNodeName"):
                found.append(msgspec.convert(pod, Pod))
                if len(found) == MOST_PODS:
                    break
        return found

    def _not_awaited(self, pods: Sequence[Pod]) -> list[Pod]:
        """The pods that would not fit on the nodes that are on their way either."""
        coming: list[Object] = []
        for group in self._groups:
            coming += _empty(group, self._awaited[group.name], len(coming))
        return self._filled(coming, pods)[1] if coming else list(pods)

    def _estimate(self, group: NodeGroup, pods: Sequence[Pod]) -> tuple[int, int]:
        """Number of pods that new nodes of a group would take, and the number of these nodes."""
        assert group.autoscale is not None
        size = len(self._world.nodes.of_group[group.name]) + self._coming[group.name]
        most = min(group.autoscale.most - size, MOST_NODES, len(pods))
        if most <= 0:
            return 0, 0
        used, left = self._filled(_empty(group, most, 0), pods)
        return len(pods) - len(left), used

    def _filled(self, nodes: Sequence[Object], pods: Sequence[Pod]) -> tuple[int, list[Pod]]:
        """Place pods on nodes, each on the first that takes it: how many nodes are used, and who is left."""
        cluster = Cluster([*nodes, *self._objects], settings=self._settings, ties="first")
        table = cluster.table
        place_of = {table.row_of(node.name): number for number, node in enumerate(nodes)}
        used, left = 0, []
        for pod in pods:
            framework = cluster.frameworks.get(pod.spec.scheduler_name)
            info = table.info(pod)
            try:
                feasible = [] if framework is None else framework.run_filters(info).feasible_rows.tolist()
            except PluginError:
                feasible = []
            if not feasible:
                left.append(pod)
                continue
            first = min(place_of[row] for row in feasible)
            table.assume(info, nodes[first].name)
            used = max(used, first + 1)
        return used, left

    def _arrives(self, group: NodeGroup) -> None:
        self._coming[group.name] -= 1
        self._world.nodes.add(group)
        self._world.measures.scaled_up += 1
        self._world.agenda.after(SETTLED, self._is_known, group)

    def _is_known(self, group: NodeGroup) -> None:
        self._awaited[group.name] -= 1

    # Fewer

    def _scale_down(self) -> None:
        now, nodes = self._world.agenda.second, self._world.nodes
        scaled = {group.name: group.autoscale for group in self._groups}
        for name, since in list(self._world.pods.idle.items()):
            group = nodes.group_of(name)
            limits = scaled.get(group)
            if limits is None or now - since < limits.idle or len(nodes.of_group[group]) <= limits.least:
                continue
            nodes.remove(name)
            self._world.measures.scaled_down += 1


def _empty(group: NodeGroup, count: int, first: int) -> list[Object]:
    """New nodes of a group."""
    bodies = (node_body(group, f"new-{first + one}", one, one, 0.0) for one in range(count))
    return [convert(body, Node) for body in bodies]
