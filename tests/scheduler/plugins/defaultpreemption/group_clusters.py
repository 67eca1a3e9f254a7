"""Small clusters, a group that wants in, and what group preemption makes of it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

from releases import V1_37
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.meta import Object
from stowplan.api.pod_groups import PodGroup
from stowplan.config import load
from stowplan.config.build import build
from stowplan.runtime.logs import Logger
from stowplan.scheduler.cycle.scheduling_cycle import NodeFinder
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.nominations import Nominations
from stowplan.scheduler.framework.pod_groups.placement import (
    GroupCycle,
    GroupTrial,
    PodGroupInfo,
    PodGroupPostFilterResult,
    Waited,
    finish,
    group_info,
)
from stowplan.scheduler.framework.profile import ProfileSpec
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.node_sampler import NodeSampler
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.pod_groups.algorithm import GroupAlgorithm
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import NodeBuilder, PodBuilder
from stowplan.testing.groups import pod_group


@cache
def _profile(gates: FeatureGates) -> ProfileSpec:
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return build(load(json.dumps(config), gates), in_tree_registry()).profiles[0]


@cache
def gates_with(names: tuple[str, ...]) -> FeatureGates:
    return FeatureGates(dict.fromkeys(("GenericWorkload", *names), True), V1_37)


class GroupWorld:
    """A cluster with groups. `nominated` are pods nominated to nodes, by node."""

    def __init__(
        self,
        nodes: Iterable[NodeBuilder],
        pods: Iterable[PodBuilder],
        objects: Iterable[Object] = (),
        *gates: str,
    ) -> None:
        self.gates = gates_with(gates)
        self.table = ClusterTable(V1_37)
        self.table.groups.enable(composite=self.gates["CompositePodGroup"])
        for one in nodes:
            self.table.put_node(one.obj())
        for obj in objects:
            self.table.put(obj)
        for builder in pods:
            self.table.put_pod(builder.obj())
            self.table.groups.put_pod(builder.obj())
        self.framework = Framework(_profile(self.gates), self.table, in_tree_registry(), self.gates)
        self.nominations: dict[int, list[PodInfo]] = {}
        self.searches = 0
        self.observed = False
        """True if an instrument follows every search, so that none may be skipped."""
        self.finder = finder = NodeFinder(NodeSampler(self.table), Random(0), Logger())
        finder.choose = _first_of_the_best
        self.algorithm = GroupAlgorithm(
            self.framework,
            Lifecycle(self.framework),
            finder,
            Random(0),
            placements=self.gates["TopologyAwareWorkloadScheduling"],
            nominations=self._nominations,
            timer=lambda: 0.0,
        )

    def _nominations(self) -> Nominations:
        return self.nominations

    def info(self, root: str, members: Mapping[str, Sequence[PodBuilder]]) -> PodGroupInfo:
        """The group that wants in, with its members by the name of their PodGroup."""
        infos = {}
        for name, pods in members.items():
            infos[f"podgroup/default/{name}"] = [self.table.info(builder.obj()) for builder in pods]
            for builder in pods:
                self.table.groups.put_pod(builder.obj())
        tree = self.table.groups.tree(root)
        assert tree is not None
        return group_info(tree, infos, self.table)

    def try_again(self, group: PodGroupInfo) -> Waited[GroupTrial]:
        result = yield from self.algorithm.run(group)
        return result.trial()

    def preempt(self, group: PodGroupInfo) -> PodGroupPostFilterResult:
        """Place the group, and if that fails let plugins make room. The table must not change."""
        before = self.picture()
        cycle = GroupCycle(self.table, group)
        result = finish(self.algorithm.run(group, cycle))
        assert not result.status.is_success, "the group fits without preemption"
        found = self.search(cycle)
        assert self.picture() == before
        return found

    def search(self, cycle: GroupCycle) -> PodGroupPostFilterResult:
        """Let plugins make room for a group that found no place in a cycle."""
        shape = self.algorithm.shape(cycle.group)
        cycle.shape = None if self.observed else shape

        def schedule() -> Waited[GroupTrial]:
            self.searches += 1
            return self.algorithm.try_again(cycle.group, shape)

        return finish(self.algorithm.points.post_filter_steps(cycle, cycle.group, schedule))

    def picture(self) -> Any:
        """State that any simulation must restore."""
        table = self.table
        pods = [[*here] for here in table.pods_on[: table.rows_in_use]]
        counts = [table.requested_of("cpu").tolist(), table.pod_count.tolist()]
        return pods, counts, {uid: info.row for uid, info in table.pods.items()}


def _first_of_the_best(evaluation: Evaluation) -> tuple[int, int]:
    """The same choice whenever nodes are as good as they are now."""
    rows = evaluation.best_rows().tolist()
    return min(rows), len(rows)


def names(result: PodGroupPostFilterResult) -> list[str]:
    return [victim.name for victim in result.victims]


def gang(name: str = "high", count: int = 2, priority: int = 10, **more: Any) -> PodGroup:
    return pod_group(name, min_count=count, priority=priority, **more)
