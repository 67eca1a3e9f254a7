"""Victims that are members of groups: who goes together, by which priority, and what budgets make of it."""

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.plugins.defaultpreemption.preempting import (
    budget,
    by_node,
    high,
    leaving,
    low,
    preempt,
    small,
    victims,
    with_status,
)
from stowplan.api.meta import Object
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.plugins.defaultpreemption.plugin import REASON_TERMINATING
from stowplan.testing import Cluster, PodBuilder, cluster
from stowplan.testing.builders import HOSTNAME
from stowplan.testing.groups import composite_pod_group, pod_group

NODES = ("n", "far")


def world(pods: Sequence[PodBuilder], objects: Sequence[Object] = (), *, composite: bool = False) -> Cluster:
    """A cluster with a small node, another that is of no use, and groups."""
    nodes = [small("n"), small("far")]
    made = cluster(nodes=nodes, release="1.37")
    made.table.groups.enable(composite=composite)
    made.add(*objects, *pods)
    for builder in pods:
        made.table.groups.put_pod(builder.obj())
    return made


def near(cpu: int = 1, priority: int = 10) -> PodBuilder:
    """A pod that only fits on the first node, if anywhere."""
    return high(cpu, priority).node_selector({HOSTNAME: "n"})


def member(name: str, on: str = "n", priority: int = 0, cpu: int = 1, **more: Any) -> PodBuilder:
    """A running pod of group g."""
    return low(name, on, priority, cpu, **more).group("g")


UNITS = [
    pytest.param(
        [pod_group("g", disrupted_together=True)],
        [member("g1"), member("g2"), low("p", "n", 0, 2)],
        1,
        ["p"],
        id="a group is more important than a pod of its priority",
    ),
    pytest.param(
        [pod_group("g", disrupted_together=True)],
        [member("g1", cpu=2), member("g2", "far"), low("p", "n", 1, 2)],
        1,
        ["g1", "g2"],
        id="all pods of a group go, those on other nodes too",
    ),
    pytest.param(
        [pod_group("g")],
        [member("g1", cpu=2), member("g2", "far"), low("p", "n", 1, 2)],
        1,
        ["g1"],
        id="pods of a group go one by one unless it says otherwise",
    ),
    pytest.param(
        [pod_group("g")],
        [member("g1", cpu=2, hour=5), low("p", "n", 0, 2, hour=1)],
        1,
        ["p"],
        id="the single pod of a group is more important than an older pod",
    ),
    pytest.param(
        [pod_group("g", priority=20)],
        [member("g1", cpu=2), low("p", "n", 5, 2)],
        1,
        ["p"],
        id="members have the priority of their group, which is too high",
    ),
    pytest.param(
        [pod_group("g", priority=1)],
        [member("g1", priority=20, cpu=2), low("p", "n", 5, 2)],
        1,
        ["g1"],
        id="members have the priority of their group, which is low enough",
    ),
    pytest.param(
        [],
        [member("g1", priority=3, cpu=2), low("p", "n", 2, 2)],
        1,
        ["p"],
        id="without its group a pod has its own priority",
    ),
    pytest.param(
        [pod_group("g", disrupted_together=True), pod_group("h", disrupted_together=True)],
        [
            member("g1"),
            member("g2", "far"),
            low("h1", "n", 0, 1, hour=0).group("h"),
            low("h2", "n", 0, 1, hour=0).group("h"),
            low("h3", "far", 0, 1, hour=0).group("h"),
            low("fixed", "n", 10),
        ],
        1,
        ["g1", "g2"],
        id="the larger group is more important",
    ),
    pytest.param(
        [pod_group("g", disrupted_together=True), pod_group("h", disrupted_together=True)],
        [
            member("g1", cpu=2, hour=4),
            member("g2", "far", hour=5),
            low("h1", "n", 0, 2, hour=7).group("h"),
            low("h2", "far", 0, 1, hour=3).group("h"),
        ],
        1,
        ["g1", "g2"],
        id="of groups of one size the one whose first pod started earlier is more important",
    ),
]


@pytest.mark.parametrize(("objects", "pods", "cpu", "gone"), UNITS)
def test_who_goes(
    objects: Sequence[Object], pods: Sequence[PodBuilder], cpu: int, gone: Sequence[str]
) -> None:
    made = world(pods, objects)
    before = picture(made)
    assert victims(preempt(made, near(cpu))) == gone
    assert picture(made) == before


def picture(made: Cluster) -> Any:
    table = made.table
    return [
        (name, made.pods_on(name), table.requested_of("cpu").tolist(), table.pod_count.tolist())
        for name in NODES
    ]


def test_a_group_above_makes_its_pods_go_together() -> None:
    objects = [
        composite_pod_group("top", priority=1, disrupted_together=True),
        pod_group("g", parent="top", priority=9, disrupted_together=True),
        pod_group("h", parent="top", priority=9),
    ]
    pods = [member("g1", cpu=2), low("h1", "far").group("h"), low("p", "n", 2, 2)]
    assert victims(preempt(world(pods, objects, composite=True), near())) == ["g1", "h1"]
    assert victims(preempt(world(pods, objects), near())) == ["p"]


def test_a_group_whose_parent_is_missing_counts_alone() -> None:
    objects = [pod_group("g", parent="top", priority=1, disrupted_together=True)]
    pods = [member("g1", cpu=2), member("g2", "far"), low("p", "n", 2, 2)]
    assert victims(preempt(world(pods, objects, composite=True), near())) == ["g1", "g2"]


def test_all_pods_of_a_group_that_violate_a_budget_count() -> None:
    objects = [pod_group("g", disrupted_together=True), budget("b", {"team": "red"}, allowed=1)]
    pods = [
        member("g1", cpu=2).labels(team="red"),
        member("g2", "far").labels(team="red"),
        member("g3", "far").labels(team="red"),
        low("fixed", "n", 10, 2),
    ]
    assert by_node(preempt(world(pods, objects), near())) == {"n": (["g1", "g2", "g3"], 2)}


def test_a_unit_with_a_violating_pod_is_reprieved_first() -> None:
    objects = [pod_group("g", disrupted_together=True), budget("b", {"team": "red"}, allowed=0)]
    pods = [member("g1", cpu=2), member("g2", "far").labels(team="red"), low("p", "n", 5, 2)]
    assert by_node(preempt(world(pods, objects), near())) == {"n": (["p"], 0)}


def test_a_victim_on_its_way_out_is_known_by_the_priority_of_its_group() -> None:
    pods = [leaving(member("g1", priority=20, cpu=4))]
    wanting = with_status(near(), nominated_node_name="n")

    def tried(priority: int) -> PostFilterResult:
        return preempt(world(pods, [pod_group("g", priority=priority)]), wanting)

    assert REASON_TERMINATING in tried(1).status.message
    assert REASON_TERMINATING not in tried(11).status.message


@pytest.mark.parametrize("priority", [1, 30])
def test_a_unit_with_a_pod_on_an_unknown_node_is_an_error_whether_it_may_be_preempted_or_not(
    priority: int,
) -> None:
    objects = [pod_group("g", disrupted_together=True, priority=priority)]
    made = world([member("g1", cpu=4), member("g2", "gone")], objects)
    result = preempt(made, near())
    node = '"gone"'
    assert result.status.message == (
        f"preemption: failed to get node info for node {node} from snapshot: "
        f"nodeinfo not found for node name {node}"
    )


def test_pods_elsewhere_are_out_of_the_way_too() -> None:
    """A pod that keeps its distance to a zone's pods fits once the whole group is gone from the zone."""
    objects = [pod_group("g", disrupted_together=True)]
    pods = [member("g1", cpu=4), member("g2", "far")]
    made = world(pods, objects)
    wanting = near().anti_affinity("zone", {"app": "g2"})
    made.add(small("n").labels(zone="z"), small("far").labels(zone="z"))
    assert victims(preempt(made, wanting)) == ["g1", "g2"]
    single = world(pods, [pod_group("g")])
    single.add(small("n").labels(zone="z"), small("far").labels(zone="z"))
    assert preempt(single, wanting).nominated_node == ""
