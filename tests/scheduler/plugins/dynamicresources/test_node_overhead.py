"""Devices that take of the cpu and memory of their node, in the form of 1.37."""

from typing import Any

from releases import V1_37
from scheduler.live_scheduler import World, configured, live
from scheduler.plugins.dynamicresources.racks import (
    add_claim,
    add_class,
    add_devices,
    claim_of,
    is_quiet,
    using,
)
from stowplan.api import catalogue as c
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.requests import Json
from stowplan.api.status import ApiError

GATES = FeatureGates({"DRANodeAllocatableResources": True}, V1_37)
MAPPED: Json = {"cpu": {"mapping": {"deviceMultiplier": "2"}}}
OVERHEAD: Json = {"memory": {"overhead": {"perPod": "1Gi", "perContainer": "512Mi"}}}


def story(resources: Json, tell: Any, **device: Any) -> World:
    """A node with 4 CPU, 8Gi and two devices."""

    async def before(world: World) -> None:
        add_class(world)
        world.add_node("n1", cpu="4")
        add_devices(world, "n1", 2, nodeAllocatableResources=resources, **device)

    return live(tell, before=before, config=configured(gates=GATES))


def container(name: str, claim: str, limits: Json | None = None, **requests: str) -> Json:
    resources: Json = {"requests": requests, "limits": limits or {}, "claims": [{"name": claim}]}
    return {"name": name, "image": "i", "resources": resources}


async def add(world: World, name: str, claim: str, **requests: str) -> None:
    used: list[Json] = [container("a", claim, None, **requests), container("b", claim)]
    await world.add_pod(name, resourceClaims=using(claim), containers=used)


def told(world: World, name: str) -> Any:
    return world.pod(name).get("status", {}).get("nodeAllocatableResourceClaimStatuses")


def test_what_is_mapped_and_overhead_count_and_stand_in_the_status() -> None:
    async def tell(world: World) -> None:
        for name in ("c", "d"):
            add_claim(world, name)
        await add(world, "p", "c", cpu="1")
        assert world.node_of("p") == "n1"
        assert told(world, "p") == [
            {
                "resourceClaimName": "c",
                "containers": ["a", "b"],
                "mapping": [{"name": "cpu", "quantity": "2"}],
                "overhead": [{"name": "memory", "perPod": "1Gi", "perContainer": "512Mi"}],
            }
        ]
        await add(world, "q", "d", cpu="1")
        assert "1 Insufficient cpu" in world.message("q")
        used = world.scheduler.context.cache.table.requested_of("memory").item(0)
        assert used == 2 << 30
        assert is_quiet(world)

    story({**MAPPED, **OVERHEAD}, tell)


def test_consumed_capacity_is_taken_of_the_node() -> None:
    mapping = {"memory": {"mapping": {"capacityKey": "memory", "capacityMultiplier": "2"}}}

    async def tell(world: World) -> None:
        add_claim(world, capacity={"requests": {"memory": "1Gi"}})
        await add(world, "p", "c")
        assert told(world, "p")[0]["mapping"] == [{"name": "memory", "quantity": "2Gi"}]

    story(mapping, tell, allowMultipleAllocations=True, capacity={"memory": {"value": "4Gi"}})


def test_a_claim_with_mapped_devices_is_for_one_pod_and_one_with_overhead_for_several() -> None:
    async def mapped(world: World) -> None:
        add_claim(world)
        await add(world, "p", "c")
        await add(world, "q", "c")
        assert "node allocatable resource claim c has a mapped device and cannot be shared across pods" in (
            world.message("q")
        )

    async def overhead(world: World) -> None:
        add_claim(world)
        await add(world, "p", "c")
        await add(world, "q", "c")
        assert told(world, "q") == told(world, "p")
        assert [one["name"] for one in claim_of(world)["status"]["reservedFor"]] == ["p", "q"]
        assert world.scheduler.context.cache.table.requested_of("memory").item(0) == 4 << 30

    story(MAPPED, mapped)
    story(OVERHEAD, overhead)


def test_limits_of_the_whole_pod_have_to_cover_what_a_container_gets() -> None:
    async def tell(world: World) -> None:
        add_claim(world)
        used = container("a", "c", limits={"memory": "1Gi"}, memory="1Gi")
        resources = {"limits": {"memory": "2Gi"}, "requests": {"memory": "4Gi"}}
        await world.add_pod("p", resourceClaims=using("c"), containers=[used], resources=resources)
        assert (
            "pod level limit for memory is insufficient to cover the limit and DRA overhead for container a"
            in world.message("p")
        )

    story(OVERHEAD, tell)


def test_a_claim_that_no_container_uses_is_allowed_and_a_failure_clears_the_status() -> None:
    async def tell(world: World) -> None:
        add_claim(world)
        failing = ApiError(403, "Forbidden", "no")
        world.wire.answer("POST pods/p/binding", failing)
        await world.add_pod("p", resourceClaims=using("c"))
        assert world.store.get(c.PODS, "d", "p")["status"]["nodeAllocatableResourceClaimStatuses"] == []
        await world.settle(15)
        assert world.node_of("p") == "n1"
        assert told(world, "p") == [{"resourceClaimName": "c", "mapping": [{"name": "cpu", "quantity": "2"}]}]

    story(MAPPED, tell)
