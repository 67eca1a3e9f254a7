"""Nodes nominated to other pods, and a node nominated to the pod itself."""

from typing import Any

import pytest

from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import Status
from stowplan.testing import Cluster, PodBuilder, cluster, node, pod
from stowplan.testing.builders import HOSTNAME, ZONE
from stowplan.testing.reuse_machine import describe_evaluation, describe_usage

NODES = [node(name).zone(zone) for name, zone in (("a", "1"), ("b", "1"), ("c", "2"))]


def ask(world: Cluster, wanting: PodBuilder, *nominated: PodBuilder, own: str | None = None) -> Evaluation:
    """Evaluate a pod while others are nominated node a, and the pod itself perhaps another."""
    (framework,) = world.frameworks.values()
    table = world.table
    rows = {table.row_of("a") or 0: [table.info(other.obj()) for other in nominated]}
    own_row = None if own is None else table.row_of(own)
    return framework.evaluate(table.info(wanting.obj()), rows if nominated else {}, own_row)


def feasible(world: Cluster, evaluation: Evaluation) -> str:
    return "".join(sorted(world.table.name_of(row) for row in evaluation.feasible_rows.tolist()))


def verdict(world: Cluster, evaluation: Evaluation, name: str) -> Status:
    row = world.table.row_of(name)
    assert row is not None
    return evaluation.status(row)


BIG = pod("big").requests(cpu="3")


@pytest.mark.parametrize(
    ("nominated", "expected"),
    [
        (BIG.priority(5), "bc"),
        (BIG.priority(9), "bc"),
        (BIG.priority(4), "abc"),
        (pod("small").requests(cpu="1").priority(9), "abc"),
    ],
    ids=["equally important", "more important", "less important", "leaves room"],
)
def test_room_is_left_for_nominated_pods_that_are_at_least_as_important(
    nominated: PodBuilder, expected: str
) -> None:
    world = cluster(nodes=NODES)
    wanting = pod("p").requests(cpu="2").priority(5)
    evaluation = ask(world, wanting, nominated)
    assert feasible(world, evaluation) == expected
    if expected == "bc":
        status = verdict(world, evaluation, "a")
        assert (status.plugin, status.message) == ("NodeResourcesFit", "Insufficient cpu")
        assert evaluation.reason_counts() == {"Insufficient cpu": 1}
    assert feasible(world, ask(world, wanting)) == "abc"


@pytest.mark.parametrize(
    ("nominated", "reasons"),
    [
        (pod("x").requests(cpu="1"), {"Insufficient cpu": 1}),
        (pod("x").requests(memory="8Gi"), {"Insufficient cpu": 1, "Insufficient memory": 1}),
    ],
    ids=["rejected for the same reason anyway", "one reason more"],
)
def test_a_node_that_has_no_room_anyway_is_rejected_as_it_is_with_the_nominated_pods(
    nominated: PodBuilder, reasons: dict[str, int]
) -> None:
    nodes = [node("a").capacity(cpu="4", memory="8Gi"), node("b").capacity(cpu="16", memory="8Gi")]
    world = cluster(nodes=nodes)
    evaluation = ask(world, pod("p").requests(cpu="8", memory="1Gi"), nominated)
    assert feasible(world, evaluation) == "b"
    assert evaluation.reason_counts() == reasons
    assert sorted(verdict(world, evaluation, "a").reasons) == sorted(reasons)


def test_a_nomination_to_the_pod_itself_does_not_stand_in_its_way() -> None:
    world = cluster(nodes=NODES)
    wanting = pod("p").requests(cpu="3")
    assert feasible(world, ask(world, wanting, wanting)) == "abc"


@pytest.mark.parametrize(
    ("nominated", "wanting", "reason"),
    [
        (
            pod("x").labels(app="x"),
            pod("p").anti_affinity(HOSTNAME, {"app": "x"}),
            "node(s) didn't match pod anti-affinity rules",
        ),
        (
            pod("x").labels(app="x"),
            pod("p").labels(app="x").spread(ZONE, {"app": "x"}),
            "node(s) didn't match pod topology spread constraints",
        ),
        (
            pod("x").port(80, host_port=80),
            pod("p").port(80, host_port=80),
            "node(s) didn't have free ports for the requested pod ports",
        ),
    ],
    ids=["affinity", "spread", "ports"],
)
def test_nominated_pods_count_as_if_they_were_there(
    nominated: PodBuilder, wanting: PodBuilder, reason: str
) -> None:
    there = pod("other").labels(app="x").on("b") if "spread" in reason else pod("other").on("b")
    world = cluster(nodes=NODES, pods=[there])
    evaluation = ask(world, wanting, nominated)
    assert verdict(world, evaluation, "a").message == reason


def test_nominated_pods_may_never_come_so_nothing_can_be_built_on_them() -> None:
    """The wanted company is only nominated: the node must pass without it too."""
    world = cluster(nodes=NODES, pods=[pod("far").labels(app="x").on("c")])
    wanting = pod("p").affinity(HOSTNAME, {"app": "x"})
    assert feasible(world, ask(world, wanting, pod("x").labels(app="x"))) == "c"


@pytest.mark.parametrize("fails", [False, True])
def test_everything_is_as_before_when_nominations_were_tried(fails: bool) -> None:
    world, alone = cluster(nodes=NODES), cluster(nodes=NODES, reuse=False)
    wanting = pod("p").labels(app="x").requests(cpu="2").spread(ZONE, {"app": "x"})
    shy = pod("x").labels(app="x").anti_affinity(ZONE, {"app": "x"}).port(80, host_port=80)
    before = describe_usage(world.table)
    for _ in range(3):
        ask(world, wanting, shy.requests(cpu="4") if fails else shy)
        assert describe_usage(world.table) == before
        assert seen(world, ask(world, wanting)) == seen(alone, ask(alone, wanting))


def seen(world: Cluster, evaluation: Evaluation) -> dict[str, Any]:
    (framework,) = world.frameworks.values()
    assert isinstance(framework, Framework)
    return describe_evaluation(framework, evaluation)


def test_the_node_nominated_to_the_pod_is_the_only_one_considered_if_it_fits() -> None:
    world = cluster(nodes=NODES)
    evaluation = ask(world, pod("p"), own="b")
    assert feasible(world, evaluation) == "b"
    assert evaluation.feasible_count == 1
    assert not evaluation.scored
    assert evaluation.best_rows().tolist() == [world.table.row_of("b")]
    assert feasible(world, ask(world, pod("p"))) == "abc"


def test_if_the_nominated_node_no_longer_fits_the_others_are_considered() -> None:
    world = cluster(nodes=NODES, pods=[pod("there").requests(cpu="3").on("b")])
    evaluation = ask(world, pod("p").requests(cpu="2"), own="b")
    assert feasible(world, evaluation) == "ac"
    assert evaluation.scored
    assert evaluation.pre_filtering.rejectors == {"NodeResourcesFit"}


def test_the_nominated_node_is_not_taken_from_a_more_important_pod() -> None:
    world = cluster(nodes=NODES)
    evaluation = ask(world, pod("p").requests(cpu="2"), BIG.priority(1), own="a")
    assert feasible(world, evaluation) == "bc"
