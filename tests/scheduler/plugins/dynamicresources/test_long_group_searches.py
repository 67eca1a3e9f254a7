"""Pod groups whose members search long for devices: the attempt has a budget, and others have their turns."""

import asyncio
from collections.abc import Callable
from itertools import count

import pytest

from releases import V1_37
from scheduler.live_scheduler import NAMESPACE, World, configured, live
from scheduler.plugins.dynamicresources.racks import DRIVER, add_class, devices_of, using
from scheduler.plugins.dynamicresources.test_long_searches import (
    TIMED_OUT,
    Rack,
    StepSlice,
    partitions,
    request,
)
from scheduler.pod_groups.group_stories import add_group
from stowplan.api import catalogue as c
from stowplan.api.catalogue import POD_GROUPS
from stowplan.api.devices import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.config import LoadedConfig
from stowplan.scheduler.plugins.dynamicresources import DynamicResources
from stowplan.scheduler.plugins.dynamicresources.reuse import KeptSearches
from stowplan.scheduler.pod_groups.cycle import PodGroupCycle

SERIAL = count()


def config(timeout: str = "20ms") -> LoadedConfig:
    plugin = {"name": "DynamicResources", "args": {"filterTimeout": timeout}}
    return configured(
        {"schedulerName": "default-scheduler", "pluginConfig": [plugin]},
        gates=FeatureGates({"GenericWorkload": True}, V1_37),
    )


async def slow_group(world: World, *, devices: int = 12, asked: int = 6, group: str = "g") -> None:
    """A gang of two whose members ask for one device more than n1's counter allows at once.

    Without a limit every choice is tried.
    """
    world.scheduler.context.slice = StepSlice()
    add_class(world)
    world.add_node("n1")
    for one in partitions("n1", devices, asked - 1):
        world.store.create(c.RESOURCE_SLICES, one)
    add_gang(world, group, asked, asked)


def add_gang(world: World, group: str, *asked: int) -> None:
    """A gang; its members ask for so many devices each."""
    add_group(world, group, len(asked))
    for place, many in enumerate(asked):
        name = f"{group}-{place}"
        metadata = {"name": name, "namespace": NAMESPACE}
        devices = {"requests": [request(f"r{number}") for number in range(many)]}
        world.store.create(c.RESOURCE_CLAIMS, {"metadata": metadata, "spec": {"devices": devices}})
        world.put_pod(name, "100m", schedulingGroup={"podGroupName": group}, resourceClaims=using(name))


async def feasible_group(world: World) -> None:
    """The same where n2 has room for both members, which is known once n1 was searched."""
    await slow_group(world, devices=7, asked=4)
    world.add_node("n2")
    for one in partitions("n2", 8, 8):
        world.store.create(c.RESOURCE_SLICES, one)


def cycle_of(world: World) -> PodGroupCycle:
    assert world.scheduler.groups is not None
    return world.scheduler.groups


async def keep_busy(world: World, until: Callable[[], object]) -> int:
    """Create ordinary pods; returns how often a group was put aside meanwhile.

    A search begins at a whole second and takes no virtual time. So they come in some turns of the loop after
    each eighth of a second, which this clock represents exactly.
    """
    rounds = 0
    while not until():
        rounds += 1
        assert rounds < 1000, "the group's search does not end"
        names = [f"ordinary-{next(SERIAL)}" for _ in range(8)]
        for name in names:
            world.put_pod(name, "1m")
            await asyncio.sleep(0)
        await world.settle(0.125)
        assert all(world.node_of(name) for name in names), "ordinary pods wait for the group's search"
        for name in names:
            world.delete_pod(name)
    return sum("search for devices takes long" in text for _, _, text, _ in world.told)


def test_the_attempt_of_a_group_times_out_in_steps() -> None:
    turns: list[None] = []

    async def story(world: World) -> None:
        while not world.message("g-0"):
            turns.append(None)
            await asyncio.sleep(0)
        await world.settle()
        assert world.message("g-0") == TIMED_OUT
        assert TIMED_OUT in world.message("g-1")

    live(story, before=slow_group, config=config())
    assert len(turns) > 100, "the loop had its turns during the search"


def test_other_pods_are_scheduled_while_a_group_searches_and_its_attempt_times_out() -> None:
    """The time in which others have the table does not count; attempts and backoffs are as without them."""

    async def story(world: World) -> None:
        assert await keep_busy(world, lambda: world.message("g-0")) > 20
        await world.settle()
        assert world.message("g-0") == TIMED_OUT
        assert TIMED_OUT in world.message("g-1")
        assert not cycle_of(world)._aside
        (member,) = [one for one in world.queue if one.key == f"{NAMESPACE}/g-0"]
        assert (member.attempts, member.group.attempts) == (1, 1)

    live(story, before=slow_group, config=config("2ms"), verbosity=2)


def test_what_a_group_found_before_it_was_put_aside_is_not_searched_again() -> None:
    async def story(world: World) -> None:
        assert await keep_busy(world, lambda: world.node_of("g-1")) > 20
        assert (world.node_of("g-0"), world.node_of("g-1")) == ("n2", "n2")
        assert not {*devices_of(world, "g-0")} & {*devices_of(world, "g-1")}

    live(story, before=feasible_group, config=config("10s"), verbosity=2)


async def taking_group(world: World) -> None:
    """The first member takes a device of n1, where the second one then searches without success."""
    world.scheduler.context.slice = StepSlice()
    add_class(world)
    world.add_node("n1")
    for one in partitions("n1", 9, 4):
        world.store.create(c.RESOURCE_SLICES, one)
    add_gang(world, "g", 1, 4)


def test_devices_that_a_member_takes_again_are_the_same_state_of_a_pool() -> None:
    """A search in it goes on: it ends, and the group fails for want of devices and not of time."""

    async def story(world: World) -> None:
        assert await keep_busy(world, lambda: world.message("g-1")) > 20
        assert "cannot allocate all claims" in world.message("g-1")
        assert not cycle_of(world)._aside

    live(story, before=taking_group, config=config("10s"), verbosity=2)


def test_searches_in_earlier_states_of_a_pool_are_kept() -> None:
    rack = Rack({"requests": [request("r")]}, nodes=1)
    plugin = rack.framework.plugins["DynamicResources"]
    assert isinstance(plugin, DynamicResources)
    devices = rack.table.devices
    node = rack.table.nodes[0]
    assert node is not None
    pools = plugin._verdicts.pools_on(node, 0)
    kept = KeptSearches(devices.claims.allocated, devices.classes)
    searches = kept.of([*devices.claims.all()])
    kept.keep(searches, "n1", pools, [])
    result = DeviceRequestAllocationResult("r", DRIVER, "n1", "g0")
    taken = AllocationResult(DeviceAllocationResult((result,)))
    devices.claims.allocated.add(taken)
    assert kept.current(searches, "n1", pools) is None
    kept.keep(searches, "n1", pools, None)
    devices.claims.allocated.remove(taken)
    before = kept.current(searches, "n1", pools)
    assert before is not None
    assert before.found == []


def test_a_member_that_is_deleted_while_its_group_is_put_aside_is_gone() -> None:
    async def story(world: World) -> None:
        await keep_busy(world, lambda: cycle_of(world)._aside)
        world.delete_pod("g-0")
        await keep_busy(world, lambda: world.message("g-1"))
        assert not world.has_pod("g-0")
        assert [one.key for one in world.queue] == [f"{NAMESPACE}/g-1"]

    live(story, before=slow_group, config=config())


def test_attempts_of_deleted_groups_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan.scheduler.pod_groups.cycle.MOST", 1)

    async def story(world: World) -> None:
        await keep_busy(world, lambda: cycle_of(world)._aside)
        for name in ("g-0", "g-1"):
            world.delete_pod(name)
        world.store.delete(POD_GROUPS, NAMESPACE, "g")
        add_gang(world, "other", 6, 6)
        await keep_busy(world, lambda: "podgroup/d/other" in cycle_of(world)._aside)
        assert len(cycle_of(world)._aside) == 1

    live(story, before=slow_group, config=config("10s"))


def test_of_more_groups_than_can_be_put_aside_the_last_ends_its_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stowplan.scheduler.pod_groups.cycle.MOST", 1)

    async def story(world: World) -> None:
        await keep_busy(world, lambda: cycle_of(world)._aside)
        add_gang(world, "other", 6, 6)
        await keep_busy(world, lambda: world.message("other-0"))
        assert world.message("other-0") == TIMED_OUT
        assert "podgroup/d/g" in cycle_of(world)._aside

    live(story, before=slow_group, config=config("10s"))
