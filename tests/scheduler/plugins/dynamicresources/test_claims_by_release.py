"""Pods with resource claims in a running scheduler, where releases of Kubernetes differ."""

from typing import Any

import pytest

from releases import V1_36, V1_37
from scheduler.live_scheduler import World, configured, live
from scheduler.plugins.dynamicresources.racks import (
    DRIVER,
    add_claim,
    add_class,
    add_devices,
    claim_of,
    devices_of,
    is_quiet,
    one_gpu_each,
    using,
)
from stowplan.api import catalogue as c
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import Release
from stowplan.api.requests import Json
from stowplan.api.status import not_found
from stowplan.config import LoadedConfig


def of(release: Release, **gates: bool) -> LoadedConfig:
    return configured(gates=FeatureGates(gates, release))


async def waiting_devices(world: World) -> None:
    add_class(world)
    world.add_node("n1")
    add_devices(world, "n1", bindingConditions=["Attached"], bindingFailureConditions=["Failed"])


@pytest.mark.parametrize(("release", "others"), [(V1_36, "cannot allocate"), (V1_37, "is in the process")])
def test_until_when_a_claim_is_in_flight(release: Release, others: str) -> None:
    """While its devices become ready another client takes them away; other pods that want the claim get that
    message."""

    async def story(world: World) -> None:
        add_claim(world)
        await world.add_pod("p", resourceClaims=using("c"))
        claims = world.scheduler.context.cache.table.devices.claims
        assert bool(claims.in_flight()) == (release is V1_37)
        assert list(claims.allocated.devices.values()) == [1]
        world.store.update(c.RESOURCE_CLAIMS, {**claim_of(world), "status": {}}, subresource="status")
        add_claim(world, "all", count=2)
        await world.add_pod("q", resourceClaims=using("c", "all"))
        assert others in world.message("q")

    live(story, before=waiting_devices, config=of(release))


@pytest.mark.parametrize("release", [V1_36, V1_37])
def test_nothing_stays_in_flight_when_a_later_claim_cannot_be_written(release: Release) -> None:
    async def story(world: World) -> None:
        add_claim(world, "a")
        add_claim(world, "b")
        world.wire.answer("PUT resourceclaims/b/status", not_found(c.RESOURCE_CLAIMS, "b"))
        await world.add_pod("p", resourceClaims=using("a", "b"))
        assert "add allocation and reservation to claim d/b" in world.message("p")
        assert is_quiet(world)
        await world.settle(15)
        assert world.node_of("p")
        assert sorted(devices_of(world, "a") + devices_of(world, "b")) == ["n1/gpu-0", "n1/gpu-1"]
        assert is_quiet(world)

    async def two_gpus(world: World) -> None:
        add_class(world)
        world.add_node("n1")
        add_devices(world, "n1", 2)

    live(story, before=two_gpus, config=of(release))


@pytest.mark.parametrize(("release", "version"), [(V1_36, "v1beta2"), (V1_37, "v1")])
def test_taint_rules_are_read_in_the_version_of_the_release(release: Release, version: str) -> None:
    async def story(world: World) -> None:
        rule: Json = {
            "metadata": {"name": "broken"},
            "spec": {
                "deviceSelector": {"driver": DRIVER},
                "taint": {"key": "broken", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"},
            },
        }
        world.store.create(c.DEVICE_TAINT_RULES, rule)
        add_claim(world)
        await world.add_pod("p", resourceClaims=using("c"))
        assert "2 cannot allocate all claims" in world.message("p")
        kinds = [one.resource for one in world.scheduler.informers.all]
        assert [one.version for one in kinds if one.plural == "devicetaintrules"] == [version]

    live(story, before=one_gpu_each, config=of(release, DRADeviceTaintRules=True))


def allocated(world: World, **result: Any) -> None:
    """A claim that has a device of every node, and is in use."""
    given = {"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0", **result}
    add_claim(world)
    user = {"resource": "pods", "name": "x", "uid": "x"}
    status = {"allocation": {"devices": {"results": [given]}}, "reservedFor": [user]}
    world.store.update(c.RESOURCE_CLAIMS, {**claim_of(world), "status": status}, subresource="status")


@pytest.mark.parametrize("release", [V1_36, V1_37])
def test_a_device_without_operations_on_the_node_needs_a_node_that_knows_of_it(release: Release) -> None:
    async def story(world: World) -> None:
        allocated(world, skipNodeOperations=["*"])
        await world.add_pod("p", resourceClaims=using("c"))
        if release is V1_36:
            assert world.node_of("p")
            return
        assert "1 resourceclaim not available on the node" in world.message("p")
        world.add_node("n2", status={"declaredFeatures": ["DRAOptionalNodeOperations"]})
        await world.settle(1)
        assert world.node_of("p") == "n2"

    async def one_node(world: World) -> None:
        add_class(world)
        world.add_node("n1")

    live(story, before=one_node, config=of(release))
