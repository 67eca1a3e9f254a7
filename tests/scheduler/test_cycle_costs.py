"""Scheduling time by owner: the API tells who costs it, and pods that fail slowly come back later."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from scheduler.live_scheduler import World, configured, live, plugin
from scheduler.pod_groups.group_queue import StoppedClock
from stowplan.api.catalogue import POD_GROUPS
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import release
from stowplan.explain.document.queue import CostsDocument
from stowplan.explain.web import Inspection
from stowplan.framework import unschedulable
from stowplan.runtime.logs import Logger
from stowplan.scheduler.cycle.costs import LONGEST_HOLD, MOST_OWNERS, SHARE, CycleCosts
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import pod

SLOW = "Scheduling attempts take long"


class Stopwatch:
    """A timer that advances by the cost of `slow` pods when they are evaluated."""

    def __init__(self, **costs: float) -> None:
        self.costs = costs
        self.now = 0.0
        self.spent = 0.0

    def __call__(self) -> float:
        return self.now

    def plugin(self) -> Any:
        def pre_filter(plugin: Any, cycle: Any, info: Any) -> Any:
            cost = self.costs.get(info.name.partition("-")[0], 0.0)
            self.now += cost
            self.spent += cost
            return unschedulable("no luck") if info.name.endswith("-no") else None

        return plugin("Expensive", pre_filter=pre_filter)


def world(story: Callable[[World], Any], watch: Stopwatch, **options: Any) -> World:
    return live(story, plugins=[watch.plugin()], timer=watch, verbosity=3, **options)


def activate(world: World, key: str) -> None:
    """A plugin wants a pod to be tried at once."""
    found = world.scheduler.pod(key)
    assert found is not None
    world.scheduler.context.queue.activate([found])


def test_a_pod_that_fails_slowly_backs_off_by_what_it_costs_and_is_told_why() -> None:
    watch = Stopwatch(slow=2.0, quick=0.5)

    async def story(world: World) -> None:
        world.add_node("n")
        world.put_pod("slow-no")
        world.put_pod("quick-no")
        for _ in range(40):
            await world.settle(1)
            activate(world, "d/slow-no")
            activate(world, "d/quick-no")

    made = world(story, watch)
    first, *others = made.attempts("slow-no")
    hold = 2.0 / SHARE
    assert others
    assert all(later - earlier >= hold for earlier, later in pairwise([first, *others]))
    assert len(others) >= 40 // (hold + 3) - 1
    assert len(made.attempts("quick-no")) > 30
    note = made.notes("slow-no", "FailedScheduling")[0]
    assert note.startswith("0/1 nodes are available: no luck.")
    told = (
        "The attempt took 2.0s of the scheduler's time, more than 1s, so the next one is 10s later at the "
        "earliest."
    )
    assert note.endswith(f" {told}")
    assert made.message("slow-no").endswith(told)
    assert "scheduler's time" not in made.message("quick-no")
    assert made.times_of(SLOW, "d/slow-no")
    assert not made.times_of(SLOW, "d/quick-no")


def test_many_slow_pods_take_no_more_than_their_share_together() -> None:
    watch = Stopwatch(**{f"slow{number}": 1.5 for number in range(8)})

    async def story(world: World) -> None:
        world.add_node("n")
        for number in range(8):
            world.put_pod(f"slow{number}-no")
        await world.settle(5)
        before = watch.spent
        for _ in range(200):
            await world.settle(1)
            for number in range(8):
                activate(world, f"d/slow{number}-no")
        assert 0 < watch.spent - before <= 200 * SHARE + 1.5

    world(story, watch)


def test_a_group_that_fails_slowly_backs_off_by_what_it_costs() -> None:
    watch = Stopwatch(slow=1.0)
    gates = FeatureGates({"GenericWorkload": True}, release("1.37"))
    expensive = watch.plugin()
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": "Expensive"}]}},
    }

    async def story(world: World) -> None:
        world.add_node("n")
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 0}
        world.store.create(POD_GROUPS, {"metadata": {"name": "g", "namespace": "d"}, "spec": spec})
        for name in ("slow-1-no", "slow-2-no"):
            world.put_pod(name, schedulingGroup={"podGroupName": "g"})
        await world.settle(30)

    made = live(
        story,
        config=configured(profile, gates=gates),
        plugins=[expensive],
        timer=watch,
        verbosity=3,
    )
    times = made.times_of("Attempting to schedule pod group")
    assert len(times) >= 2
    assert all(later - earlier >= 5.0 for earlier, later in pairwise(times))
    assert "so the next one is" in made.message("slow-1-no")
    [cost] = made.scheduler.context.costs.most_costly(1)
    assert cost.owner.text == "PodGroup/g"


def test_the_api_and_the_metrics_tell_who_costs_the_time() -> None:
    watch = Stopwatch(slow=2.0, quick=0.01)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}

    async def story(world: World) -> None:
        world.add_node("n")
        for name in ("quick-a", "quick-b"):
            world.put_pod(name, metadata={"ownerReferences": [owner]})
        world.put_pod("slow-no")
        await world.settle(1)
        inspection = Inspection(lambda: world.scheduler, cluster="a test", release="1.37")
        told = inspection.costs({"d"})
        assert [(one.owner, one.attempts, one.slow) for one in told.items] == [
            ("Pod/slow-no", 1, 1),
            ("ReplicaSet/web", 2, 0),
        ]
        assert told.seconds == pytest.approx(2.02)
        assert told.items[1].mean == pytest.approx(0.01)
        assert inspection.costs({"other"}, whole=False) == CostsDocument()
        sample = world.scheduler.context.metrics.registry.get_sample_value
        labels = {"namespace": "d", "owner": "Pod/slow-no"}
        assert sample("stowplan_costly_owner_cycle_seconds", labels) == pytest.approx(2.0)
        assert sample("stowplan_slow_attempts_total", {"profile": "default-scheduler"}) == 1

    world(story, watch)


# State


def costs() -> tuple[CycleCosts, StoppedClock]:
    clock = StoppedClock()
    return CycleCosts(clock, Logger(), lambda profile: None), clock


def waiting(name: str, table: ClusterTable) -> QueuedPod:
    return QueuedPod(table.info(pod(name).labels(app=name).obj()), 0.0)


def test_of_very_many_owners_those_that_cost_most_are_kept_and_the_sums_are_right() -> None:
    made, _ = costs()
    table = ClusterTable()
    heavy = waiting("heavy", table)
    count = 5 * MOST_OWNERS
    for number in range(count):
        made.spent(waiting(f"p{number}", table), 0.001, 0.0)
        if not number % 10:
            made.spent(heavy, 0.1, 0.0)
    assert len(made) <= 2 * MOST_OWNERS
    [first] = made.most_costly(1)
    assert (first.owner.name, first.attempts) == ("heavy", count // 10)
    attempts, seconds = made.total
    assert attempts == count + count // 10
    assert seconds == pytest.approx(count * 0.001 + count // 10 * 0.1)


def test_no_pod_is_held_back_for_longer_than_the_limit() -> None:
    made, clock = costs()
    table = ClusterTable()
    slow = [waiting(f"p{number}", table) for number in range(200)]
    for queued in slow:
        made.spent(queued, 5.0, 0.0)
        assert made.hold_back(queued)
    latest = max(queued.held_until for queued in slow) / 1e9
    assert latest == pytest.approx(clock.monotonic() + LONGEST_HOLD)
    made.spent(slow[0], math.nextafter(1.0, 0.0), 0.0)
    assert made.hold_back(slow[0]) == ""
    assert slow[0].held_until == 0


def test_with_extenders_nobody_is_held_back() -> None:
    made = CycleCosts(StoppedClock(), Logger(), lambda profile: None, holds=False)
    queued = waiting("p", ClusterTable())
    made.spent(queued, 30.0, 0.0)
    assert made.hold_back(queued) == ""
    assert queued.held_until == 0


@pytest.mark.parametrize(("used", "is_slow"), [(0.3, False), (1.4, True)])
def test_an_attempt_is_slow_by_the_time_on_the_cpu_where_a_busy_machine_stretches_it(
    used: float, is_slow: bool
) -> None:
    cpu = [7.0]
    made = CycleCosts(StoppedClock(), Logger(), lambda profile: None, cpu=lambda: cpu[0])
    table = ClusterTable()
    made.spent(waiting("before", table), 0.001, 100.0)
    queued = waiting("p", table)
    cpu[0] += used
    made.spent(queued, 3.0, 103.0)
    assert queued.cost == pytest.approx(used)
    assert bool(made.hold_back(queued)) == is_slow


def test_what_an_attempt_used_before_it_was_put_aside_counts() -> None:
    made = CycleCosts(StoppedClock(), Logger(), lambda profile: None, cpu=lambda: 7.0)
    queued = waiting("p", ClusterTable())
    made.spent(waiting("before", ClusterTable()), 0.001, 100.0)
    made.spent(queued, 1.5, 103.0, 4.0)
    assert queued.cost == 4.0
    assert made.hold_back(queued)
