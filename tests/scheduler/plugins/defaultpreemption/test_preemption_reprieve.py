"""Victims on a node: the order of reprieve, disruption budgets, pods nominated to the node."""

import pytest
from msgspec.structs import replace

from scheduler.plugins.defaultpreemption.preempting import (
    budget,
    by_node,
    high,
    leaving,
    low,
    preempt,
    preempt_in_one_way,
    small,
    started,
    victims,
)
from stowplan.api.meta import LabelSelector, LabelSelectorRequirement
from stowplan.api.workloads import PodDisruptionBudget, PodDisruptionBudgetSpec
from stowplan.testing import PodBuilder, cluster, pod
from stowplan.testing.builders import HOSTNAME, ZONE

REPRIEVES = [
    pytest.param(
        [low("a", "n", 1), low("b", "n", 2), low("c", "n", 3), low("d", "n", 4)],
        2,
        ["b", "a"],
        id="the more important stay",
    ),
    pytest.param(
        [low("young", "n", hour=9, cpu=2), low("old", "n", hour=3, cpu=2)],
        1,
        ["young"],
        id="among equals who has run longer stays",
    ),
    pytest.param(
        [low("unstarted", "n", hour=None, cpu=2), low("old", "n", hour=3, cpu=2)],
        1,
        ["unstarted"],
        id="who has not started yet counts as the youngest",
    ),
    pytest.param(
        [low("first", "n", cpu=2), low("second", "n", cpu=2)],
        1,
        ["second"],
        id="among equals in everything who came first stays",
    ),
    pytest.param(
        [low("big", "n", 3, cpu=3), low("small", "n", 1)],
        2,
        ["big"],
        id="an important pod that does not fit goes, a lesser one that fits stays",
    ),
    pytest.param(
        [low("a", "n", 1), low("b", "n", 1, hour=1), low("boss", "n", 10, cpu=2)],
        1,
        ["b"],
        id="who is as important as the pod is not touched",
    ),
    pytest.param(
        [leaving(low("leaving", "n", 5, cpu=2)), low("staying", "n", 1, cpu=2)],
        1,
        ["staying"],
        id="who is on the way out already counts like the others",
    ),
]


@pytest.mark.parametrize(("pods", "cpu", "names"), REPRIEVES)
def test_as_few_go_as_possible_and_the_least_important_ones(
    pods: list[PodBuilder], cpu: int, names: list[str]
) -> None:
    assert victims(preempt(cluster(nodes=[small("n")], pods=pods), high(cpu=cpu))) == names


BUDGETED = [low("a", "n", 3), low("b", "n", 2), low("c", "n", 1), low("d", "n", 0)]
APP = [b.labels(app="web") for b in BUDGETED]

BUDGETS = [
    pytest.param(BUDGETED, [], 1, ["d"], 0, id="without budgets"),
    pytest.param(BUDGETED, [budget("d", {"app": "d"})], 1, ["c"], 0, id="the protected is put back first"),
    pytest.param(BUDGETED, [budget("d", {"app": "d"}, 1)], 1, ["d"], 0, id="a budget that allows it"),
    pytest.param(
        BUDGETED,
        [budget("c", {"app": "c"}), budget("d", {"app": "d"})],
        3,
        ["a", "b", "d"],
        1,
        id="of the protected the more important stays, then nobody else fits",
    ),
    pytest.param(
        APP, [budget("all", {"app": "web"}, 2)], 2, ["a", "b"], 0, id="the budget lasts for the first"
    ),
    pytest.param(
        APP,
        [budget("all", {"app": "web"}, 1)],
        3,
        ["a", "c", "d"],
        2,
        id="and what goes beyond it violates it",
    ),
    pytest.param(
        APP,
        [budget("all", {"app": "web"}, 2), budget("more", {"app": "web"}, 1)],
        3,
        ["a", "c", "d"],
        2,
        id="two budgets, the tighter one counts",
    ),
    pytest.param(
        APP,
        [budget("all", {"app": "web"}, 0, disrupted=["a", "b"])],
        2,
        ["a", "b"],
        0,
        id="pods taken off the budget already do not count",
    ),
    pytest.param(
        BUDGETED,
        [budget("d", {"app": "d"}, namespace="other")],
        1,
        ["d"],
        0,
        id="a budget of another namespace",
    ),
    pytest.param(BUDGETED, [budget("empty", {})], 1, ["d"], 0, id="an empty selector selects nothing"),
    pytest.param(BUDGETED, [budget("none", None)], 1, ["d"], 0, id="an absent selector selects nothing"),
    pytest.param(BUDGETED, [budget("odd", {"app": "not valid"})], 1, ["d"], 0, id="one that cannot be read"),
    pytest.param(APP, [budget("all", {"app": "web"})], 4, ["a", "b", "c", "d"], 4, id="all are violated"),
    pytest.param(BUDGETED, [budget("d", {"app": "d"}, -1)], 1, ["c"], 0, id="a budget exceeded already"),
]


@pytest.mark.parametrize(("pods", "budgets", "cpu", "names", "violations"), BUDGETS)
def test_those_whom_a_budget_protects_are_put_back_before_the_others(
    pods: list[PodBuilder], budgets: list[PodDisruptionBudget], cpu: int, names: list[str], violations: int
) -> None:
    world = cluster(nodes=[small("n")], pods=pods, objects=budgets)
    result = preempt(world, high(cpu=cpu))
    assert by_node(result) == {"n": (names, violations)}
    assert victims(result) == names


def test_a_pod_without_labels_is_under_no_budget() -> None:
    anybody = LabelSelector(
        match_expressions=(LabelSelectorRequirement(key="tier", operator="DoesNotExist"),)
    )
    over_all = replace(budget("all", None), spec=PodDisruptionBudgetSpec(selector=anybody))
    bare = low("bare", "n", 3, cpu=2).pod
    bare = replace(bare, metadata=replace(bare.metadata, labels={}))
    world = cluster(nodes=[small("n")], pods=[PodBuilder(bare), low("labelled", "n", 1, cpu=2)])
    assert victims(preempt(world, high())) == ["labelled"]
    world.add(over_all)
    assert by_node(preempt(world, high())) == {"n": (["bare"], 0)}


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_budget_can_change_and_go(one_by_one: bool) -> None:
    world = cluster(nodes=[small("n")], pods=BUDGETED, objects=[budget("d", {"app": "d"})])

    def who_goes() -> list[str]:
        return victims(preempt_in_one_way(world, high(), one_by_one=one_by_one))

    assert who_goes() == ["c"]
    world.add(budget("d", {"app": "d"}, 1))
    assert who_goes() == ["d"]
    world.add(budget("d", {"app": "c"}), budget("e", {"app": "d"}))
    assert who_goes() == ["b"]
    world.remove(budget("e", {"app": "d"}))
    assert who_goes() == ["d"]


def test_room_for_pods_nominated_to_the_node_is_left() -> None:
    world = cluster(nodes=[small("n")], pods=[low("a", "n", 1), low("b", "n", 2), low("c", "n", 3, cpu=2)])
    nominated = pod("other").priority(10).requests(cpu=2)
    assert victims(preempt(world, high())) == ["a"]
    assert victims(preempt(world, high(), {"n": [nominated]})) == ["c", "a"]
    assert victims(preempt(world, high(), {"n": [nominated.priority(9)]})) == ["a"]


def test_a_nomination_alone_can_be_what_stands_in_the_way() -> None:
    world = cluster(nodes=[small("n")], pods=[low("a", "n", 1), low("b", "n", 2)])
    nominated = pod("other").priority(10).requests(cpu=2)
    assert victims(preempt(world, high(), {"n": [nominated]})) == ["a"]


def test_a_nominated_pod_may_not_be_what_makes_a_node_fit() -> None:
    world = cluster(nodes=[small("n")], pods=[low("a", "n", cpu=4)])
    wanting = high().affinity(HOSTNAME, {"app": "friend"})
    friend = pod("friend").labels(app="friend").priority(10)
    refused = preempt(world, wanting, {"n": [friend]})
    assert refused.status.message == (
        "preemption: 0/1 nodes are available: 1 node(s) didn't match pod affinity rules."
    )
    world.add(friend.on("n"))
    assert victims(preempt(world, wanting)) == ["a"]


def test_a_node_where_the_nominated_pods_leave_no_room_is_no_candidate() -> None:
    world = cluster(nodes=[small("n"), small("m")], pods=[low("a", "n", cpu=4), low("b", "m", 5, cpu=4)])
    nominated = pod("other").priority(10).requests(cpu=4)
    assert by_node(preempt(world, high(), {"n": [nominated]})) == {"m": (["b"], 0)}


def test_a_filter_that_skipped_the_pod_is_not_asked_about_nominated_pods_either() -> None:
    """InterPodAffinity had nothing to say, so the terms of a nominated pod do not count."""
    world = cluster(nodes=[small("n")], pods=[low("a", "n", cpu=4)])
    hermit = pod("other").priority(10).anti_affinity(HOSTNAME, {"app": "high"})
    assert victims(preempt(world, high().labels(app="high"), {"n": [hermit]})) == ["a"]
    present = pod("hermit").priority(10).labels(app="x").anti_affinity(HOSTNAME, {"app": "high"})
    world.add(small("m"), present.on("m"))
    refused = preempt(world, high().labels(app="high"), {"n": [hermit]})
    assert refused.status.reasons[0].endswith("node(s) didn't satisfy existing pods anti-affinity rules.")


def test_who_is_in_the_way_otherwise_than_by_room_has_to_go() -> None:
    world = cluster(
        nodes=[small("n"), small("m")],
        pods=[
            low("port", "n").port(80, host_port=80),
            low("harmless", "n", -5),
            low("rival", "m", 2),
        ],
    )
    wanting = high().port(80, host_port=80).anti_affinity(HOSTNAME, {"app": "rival"})
    assert by_node(preempt(world, wanting)) == {"n": (["port"], 0), "m": (["rival"], 0)}


def test_the_only_pod_that_keeps_others_away_has_to_go() -> None:
    hermit = low("hermit", "n", 1).anti_affinity(HOSTNAME, {"app": "high"})
    world = cluster(nodes=[small("n")], pods=[hermit, low("other", "n")])
    assert victims(preempt(world, high().labels(app="high"))) == ["hermit"]


def test_spread_pods_make_way_for_one_of_their_own() -> None:
    zones = [small("a").zone("one"), small("b").zone("two")]
    web = [low(f"w{i}", "a", i).labels(app="web") for i in range(2)]
    world = cluster(nodes=zones, pods=[*web, low("big", "b", 20, cpu=4)])
    wanting = high().labels(app="web").spread(ZONE, {"app": "web"})
    assert by_node(preempt(world, wanting)) == {"a": (["w1", "w0"], 0)}


def test_a_spread_count_that_leaves_out_dying_pods_moves_with_them_all_the_same() -> None:
    """As in kube-scheduler: a pod being deleted is not counted, but imagined away it is subtracted."""
    zones = [small("a").zone("one"), small("b").zone("two")]
    dying = low("dying", "a", 1).labels(app="web").terminating()
    web = low("web", "a", 5).labels(app="web")
    world = cluster(nodes=zones, pods=[web, dying, low("big", "b", 20, cpu=4)])
    wanting = high().labels(app="web").spread(ZONE, {"app": "web"})
    assert by_node(preempt(world, wanting)) == {"a": (["dying"], 0)}


def test_a_spread_selector_that_demands_nothing_counts_only_pods_that_are_imagined() -> None:
    """As in kube-scheduler: running pods count for nothing, but one imagined away and two nominated do."""
    zones = [small("a").zone("one"), small("b").zone("two")]
    world = cluster(nodes=zones, pods=[low("x", "a", cpu=4), low("y", "b", cpu=4)])
    wanting = high().spread(ZONE, {})
    assert by_node(preempt(world, wanting)).keys() == {"a", "b"}
    nominated = [pod(name).priority(10) for name in ("p", "q")]
    assert by_node(preempt(world, wanting, {"a": nominated[:1]})).keys() == {"a", "b"}
    assert by_node(preempt(world, wanting, {"a": nominated})).keys() == {"b"}
    elsewhere = [builder.namespace("other") for builder in nominated]
    assert by_node(preempt(world, wanting, {"a": elsewhere})).keys() == {"a", "b"}


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_start_time_that_becomes_known_counts_from_then_on(one_by_one: bool) -> None:
    world = cluster(nodes=[small("n")], pods=[low("known", "n", cpu=2, hour=5)])
    late = low("assumed", "n", cpu=2, hour=3)
    world.table.assume(world.table.info(started(late, None).obj()), "n")
    assert victims(preempt_in_one_way(world, high(), one_by_one=one_by_one)) == ["assumed"]
    world.table.confirm(late.obj())
    assert victims(preempt_in_one_way(world, high(), one_by_one=one_by_one)) == ["known"]
