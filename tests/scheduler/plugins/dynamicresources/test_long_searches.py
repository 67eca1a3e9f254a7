"""Claims whose devices take long to find: what is hopeless is seen at once, and other pods do not wait.

Steps are counted here, not seconds: devices that were looked at, and what expressions cost.
"""

import asyncio
import threading
from pathlib import Path
from random import Random

import pytest

from scheduler.live_scheduler import NAMESPACE, World, configured, live
from scheduler.plugins.dynamicresources.racks import DRIVER, add_claim, add_class, devices_of, using
from stowplan.api import catalogue as c
from stowplan.api.decode import convert
from stowplan.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import PodResourceClaim
from stowplan.api.requests import Json
from stowplan.config import build, default_config
from stowplan.framework.advanced import (
    STRETCH,
    Budget,
    LongSearchError,
    PluginError,
    standing_still,
)
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler import Settings
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.plugins.dynamicresources import DynamicResources
from stowplan.scheduler.plugins.dynamicresources.allocation.selectors import QUICK
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.recording import Recording, decisions, recorded_scheduler
from stowplan.scheduler.table.table import ClusterTable
from stowplan.scheduler.tasks import TimeSlice
from stowplan.testing import node, pod

PROFILE = "default-scheduler"
MINE = f'device.attributes["{DRIVER}"]'
COSTLY = f'{MINE}.all(a, {MINE}.all(b, {MINE}.all(c, {MINE}.all(d, a + b + c + d != "x"))))'
TIMED_OUT = 'running "DynamicResources" filter plugin: node n1: timed out trying to allocate devices'


def request(name: str, count: int = 1, *selectors: str) -> Json:
    asked: Json = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    if selectors:
        asked["selectors"] = [{"cel": {"expression": one}} for one in selectors]
    return {"name": name, "exactly": asked}


def sixteen(last: Json) -> Json:
    return {"requests": [*(request(f"r{number}") for number in range(15)), last]}


def unique(pool: str, number: int) -> Json:
    return {"uid": {"string": f"{pool}-{number}"}, "parity": {"int": number % 2}}


class Rack:
    """Nodes with devices, each with unique attributes, and a claim for some of them."""

    def __init__(self, asked: Json, *, nodes: int = 2, each: int = 16, shared: int = 0) -> None:
        self.table = ClusterTable()
        self.table.put(convert({"metadata": {"name": "gpu"}, "spec": {}}, DeviceClass))
        for number in range(1, nodes + 1):
            name = f"n{number}"
            self.table.put_node(node(name).capacity(cpu="100", memory="100Gi", pods="110").obj())
            if each:
                self._publish(name, {"nodeName": name}, each)
        if shared:
            self._publish("shared", {"allNodes": True}, shared)
        metadata = {"name": "c", "namespace": "default", "uid": "c", "resourceVersion": "1"}
        self.table.put(convert({"metadata": metadata, "spec": {"devices": asked}}, ResourceClaim))
        gates = FeatureGates(release=self.table.release)
        profile = build(default_config(gates)).profiles[0]
        self.framework = Framework(profile, self.table, in_tree_registry(), gates)
        entry = PodResourceClaim(name="c", resource_claim_name="c")
        self.pod = self.table.info(pod("p").spec(resource_claims=(entry,)).obj())

    def _publish(self, pool: str, where: Json, count: int) -> None:
        spec: Json = {
            "driver": DRIVER,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"g{number}", "attributes": unique(pool, number)} for number in range(count)
            ],
            **where,
        }
        metadata = {"name": pool, "resourceVersion": "1"}
        self.table.put(convert({"metadata": metadata, "spec": spec}, ResourceSlice))

    def steps(self) -> int:
        """Number of steps to find that no node has the devices."""
        budget = Budget(standing_still, 60.0)
        assert not self.framework.run_filters(self.pod, budget=budget).feasible_count
        return budget.limited(10.0).steps

    @property
    def evaluations(self) -> int:
        plugin = self.framework.plugins["DynamicResources"]
        assert isinstance(plugin, DynamicResources)
        return plugin._verdicts._selectors.evaluations


MATCHING = {"requests": [request("r", 2)], "constraints": [{"matchAttribute": f"{DRIVER}/uid"}]}
HOPELESS: dict[str, Json] = {
    "the last of 16 requests matches nothing": sixteen(request("last", 1, "false")),
    "two of 16 requests match the same device": {
        "requests": [
            *(request(f"r{number}") for number in range(14)),
            *(request(f"s{number}", 1, f'{MINE}.uid.endsWith("-3")') for number in range(2)),
        ]
    },
    "two devices of one value, and all values differ": MATCHING,
    "devices of two requests with one value, and all values differ": {
        "requests": [request("r", 2), request("s", 2)],
        "constraints": [{"matchAttribute": f"{DRIVER}/uid"}],
    },
    "more different values than there are": {
        "requests": [request(f"r{number}", 4) for number in range(3)],
        "constraints": [{"distinctAttribute": f"{DRIVER}/parity"}],
    },
}


@pytest.mark.parametrize("asked", HOPELESS.values(), ids=HOPELESS)
def test_hopeless_claims_cost_in_proportion_to_the_devices(asked: Json) -> None:
    some, twice = Rack(asked, each=32).steps(), Rack(asked, each=64).steps()
    assert twice < 3 * some + 10 * STRETCH
    assert twice < 200 * STRETCH


def test_nodes_that_see_the_same_devices_are_searched_once() -> None:
    few, many = Rack(MATCHING, nodes=2, each=0, shared=300), Rack(MATCHING, nodes=40, each=0, shared=300)
    assert many.steps() < few.steps() + 40


def test_twice_as_many_devices_take_twice_as_many_evaluations() -> None:
    expression = f'{MINE}.uid == "nothing"'
    racks = [Rack(sixteen(request("last", 1, expression)), each=each) for each in (16, 32)]
    for rack in racks:
        rack.steps()
    assert [rack.evaluations for rack in racks] == [2 * 16, 2 * 32]


def test_between_two_pauses_a_search_looks_at_a_few_devices_only() -> None:
    rack = Rack(sixteen(request("last", 1, "false")), nodes=20)
    budget = Budget(standing_still, 60.0, pauses=lambda: True)
    with pytest.raises(LongSearchError) as long:
        rack.framework.run_filters(rack.pod, budget=budget)
    part, before, pauses = budget.limited(10.0), 0, 0
    for step in long.value.work:
        assert step is None
        assert part.steps - before <= 2 * STRETCH + 16 * 16
        before, pauses = part.steps, pauses + 1
    assert pauses > 20
    assert not rack.framework.run_filters(rack.pod, budget=budget).feasible_count


def test_what_an_expression_costs_beyond_a_little_is_left_to_another_thread() -> None:
    attributes = {f"k{number}": {"string": "v"} for number in range(8)}
    rack = Rack({"requests": [request("r", 1, COSTLY), request("s")]}, nodes=1, each=0)
    spec = {
        "driver": DRIVER,
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"g{number}", "attributes": attributes} for number in range(2)],
    }
    rack.table.put(convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice))
    budget = Budget(standing_still, 60.0, pauses=lambda: False)
    with pytest.raises(LongSearchError) as long:
        rack.framework.run_filters(rack.pod, budget=budget)
    computed = 0
    for step in long.value.work:
        if step is not None:
            before = budget.limited(10.0).steps
            thread = threading.Thread(target=step)
            thread.start()
            thread.join()
            computed += 1
    assert computed == 1
    assert before <= QUICK
    assert rack.framework.run_filters(rack.pod, budget=budget).feasible_count == 1


def test_when_time_is_up_no_other_node_is_searched() -> None:
    rack = Rack({"requests": [request("r", 1, f'{MINE}.uid == "n9-1"'), request("s")]}, nodes=9)
    ticks = iter(range(1000))
    with pytest.raises(PluginError, match=r"node n\d: timed out trying to allocate devices"):
        rack.framework.run_filters(rack.pod, budget=Budget(lambda: next(ticks), 60.0))
    assert rack.evaluations < 9 * 16


# In a running scheduler


class StepSlice(TimeSlice):
    """A slice that is over after every step, and patience that ends with the first."""

    @property
    def is_over(self) -> bool:
        return True

    @property
    def is_out_of_patience(self) -> bool:
        return True


def partitions(node: str, count: int, most: int) -> list[Json]:
    """The slices of a node whose devices draw from one counter, so that only `most` can be used at once."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    draws = [{"counterSet": "all", "counters": {"slots": {"value": "1"}}}]
    devices = [{"name": f"g{number}", "consumesCounters": draws} for number in range(count)]
    counters = [{"name": "all", "counters": {"slots": {"value": str(most)}}}]
    about = {"driver": DRIVER, "nodeName": node, "pool": pool}
    return [
        {"metadata": {"name": f"{node}-devices"}, "spec": {**about, "devices": devices}},
        {"metadata": {"name": f"{node}-counters"}, "spec": {**about, "sharedCounters": counters}},
    ]


SLOW = {"requests": [request(f"r{number}") for number in range(12)]}
"""Of 24 devices twelve at once, where their counter allows eleven: every choice of eleven is tried."""


async def slow_world(world: World) -> None:
    world.scheduler.context.slice = StepSlice()
    add_class(world)
    world.add_node("n1")
    for one in partitions("n1", 24, 11):
        world.store.create(c.RESOURCE_SLICES, one)
    for name in ("slow", "slower"):
        metadata = {"name": name, "namespace": NAMESPACE}
        world.store.create(c.RESOURCE_CLAIMS, {"metadata": metadata, "spec": {"devices": SLOW}})


SECOND = configured(
    {
        "schedulerName": PROFILE,
        "pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "1s"}}],
    }
)


def searching(world: World) -> int:
    return len(world.scheduler.cycle.searches.aside)


def test_other_pods_are_scheduled_while_one_searches_and_its_attempt_times_out() -> None:
    async def story(world: World) -> None:
        await world.add_pod("slow", resourceClaims=using("slow"))
        await world.add_pod("ordinary")
        assert world.node_of("ordinary") == "n1"
        await world.settle(0.9)
        assert searching(world)
        assert world.message("slow") == ""
        await world.settle(0.2)
        assert world.message("slow") == TIMED_OUT
        assert not searching(world)

    live(story, before=slow_world, config=SECOND)


class TickingTimer:
    """A timer that advances by a hundredth of a second at each reading."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.01
        return self.now


def test_an_attempt_that_is_put_aside_counts_once_with_all_of_its_time() -> None:
    async def story(world: World) -> None:
        await world.add_pod("slow", resourceClaims=using("slow"))
        assert searching(world)
        await world.settle(20)
        (cost,) = world.scheduler.context.costs.most_costly(5)
        assert (cost.pod, cost.attempts, cost.slow) == (f"{NAMESPACE}/slow", 1, 1)
        assert cost.seconds > 3
        assert world.message("slow").startswith(TIMED_OUT)
        assert "of the scheduler's time" in world.message("slow")

    timeout = {"name": "DynamicResources", "args": {"filterTimeout": "5s"}}
    config = configured({"schedulerName": PROFILE, "pluginConfig": [timeout]})
    live(story, before=slow_world, config=config, timer=TickingTimer())


def test_the_time_that_a_search_waits_for_another_one_does_not_count() -> None:
    async def story(world: World) -> None:
        world.put_pod("slow", resourceClaims=using("slow"))
        await world.add_pod("slower", resourceClaims=using("slower"))
        await world.settle(1.2)
        assert (world.message("slow"), world.message("slower")) == (TIMED_OUT, "")
        assert searching(world)
        await world.settle(1)
        assert world.message("slower") == TIMED_OUT

    live(story, before=slow_world, config=SECOND)


def test_devices_that_become_free_during_a_search_are_found() -> None:
    async def story(world: World) -> None:
        await world.add_pod("slow", resourceClaims=using("slow"))
        await world.settle(0.2)
        for one in partitions("n1", 24, 12):
            world.store.update(c.RESOURCE_SLICES, one)
        await world.settle(0.5)
        assert world.node_of("slow") == "n1"
        assert len(devices_of(world, "slow")) == 12

    live(story, before=slow_world, config=SECOND)


def test_devices_that_another_pod_takes_during_a_search_are_not_given_twice() -> None:
    async def story(world: World) -> None:
        add_claim(world, "quick")
        await world.add_pod("slow", resourceClaims=using("slow"))
        await world.add_pod("quick", resourceClaims=using("quick"))
        assert devices_of(world, "quick")
        for one in partitions("n1", 24, 12):
            world.store.update(c.RESOURCE_SLICES, one)
        await world.settle(2)
        assert world.message("slow") == TIMED_OUT

    live(story, before=slow_world, config=SECOND)


def test_a_pod_that_is_deleted_during_its_search_is_forgotten() -> None:
    async def story(world: World) -> None:
        await world.add_pod("slow", resourceClaims=using("slow"))
        await world.settle(0.2)
        world.delete_pod("slow")
        await world.settle(1)
        assert not searching(world)
        assert not len(world.queue.in_flight.starts)
        await world.add_pod("ordinary")
        assert world.node_of("ordinary") == "n1"

    live(story, before=slow_world, config=SECOND)


def test_when_scheduling_ends_pods_that_search_go_back_to_the_queue() -> None:
    async def story(world: World) -> None:
        await world.add_pod("slow", resourceClaims=using("slow"))
        await world.scheduler.end_scheduling(1.0)
        assert not searching(world)
        assert world.queue.get(f"{NAMESPACE}/slow") is not None
        world.scheduler.begin_scheduling()
        await world.settle(3)
        assert world.message("slow") == TIMED_OUT

    live(story, before=slow_world, config=SECOND)


def test_searches_beyond_a_number_end_as_if_their_time_were_up() -> None:
    async def story(world: World) -> None:
        for number in range(20):
            metadata = {"name": f"c{number}", "namespace": NAMESPACE}
            world.store.create(c.RESOURCE_CLAIMS, {"metadata": metadata, "spec": {"devices": SLOW}})
            world.put_pod(f"p{number}", resourceClaims=using(f"c{number}"))
        await world.settle(0.5)
        assert searching(world) == 16
        assert [world.message(f"p{number}") for number in range(16, 20)] == [TIMED_OUT] * 4
        await world.add_pod("ordinary")
        assert world.node_of("ordinary") == "n1"

    live(story, before=slow_world, config=SECOND)


def test_a_replay_puts_aside_who_was_and_ends_where_time_was_up(tmp_path: Path) -> None:
    path = tmp_path / "recorded"
    run(lambda clock: _record(clock, path))
    made = decisions(path)
    assert all(one.is_same for one in made)
    first, second = made[:2]
    assert (first.pod.metadata.name, first.replayed.node) == ("ordinary", "n1")
    assert (second.pod.metadata.name, second.replayed.message) == ("slow", TIMED_OUT)


async def _record(clock: VirtualClock, path: Path) -> None:
    store = Store(clock, Random(1))
    store.create(c.DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": {}})
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    store.create(c.NODES, {"metadata": {"name": "n1"}, "status": {"allocatable": allocatable}})
    for one in partitions("n1", 24, 11):
        store.create(c.RESOURCE_SLICES, one)
    metadata = {"name": "slow", "namespace": "default"}
    store.create(c.RESOURCE_CLAIMS, {"metadata": metadata, "spec": {"devices": SLOW}})
    scheduler = recorded_scheduler(
        Recording(path, in_background=False),
        InProcessClient(store),
        Settings.of(SECOND),
        clock=clock,
        seed=7,
        report=print,
    )
    scheduler.context.slice = StepSlice()
    async with scheduler.running():
        for name in ("slow", "ordinary"):
            spec: Json = {"containers": [{"name": "main", "image": "web"}], "schedulerName": PROFILE}
            if name == "slow":
                spec["resourceClaims"] = using(name)
            metadata = {"name": name, "namespace": "default"}
            store.create(c.PODS, {"metadata": metadata, "spec": spec})
            await asyncio.sleep(0.1)
        await asyncio.sleep(1.5)
        await scheduler.end_scheduling(1)
