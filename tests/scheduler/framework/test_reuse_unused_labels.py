"""Pods that differ only in labels that no term looks at share results, for as long as none does."""

from stowplan.config import default_profile
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.testing import PodBuilder, node, pod
from stowplan.testing.builders import ZONE
from stowplan.testing.reuse_machine import MirroredCluster, describe_evaluation


def world_of_two_zones() -> tuple[MirroredCluster, Framework]:
    world = MirroredCluster()
    for name, zone in (("a", "1"), ("b", "2")):
        world.put_node(node(name).zone(zone).obj())
    return world, Framework(default_profile(), world.table, in_tree_registry())


def kept_and_fresh_agree(world: MirroredCluster, kept: Framework, *pods: PodBuilder) -> bool:
    anew = Framework(default_profile(), world.rebuilt(), in_tree_registry(), reuse=False)
    return all(
        describe_evaluation(kept, kept.evaluate(kept.table.info(one.obj())))
        == describe_evaluation(anew, anew.evaluate(anew.table.info(one.obj())))
        for one in pods
    )


def class_of(framework: Framework, wanting: PodBuilder) -> object:
    return framework.evaluate(framework.table.info(wanting.obj())).pod_class


def job_pod(number: str) -> PodBuilder:
    return pod(f"job-{number}").labels(app="batch", job=number)


def test_pods_of_many_jobs_share_what_was_worked_out() -> None:
    _, framework = world_of_two_zones()
    assert class_of(framework, job_pod("1")) is class_of(framework, job_pod("2"))


def test_a_term_that_looks_at_the_label_tells_them_apart() -> None:
    world, framework = world_of_two_zones()
    jobs = job_pod("1"), job_pod("2"), pod("plain").labels(app="batch")
    assert kept_and_fresh_agree(world, framework, *jobs)
    waiting = [framework.table.info(one.obj()) for one in jobs]
    assert len({framework.evaluate(info).pod_class for info in waiting}) == 1
    shy = pod("shy").anti_affinity(ZONE, {"job": "2"}).on("a").obj()
    world.put_pod(shy, "a")
    assert len({framework.evaluate(info).pod_class for info in waiting}) == 3
    assert kept_and_fresh_agree(world, framework, *jobs)
    world.remove_pod(shy.metadata.uid)
    assert kept_and_fresh_agree(world, framework, *jobs)


def test_pods_look_at_their_own_labels() -> None:
    """The first of pods that want to be near each other may go anywhere, one that wants others may not."""
    world, framework = world_of_two_zones()
    first, second = (job_pod(number).affinity(ZONE, {"job": "1"}) for number in "12")
    assert kept_and_fresh_agree(world, framework, first, second)
    assert framework.evaluate(framework.table.info(first.obj())).feasible_count == 2
    assert framework.evaluate(framework.table.info(second.obj())).feasible_count == 0
