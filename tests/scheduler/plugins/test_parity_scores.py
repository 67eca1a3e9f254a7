"""The scores' rows of docs/parity.md: figures worked out by hand. Points are score times weight."""

from typing import Any

import pytest

from scheduler.plugins.answers import gated_cluster, points, profile_with
from stowplan.api.meta import LabelSelector, Object, ObjectMeta
from stowplan.api.pod import Container, ImageVolume, Toleration, Volume
from stowplan.api.workloads import (
    ReplicaSet,
    ReplicationController,
    ReplicationControllerSpec,
    Service,
    ServiceSpec,
    SetSpec,
    StatefulSet,
)
from stowplan.testing import PodBuilder, cluster, node, pod
from stowplan.testing.builders import HOSTNAME, ZONE

FIT = "NodeResourcesFit"
BALANCE = "NodeResourcesBalancedAllocation"
MIB = 1024 * 1024

NODES = [node("idle"), node("busy")]
"""Nodes with 4 CPU and 16Gi."""
QUARTER = pod("p").requests(cpu="1", memory="4Gi")
"""Takes a quarter of such a node."""
BUSY = [pod("old").requests(cpu="1", memory="4Gi").on("busy")]


def test_least_allocated_is_the_share_left_free() -> None:
    world = cluster(nodes=NODES, pods=BUSY)
    assert points(world, QUARTER, FIT) == {"idle": 75, "busy": 50}
    assert points(world, pod("p").requests(cpu="1", memory="8Gi"), FIT) == {"idle": 62, "busy": 37}


def strategy(**fields: Any) -> dict[str, Any]:
    return profile_with(FIT, {"scoringStrategy": fields})


def test_most_allocated_is_the_share_that_would_be_used() -> None:
    world = cluster(nodes=NODES, pods=BUSY, config=strategy(type="MostAllocated"))
    assert points(world, QUARTER, FIT) == {"idle": 25, "busy": 50}
    weighted = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
    world = cluster(nodes=NODES, pods=BUSY, config=strategy(type="MostAllocated", resources=weighted))
    assert points(world, pod("p").requests(cpu="1", memory="8Gi"), FIT) == {"idle": 31, "busy": 56}


def test_a_shape_gives_every_utilization_its_score() -> None:
    shape = [
        {"utilization": 0, "score": 0},
        {"utilization": 40, "score": 10},
        {"utilization": 100, "score": 4},
    ]
    config = strategy(type="RequestedToCapacityRatio", requestedToCapacityRatio={"shape": shape})
    world = cluster(nodes=NODES, pods=BUSY, config=config)
    assert points(world, QUARTER, FIT) == {"idle": 62, "busy": 90}


def test_containers_that_ask_for_nothing_count_a_little() -> None:
    nodes = [node(name).capacity(cpu="1", memory="2000Mi") for name in ("idle", "busy")]
    world = cluster(nodes=nodes, pods=[pod("old").on("busy")])
    assert points(world, pod("p"), FIT) == {"idle": 90, "busy": 80}
    assert points(world, pod("p").requests(cpu="500m"), FIT) == {"idle": 70, "busy": 60}
    assert points(world, pod("p").requests(cpu=0, memory=0), FIT) == {"idle": 100, "busy": 90}


def test_balanced_allocation_rewards_what_evens_a_node_out() -> None:
    world = cluster(nodes=NODES, pods=[pod("old").requests(cpu="1").on("busy")])
    assert points(world, pod("p").requests(memory="4Gi"), BALANCE) == {"idle": 68, "busy": 81}
    assert points(world, QUARTER, BALANCE) == {"idle": 75, "busy": 75}
    assert points(world, pod("p"), BALANCE) is None


def test_nodes_with_more_taints_to_avoid_score_less() -> None:
    soft = "PreferNoSchedule"
    nodes = [
        node("none"),
        node("one").taint("a", "", soft),
        node("two").taint("a", "", soft).taint("b", "", soft),
    ]
    world = cluster(nodes=nodes)
    assert points(world, pod("p"), "TaintToleration") == {"none": 300, "one": 150, "two": 0}
    tolerant = pod("p").tolerates("a", effect=soft)
    assert points(world, tolerant, "TaintToleration") == {"none": 300, "one": 300, "two": 0}
    elsewhere = pod("p").tolerates("a", effect="NoSchedule")
    assert points(world, elsewhere, "TaintToleration") == {"none": 300, "one": 150, "two": 0}


@pytest.mark.parametrize(("on", "expected"), [(False, 0), (True, 300)])
def test_numeric_tolerations_of_soft_taints_count_only_behind_their_gate(on: bool, expected: int) -> None:
    nodes = [node("none"), node("soft").taint("level", "5", "PreferNoSchedule")]
    world = gated_cluster({"TaintTolerationComparisonOperators": on}, nodes, [])
    wanting = pod("p").spec(tolerations=(Toleration(key="level", operator="Gt", value="4"),))
    assert points(world, wanting, "TaintToleration") == {"none": 300, "soft": expected}


def test_wishes_for_labels_add_up() -> None:
    nodes = [node("none"), node("disk").labels(disk="ssd"), node("both").labels(disk="ssd", gpu="yes")]
    wanting = pod("p").node_affinity("disk", "In", "ssd", weight=10).node_affinity("gpu", "Exists", weight=30)
    assert points(cluster(nodes=nodes), wanting, "NodeAffinity") == {"none": 0, "disk": 50, "both": 200}
    assert points(cluster(nodes=nodes), pod("p"), "NodeAffinity") is None


def test_a_profile_can_add_wishes_for_labels() -> None:
    term = {"weight": 10, "preference": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}
    added = {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
    config = profile_with("NodeAffinity", {"addedAffinity": added})
    world = cluster(nodes=[node("none"), node("gpu").labels(gpu="yes")], config=config)
    assert points(world, pod("p"), "NodeAffinity") == {"none": 0, "gpu": 200}


ZONES = [node("a").zone("1"), node("b").zone("2"), node("c").zone("3")]
WEB = [pod(f"web-{n}").labels(app="web").on(where) for n, where in enumerate("aab")]


@pytest.mark.parametrize(
    ("wanting", "expected"),
    [
        (pod("p").affinity(ZONE, {"app": "web"}, weight=10), {"a": 200, "b": 100, "c": 0}),
        (pod("p").anti_affinity(ZONE, {"app": "web"}, weight=10), {"a": 0, "b": 100, "c": 200}),
        (pod("p").affinity(ZONE, {"app": "nobody"}, weight=10), None),
    ],
)
def test_wishes_for_and_against_company_count_every_pod(
    wanting: PodBuilder, expected: dict[str, int] | None
) -> None:
    assert points(cluster(nodes=ZONES, pods=WEB), wanting, "InterPodAffinity") == expected


def test_pods_on_nodes_attract_and_repel_those_that_come() -> None:
    fond = pod("fond").affinity(ZONE, {"app": "new"}, weight=20).on("a")
    shy = pod("shy").anti_affinity(ZONE, {"app": "new"}, weight=20).on("b")
    world = cluster(nodes=ZONES, pods=[fond, shy])
    coming = pod("p").labels(app="new")
    assert points(world, coming, "InterPodAffinity") == {"a": 200, "b": 0, "c": 100}
    ignoring = profile_with("InterPodAffinity", {"ignorePreferredTermsOfExistingPods": True})
    world = cluster(nodes=ZONES, pods=[fond, shy], config=ignoring)
    assert points(world, coming, "InterPodAffinity") is None


@pytest.mark.parametrize(
    ("weight", "expected"),
    [(1, {"a": 20, "b": 200, "c": 0}), (5, {"a": 100, "b": 200, "c": 0}), (0, {"a": 0, "b": 200, "c": 0})],
)
def test_required_affinity_of_pods_on_nodes_attracts_by_its_configured_weight(
    weight: int, expected: dict[str, int]
) -> None:
    needy = pod("needy").affinity(ZONE, {"app": "new"}).on("a")
    fond = pod("fond").affinity(ZONE, {"app": "new"}, weight=10).on("b")
    config = profile_with("InterPodAffinity", {"hardPodAffinityWeight": weight})
    world = cluster(nodes=ZONES, pods=[needy, fond], config=config)
    assert points(world, pod("p").labels(app="new"), "InterPodAffinity") == expected


def test_soft_spreading_prefers_domains_with_fewer_pods() -> None:
    """Three zones weigh log(3 + 2) = 1.61 each: 2, 1 and 0 pods round to 3, 2 and 0, the least is best."""
    world = cluster(nodes=ZONES, pods=WEB)
    wanting = pod("p").labels(app="web").spread(ZONE, when_unsatisfiable="ScheduleAnyway")
    assert points(world, wanting, "PodTopologySpread") == {"a": 0, "b": 66, "c": 200}


def test_in_soft_spreading_keys_with_more_values_weigh_more() -> None:
    """Two zones weigh log 4 = 1.39, four hosts log 6 = 1.79: raw 7, 4, 4 and 2 with a skew of 2 for zones."""
    nodes = [node(name).zone(zone) for name, zone in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "2"))]
    pods = [pod(f"web-{n}").labels(app="web").on(where) for n, where in enumerate("aac")]
    wanting = pod("p").labels(app="web").spread(ZONE, when_unsatisfiable="ScheduleAnyway", max_skew=2)
    wanting = wanting.spread(HOSTNAME, when_unsatisfiable="ScheduleAnyway")
    found = points(cluster(nodes=nodes, pods=pods), wanting, "PodTopologySpread")
    assert found == {"a": 2 * (100 * 2 // 7), "b": 2 * (100 * 5 // 7), "c": 2 * (100 * 5 // 7), "d": 200}


def web(kind: type[Object], **spec: Any) -> Object:
    return kind(metadata=ObjectMeta(name="web", namespace="default"), **spec)


SIBLINGS = LabelSelector(match_labels={"app": "web"})
PLAIN = pod("p").labels(app="web")


@pytest.mark.parametrize(
    ("wanting", "groups"),
    [
        (PLAIN, web(Service, spec=ServiceSpec(selector={"app": "web"}))),
        (PLAIN.owned_by("ReplicaSet", "web"), web(ReplicaSet, spec=SetSpec(selector=SIBLINGS))),
        (PLAIN.owned_by("StatefulSet", "web"), web(StatefulSet, spec=SetSpec(selector=SIBLINGS))),
        (
            PLAIN.owned_by("ReplicationController", "web", "v1"),
            web(ReplicationController, spec=ReplicationControllerSpec(selector={"app": "web"})),
        ),
    ],
    ids=["service", "replica set", "stateful set", "replication controller"],
)
def test_pods_of_one_group_are_spread_over_hosts_and_zones_by_default(
    wanting: PodBuilder, groups: Object
) -> None:
    """Hosts weigh log 5 with a skew of 3, zones log 4 with one of 5: raw 12, 9 and 6."""
    nodes = [node("a").zone("1"), node("b").zone("1"), node("c").zone("2")]
    pods = [pod(f"web-{n}").labels(app="web").on("a") for n in range(2)]
    world = cluster(nodes=nodes, pods=pods, objects=[groups])
    assert points(world, wanting, "PodTopologySpread") == {"a": 100, "b": 150, "c": 200}
    world.remove(groups)
    assert points(world, wanting, "PodTopologySpread") is None


def test_a_profile_can_list_other_default_constraints() -> None:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
    args = {"defaultConstraints": [constraint], "defaultingType": "List"}
    config = profile_with("PodTopologySpread", args)
    group = web(Service, spec=ServiceSpec(selector={"app": "web"}))
    world = cluster(nodes=ZONES, pods=WEB, objects=[group], config=config)
    assert points(world, PLAIN, "PodTopologySpread") == {"a": 0, "b": 66, "c": 200}


def test_images_count_by_size_and_by_the_share_of_nodes_that_have_them() -> None:
    nodes = [node("none"), node("half").image("app:1", 500 * MIB), node("all").image("app:1", 500 * MIB)]
    nodes[2] = nodes[2].image("big:latest", 6000 * MIB)
    world = cluster(nodes=nodes)
    third = 500 * 2 // 3
    only_app = 100 * (third - 23) // (1000 - 23)
    assert points(world, pod("p").image("app:1"), "ImageLocality") == {
        "none": 0,
        "half": only_app,
        "all": only_app,
    }
    assert points(world, pod("p").image("big"), "ImageLocality") == {"none": 0, "half": 0, "all": 100}


def test_images_of_init_containers_and_image_volumes_count_too() -> None:
    nodes = [node("none"), node("has").image("init:1", 1000 * MIB).image("data:1", 400 * MIB)]
    world = cluster(nodes=nodes)
    wanting = pod("p").image("main:1")
    assert points(world, wanting, "ImageLocality") == {"none": 0, "has": 0}
    wanting = wanting.spec(init_containers=(Container(name="i", image="init:1"),))
    assert points(world, wanting, "ImageLocality") == {"none": 0, "has": 100 * (500 - 23) // (2000 - 23)}
    wanting = wanting.spec(volumes=(Volume(name="v", image=ImageVolume(reference="data:1")),))
    assert points(world, wanting, "ImageLocality") == {"none": 0, "has": 100 * (700 - 23) // (3000 - 23)}


def test_in_1_36_image_volumes_do_not_raise_the_threshold() -> None:
    world = cluster(nodes=[node("none"), node("has").image("data:1", 1400 * MIB)], release="1.36")
    wanting = (
        pod("p").image("main:1").spec(volumes=(Volume(name="v", image=ImageVolume(reference="data:1")),))
    )
    assert points(world, wanting, "ImageLocality") == {"none": 0, "has": 100 * (700 - 23) // (1000 - 23)}
