"""Number of nodes tried: a share of those worth trying, from a random one on."""

import pytest

from scheduler.plugins.answers import profile_with
from scheduler.plugins.defaultpreemption.preempting import (
    budget,
    by_node,
    framework_of,
    high,
    low,
    plugin_of,
    preempt,
    small,
)
from stowplan.scheduler.framework.extension_points import run_to_end
from stowplan.scheduler.framework.interface import Handle
from stowplan.scheduler.plugins.defaultpreemption import DefaultPreemption
from stowplan.scheduler.plugins.defaultpreemption.plugin import DefaultPreemptionArgs
from stowplan.testing import Cluster, cluster

NODES = 10


def full(percentage: int, absolute: int, budgeted: int = 0) -> Cluster:
    """Ten full nodes; the victims on the first `budgeted` are protected."""
    args = {"minCandidateNodesPercentage": percentage, "minCandidateNodesAbsolute": absolute}
    pods = [low(f"v{i}", f"n{i}", cpu=4).labels(app="safe" if i < budgeted else "free") for i in range(NODES)]
    return cluster(
        nodes=[small(f"n{i}") for i in range(NODES)],
        pods=pods,
        objects=[budget("b", {"app": "safe"})],
        config=profile_with("DefaultPreemption", args),
    )


@pytest.mark.parametrize(
    ("percentage", "absolute", "nodes", "wanted"),
    [
        (10, 100, 5000, 500),
        (10, 100, 500, 100),
        (10, 100, 50, 50),
        (25, 1, 10, 2),
        (0, 3, 10, 3),
        (10, 0, 9, 0),
    ],
)
def test_a_share_of_the_nodes_but_at_least_so_many_and_never_more_than_there_are(
    percentage: int, absolute: int, nodes: int, wanted: int
) -> None:
    args = DefaultPreemptionArgs(
        min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute
    )
    table = cluster().table
    handle = framework_of(cluster()).plugins["DefaultPreemption"].handle
    plugin = DefaultPreemption(args, Handle(table, handle.gates))
    assert plugin.candidates_wanted(nodes) == wanted


@pytest.mark.parametrize(
    ("percentage", "absolute", "found"), [(10, 1, 1), (10, 3, 3), (50, 1, 5), (100, 0, 10)]
)
def test_no_more_nodes_are_tried_once_enough_candidates_are_found(
    percentage: int, absolute: int, found: int
) -> None:
    assert len(preempt(full(percentage, absolute), high()).candidates) == found


def test_the_first_node_to_be_tried_is_a_random_one_and_the_others_follow() -> None:
    world = full(10, 2)
    framework = framework_of(world)
    info = world.table.info(high().obj())
    plugin = plugin_of(framework)
    seen = set()
    for seed in range(40):
        plugin.handle.rng.seed(seed)
        result = run_to_end(plugin.post_filter(framework.evaluate(info).cycle, info))
        first, second = (int(name[1:]) for name in result.candidates)
        assert second == (first + 1) % NODES
        seen.add(first)
    assert seen == set(range(NODES))


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_search_goes_on_until_a_node_is_found_where_no_budget_is_violated(
    limit: int, one_by_one: bool
) -> None:
    world = full(10, limit, budgeted=NODES - 1)
    framework = framework_of(world)
    info = world.table.info(high().obj())
    plugin = plugin_of(framework)
    plugin.one_by_one = one_by_one
    besides = set()
    for seed in range(40):
        plugin.handle.rng.seed(seed)
        found = by_node(run_to_end(plugin.post_filter(framework.evaluate(info).cycle, info)))
        clean = [name for name, (_, violations) in found.items() if not violations]
        assert clean == [f"n{NODES - 1}"]
        besides.add(len(found) - 1)
    assert besides == {limit - 1, limit}


def test_of_nodes_that_violate_budgets_no_more_than_wanted_are_remembered() -> None:
    found = by_node(preempt(full(10, 3, budgeted=NODES), high()))
    assert len(found) == 3
    assert all(violations for _, violations in found.values())


def test_where_no_candidates_are_wanted_all_nodes_are_tried_and_none_is_found() -> None:
    world = full(1, 0)
    for number in range(3):
        world.remove(low(f"v{3 * number}", f"n{3 * number}"))
        world.add(low(f"boss{number}", f"n{3 * number}", priority=20, cpu=4))
    result = preempt(world, high())
    assert result.nominated_node == ""
    assert result.status.message == (
        "preemption: 0/10 nodes are available: 3 No preemption victims found for incoming pod, "
        "7 Preemption is not helpful for scheduling."
    )
