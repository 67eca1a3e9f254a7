"""A simple autoscaler of node groups: more nodes for pods that fit nowhere, fewer when nodes are empty.

Like cluster-autoscaler it looks every ten seconds at the pods that the scheduler found unschedulable, asks
the filters of the configuration whether they would fit on new nodes of a group, first fit, and takes the
group with the lowest price per pod that is helped. Nodes on their way count as there. Pods are judged against empty
nodes alone: an affinity to pods elsewhere is not seen. A node goes when nothing but daemons was on it for the
idle time; nodes in use are not emptied.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from stowplan.api.catalogue import PODS
from stowplan.api.decode import convert
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.framework.status import PluginError
from stowplan.scheduler.settings import Settings
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.scenario.model import NodeGroup
from stowplan.simulate.scenario.objects import node_body

if TYPE_CHECKING:
    from stowplan.simulate.scenario.world import World

SCAN: Final = 10.0
"""Seconds between two looks."""

MOST_PODS: Final = 500
"""How many pods are considered at a time; the others next time."""

MOST_NODES: Final = 200
"""How many nodes a group gets at a time."""


class Autoscaler:
    """Adds and removes nodes of the groups that are to be scaled."""

    def __init__(self, world: "World", groups: Sequence[NodeGroup], settings: Settings) -> None:
        self._world = world
        self._groups = groups
        self._settings = settings
        self._coming = {group.name: 0 for group in groups}
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
        waiting = self._unschedulable()
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

    def _estimate(self, group: NodeGroup, pods: Sequence[Pod]) -> tuple[int, int]:
        """How many pods new nodes of a group would take, and how many new nodes that are."""
        assert group.autoscale is not None
        coming = self._coming[group.name]
        size = len(self._world.nodes.of_group[group.name]) + coming
        most = min(group.autoscale.most - size, MOST_NODES)
        if most <= 0:
            return 0, 0
        count = min(coming + most, coming + len(pods))
        cluster = Cluster([*_empty(group, count), *self._objects], settings=self._settings, ties="first")
        rows = [cluster.table.row_of(f"new-{number:05}") for number in range(count)]
        place_of = {row: number for number, row in enumerate(rows)}
        used, helped = coming, 0
        for pod in pods:
            framework = cluster.frameworks.get(pod.spec.scheduler_name)
            if framework is None:
                continue
            info = cluster.table.info(pod)
            try:
                feasible = framework.run_filters(info).feasible_rows
            except PluginError:
                continue
            if len(feasible):
                first = min(place_of[int(row)] for row in feasible)
                cluster.table.assume(info, f"new-{first:05}")
                if first >= coming:
                    helped += 1
                    used = max(used, first + 1)
        return helped, used - coming

    def _arrives(self, group: NodeGroup) -> None:
        self._coming[group.name] -= 1
        self._world.nodes.add(group)
        self._world.measures.scaled_up += 1

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


def _empty(group: NodeGroup, count: int) -> list[Object]:
    """New nodes of a group; their names sort in the order in which they are filled."""
    return [
        convert(node_body(group, f"new-{number:05}", number, number, 0.0), Node) for number in range(count)
    ]
