"""Devices that take of the cpu and memory of their node (gate DRANodeAllocatableResources), as in 1.36."""

from typing import Any

from releases import V1_36
from scheduler.live_scheduler import World, configured, live
from scheduler.plugins.dynamicresources.racks import (
    add_claim,
    add_class,
    add_devices,
    devices_of,
    is_quiet,
    using,
)
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.requests import Json
from stowplan.api.status import ApiError

GATES = {"DRANodeAllocatableResources": True}
TWO_CPUS = {"nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "2"}}}


def story(device: Json, tell: Any, gates: dict[str, bool] | None = None) -> World:
    """A node with 4 CPU and two devices."""

    async def before(world: World) -> None:
        add_class(world)
        world.add_node("n1", cpu="4")
        add_devices(world, "n1", 2, **device)

    given = FeatureGates(GATES if gates is None else gates, V1_36)
    return live(tell, before=before, config=configured(gates=given))


def container(*claims: str, **requests: str) -> Json:
    resources = {"requests": requests, "claims": [{"name": name} for name in claims]}
    return {"name": "c", "image": "i", "resources": resources}


async def add(world: World, name: str, claim: str, **requests: str) -> None:
    used = container(claim, **requests)
    await world.add_pod(name, resourceClaims=using(claim), containers=[used])


def told(world: World, name: str) -> Any:
    return world.pod(name).get("status", {}).get("nodeAllocatableResourceClaimStatuses")


def test_what_a_device_takes_of_its_node_counts_as_requested_by_the_pod() -> None:
    async def tell(world: World) -> None:
        for name in ("c", "d"):
            add_claim(world, name)
        await add(world, "p", "c", cpu="1")
        assert world.node_of("p") == "n1"
        assert told(world, "p") == [
            {"resourceClaimName": "c", "containers": ["c"], "resources": {"cpu": "2"}}
        ]
        assert [one for one in world.wire.shorts if "resourceclaims" in one or "pods/p" in one] == [
            "PATCH pods/p/status",
            "PUT resourceclaims/c",
            "PUT resourceclaims/c/status",
            "PATCH pods/p/status",
            "POST pods/p/binding",
        ]
        await add(world, "q", "d", cpu="1")
        assert "1 Insufficient cpu" in world.message("q")
        await world.add_pod("r", cpu="2")
        assert "1 Insufficient cpu" in world.message("r")
        await world.add_pod("s", cpu="1")
        assert world.node_of("s") == "n1"
        world.delete_pod("p")
        await world.settle(15)
        assert world.node_of("q") == ""
        assert is_quiet(world)

    story(TWO_CPUS, tell)


def test_with_the_gate_off_devices_take_nothing_of_their_node() -> None:
    async def tell(world: World) -> None:
        add_claim(world)
        await add(world, "p", "c", cpu="3")
        assert (world.node_of("p"), told(world, "p")) == ("n1", None)

    story(TWO_CPUS, tell, gates={})


def test_a_claim_that_no_container_uses_cannot_take_of_a_node() -> None:
    async def tell(world: World) -> None:
        add_claim(world)
        await world.add_pod("p", resourceClaims=using("c"))
        assert (
            "claim c: node-allocatable resource claim not referenced by any container within the pod"
            in world.message("p")
        )

    story(TWO_CPUS, tell)


def test_a_request_of_the_whole_pod_has_to_cover_devices() -> None:
    async def tell(world: World) -> None:
        add_claim(world)
        await world.add_pod(
            "p",
            resourceClaims=using("c"),
            containers=[container("c", cpu="1")],
            resources={"requests": {"cpu": "2"}},
        )
        assert "pod level request for cpu is insufficient to cover the aggregated container and" in (
            world.message("p")
        )

    story(TWO_CPUS, tell)


def test_consumed_capacity_is_taken_of_the_node() -> None:
    mapping = {"memory": {"capacityKey": "memory", "allocationMultiplier": "2"}}
    device = {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "4Gi"}},
        "nodeAllocatableResourceMappings": mapping,
    }

    async def tell(world: World) -> None:
        add_claim(world, capacity={"requests": {"memory": "1Gi"}})
        add_claim(world, "d", capacity={"requests": {"memory": "4Gi"}})
        await add(world, "p", "c", cpu="1")
        assert told(world, "p")[0]["resources"] == {"memory": "2Gi"}
        await add(world, "q", "d", cpu="1")
        assert "1 Insufficient memory" in world.message("q")

    story(device, tell)


def test_a_claim_that_takes_of_a_node_is_for_one_pod() -> None:
    async def tell(world: World) -> None:
        add_claim(world)
        await add(world, "p", "c", cpu="1")
        await add(world, "q", "c", cpu="1")
        assert "node allocatable resource claim c is already used by another pod" in world.message("q")

    story(TWO_CPUS, tell)


def test_a_pod_that_is_not_bound_after_all_takes_nothing() -> None:
    async def tell(world: World) -> None:
        add_claim(world)
        world.wire.answer("POST pods/p/binding", ApiError(500, "InternalError", "no leader"))
        await add(world, "p", "c", cpu="1")
        assert told(world, "p") is None
        table = world.scheduler.context.cache.table
        assert table.requested_of("cpu")[0] == 0
        await world.settle(15)
        assert (world.node_of("p"), devices_of(world)) == ("n1", ["n1/gpu-0"])
        # As in Kubernetes 1.36, only devices that were found in the attempt itself count.
        assert table.requested_of("cpu")[0] == 1000

    story(TWO_CPUS, tell)
