"""TaintToleration: hard taints in Filter, PreferNoSchedule in Score, tolerations by comparison."""

import pytest

from scheduler.plugins.answers import PASSES, gated_cluster, points, verdicts
from stowplan.api.pod import (
    Toleration,
)
from stowplan.scheduler.framework.status import Status, unresolvable
from stowplan.testing import PodBuilder, cluster, node, pod

CORDONED = unresolvable("node(s) were unschedulable").by("NodeUnschedulable")


TAINTED = unresolvable("node(s) had untolerated taint(s)").by("TaintToleration")


COMPARISONS = "TaintTolerationComparisonOperators"


@pytest.mark.parametrize(
    ("effect", "expected"),
    [("NoSchedule", TAINTED), ("NoExecute", TAINTED), ("PreferNoSchedule", PASSES)],
)
def test_hard_taints_keep_pods_away_that_do_not_tolerate_them(effect: str, expected: Status) -> None:
    world = cluster(nodes=[node("a").taint("gpu", "big", effect)])
    assert verdicts(world, pod("p")) == {"a": expected}
    assert verdicts(world, pod("p").tolerates("gpu", "small")) == {"a": expected}
    assert verdicts(world, pod("p").tolerates("gpu", "big")) == {"a": PASSES}


def tolerating(operator: str, bound: str, effect: str = "") -> PodBuilder:
    toleration = Toleration(key="level", operator=operator, value=bound, effect=effect)
    return pod("p").labels(app="x").spec(tolerations=(toleration,))


@pytest.mark.parametrize(
    ("operator", "bound", "fits"), [("Gt", "4", True), ("Gt", "5", False), ("Lt", "6", True)]
)
def test_numeric_tolerations_count_only_behind_their_gate(operator: str, bound: str, fits: bool) -> None:
    nodes = [node("a").taint("level", "5"), node("b").unschedulable()]
    wanting = tolerating(operator, bound)
    off = gated_cluster({}, nodes, [])
    assert verdicts(off, wanting) == {"a": TAINTED, "b": CORDONED}
    on = gated_cluster({COMPARISONS: True}, nodes, [])
    assert verdicts(on, wanting) == {"a": PASSES if fits else TAINTED, "b": CORDONED}


def test_nodes_with_more_taints_to_avoid_score_less() -> None:
    soft = "PreferNoSchedule"
    nodes = [
        node("none"),
        node("one").taint("a", "", soft),
        node("two").taint("a", "", soft).taint("b", "", soft),
    ]
    world = cluster(nodes=nodes)
    assert points(world, pod("p"), "TaintToleration") == {"none": 300, "one": 150, "two": 0}
    tolerant = pod("p").tolerates("a", effect=soft)
    assert points(world, tolerant, "TaintToleration") == {"none": 300, "one": 300, "two": 0}
    elsewhere = pod("p").tolerates("a", effect="NoSchedule")
    assert points(world, elsewhere, "TaintToleration") == {"none": 300, "one": 150, "two": 0}


@pytest.mark.parametrize(("on", "expected"), [(False, 0), (True, 300)])
def test_numeric_tolerations_of_soft_taints_count_only_behind_their_gate(on: bool, expected: int) -> None:
    nodes = [node("none"), node("soft").taint("level", "5", "PreferNoSchedule")]
    world = gated_cluster({"TaintTolerationComparisonOperators": on}, nodes, [])
    wanting = pod("p").spec(tolerations=(Toleration(key="level", operator="Gt", value="4"),))
    assert points(world, wanting, "TaintToleration") == {"none": 300, "soft": expected}


def test_taints_to_avoid_of_0_1_and_3_give_100_67_and_0() -> None:
    nodes = [node("none"), node("one"), node("three")]
    for count, which in ((1, 1), (3, 2)):
        for number in range(count):
            nodes[which] = nodes[which].taint(f"t{number}", effect="PreferNoSchedule")
    found = points(cluster(nodes=nodes), pod("p"), "TaintToleration")
    assert found == {"none": 3 * 100, "one": 3 * 67, "three": 0}
