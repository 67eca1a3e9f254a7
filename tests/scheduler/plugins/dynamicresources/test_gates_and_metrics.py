"""Effects of every gate of dynamic resource allocation, limits of its arguments, and metrics."""

from typing import Any

import pytest

from releases import GATES_1_36
from scheduler.live_scheduler import World, configured, live
from scheduler.metrics.reading import scraped
from scheduler.plugins.dynamicresources.racks import (
    add_claim,
    add_class,
    add_devices,
    claim_of,
    devices_of,
    using,
)
from stowplan.api import catalogue as c
from stowplan.api.requests import Json
from stowplan.api.status import ApiError

DRIVER = "gpu.example.com"
PROFILE = "default-scheduler"


def one_node(**device: Any) -> Any:
    async def before(world: World) -> None:
        add_class(world)
        world.add_node("n1")
        add_devices(world, "n1", **device)

    return before


def conditional(world: World) -> Any:
    return one_node(bindingConditions=["Attached"], bindingFailureConditions=["Failed"])(world)


def report(world: World, type: str) -> None:
    """The driver says something of the device."""
    body = claim_of(world)
    condition = {
        "type": type,
        "status": "True",
        "reason": "Done",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    device = {"driver": DRIVER, "pool": "n1", "device": "gpu-0", "conditions": [condition]}
    world.store.update(
        c.RESOURCE_CLAIMS, {**body, "status": {**body["status"], "devices": [device]}}, subresource="status"
    )


@pytest.mark.parametrize(
    ("said", "outcome"), [("Attached", "success"), ("Failed", "failure"), ("", "timeout")]
)
def test_waiting_for_devices_is_counted_by_driver_and_outcome(said: str, outcome: str) -> None:
    args = {"name": "DynamicResources", "args": {"bindingTimeout": "20s"}}

    async def story(world: World) -> None:
        add_claim(world)
        await world.add_pod("p", resourceClaims=using("c"))
        if said:
            report(world, said)
        await world.settle(0.5 if said else 21)
        metrics = world.scheduler.context.metrics
        counted = scraped(metrics, "dra_bindingconditions_allocations_total")
        assert counted[DRIVER, PROFILE, outcome] == 1
        waits = scraped(metrics, "dra_bindingconditions_wait_duration_seconds_count")
        assert waits[DRIVER, PROFILE, outcome] == 1
        assert bool(world.node_of("p")) == (said == "Attached")

    live(
        story,
        before=conditional,
        config=configured({"schedulerName": PROFILE, "pluginConfig": [args]}),
    )


@pytest.mark.parametrize("refused", [False, True])
def test_claims_that_the_scheduler_makes_are_counted(refused: bool) -> None:
    async def by_name(world: World) -> None:
        add_class(world, extendedResourceName="example.com/gpu")
        world.add_node("n1")
        add_devices(world, "n1")

    async def story(world: World) -> None:
        if refused:
            world.wire.answer("POST resourceclaims", ApiError(403, "Forbidden", "no"))
        amounts = {"cpu": "1", "example.com/gpu": "1"}
        container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
        await world.add_pod("p", containers=[container])
        counted = scraped(world.scheduler.context.metrics, "resourceclaim_creates_total")
        assert counted == {("failure" if refused else "success",): 1}

    live(story, before=by_name, config=configured(gates=GATES_1_36))


def wish(**devices: Any) -> Json:
    return devices


EXACT = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
TWO = [{"name": "r", "firstAvailable": [{"name": "s", **EXACT}]}]
TAINT = [{"key": "broken", "effect": "NoSchedule"}]
COUNTED = [{"counterSet": "s", "counters": {"x": {"value": "1"}}}]
CASES: list[tuple[str, Json, Json, str, str]] = [
    (
        "DRAPrioritizedList",
        {},
        {"requests": TWO},
        "",
        "resource claim d/c, request r: has subrequests, but the DRAPrioritizedList feature is disabled",
    ),
    (
        "DRAPartitionableDevices",
        {"consumesCounters": COUNTED},
        {},
        "invalid resource pools were encountered",
        "cannot allocate",
    ),
    ("DRADeviceTaints", {"taints": TAINT}, {}, "cannot allocate all claims", ""),
    ("DRADeviceBindingConditions", {"bindingConditions": ["A"]}, {}, "", "cannot allocate all claims"),
    ("DRAResourceClaimDeviceStatus", {"bindingConditions": ["A"]}, {}, "", "cannot allocate all claims"),
    (
        "DRAConsumableCapacity",
        {"capacity": {"memory": {"value": "1Gi"}}},
        {"capacity": {"requests": {"memory": "1Gi"}}},
        "",
        "has capacity requests, but the DRAConsumableCapacity feature is disabled",
    ),
]


@pytest.mark.parametrize(("gate", "device", "asked", "on", "off"), CASES, ids=[case[0] for case in CASES])
def test_what_a_gate_switches(gate: str, device: Json, asked: Json, on: str, off: str) -> None:
    """Message for a pod with the gate on and off; "": it gets its device."""

    def check(wanted: str) -> Any:
        async def story(world: World) -> None:
            if "requests" in asked:
                body = {"metadata": {"name": "c", "namespace": "d"}, "spec": {"devices": asked}}
                world.store.create(c.RESOURCE_CLAIMS, body)
            else:
                add_claim(world, **asked)
            await world.add_pod("p", resourceClaims=using("c"))
            assert (wanted or "") in world.message("p")
            assert bool(devices_of(world)) == (not wanted)

        return story

    live(check(on), before=one_node(**device))
    live(check(off), before=one_node(**device), config=configured(gates={gate: False}))


def test_without_its_gate_an_extended_resource_means_no_devices() -> None:
    async def by_name(world: World) -> None:
        add_class(world, extendedResourceName="example.com/gpu")
        world.add_node("n1")
        add_devices(world, "n1")

    async def story(world: World) -> None:
        amounts = {"cpu": "1", "example.com/gpu": "1"}
        container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
        await world.add_pod("p", containers=[container])
        assert "Insufficient example.com/gpu" in world.message("p")

    live(story, before=by_name, config=configured(gates={"DRAExtendedResource": False}))


def test_with_claims_of_workloads_pods_without_a_group_get_theirs() -> None:
    async def story(world: World) -> None:
        add_claim(world)
        await world.add_pod("p", resourceClaims=using("c"))
        assert devices_of(world) == ["n1/gpu-0"]

    gates = {"DRAWorkloadResourceClaims": True, "GenericWorkload": True}
    live(story, before=one_node(), config=configured(gates=gates))


@pytest.mark.parametrize("limit", ["1ns", "0s"])
def test_the_time_for_a_search_is_limited_unless_the_limit_is_zero(limit: str) -> None:
    args = {"name": "DynamicResources", "args": {"filterTimeout": limit}}

    async def story(world: World) -> None:
        add_claim(world, adminAccess=True)
        await world.add_pod("p", resourceClaims=using("c"))
        late = 'running "DynamicResources" filter plugin: node n1: timed out trying to allocate devices'
        assert world.message("p") == (late if limit == "1ns" else "")
        assert bool(world.node_of("p")) == (limit == "0s")

    config = configured({"schedulerName": PROFILE, "pluginConfig": [args]})
    live(story, before=one_node(), config=config)
