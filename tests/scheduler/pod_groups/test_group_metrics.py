"""Metrics of groups: in the queue pods by size, entities by type; attempts and placements."""

import random

from prometheus_client.parser import text_string_to_metric_families

from scheduler.live_scheduler import World, live
from scheduler.pod_groups.group_queue import GroupRig, names
from scheduler.pod_groups.group_stories import add_group, put_members, with_gates
from stowplan.scheduler.metrics.scheduling import SchedulerMetrics
from stowplan.testing import pod
from stowplan.testing.groups import pod_group


def series(metrics: SchedulerMetrics, name: str) -> dict[tuple[str, ...], float]:
    """The series of a metric that are not 0, by the values of their labels in alphabetical order."""
    return {
        tuple(sample.labels[label] for label in sorted(sample.labels)): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
        if sample.name == f"scheduler_{name}" and sample.value
    }


def test_groups_in_the_metrics_of_the_queue() -> None:
    gates = GroupRig().gates
    metrics = SchedulerMetrics(lambda: 0.0, gates, random.Random(0))
    rig = GroupRig(instrument=metrics)
    metrics.watch_queue(rig.queue.counts, rig.queue.entity_counts)
    rig.add(pod_group("g", min_count=2), pod("a").group("g"), pod("b").group("g"))
    rig.add(pod("single"), pod("early").group("unknown"))
    assert series(metrics, "pending_pods") == {("active",): 3, ("incomplete",): 1}
    assert series(metrics, "queued_entities") == {("active", "pod"): 1, ("active", "podgroup"): 1}
    added = "UnscheduledPodAdd"
    assert series(metrics, "queue_incoming_entities_total") == {
        (added, "active", "pod"): 1,
        (added, "active", "podgroup"): 1,
        (added, "unschedulable", "podgroup"): 2,
    }, "a group that is held back again after an event came back, one with a member more stayed"
    assert series(metrics, "queue_incoming_pods_total") == {
        (added, "active"): 3,
        (added, "unschedulable"): 4,
    }
    group = rig.pop()
    assert names(group) == ["a", "b"]
    rig.fail(group, "rejected", "NodeResourcesFit")
    assert series(metrics, "pending_pods")["backoff",] == 2
    assert series(metrics, "unschedulable_pods") == {("NodeResourcesFit", "default-scheduler"): 2}
    metrics.reset()
    assert not series(metrics, "queue_incoming_entities_total")


def test_attempts_of_groups_and_their_placements_are_counted() -> None:
    async def story(world: World) -> None:
        for name, rack in (("n1", "a"), ("n2", "b")):
            world.add_node(name, cpu="4", labels={"rack": rack})
        topology = {"topology": [{"key": "rack"}]}
        for name, count in (("fits", 2), ("large", 3)):
            add_group(world, name, count, schedulingConstraints=topology)
            put_members(world, name, count)
            await world.settle(0.5)
        metrics = world.scheduler.context.metrics
        profile = "default-scheduler"
        assert series(metrics, "podgroup_schedule_attempts_total") == {
            (profile, "scheduled"): 1,
            (profile, "unschedulable"): 1,
        }
        assert series(metrics, "generated_placements_total") == {(profile,): 4}
        assert series(metrics, "placement_evaluations_total") == {
            (profile, "feasible"): 2,
            (profile, "infeasible"): 2,
        }

    live(story, config=with_gates("TopologyAwareWorkloadScheduling"))
