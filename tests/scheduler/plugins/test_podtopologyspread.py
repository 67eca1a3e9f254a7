"""PodTopologySpread: hard and soft constraints, default constraints; scores worked out by hand."""

from typing import Any

import pytest

from scheduler.plugins.answers import PASSES, gated_cluster, points, profile_with, verdicts
from stowplan.api.meta import LabelSelector, Object, ObjectMeta
from stowplan.api.pod import (
    Toleration,
)
from stowplan.api.workloads import (
    ReplicaSet,
    ReplicationController,
    ReplicationControllerSpec,
    Service,
    ServiceSpec,
    SetSpec,
    StatefulSet,
)
from stowplan.scheduler.framework.status import SUCCESS, Status, unresolvable, unschedulable
from stowplan.testing import PodBuilder, cluster, node, pod
from stowplan.testing.builders import HOSTNAME, ZONE

SKEWED = unschedulable("node(s) didn't match pod topology spread constraints").by("PodTopologySpread")


COMPARISONS = "TaintTolerationComparisonOperators"


def tolerating(operator: str, bound: str, effect: str = "") -> PodBuilder:
    toleration = Toleration(key="level", operator=operator, value=bound, effect=effect)
    return pod("p").labels(app="x").spec(tolerations=(toleration,))


@pytest.mark.parametrize(("on", "expected"), [(False, PASSES), (True, SKEWED)])
def test_numeric_tolerations_decide_behind_their_gate_which_nodes_are_spread_over(
    on: bool, expected: Status
) -> None:
    nodes = [node("empty").zone("1").taint("level", "5"), node("full").zone("2")]
    world = gated_cluster({COMPARISONS: on}, nodes, [pod("old").labels(app="x").on("full")])
    wanting = tolerating("Gt", "4").spread(ZONE, node_taints_policy="Honor")
    assert verdicts(world, wanting)["full"] == expected


NO_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)").by(
    "PodTopologySpread"
)


ZONES = [node("a").zone("1"), node("b").zone("2"), node("bare")]


RUNNING = [pod("old-1").labels(app="x", rev="1").on("a"), pod("old-2").labels(app="x", rev="1").on("a")]


@pytest.mark.parametrize(
    ("max_skew", "further", "expected"),
    [
        (1, {}, {"a": SKEWED, "b": PASSES, "bare": NO_LABEL}),
        (2, {}, {"a": SKEWED, "b": PASSES, "bare": NO_LABEL}),
        (3, {}, {"a": PASSES, "b": PASSES, "bare": NO_LABEL}),
        (1, {"min_domains": 3}, {"a": SKEWED, "b": PASSES, "bare": NO_LABEL}),
    ],
)
def test_hard_spreading_keeps_zones_within_the_skew(
    max_skew: int, further: dict[str, Any], expected: dict[str, Status]
) -> None:
    wanting = pod("p").labels(app="x").spread(ZONE, max_skew=max_skew, **further)
    assert verdicts(cluster(nodes=ZONES, pods=RUNNING), wanting) == expected


def test_with_too_few_domains_the_emptiest_one_counts_as_empty() -> None:
    pods = [*RUNNING, pod("old-3").labels(app="x").on("b")]
    world = cluster(nodes=ZONES, pods=pods)
    wanting = pod("p").labels(app="x").spread(ZONE)
    assert verdicts(world, wanting)["b"] == PASSES
    wanting = pod("p").labels(app="x").spread(ZONE, min_domains=3)
    assert verdicts(world, wanting)["b"] == SKEWED


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ({}, PASSES),
        ({"node_affinity_policy": "Ignore"}, SKEWED),
        ({"node_affinity_policy": "Honor"}, PASSES),
    ],
)
def test_zones_the_pod_may_not_enter_count_unless_its_affinity_is_honored(
    policies: dict[str, Any], expected: Status
) -> None:
    nodes = [node("a").zone("1").labels(disk="ssd"), node("b").zone("2")]
    world = cluster(nodes=nodes, pods=RUNNING)
    wanting = pod("p").labels(app="x").node_selector(disk="ssd").spread(ZONE, **policies)
    assert verdicts(world, wanting)["a"] == expected


@pytest.mark.parametrize(
    ("policies", "expected"),
    [({}, SKEWED), ({"node_taints_policy": "Ignore"}, SKEWED), ({"node_taints_policy": "Honor"}, PASSES)],
)
def test_tainted_zones_count_unless_taints_are_honored(policies: dict[str, Any], expected: Status) -> None:
    world = cluster(nodes=[node("a").zone("1"), node("b").zone("2").taint("gpu")], pods=RUNNING)
    wanting = pod("p").labels(app="x").spread(ZONE, **policies)
    assert verdicts(world, wanting)["a"] == expected


def test_spreading_can_be_per_revision() -> None:
    world = cluster(nodes=ZONES, pods=RUNNING)
    for revision, expected in (("1", SKEWED), ("2", PASSES)):
        wanting = pod("p").labels(app="x", rev=revision)
        wanting = wanting.spread(ZONE, {"app": "x"}, match_label_keys=("rev",))
        assert verdicts(world, wanting)["a"] == expected


def test_revisions_do_not_count_while_their_gate_is_off() -> None:
    world = gated_cluster({"MatchLabelKeysInPodTopologySpread": False}, ZONES, RUNNING)
    wanting = pod("p").labels(app="x", rev="2").spread(ZONE, {"app": "x"}, match_label_keys=("rev",))
    assert verdicts(world, wanting)["a"] == SKEWED


THREE_ZONES = [node("a").zone("1"), node("b").zone("2"), node("c").zone("3")]


WEB = [pod(f"web-{n}").labels(app="web").on(where) for n, where in enumerate("aab")]


def test_soft_spreading_prefers_domains_with_fewer_pods() -> None:
    """Three zones weigh log(3 + 2) = 1.61 each: 2, 1 and 0 pods round to 3, 2 and 0, the least is best."""
    world = cluster(nodes=THREE_ZONES, pods=WEB)
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
    world = cluster(nodes=THREE_ZONES, pods=WEB, objects=[group], config=config)
    assert points(world, PLAIN, "PodTopologySpread") == {"a": 0, "b": 66, "c": 200}


def test_domains_with_2_0_and_1_pods_give_0_100_and_33() -> None:
    nodes = [node(name).zone(name) for name in "abc"]
    pods = [pod(f"x{n}").labels(app="x").on(where) for n, where in enumerate("aac")]
    wanting = pod("p").labels(app="x").spread(ZONE, when_unsatisfiable="ScheduleAnyway")
    found = points(cluster(nodes=nodes, pods=pods), wanting, "PodTopologySpread")
    assert found == {"a": 0, "b": 2 * 100, "c": 2 * 33}


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
