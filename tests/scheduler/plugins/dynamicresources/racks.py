"""A running scheduler with nodes that have GPUs, and claims for them."""

from typing import Any

from scheduler.live_scheduler import NAMESPACE, World
from stowplan.api import catalogue as c
from stowplan.api.requests import Json

DRIVER = "gpu.example.com"


def add_class(world: World, name: str = "gpu", **spec: Any) -> None:
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    world.store.create(
        c.DEVICE_CLASSES, {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}
    )


def add_devices(world: World, node: str, count: int = 1, **device: Any) -> None:
    """A pool of a node, with devices `gpu-0`, `gpu-1` and so on."""
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{number}", **device} for number in range(count)],
    }
    world.store.create(c.RESOURCE_SLICES, {"metadata": {"name": f"{node}-gpu"}, "spec": spec})


def add_claim(world: World, name: str = "c", **exactly: Any) -> None:
    asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **exactly}
    spec = {"devices": {"requests": [{"name": "r", "exactly": asked}]}}
    metadata = {"name": name, "namespace": NAMESPACE}
    world.store.create(c.RESOURCE_CLAIMS, {"metadata": metadata, "spec": spec})


def claim_of(world: World, name: str = "c") -> Json:
    return world.store.get(c.RESOURCE_CLAIMS, NAMESPACE, name)


def devices_of(world: World, name: str = "c") -> list[str]:
    """The devices of a claim, as `pool/device`."""
    allocation = claim_of(world, name).get("status", {}).get("allocation") or {}
    results = allocation.get("devices", {}).get("results", [])
    return [f"{one['pool']}/{one['device']}" for one in results]


def reserved_for(world: World, name: str = "c") -> list[str]:
    return [one["name"] for one in claim_of(world, name).get("status", {}).get("reservedFor", [])]


def using(*claims: str) -> list[Json]:
    return [{"name": name, "resourceClaimName": name} for name in claims]


def is_quiet(world: World) -> bool:
    """True if nothing is in flight or assumed any more."""
    claims = world.scheduler.context.cache.table.devices.claims
    return not claims.in_flight() and not claims.assumed()


async def one_gpu_each(world: World) -> None:
    """Two nodes with one GPU each."""
    add_class(world)
    for name in ("n1", "n2"):
        world.add_node(name)
        add_devices(world, name)


async def gpus_by_name(world: World) -> None:
    """A node with two GPUs, which pods can also ask for as an extended resource."""
    add_class(world, extendedResourceName="example.com/gpu")
    world.add_node("n1")
    add_devices(world, "n1", 2)
