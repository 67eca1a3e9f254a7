"""Figures worked out by hand from the formulas, and rules with a catch."""

from typing import Any

import pytest

from scheduler.plugins.answers import points, profile_with, verdicts
from stowplan.api.meta import ObjectMeta
from stowplan.api.workloads import Service, ServiceSpec
from stowplan.scheduler.framework.status import SUCCESS, unresolvable
from stowplan.scheduler.node_sampler import nodes_to_find
from stowplan.testing import PodBuilder, cluster, node, pod
from stowplan.testing.builders import HOSTNAME, ZONE

MIB = 1024**2
HALF_EMPTY = node("a").capacity(cpu="4", memory="8192Mi")
THERE = pod("there").requests(cpu="1", memory="2048Mi").on("a")
SILENT = pod("p")
"""One container that requests nothing: it counts 100m and 200Mi."""


def strategy(kind: str, *shape: tuple[int, int]) -> dict[str, Any]:
    scoring: dict[str, Any] = {"type": kind, "resources": [{"name": "cpu"}, {"name": "memory"}]}
    if shape:
        curve = [{"utilization": where, "score": score} for where, score in shape]
        scoring["requestedToCapacityRatio"] = {"shape": curve}
    return profile_with("NodeResourcesFit", {"scoringStrategy": scoring})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (strategy("LeastAllocated"), 72),
        (strategy("MostAllocated"), 27),
        (strategy("RequestedToCapacityRatio", (0, 0), (100, 10)), 27),
        (strategy("RequestedToCapacityRatio", (0, 10), (100, 0)), 73),
    ],
    ids=["least", "most", "ratio up", "ratio down"],
)
def test_resource_scores(config: dict[str, Any], expected: int) -> None:
    world = cluster(nodes=[HALF_EMPTY, node("other")], pods=[THERE], config=config)
    found = points(world, SILENT, "NodeResourcesFit")
    assert found is not None
    assert found["a"] == expected


@pytest.mark.parametrize(("memory", "expected"), [("4096Mi", 65), ("1024Mi", 75)])
def test_balanced_allocation(memory: str, expected: int) -> None:
    world = cluster(nodes=[HALF_EMPTY, node("other")], pods=[THERE])
    wanting = pod("p").requests(cpu="500m", memory=memory)
    found = points(world, wanting, "NodeResourcesBalancedAllocation")
    assert found is not None
    assert found["a"] == expected


def test_taints_to_avoid_of_0_1_and_3_give_100_67_and_0() -> None:
    nodes = [node("none"), node("one"), node("three")]
    for count, which in ((1, 1), (3, 2)):
        for number in range(count):
            nodes[which] = nodes[which].taint(f"t{number}", effect="PreferNoSchedule")
    found = points(cluster(nodes=nodes), pod("p"), "TaintToleration")
    assert found == {"none": 3 * 100, "one": 3 * 67, "three": 0}


def test_domains_with_2_0_and_1_pods_give_0_100_and_33() -> None:
    nodes = [node(name).zone(name) for name in "abc"]
    pods = [pod(f"x{n}").labels(app="x").on(where) for n, where in enumerate("aac")]
    wanting = pod("p").labels(app="x").spread(ZONE, when_unsatisfiable="ScheduleAnyway")
    found = points(cluster(nodes=nodes, pods=pods), wanting, "PodTopologySpread")
    assert found == {"a": 0, "b": 2 * 100, "c": 2 * 33}


def test_affinity_of_minus_50_0_and_25_gives_0_66_and_100() -> None:
    nodes = [node(name).zone(name) for name in "abc"]
    pods = [pod("foe").labels(app="foe").on("a"), pod("friend").labels(app="friend").on("c")]
    wanting = pod("p").anti_affinity(ZONE, {"app": "foe"}, weight=50)
    wanting = wanting.affinity(ZONE, {"app": "friend"}, weight=25)
    found = points(cluster(nodes=nodes, pods=pods), wanting, "InterPodAffinity")
    assert found == {"a": 0, "b": 2 * 66, "c": 2 * 100}


def test_an_image_of_500_mib_on_3_of_10_nodes_gives_12() -> None:
    nodes = [node(f"n{number}") for number in range(10)]
    nodes[:3] = [each.image("app:1", 500 * MIB) for each in nodes[:3]]
    found = points(cluster(nodes=nodes), pod("p").image("app:1"), "ImageLocality")
    assert found == {f"n{number}": 12 if number < 3 else 0 for number in range(10)}


@pytest.mark.parametrize(("nodes", "enough"), [(99, 99), (100, 100), (1000, 420), (5000, 500), (10000, 500)])
def test_enough_feasible_nodes(nodes: int, enough: int) -> None:
    assert nodes_to_find(nodes) == enough


def test_all_required_terms_have_to_be_met_by_the_same_pod() -> None:
    nodes = [node(name).zone(name) for name in "ab"]
    apart = [pod("x").labels(app="x").on("a"), pod("y").labels(tier="y").on("a")]
    both = pod("both").labels(app="x", tier="y").on("b")
    wanting = pod("p").affinity(ZONE, {"app": "x"}).affinity(ZONE, {"tier": "y"})
    rejected = unresolvable("node(s) didn't match pod affinity rules").by("InterPodAffinity")
    assert verdicts(cluster(nodes=nodes, pods=apart), wanting) == {"a": rejected, "b": rejected}
    found = verdicts(cluster(nodes=nodes, pods=[*apart, both]), wanting)
    assert found == {"a": rejected, "b": SUCCESS}


def _grouped(wanting: PodBuilder, *nodes: Any) -> dict[str, int] | None:
    """Scores under the built-in constraints, where the service `x` makes the group and `c` has two of it."""
    service = Service(
        metadata=ObjectMeta(name="x", namespace="default"), spec=ServiceSpec(selector={"app": "x"})
    )
    pods = [pod(f"x{n}").labels(app="x").on("c") for n in range(2)]
    return points(cluster(nodes=nodes, pods=pods, objects=[service]), wanting, "PodTopologySpread")


def test_by_default_nodes_without_a_zone_are_one_with_those_whose_zone_is_empty() -> None:
    """The two pods on `c`, which has no zone, count for `b`: log 4 twice and a skew of 5 on top; hosts weigh
    log 5 with a skew of 3. Raw: a 6, b 2.77 + 6 = 9, c 3.22 + 2 = 5."""
    wanting = pod("p").labels(app="x")
    found = _grouped(wanting, node("a").zone("1"), node("b").zone(""), node("c"))
    assert found == {"a": 2 * (100 * (9 + 5 - 6) // 9), "b": 2 * (100 * 5 // 9), "c": 2 * 100}


def test_a_pod_that_matches_no_group_is_not_spread_at_all() -> None:
    assert _grouped(pod("p").labels(app="y"), node("a"), node("b"), node("c")) is None


def test_a_constraint_on_everybody_counts_nobody_but_the_pod_itself() -> None:
    """An empty selector matches the pod, and no pod on any node: with a skew of 1 every domain has room."""
    nodes = [node("a"), node("b")]
    crowd = [pod(f"x{n}").on("a") for n in range(5)]
    wanting = pod("p").spread(HOSTNAME, {})
    assert verdicts(cluster(nodes=nodes, pods=crowd), wanting) == {"a": SUCCESS, "b": SUCCESS}
