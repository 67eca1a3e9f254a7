"""InterPodAffinity: required and preferred terms of pods and of their neighbours."""

import pytest

from scheduler.plugins.answers import PASSES, points, profile_with, verdicts
from stowplan.api.meta import LabelSelector, Namespace, ObjectMeta
from stowplan.scheduler.framework.status import SUCCESS, unresolvable, unschedulable
from stowplan.testing import PodBuilder, cluster, node, pod
from stowplan.testing.builders import HOSTNAME, ZONE

APART = unresolvable("node(s) didn't match pod affinity rules").by("InterPodAffinity")


TOO_CLOSE = unschedulable("node(s) didn't match pod anti-affinity rules").by("InterPodAffinity")


UNWANTED = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules").by("InterPodAffinity")


ZONES = [node("a").zone("1"), node("b").zone("2"), node("bare")]


RUNNING = [pod("old-1").labels(app="x", rev="1").on("a"), pod("old-2").labels(app="x", rev="1").on("a")]


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


THREE_ZONES = [node("a").zone("1"), node("b").zone("2"), node("c").zone("3")]


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
    assert points(cluster(nodes=THREE_ZONES, pods=WEB), wanting, "InterPodAffinity") == expected


def test_pods_on_nodes_attract_and_repel_those_that_come() -> None:
    fond = pod("fond").affinity(ZONE, {"app": "new"}, weight=20).on("a")
    shy = pod("shy").anti_affinity(ZONE, {"app": "new"}, weight=20).on("b")
    world = cluster(nodes=THREE_ZONES, pods=[fond, shy])
    coming = pod("p").labels(app="new")
    assert points(world, coming, "InterPodAffinity") == {"a": 200, "b": 0, "c": 100}
    ignoring = profile_with("InterPodAffinity", {"ignorePreferredTermsOfExistingPods": True})
    world = cluster(nodes=THREE_ZONES, pods=[fond, shy], config=ignoring)
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
    world = cluster(nodes=THREE_ZONES, pods=[needy, fond], config=config)
    assert points(world, pod("p").labels(app="new"), "InterPodAffinity") == expected


def test_affinity_of_minus_50_0_and_25_gives_0_66_and_100() -> None:
    nodes = [node(name).zone(name) for name in "abc"]
    pods = [pod("foe").labels(app="foe").on("a"), pod("friend").labels(app="friend").on("c")]
    wanting = pod("p").anti_affinity(ZONE, {"app": "foe"}, weight=50)
    wanting = wanting.affinity(ZONE, {"app": "friend"}, weight=25)
    found = points(cluster(nodes=nodes, pods=pods), wanting, "InterPodAffinity")
    assert found == {"a": 0, "b": 2 * 66, "c": 2 * 100}


def test_all_required_terms_have_to_be_met_by_the_same_pod() -> None:
    nodes = [node(name).zone(name) for name in "ab"]
    apart = [pod("x").labels(app="x").on("a"), pod("y").labels(tier="y").on("a")]
    both = pod("both").labels(app="x", tier="y").on("b")
    wanting = pod("p").affinity(ZONE, {"app": "x"}).affinity(ZONE, {"tier": "y"})
    rejected = unresolvable("node(s) didn't match pod affinity rules").by("InterPodAffinity")
    assert verdicts(cluster(nodes=nodes, pods=apart), wanting) == {"a": rejected, "b": rejected}
    found = verdicts(cluster(nodes=nodes, pods=[*apart, both]), wanting)
    assert found == {"a": rejected, "b": SUCCESS}
