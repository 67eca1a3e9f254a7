"""NodeAffinity: selector, required and preferred terms, a profile's addedAffinity."""

import pytest

from scheduler.plugins.answers import PASSES, points, profile_with, verdicts
from stowplan.api.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from stowplan.scheduler.framework.status import unresolvable
from stowplan.testing import PodBuilder, cluster, node, pod

TAINTED = unresolvable("node(s) had untolerated taint(s)").by("TaintToleration")


NOT_MATCHED = unresolvable("node(s) didn't match Pod's node affinity/selector").by("NodeAffinity")


@pytest.mark.parametrize(
    ("wanting", "fits"),
    [
        (pod("p").node_selector(disk="ssd"), "b"),
        (pod("p").node_affinity("disk", "In", "ssd", "nvme"), "b"),
        (pod("p").node_affinity("disk", "NotIn", "ssd"), "ac"),
        (pod("p").node_affinity("disk", "Exists"), "ab"),
        (pod("p").node_affinity("disk", "DoesNotExist"), "c"),
        (pod("p").node_affinity("cores", "Gt", "8"), "c"),
        (pod("p").node_affinity("cores", "Lt", "8"), "a"),
        (pod("p").node_selector(disk="ssd").node_affinity("cores", "Lt", "8"), ""),
    ],
)
def test_a_pod_goes_where_labels_meet_its_selector_and_its_affinity(wanting: PodBuilder, fits: str) -> None:
    nodes = [
        node("a").labels(disk="hdd", cores="4"),
        node("b").labels(disk="ssd"),
        node("c").labels(cores="16"),
    ]
    expected = {name: PASSES if name in fits else NOT_MATCHED for name in "abc"}
    assert verdicts(cluster(nodes=nodes), wanting) == expected


def test_a_profile_can_add_an_affinity_to_that_of_every_pod() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    world = cluster(
        nodes=[node("a"), node("b").labels(disk="hdd"), node("c").labels(disk="ssd")],
        config=profile_with("NodeAffinity", {"addedAffinity": required}),
    )
    enforced = unresolvable("node(s) didn't match scheduler-enforced node affinity").by("NodeAffinity")
    assert verdicts(world, pod("p")) == {"a": enforced, "b": PASSES, "c": PASSES}
    choosy = pod("p").node_selector(disk="ssd")
    assert verdicts(world, choosy) == {"a": enforced, "b": NOT_MATCHED, "c": PASSES}


def naming(*terms: str) -> PodBuilder:
    """A pod whose affinity asks for nodes by name; one of the terms must be met, with all its letters."""
    alternatives = tuple(
        NodeSelectorTerm(
            match_fields=tuple(
                NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,)) for name in term
            )
        )
        for term in terms
    )
    selector = NodeSelector(node_selector_terms=alternatives)
    rules = NodeAffinity(required_during_scheduling_ignored_during_execution=selector)
    return pod("p").spec(affinity=Affinity(node_affinity=rules))


def test_a_pod_whose_affinity_names_nodes_is_tried_on_those_alone() -> None:
    world = cluster(nodes=[node("a"), node("b").taint("gpu"), node("c").taint("gpu")])
    left_out = unresolvable("node(s) didn't satisfy plugin(s) [NodeAffinity]")
    assert verdicts(world, naming("a", "b")) == {"a": PASSES, "b": TAINTED, "c": left_out}
    nowhere = world.decide(naming("ab"))
    assert nowhere.message == "0/3 nodes are available: pod affinity terms conflict."


def test_wishes_for_labels_add_up() -> None:
    nodes = [node("none"), node("disk").labels(disk="ssd"), node("both").labels(disk="ssd", gpu="yes")]
    wanting = pod("p").node_affinity("disk", "In", "ssd", weight=10).node_affinity("gpu", "Exists", weight=30)
    assert points(cluster(nodes=nodes), wanting, "NodeAffinity") == {"none": 0, "disk": 50, "both": 200}
    assert points(cluster(nodes=nodes), pod("p"), "NodeAffinity") is None


def test_a_profile_can_add_wishes_for_labels() -> None:
    term = {"weight": 10, "preference": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}
    added = {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
    config = profile_with("NodeAffinity", {"addedAffinity": added})
    world = cluster(nodes=[node("none"), node("gpu").labels(gpu="yes")], config=config)
    assert points(world, pod("p"), "NodeAffinity") == {"none": 0, "gpu": 200}
