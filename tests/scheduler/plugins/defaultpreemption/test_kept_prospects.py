"""One pod's results about nodes are reused for the next of its sort, as far as they still hold."""

from scheduler.plugins.answers import profile_with
from scheduler.plugins.defaultpreemption.preempting import (
    high,
    low,
    preempt,
    preempt_in_one_way,
    small,
    victims,
)
from stowplan.testing import cluster, pod


def test_what_was_found_beside_a_nomination_holds_no_longer_and_no_sooner_than_the_nomination() -> None:
    world = cluster(nodes=[small("n")], pods=[low("a", "n", cpu=2), low("b", "n", priority=1, cpu=2)])
    nominated = {"n": [pod("other").priority(10).requests(cpu=2)]}
    for _ in range(2):
        assert victims(preempt_in_one_way(world, high(cpu=2))) == ["a"]
        assert victims(preempt_in_one_way(world, high(cpu=2), nominated)) == ["b", "a"]


def test_pods_that_ask_for_the_same_with_another_priority_have_other_victims() -> None:
    world = cluster(nodes=[small("n")], pods=[low("a", "n", cpu=2), low("b", "n", priority=1, cpu=2)])
    assert victims(preempt_in_one_way(world, high(cpu=4))) == ["b", "a"]
    assert victims(preempt_in_one_way(world, high(cpu=4, priority=1))) == []


def test_a_search_in_vain_is_repeated_once_a_pod_or_a_node_changes() -> None:
    world = cluster(nodes=[small("a"), small("b")], pods=[low(n, n, priority=10, cpu=4) for n in "ab"])
    vain = preempt_in_one_way(world, high())
    assert victims(vain) == []
    assert preempt_in_one_way(world, high()) is vain
    assert victims(preempt_in_one_way(world, high(priority=11))) != []
    assert preempt_in_one_way(world, high()) is vain
    nominated = {"a": [pod("other").priority(10).requests(cpu=1)]}
    assert preempt(world, high(), nominated) is not vain
    world.table.put_node(small("c").obj())
    world.table.put_pod(low("v", "c", priority=1, cpu=4).obj())
    assert victims(preempt(world, high())) == ["v"]
    world.table.put_node(small("c", cpu=1).obj())
    world.table.put_pod(low("v", "c", priority=10, cpu=4).obj())
    again = preempt(world, high(cpu=2))
    assert "3" in again.status.message
    assert preempt(world, high(cpu=2)).status == again.status
    world.table.put_pod(low("b", "b", priority=9, cpu=4).obj())
    assert victims(preempt(world, high(cpu=2))) == ["b"]


def test_more_sorts_of_pods_than_are_remembered_all_get_their_answer() -> None:
    world = cluster(nodes=[small("n", cpu=16)], pods=[low(f"v{i:02}", "n", hour=i) for i in range(16)])
    for _ in range(2):
        for cpu in range(1, 17):
            assert len(victims(preempt_in_one_way(world, high(cpu=cpu)))) == cpu


def test_nodes_that_come_later_are_looked_at_as_well() -> None:
    """Enough nodes that the table has to grow."""
    everywhere = profile_with("DefaultPreemption", {"minCandidateNodesPercentage": 100})
    world = cluster(nodes=[small("n0")], pods=[low("v0", "n0", priority=2, cpu=4)], config=everywhere)
    assert victims(preempt_in_one_way(world, high(cpu=4))) == ["v0"]
    capacity = world.table.capacity
    for number in range(1, capacity + 1):
        world.table.put_node(small(f"n{number}").obj())
        priority = 1 if number == capacity else 2
        world.table.put_pod(low(f"v{number}", f"n{number}", priority=priority, cpu=4).obj())
    assert victims(preempt_in_one_way(world, high(cpu=4))) == [f"v{capacity}"]
