"""Groups that are judged by an estimate end as if every member had been placed in every placement."""

from random import Random

import pytest

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import release
from stowplan.config import build, default_config
from stowplan.runtime.logs import Logger
from stowplan.scheduler.cycle.scheduling_cycle import NodeFinder
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.pod_groups.placement import finish, group_info
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.node_sampler import NodeSampler
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.pod_groups.algorithm import MANY, GroupAlgorithm
from stowplan.scheduler.pod_groups.result import GroupOutcome
from stowplan.scheduler.table.podinfo import PodInfo
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import node, pod
from stowplan.testing.groups import pod_group

RELEASE = release("1.37")
RACK = "example.com/rack"


class _FirstOnes(Random):
    """A random source that always takes the first, so that two runs choose the same."""

    def randrange(self, *args: object, **kwargs: object) -> int:
        return 0


def framework(topology: bool) -> Framework:
    gates = FeatureGates({"GenericWorkload": True, "TopologyAwareWorkloadScheduling": topology}, RELEASE)
    table = ClusterTable(RELEASE)
    table.groups.enable(composite=False)
    [profile] = build(default_config(gates)).profiles
    return Framework(profile, table, in_tree_registry(), gates)


def fill(made: Framework, chance: Random, size: int, least: int, ports: bool) -> list[PodInfo]:
    """A few racks, some of them full, and a group in one of them."""
    table = made.table
    for number in range(chance.randint(2, 12)):
        labels = {RACK: f"r{chance.randint(0, 3)}"} if chance.random() < 0.9 else {}
        cpu = str(chance.randint(1, 8))
        table.put_node(node(f"n{number:02}").labels(labels).capacity({"cpu": cpu}).obj())
        if chance.random() < 0.5:
            table.put_pod(pod(f"old-{number}").requests(cpu="1").on(f"n{number:02}").obj())
    table.groups.put(pod_group("g", min_count=least, topology=RACK))
    members = []
    for number in range(size):
        one = pod(f"g-{number:03}").requests(cpu="1").labels(number=str(number))
        made_pod = (one.port(80, 80) if ports else one).group("g").obj()
        table.groups.put_pod(made_pod)
        members.append(table.info(made_pod))
    return members


def outcome(made: Framework, members: list[PodInfo], *, topology: bool, estimates: bool) -> GroupOutcome:
    algorithm = GroupAlgorithm(
        made,
        Lifecycle(made),
        NodeFinder(NodeSampler(made.table), _FirstOnes(1), Logger()),
        _FirstOnes(1),
        placements=topology,
        nominations=dict,
        timer=lambda: 0.0,
        estimates=estimates,
    )
    tree = made.table.groups.tree("podgroup/default/g")
    assert tree is not None
    result = finish(algorithm.run(group_info(tree, {tree.key: members}, made.table)))
    assert all(info.row < 0 for info in members)
    return result.outcomes[tree.key]


def told(found: GroupOutcome) -> object:
    """Messages of the group and its members, and the rows of those of a group that fits."""
    fits = found.status.is_success
    return (
        found.status.code,
        found.status.message,
        [
            (one.pod.key, one.row is not None, one.row if fits else None, one.failure and one.failure.message)
            for one in found.pods
        ],
        [(trial.placement, trial.nodes, trial.status.is_success) for trial in found.trials],
    )


@pytest.mark.parametrize("topology", [True, False])
def test_an_estimate_changes_nothing_but_the_time_it_takes(topology: bool) -> None:
    chance = Random(5)
    fitting = 0
    for _ in range(60):
        size = chance.choice((1, 3, 8, MANY, MANY + 7))
        made = framework(topology)
        least = chance.randint(1, size + 1)
        members = fill(made, chance, size, least, chance.random() < 0.2)
        exact = outcome(made, members, topology=topology, estimates=False)
        quick = outcome(made, members, topology=topology, estimates=True)
        assert told(quick) == told(exact)
        fitting += exact.status.is_success
    assert 5 < fitting < 55


def test_members_are_alike_whatever_labels_they_have_that_nobody_looks_at() -> None:
    made = framework(topology=True)
    members = fill(made, Random(1), 4, 2, ports=False)
    assert len({member.template for member in members}) == 4
    assert made.common_class(members) is not None
    other = made.table.info(pod("other").requests(cpu="2").group("g").obj())
    assert made.common_class([*members, other]) is None
