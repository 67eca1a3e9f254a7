"""NodeResourcesFit: scores of the three strategies, worked out by hand."""

from typing import Any

import pytest

from scheduler.plugins.answers import points, profile_with
from stowplan.testing import cluster, node, pod

FIT = "NodeResourcesFit"


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


HALF_EMPTY = node("a").capacity(cpu="4", memory="8192Mi")


THERE = pod("there").requests(cpu="1", memory="2048Mi").on("a")


SILENT = pod("p")
"""One container that requests nothing: it counts 100m and 200Mi."""


def resource_strategy(kind: str, *shape: tuple[int, int]) -> dict[str, Any]:
    scoring: dict[str, Any] = {"type": kind, "resources": [{"name": "cpu"}, {"name": "memory"}]}
    if shape:
        curve = [{"utilization": where, "score": score} for where, score in shape]
        scoring["requestedToCapacityRatio"] = {"shape": curve}
    return profile_with("NodeResourcesFit", {"scoringStrategy": scoring})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (resource_strategy("LeastAllocated"), 72),
        (resource_strategy("MostAllocated"), 27),
        (resource_strategy("RequestedToCapacityRatio", (0, 0), (100, 10)), 27),
        (resource_strategy("RequestedToCapacityRatio", (0, 10), (100, 0)), 73),
    ],
    ids=["least", "most", "ratio up", "ratio down"],
)
def test_resource_scores(config: dict[str, Any], expected: int) -> None:
    world = cluster(nodes=[HALF_EMPTY, node("other")], pods=[THERE], config=config)
    found = points(world, SILENT, "NodeResourcesFit")
    assert found is not None
    assert found["a"] == expected
