"""Profiles: the plugins and arguments that a pod is scheduled with."""

from scheduler.plugins.answers import profile_with
from stowplan.testing import cluster, node, pod


def test_each_pod_is_judged_by_the_profile_it_names() -> None:
    picky = profile_with("NodeResourcesFit", {"ignoredResources": ["example.com/gpu"]})
    picky["profiles"][0]["schedulerName"] = "gpu-blind"
    picky["profiles"].append({"schedulerName": "default-scheduler"})
    world = cluster(nodes=[node("a")], config=picky)
    wanting = pod("p").requests({"example.com/gpu": 1})
    assert world.decide(wanting).node is None
    assert world.decide(wanting.scheduler("gpu-blind")).node == "a"
