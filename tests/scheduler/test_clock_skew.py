"""Clocks of API server and schedulers that differ: nothing goes by the difference but timestamps."""

from typing import Any

import pytest

from scheduler.live_scheduler import World, configured, live
from scheduler.plugins.dynamicresources.racks import add_claim, add_class, add_devices, claim_of, using
from scheduler.plugins.dynamicresources.test_claims_of_pods import report
from stowplan.api import catalogue as c
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.meta import timestamp
from stowplan.runtime.clock import Clock

YEAR = 365 * 86_400.0
HOUR = 3600.0


class Skewed:
    """The wall clock of another machine, which runs at the same rate."""

    def __init__(self, clock: Clock, skew: float) -> None:
        self._clock = clock
        self._skew = skew

    def now(self) -> float:
        return self._clock.now() + self._skew

    def monotonic(self) -> float:
        return self._clock.monotonic()


def _day(skew: float) -> list[tuple[float, str]]:
    """Preemption, devices, backoffs and retries with an API server whose clock differs: all writes."""

    async def nodes(world: World) -> None:
        add_class(world)
        for name in ("n1", "n2"):
            world.add_node(name, cpu="4")
            add_devices(world, name)

    async def story(world: World) -> None:
        world.store._metadata._clock = Skewed(world.clock, skew)
        for number in range(4):
            await world.add_pod(f"low-{number}", cpu="2")
            await world.settle(1)
        add_claim(world)
        await world.add_pod("high", cpu="3", priority=10, resourceClaims=using("c"))
        await world.add_pod("large", cpu="9")
        await world.settle(5)
        for name in ("low-0", "low-1", "low-2", "low-3"):
            if "deletionTimestamp" in world.pod(name)["metadata"]:
                world.delete_pod(name)
        await world.settle(20)
        world.add_node("n3", cpu="16")
        await world.settle(400)
        assert world.node_of("high")
        assert world.node_of("large") == "n3"

    world = live(story, before=nodes)
    return [(write.at, write.short) for write in world.wire.writes]


@pytest.mark.parametrize("skew", [-YEAR, -HOUR, HOUR, YEAR])
def test_a_skewed_api_server_changes_no_decision_and_no_time(skew: float) -> None:
    assert _day(skew) == _day(0.0)


@pytest.mark.parametrize(("skew", "at_once"), [(-2 * HOUR, True), (2 * HOUR, False)])
def test_devices_that_a_leader_with_another_clock_allocated_become_ready_or_are_freed(
    skew: float, at_once: bool
) -> None:
    """The time that devices have to become ready is counted from a timestamp of the former leader.

    If its clock was behind, they have none left: they are allocated again. If it was ahead, they have more.
    """

    async def left_behind(world: World) -> None:
        add_class(world)
        world.add_node("n1")
        add_devices(world, "n1", bindingConditions=["Attached"], bindingFailureConditions=["Failed"])
        add_claim(world)
        body = claim_of(world)
        asked = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "request": "r"}
        conditions = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Failed"]}
        allocated = {
            "allocationTimestamp": timestamp(world.clock.now() + skew),
            "devices": {"results": [{**asked, **conditions}]},
        }
        status = {"allocation": allocated}
        world.store.update(c.RESOURCE_CLAIMS, {**body, "status": status}, subresource="status")

    async def story(world: World) -> None:
        await world.add_pod("p", resourceClaims=using("c"))
        await world.settle(60)
        allocation: Any = claim_of(world)["status"]["allocation"]
        renewed = allocation["allocationTimestamp"] != timestamp(world.began + skew)
        assert renewed == at_once
        report(world, "Attached")
        await world.settle(60)
        assert world.node_of("p") == "n1"

    live(story, before=left_behind, config=configured(gates=FeatureGates()))
