"""Memory for classes of pods is bounded and released."""

import gc

from stowplan.api.labels import selector_from_labels
from stowplan.config import default_profile
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.testing import cluster, node, pod
from stowplan.testing.builders import HOSTNAME, ZONE, PodBuilder

NODES = [node(name).zone(zone) for name, zone in (("a", "1"), ("b", "2"), ("c", "3"))]


def unlike_any_other(number: int) -> PodBuilder:
    """A pod with a unique group, spread and kept apart, so that counters are made for it."""
    group = {"group": f"g{number}"}
    return pod(f"p{number}").labels(**group).spread(ZONE, group).anti_affinity(HOSTNAME, group)


def test_counters_go_with_the_classes_they_were_made_for() -> None:
    world = cluster(nodes=NODES)
    (framework,) = world.frameworks.values()
    for number in range(100):
        world.evaluate(unlike_any_other(number))
    assert 0 < len(world.table.matchers) <= 40
    framework.forget_classes()
    assert len(world.table.matchers) == 0


def test_signatures_go_with_the_classes_they_were_made_for() -> None:
    world = cluster(nodes=NODES)
    (framework,) = world.frameworks.values()
    for number in range(100):
        world.evaluate(unlike_any_other(number))
    gc.collect()
    assert 0 < len(framework._keys) <= 20


def test_a_class_met_again_is_kept_through_many_others() -> None:
    world = cluster(nodes=NODES)
    regular = pod("regular").labels(app="x").spread(ZONE, {"app": "x"})
    matchers = world.table.matchers
    for number in range(60):
        world.evaluate(regular)
        kept = matchers.acquire(
            ((frozenset(("default",)), selector_from_labels({"app": "x"})),), dying_too=False
        )
        assert kept.holders > 1
        matchers.release(kept)
        world.evaluate(unlike_any_other(number))


def test_the_longest_unused_class_goes_first_when_memory_is_short() -> None:
    world = cluster(nodes=NODES)
    framework = Framework(default_profile(), world.table, in_tree_registry(), class_memory=20_000)
    for _ in range(3):
        for number in range(40):
            framework.evaluate(world.table.info(unlike_any_other(number).obj()))
    assert len(world.table.matchers) <= 2 * (16 + 2)


def test_templates_and_kinds_go_with_the_last_pod_that_has_them() -> None:
    world = cluster(nodes=NODES)
    for number in range(1000):
        world.add(unlike_any_other(number).on("a"))
    assert len(world.table._templates) == 1000
    for number in range(1000):
        world.remove(unlike_any_other(number))
    gc.collect()
    assert len(world.table._templates) == 0
    assert world.table.requested.sum() == 0
