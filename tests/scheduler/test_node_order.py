"""Nodes are visited zone by zone in turn, up to a number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.meta import ObjectMeta
from stowplan.api.node import Node
from stowplan.scheduler.node_sampler import nodes_to_find
from stowplan.scheduler.table.nodetree import NodeTree, NodeTreeError, zone_key

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"


def node(name: str, zone: str = "", **labels: str) -> Node:
    zones = {ZONE: zone} if zone else {}
    return Node(metadata=ObjectMeta(name=name, labels=zones | labels))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, ""),
        ({ZONE: "a"}, ":\0:a"),
        ({REGION: "r"}, "r:\0:"),
        ({ZONE: "a", REGION: "r"}, "r:\0:a"),
        ({ZONE: "a", BETA_ZONE: "b"}, ":\0:b"),
        ({ZONE: "a", BETA_ZONE: ""}, ""),
    ],
)
def test_a_zone_is_known_by_region_and_zone_and_beta_labels_come_first(
    labels: dict[str, str], expected: str
) -> None:
    assert zone_key(node("n", **labels)) == expected


def test_nodes_come_from_each_zone_in_turn() -> None:
    tree = NodeTree([node("a1", "a"), node("a2", "a"), node("a3", "a"), node("b1", "b"), node("c1", "c")])
    assert tree.names() == ["a1", "b1", "c1", "a2", "a3"]


def test_a_node_that_moves_goes_to_the_end_of_its_new_zone() -> None:
    tree = NodeTree([node("a1", "a"), node("b1", "b"), node("b2", "b")])
    tree.update(node("a1", "a"), node("a1", "b"))
    assert tree.names() == ["b1", "b2", "a1"]
    tree.update(node("b1", "b"), node("b1", "b"))
    assert tree.names() == ["b1", "b2", "a1"]


def test_a_zone_that_empties_and_fills_again_comes_last() -> None:
    tree = NodeTree([node("a1", "a"), node("b1", "b")])
    tree.remove(node("a1", "a"))
    tree.add(node("a1", "a"))
    assert tree.names() == ["b1", "a1"]


def test_removing_an_unknown_node_says_which_and_where() -> None:
    with pytest.raises(NodeTreeError) as error:
        NodeTree([node("n1", "a")]).remove(node("n2", "a"))
    assert str(error.value) == r'node "n2" in group ":\x00:a" was not found'


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(("", "a", "b", "c"))), max_size=12))
def test_every_node_is_visited_once_and_in_order_of_arrival_within_its_zone(
    arrivals: list[tuple[int, str]],
) -> None:
    zones = {f"n{number}": zone for number, zone in arrivals}
    tree = NodeTree(node(name, zone) for name, zone in zones.items())
    names = tree.names()
    assert sorted(names) == sorted(zones)
    assert len(tree) == len(zones)
    for zone in set(zones.values()):
        assert [n for n in names if zones[n] == zone] == [n for n in zones if zones[n] == zone]


@pytest.mark.parametrize(
    ("nodes", "percentage", "expected"),
    [
        (99, 5, 99),
        (100, 0, 100),
        (1000, 0, 420),
        (5000, 0, 500),
        (10000, 0, 500),
        (1000, 70, 700),
        (1000, 1, 100),
        (1000, 100, 1000),
    ],
)
def test_so_many_feasible_nodes_are_enough(nodes: int, percentage: int, expected: int) -> None:
    assert nodes_to_find(nodes, percentage) == expected
    assert nodes_to_find(nodes, None, percentage) == expected


def test_a_profiles_percentage_goes_before_the_general_one() -> None:
    assert nodes_to_find(1000, 30, 70) == 300
