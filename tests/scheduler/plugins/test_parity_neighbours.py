"""Rows of docs/parity.md about a pod's neighbours: hard spreading, affinity and anti-affinity."""

from typing import Any

import pytest

from scheduler.plugins.answers import PASSES, gated_cluster, verdicts
from stowplan.api.meta import LabelSelector, Namespace, ObjectMeta
from stowplan.scheduler.framework.status import Status, unresolvable, unschedulable
from stowplan.testing import cluster, node, pod
from stowplan.testing.builders import HOSTNAME, ZONE

SKEWED = unschedulable("node(s) didn't match pod topology spread constraints").by("PodTopologySpread")
NO_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)").by(
    "PodTopologySpread"
)
APART = unresolvable("node(s) didn't match pod affinity rules").by("InterPodAffinity")
TOO_CLOSE = unschedulable("node(s) didn't match pod anti-affinity rules").by("InterPodAffinity")
UNWANTED = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules").by("InterPodAffinity")

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


def test_a_pod_joins_the_pods_it_wants_and_the_first_of_its_own_kind_may_go_anywhere() -> None:
    world = cluster(nodes=ZONES, pods=RUNNING)
    wanting = pod("p").affinity(ZONE, {"app": "x"})
    assert verdicts(world, wanting) == {"a": PASSES, "b": APART, "bare": APART}
    stranger = pod("p").affinity(ZONE, {"app": "nobody"})
    assert verdicts(world, stranger) == {"a": APART, "b": APART, "bare": APART}
    first = pod("p").labels(app="new").affinity(ZONE)
    assert verdicts(world, first) == {"a": PASSES, "b": PASSES, "bare": APART}


def test_pods_keep_away_from_each_other_whichever_of_them_asks() -> None:
    alone = pod("alone").labels(app="alone").anti_affinity(ZONE, {"app": "x"}).on("b")
    world = cluster(nodes=ZONES, pods=[*RUNNING, alone])
    shy = pod("p").anti_affinity(ZONE, {"app": "x"})
    assert verdicts(world, shy) == {"a": TOO_CLOSE, "b": PASSES, "bare": PASSES}
    assert verdicts(world, pod("p").labels(app="x")) == {"a": PASSES, "b": UNWANTED, "bare": PASSES}


def test_terms_reach_into_namespaces_chosen_by_label() -> None:
    shop = Namespace(kind="Namespace", metadata=ObjectMeta(name="shop", labels={"team": "a"}))
    team = LabelSelector(match_labels={"team": "a"})
    foreign = pod("old").namespace("shop").labels(app="x").on("a")
    world = cluster(nodes=ZONES, pods=[foreign], objects=[shop])
    assert verdicts(world, pod("p").anti_affinity(ZONE, {"app": "x"}))["a"] == PASSES
    shy = pod("p").anti_affinity(ZONE, {"app": "x"}, namespace_selector=team)
    assert verdicts(world, shy)["a"] == TOO_CLOSE
    carrier = pod("old-2").anti_affinity(HOSTNAME, {"app": "y"}, namespace_selector=team).on("b")
    world.add(carrier)
    assert verdicts(world, pod("p").labels(app="y"))["b"] == PASSES
    assert verdicts(world, pod("p").namespace("shop").labels(app="y"))["b"] == UNWANTED
