"""Sequences that once gave, or easily could give, kept results that no longer held."""

import gc
from collections.abc import Callable
from typing import Any

import pytest

from stowplan.api.meta import LabelSelector, Namespace, ObjectMeta
from stowplan.config import default_profile
from stowplan.scheduler.framework.interface import FEW_ROWS
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.testing import NodeBuilder, PodBuilder, cluster, node, pod
from stowplan.testing.builders import HOSTNAME, ZONE
from stowplan.testing.reuse_machine import MirroredCluster, describe_evaluation

NODES = [node(name).zone(zone) for name, zone in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "2"))]
PROD = LabelSelector(match_labels={"env": "prod"})

Step = Callable[[MirroredCluster], Any]


def seen(framework: Framework, wanting: PodBuilder) -> dict[str, Any]:
    return describe_evaluation(framework, framework.evaluate(framework.table.info(wanting.obj())))


def holds(wanting: PodBuilder, *steps: Step) -> bool:
    """True if results kept over each step equal those from scratch. The pod is released in between."""
    world = MirroredCluster()
    kept = Framework(default_profile(), world.table, in_tree_registry())
    agree = True
    for step in (adding(*NODES), *steps):
        step(world)
        gc.collect()
        anew = Framework(default_profile(), world.rebuilt(), in_tree_registry(), reuse=False)
        agree = agree and seen(kept, wanting) == seen(anew, wanting)
    return agree


def adding(*builders: PodBuilder | NodeBuilder) -> Step:
    def add(world: MirroredCluster) -> None:
        for builder in builders:
            if isinstance(builder, NodeBuilder):
                world.put_node(builder.obj())
            else:
                world.put_pod(builder.obj(), builder.obj().spec.node_name)

    return add


def removing(*builders: PodBuilder | NodeBuilder) -> Step:
    def remove(world: MirroredCluster) -> None:
        for builder in builders:
            if isinstance(builder, NodeBuilder):
                world.remove_node(builder.obj().name)
            else:
                world.remove_pod(builder.obj().metadata.uid)

    return remove


def namespace(name: str, **labels: str) -> Step:
    return lambda world: world.put(Namespace(metadata=ObjectMeta(name=name, labels=labels)))


def test_terms_that_came_while_nobody_of_the_kind_was_there_count() -> None:
    """No pod of the kind is known between the attempts, so its kind is made anew."""
    shy = pod("shy").anti_affinity(ZONE, {"app": "x"}).on("a")
    assert holds(pod("p").labels(app="x"), adding(shy), removing(shy), adding(shy))


def test_one_term_is_not_taken_for_another_that_came_in_its_place() -> None:
    one = pod("one").anti_affinity(ZONE, {"app": "x"}).on("a")
    other = pod("other").anti_affinity(HOSTNAME, {"app": "x"}).on("c")
    fond = pod("fond").affinity(ZONE, {"app": "x"}, weight=7).on("d")
    wanting = pod("p").labels(app="x")
    assert holds(wanting, adding(one), removing(one), adding(other), removing(other), adding(fond))


def test_a_namespace_that_gets_or_loses_a_label_is_meant_or_no_longer_meant() -> None:
    """Other pods of the kind are there all the time, so its kind stays."""
    sibling = pod("sibling").namespace("team").labels(app="x").on("b")
    shy = pod("shy").anti_affinity(ZONE, {"app": "x"}, namespace_selector=PROD).on("c")
    fond = pod("fond").affinity(HOSTNAME, {"app": "x"}, weight=9, namespace_selector=PROD).on("a")
    wanting = pod("p").namespace("team").labels(app="x")
    changes = [namespace("team", env=env) for env in ("prod", "test", "prod")]
    assert holds(wanting, adding(sibling, shy, fond), *changes, namespace("team"))


def test_the_pods_own_terms_follow_the_labels_of_namespaces() -> None:
    there = pod("there").namespace("team").labels(app="x").on("a")
    wanting = pod("p").affinity(ZONE, {"app": "x"}, namespace_selector=PROD)
    changes = [namespace("team", env=env) for env in ("test", "prod", "test")]
    assert holds(wanting, adding(there), *changes)


def test_soft_spreading_weighs_hosts_by_how_many_are_left() -> None:
    """Filling nodes up takes them out of the choice, which changes the weight of every other node."""
    crowd = [pod(f"x{number}").labels(app="x").on("a") for number in range(6)]
    crowd += [pod(f"y{number}").labels(app="x").on("b") for number in range(3)]
    filling = [pod(f"full-{name}").requests(cpu="4").on(name) for name in "cd"]
    wanting = pod("p").labels(app="x").requests(cpu="1")
    wanting = wanting.spread(HOSTNAME, when_unsatisfiable="ScheduleAnyway")
    assert holds(
        wanting, adding(*crowd), *(adding(one) for one in filling), *(removing(one) for one in filling)
    )


def test_soft_spreading_weighs_zones_by_how_many_are_left() -> None:
    crowd = [pod(f"x{number}").labels(app="x").on("a") for number in range(6)]
    filling = [pod(f"full-{name}").requests(cpu="4").on(name) for name in "cd"]
    wanting = pod("p").labels(app="x").requests(cpu="1").spread(ZONE, when_unsatisfiable="ScheduleAnyway")
    assert holds(
        wanting, adding(*crowd), *(adding(one) for one in filling), *(removing(one) for one in filling)
    )


def test_scores_are_measured_by_the_extremes_of_now() -> None:
    """Pods leave the node that had the most, and enter the one that had the fewest."""
    there = {name: [pod(f"{name}{n}").labels(app="x").on(name) for n in range(5)] for name in "abcd"}
    wanting = pod("p").affinity(HOSTNAME, {"app": "x"}, weight=10)
    leaving = [removing(one) for one in there["a"]]
    coming = [adding(one) for one in there["d"]]
    assert holds(wanting, adding(*there["a"], *there["b"][:2], *there["c"][:3]), *coming[:4], *leaving)
    away = pod("p").labels(app="x").spread(HOSTNAME, when_unsatisfiable="ScheduleAnyway")
    assert holds(away, adding(*there["a"], *there["b"][:2], *there["c"][:3]), *coming[:4], *leaving)


@pytest.mark.parametrize("relabelled", ["1", "3", ""])
def test_terms_move_with_the_node_their_carrier_stands_on(relabelled: str) -> None:
    shy = pod("shy").anti_affinity(ZONE, {"app": "x"}).on("a")
    fond = pod("fond").affinity(ZONE, {"app": "x"}, weight=5).on("a")
    moved = node("a").zone(relabelled)
    assert holds(
        pod("p").labels(app="x"),
        adding(shy, fond),
        adding(moved),
        removing(moved),
        adding(moved),
    )


def binding(builder: PodBuilder, node_name: str) -> Step:
    """A pod is assumed and bound, and gets the label of a zone with that."""

    def bind(world: MirroredCluster) -> None:
        made = builder.obj()
        world.assume(made, node_name)
        world.confirm(made.metadata.uid, None, dying=False, relabelled=True)

    return bind


@pytest.mark.parametrize(
    "wanting",
    [
        pod("p").requests(cpu="1"),
        pod("p").anti_affinity(HOSTNAME, {ZONE: "z1"}),
        pod("p").affinity(HOSTNAME, {ZONE: "z1"}, weight=7),
        pod("p").labels({ZONE: "z1"}).spread(HOSTNAME, {ZONE: "z1"}),
        pod("p").anti_affinity(HOSTNAME, {"app": "x"}),
    ],
)
def test_labels_that_come_with_the_binding_count_for_those_who_select_by_them(wanting: PodBuilder) -> None:
    bound = [pod(f"bound-{name}").labels(app="x").requests(cpu="1") for name in "abc"]
    steps = [binding(one, name) for one, name in zip(bound, "abc", strict=True)]
    later = pod("later").anti_affinity(HOSTNAME, {ZONE: "z1"}).on("d")
    assert holds(wanting, *steps, adding(later), *(removing(one) for one in bound))


def test_a_node_that_was_tried_many_times_counts_once() -> None:
    """Every trial changes what is counted on the node, and changes it back."""
    there = [pod(f"x-{name}").labels(app="x").on(name) for name in "abc"]
    world = cluster(nodes=NODES[:3], pods=there)
    [framework] = world.frameworks.values()
    wanting = world.table.info(pod("p").anti_affinity(HOSTNAME, {"app": "x"}).obj())
    evaluation = framework.evaluate(wanting)
    assert evaluation.feasible_count == 0
    row = world.table.row_of("b")
    assert row is not None
    [leaving] = world.table.pods_on[row].values()
    for _ in range(FEW_ROWS):
        with evaluation.simulations() as simulations, simulations.row(row) as simulation:
            simulation.remove_pod(leaving)
            assert simulation.verdict() is None
            simulation.restore_pod(leaving)
            assert simulation.verdict() is not None
    world.table.remove_pod(leaving.uid)
    evaluation = framework.evaluate(wanting)
    assert evaluation.feasible_rows.tolist() == [row]
    assert evaluation.feasible_count == 1


def test_a_framework_never_goes_by_what_another_one_found() -> None:
    """Templates outlive frameworks; a new framework can even get the address of one that is gone."""
    world = cluster(nodes=NODES, pods=[pod("there").requests(cpu="3").on("a")])
    infos = [world.table.info(pod(f"p{number}").requests(cpu=str(number)).obj()) for number in range(1, 5)]
    for _ in range(20):
        framework = Framework(default_profile(), world.table, in_tree_registry())
        assert [framework.evaluate(info).feasible_count for info in infos] == [4, 3, 3, 3]
        del framework
        alike = Framework(_without_resources(), world.table, in_tree_registry())
        assert [alike.evaluate(info).feasible_count for info in infos] == [4, 4, 4, 4]
        del alike


def _without_resources() -> Any:
    profile = default_profile()
    kept = {
        point: tuple(use for use in uses if "Resources" not in use.name)
        for point, uses in profile.plugins.items()
    }
    return type(profile)(profile.scheduler_name, plugins=kept)
