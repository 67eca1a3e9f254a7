"""NodeResourcesBalancedAllocation: scores worked out by hand."""

import pytest

from scheduler.plugins.answers import points
from stowplan.testing import cluster, node, pod

BALANCE = "NodeResourcesBalancedAllocation"


NODES = [node("idle"), node("busy")]
"""Nodes with 4 CPU and 16Gi."""


QUARTER = pod("p").requests(cpu="1", memory="4Gi")
"""Takes a quarter of such a node."""


def test_balanced_allocation_rewards_what_evens_a_node_out() -> None:
    world = cluster(nodes=NODES, pods=[pod("old").requests(cpu="1").on("busy")])
    assert points(world, pod("p").requests(memory="4Gi"), BALANCE) == {"idle": 68, "busy": 81}
    assert points(world, QUARTER, BALANCE) == {"idle": 75, "busy": 75}
    assert points(world, pod("p"), BALANCE) is None


HALF_EMPTY = node("a").capacity(cpu="4", memory="8192Mi")


THERE = pod("there").requests(cpu="1", memory="2048Mi").on("a")


@pytest.mark.parametrize(("memory", "expected"), [("4096Mi", 65), ("1024Mi", 75)])
def test_balanced_allocation(memory: str, expected: int) -> None:
    world = cluster(nodes=[HALF_EMPTY, node("other")], pods=[THERE])
    wanting = pod("p").requests(cpu="500m", memory=memory)
    found = points(world, wanting, "NodeResourcesBalancedAllocation")
    assert found is not None
    assert found["a"] == expected
