"""Pod groups whose members search long for devices: the attempt has a budget, and others have their turns."""

import asyncio

from releases import V1_37
from scheduler.live_scheduler import NAMESPACE, World, configured, live
from scheduler.plugins.dynamicresources.racks import add_class, using
from scheduler.plugins.dynamicresources.test_long_searches import TIMED_OUT, StepSlice, partitions, request
from scheduler.pod_groups.group_stories import add_group
from stowplan.api import catalogue as c
from stowplan.api.gates.feature_gates import FeatureGates

TIMEOUT = {"name": "DynamicResources", "args": {"filterTimeout": "20ms"}}
CONFIG = configured(
    {"schedulerName": "default-scheduler", "pluginConfig": [TIMEOUT]},
    gates=FeatureGates({"GenericWorkload": True}, V1_37),
)

SLOW = {"requests": [request(f"r{number}") for number in range(6)]}
"""Of twelve devices six at once, where their counter allows five: without a limit every choice is tried."""


async def slow_group(world: World) -> None:
    """A gang of two, of which each needs devices that cannot be had."""
    world.scheduler.context.slice = StepSlice()
    add_class(world)
    world.add_node("n1")
    for one in partitions("n1", 12, 5):
        world.store.create(c.RESOURCE_SLICES, one)
    add_group(world, "g", 2)
    for name in ("g-0", "g-1"):
        metadata = {"name": name, "namespace": NAMESPACE}
        world.store.create(c.RESOURCE_CLAIMS, {"metadata": metadata, "spec": {"devices": SLOW}})
        world.put_pod(name, schedulingGroup={"podGroupName": "g"}, resourceClaims=using(name))


def test_the_attempt_of_a_group_times_out_in_steps_and_other_pods_go_on() -> None:
    turns: list[None] = []

    async def count_turns(world: World) -> None:
        while not world.message("g-0"):
            turns.append(None)
            await asyncio.sleep(0)

    async def story(world: World) -> None:
        world.put_pod("ordinary")
        await count_turns(world)
        await world.settle()
        assert world.message("g-0") == TIMED_OUT
        assert TIMED_OUT in world.message("g-1")
        assert world.node_of("ordinary") == "n1"

    live(story, before=slow_group, config=CONFIG)
    assert len(turns) > 100, "the loop had its turns during the search"
