"""Priorities that became plugins of ours: scores worked out from their formulas, on both scales."""

import json
from typing import Any

import pytest

from scheduler.plugins.answers import points
from scheduler.plugins.legacy.asking import OLD_SCALE, given, only, service, world
from stowplan.api.meta import LabelSelector, ObjectMeta
from stowplan.api.workloads import ReplicaSet, SetSpec
from stowplan.scheduler.plugins.legacy.names import old_points
from stowplan.testing import NodeBuilder, PodBuilder, cluster, node, pod

Scores = dict[str, int]


def both_scales(
    plugin: str, args: dict[str, Any], nodes: list[NodeBuilder], running: list[PodBuilder], **more: Any
) -> Any:
    """Scores of a plugin on the scale from 0 to 100, and on the old one."""
    wanting = more.pop("wanting")
    new = given(world(plugin, nodes, running, args=args, **more), wanting, plugin)
    old = given(world(plugin, nodes, running, args={**args, **OLD_SCALE}, **more), wanting, plugin)
    return new, {name: old_points(score) for name, score in old.items()}


# By resources: two machines, a pod, and what runs there. `room` is cpu in millicores and memory in bytes.

SMALL, LARGE = (
    node("small").capacity(cpu="4", memory="10000"),
    node("large").capacity(cpu="6", memory="10000"),
)
BIG = pod("p").requests(cpu="3", memory="5000")
LOAD = [
    pod("x").requests(cpu="1", memory="2000").on("small"),
    pod("y").requests(cpu="5", memory="1000").on("large"),
]

RESOURCES = [
    # Free: 1/4 and 1/2 of the small one, 1/2 and 1/2 of the large one.
    ("NodeResourcesLeastAllocated", [], {"small": 37, "large": 50}, {"small": 3, "large": 5}),
    # Small: 0/4 and 3/10; large: overdrawn by 2 in cpu, 4/10.
    ("NodeResourcesLeastAllocated", LOAD, {"small": 15, "large": 20}, {"small": 1, "large": 2}),
    ("NodeResourcesMostAllocated", [], {"small": 62, "large": 50}, {"small": 6, "large": 5}),
    # Small: 4/4 and 7/10; large: overdrawn counts nothing, 6/10.
    ("NodeResourcesMostAllocated", LOAD, {"small": 85, "large": 30}, {"small": 8, "large": 3}),
    # Apart by 0.75 - 0.5, and not at all.
    ("BalancedResourceAllocation", [], {"small": 75, "large": 100}, {"small": 7, "large": 10}),
    # Both would be full in cpu.
    ("BalancedResourceAllocation", LOAD, {"small": 0, "large": 0}, {"small": 0, "large": 0}),
    # On the way from 10 at 0% to 0 at 100%: 25 and 50, 50 and 50.
    ("RequestedToCapacityRatio", [], {"small": 38, "large": 50}, {"small": 4, "large": 5}),
    # A score of 0 does not count: only memory at 70% and at 60% does.
    ("RequestedToCapacityRatio", LOAD, {"small": 30, "large": 40}, {"small": 3, "large": 4}),
]


@pytest.mark.parametrize(("plugin", "running", "new", "old"), RESOURCES)
def test_nodes_are_scored_by_what_the_pod_would_leave_or_take(
    plugin: str, running: list[PodBuilder], new: Scores, old: Scores
) -> None:
    assert both_scales(plugin, {}, [SMALL, LARGE], running, wanting=BIG) == (new, old)


def test_containers_without_requests_count_with_the_customary_amounts() -> None:
    """100 millicores and 200 MiB each."""
    nodes = [node("a").capacity(cpu="1", memory="1000Mi"), node("b").capacity(cpu="2", memory="1000Mi")]
    new, old = both_scales("NodeResourcesLeastAllocated", {}, nodes, [pod("x").on("a")], wanting=pod("p"))
    # a: (1000-200)/1000 and (1000-400)/1000; b: (2000-100)/2000 and (1000-200)/1000.
    assert new == {"a": 70, "b": 87}
    assert old == {"a": 7, "b": 8}


def test_a_resource_that_a_node_does_not_have_counts_as_none_left() -> None:
    nodes = [node("a").capacity(cpu="4", memory="10000"), node("b").capacity(cpu=0, memory="10000")]
    wanting = pod("p").requests(cpu="1", memory="5000")
    assert given(world("NodeResourcesLeastAllocated", nodes), wanting, "NodeResourcesLeastAllocated") == {
        "a": (75 + 50) // 2,
        "b": (0 + 50) // 2,
    }
    assert given(world("BalancedResourceAllocation", nodes), wanting, "BalancedResourceAllocation")["b"] == 0


GPU = "example.com/gpu"
PACKING = {
    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
    "resources": [{"name": GPU, "weight": 3}, {"name": "cpu"}],
}


@pytest.mark.parametrize(
    ("gpus", "wanting", "new", "old"),
    [
        # A third of the GPUs is 34%, rounded up; a quarter of the CPUs 25%.
        (3, pod("p").requests({GPU: 1, "cpu": "1"}), (34 * 3 + 25) / 4, (3 * 3 + 2) / 4),
        # The pod asks for no GPU, and none is taken: 0 does not count.
        (3, pod("p").requests(cpu="1"), 25, 2),
        # No GPU at all is a resource that is used up.
        (0, pod("p").requests(cpu="1"), (100 * 3 + 25) / 4, (10 * 3 + 2) / 4),
    ],
)
def test_a_curve_over_several_resources_by_weight(
    gpus: int, wanting: PodBuilder, new: float, old: float
) -> None:
    nodes = [node("a").capacity({GPU: gpus, "cpu": "4"}), node("b").capacity({GPU: gpus, "cpu": "4"})]
    whole, tenth = both_scales("RequestedToCapacityRatio", PACKING, nodes, [], wanting=wanting)
    assert whole["a"] == int(new + 0.5)
    assert tenth["a"] == int(old + 0.5)


# Spreading

APP = {"app": "web"}
PLACES = [node("a1").zone("a"), node("a2").zone("a"), node("b1").zone("b"), node("lost")]
SPREAD = [pod("x").labels(APP).on("a1"), pod("y").labels(APP).on("b1"), pod("z").labels(APP).on("b1")]


def test_the_fewer_siblings_a_node_and_its_zone_have_the_better() -> None:
    """Most on a node: 2, in a zone: 2 (a has 1). A third of a score is the node's, two thirds the zone's."""
    new, old = both_scales(
        "SelectorSpread", {}, PLACES, SPREAD, wanting=pod("p").labels(APP), objects=[service("s", **APP)]
    )
    assert new == {"a1": 50, "a2": 66, "b1": 0, "lost": 100}
    assert old == {"a1": 5, "a2": 6, "b1": 0, "lost": 10}


def test_siblings_on_nodes_that_cannot_take_the_pod_do_not_count() -> None:
    """Without b1 the most is 1, on a node and in a zone."""
    config = only("SelectorSpread", None, "NodeUnschedulable")
    made = cluster(PLACES, SPREAD, objects=[service("s", **APP)], config=config)
    wanting = pod("p").labels(APP)
    assert given(made, wanting, "SelectorSpread")["b1"] == 0
    made.add(node("b1").zone("b").unschedulable())
    assert given(made, wanting, "SelectorSpread") == {"a1": 0, "a2": 33, "lost": 100}


@pytest.mark.parametrize(
    "wanting",
    [pod("p"), pod("p").labels(app="other")],
    ids=["without labels", "of no service"],
)
def test_a_pod_without_siblings_likes_all_nodes_alike(wanting: PodBuilder) -> None:
    made = world("SelectorSpread", PLACES, SPREAD, objects=[service("s", **APP)])
    assert set(given(made, wanting, "SelectorSpread").values()) == {100}


def test_a_pod_that_has_spread_constraints_is_left_to_them() -> None:
    made = world("SelectorSpread", PLACES, SPREAD, objects=[service("s", **APP)])
    assert points(made, pod("p").labels(APP).spread("zone"), "SelectorSpread") is None


def test_dying_pods_and_pods_of_other_namespaces_are_no_siblings() -> None:
    running = [
        pod("x").labels(APP).on("a1").terminating(),
        pod("y").labels(APP).on("a1").namespace("other"),
    ]
    made = world("SelectorSpread", PLACES, running, objects=[service("s", **APP)])
    assert set(given(made, pod("p").labels(APP), "SelectorSpread").values()) == {100}


def test_the_old_zone_label_goes_first_and_regions_tell_zones_apart() -> None:
    beta, region = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/region"
    nodes = [
        node("n1").zone("a"),
        node("n2").labels({beta: "a"}).zone("b"),
        node("n3").zone("a").labels({region: "r"}),
        node("n4").labels({beta: ""}).zone("a"),
    ]
    made = world("SelectorSpread", nodes, [pod("x").labels(APP).on("n1")], objects=[service("s", **APP)])
    assert given(made, pod("p").labels(APP), "SelectorSpread") == {"n1": 0, "n2": 33, "n3": 100, "n4": 100}


def replica_set(name: str, **labels: str) -> ReplicaSet:
    return ReplicaSet(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=SetSpec(selector=LabelSelector(match_labels=labels)),
    )


@pytest.mark.parametrize(
    ("args", "counted"),
    [
        # The service and the pod's own controller, both.
        ({}, {"a1": 1, "a2": 0, "b1": 0}),
        ({"servicesOnly": True}, {"a1": 1, "a2": 1, "b1": 0}),
        # Any of the service and the controllers whose selector fits.
        ({"anySelector": True}, {"a1": 1, "a2": 1, "b1": 1}),
        ({"anySelector": True, "servicesOnly": True}, {"a1": 1, "a2": 1, "b1": 0}),
    ],
    ids=str,
)
def test_who_counts_as_a_sibling(args: dict[str, Any], counted: Scores) -> None:
    running = [
        pod("both").labels(app="web", version="1").on("a1"),
        pod("served").labels(app="web", version="2").on("a2"),
        pod("controlled").labels(app="old", version="1").on("b1"),
    ]
    around = [service("s", app="web"), replica_set("rs", version="1")]
    nodes = [node(name) for name in ("a1", "a2", "b1", "free")]
    made = world("SelectorSpread", nodes, running, args=args, objects=around)
    wanting = pod("p").labels(app="web", version="1").owned_by("ReplicaSet", "rs")
    found = given(made, wanting, "SelectorSpread")
    assert found == {name: 100 - 100 * number for name, number in {**counted, "free": 0}.items()}


def test_pods_of_a_service_are_spread_over_the_values_of_a_label() -> None:
    """Of three pods two are in a and one in b; a node without the label gets nothing."""
    nodes = [node("a1").labels(r="a"), node("a2").labels(r="a"), node("b1").labels(r="b"), node("bare")]
    running = [pod(name).labels(APP).on(place) for name, place in (("x", "a1"), ("y", "a2"), ("z", "b1"))]
    new, old = both_scales(
        "ServiceAffinity",
        {"antiAffinityLabelsPreference": ["r"]},
        nodes,
        running,
        wanting=pod("p").labels(APP),
        objects=[service("s", **APP)],
    )
    assert new == {"a1": 33, "a2": 33, "b1": 66, "bare": 0}
    assert old == {"a1": 3, "a2": 3, "b1": 6, "bare": 0}


def test_several_labels_share_the_score_of_a_service() -> None:
    nodes = [node("a").labels(r="1", s="1"), node("b").labels(r="2")]
    args = {"antiAffinityLabelsPreference": ["r", "s"]}
    made = world(
        "ServiceAffinity", nodes, [pod("x").labels(APP).on("a")], args=args, objects=[service("s", **APP)]
    )
    assert given(made, pod("p").labels(APP), "ServiceAffinity") == {"a": 0, "b": 50}
    assert given(made, pod("p"), "ServiceAffinity") == {"a": 100, "b": 50}


def test_of_several_services_the_first_by_name_counts() -> None:
    nodes = [node("a").labels(r="1"), node("b").labels(r="2")]
    made = world(
        "ServiceAffinity",
        nodes,
        [pod("x").labels(app="web").on("a"), pod("y").labels(tier="x").on("b")],
        args={"antiAffinityLabelsPreference": ["r"]},
        objects=[service("z", app="web"), service("c", tier="x")],
    )
    assert given(made, pod("p").labels(app="web", tier="x"), "ServiceAffinity") == {"a": 100, "b": 0}


# By what nodes are


@pytest.mark.parametrize(
    ("present", "absent", "found"),
    [
        (["zone"], [], {"none": 0, "zoned": 100, "both": 100}),
        ([], ["zone"], {"none": 100, "zoned": 0, "both": 0}),
        (["zone", "disk"], [], {"none": 0, "zoned": 50, "both": 100}),
        (["zone", "disk"], ["old"], {"none": 33, "zoned": 66, "both": 100}),
        ([], [], {"none": 0, "zoned": 0, "both": 0}),
    ],
)
def test_labels_that_are_wished_for_or_away(present: list[str], absent: list[str], found: Scores) -> None:
    nodes = [node("none"), node("zoned").labels(zone=""), node("both").labels(zone="a", disk="ssd")]
    args = {"presentLabelsPreference": present, "absentLabelsPreference": absent}
    assert given(world("NodeLabel", nodes, args=args), pod("p"), "NodeLabel") == found


def avoiding(name: str, text: str) -> NodeBuilder:
    return node(name).annotations({"scheduler.alpha.kubernetes.io/preferAvoidPods": text})


def named(kind: str, uid: str) -> dict[str, Any]:
    return {"podSignature": {"podController": {"kind": kind, "uid": uid}}, "reason": "some"}


def test_pods_of_a_controller_stay_away_from_nodes_that_name_it() -> None:
    owned = pod("p").owned_by("ReplicaSet", "rs")
    [owner] = owned.obj().metadata.owner_references
    entries = [named("ReplicaSet", "other"), named("ReplicaSet", owner.uid)]
    nodes = [
        node("plain"),
        avoiding("named", json.dumps({"preferAvoidPods": entries})),
        avoiding("other kind", json.dumps({"preferAvoidPods": [named("ReplicationController", owner.uid)]})),
        avoiding("nobody", json.dumps({"preferAvoidPods": [{"podSignature": {}}]})),
        avoiding("nonsense", "{preferAvoidPods"),
    ]
    made = world("NodePreferAvoidPods", nodes)
    others = dict.fromkeys(("plain", "other kind", "nobody", "nonsense"), 100)
    assert given(made, owned, "NodePreferAvoidPods") == {**others, "named": 0}
    for free in (pod("q"), pod("q").owned_by("StatefulSet", "rs")):
        assert given(made, free, "NodePreferAvoidPods") == {**others, "named": 100}
    made.add(node("named"))
    assert given(made, owned, "NodePreferAvoidPods") == {**others, "named": 100}


@pytest.mark.parametrize(
    ("wanting", "found"),
    [
        (pod("p"), set()),
        (pod("p").requests(cpu="1"), set()),
        (pod("p").limits(cpu="2"), {"small", "large", "odd"}),
        (pod("p").limits(cpu="5"), {"large"}),
        (pod("p").limits(cpu="5", memory="1Gi"), {"small", "large"}),
        (pod("p").limits(cpu="50", memory="1Ti"), set()),
        (pod("p").limits(memory="1Gi"), {"small", "large"}),
    ],
)
def test_a_node_that_can_hold_a_limit_gets_one_point(wanting: PodBuilder, found: set[str]) -> None:
    """One of 100 since 1.17, one of 10 before."""
    nodes = [node("small").capacity(cpu="4"), node("large").capacity(cpu="8"), node("odd").capacity(memory=0)]
    running = [pod("x").requests(cpu="8").on("large")]
    names = {"small", "large", "odd"}
    expected = {name: int(name in found) for name in names}
    assert both_scales("NodeResourceLimits", {}, nodes, running, wanting=wanting) == (expected, expected)


def test_limits_of_init_containers_count_if_they_are_higher() -> None:
    with_init = pod("p").limits(cpu="2").init_container()
    [init] = with_init.obj().spec.init_containers
    high = pod("i").limits(cpu="6").obj().spec.containers[0]
    wanting = with_init.spec(init_containers=(high, init))
    nodes = [node("small").capacity(cpu="4"), node("large").capacity(cpu="8")]
    assert given(world("NodeResourceLimits", nodes), wanting, "NodeResourceLimits") == {
        "small": 0,
        "large": 1,
    }


def test_equal_priority_gives_every_node_a_point() -> None:
    new, old = both_scales("EqualPriority", {}, [node("a"), node("b")], [], wanting=pod("p"))
    assert new == old == {"a": 1, "b": 1}
