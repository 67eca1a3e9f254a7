"""Pods with resource claims in a running scheduler: what they get, what is written and taken back."""

from typing import Any

import pytest

from scheduler.live_scheduler import NAMESPACE, World, live
from scheduler.plugins.dynamicresources.racks import (
    add_claim,
    add_class,
    add_devices,
    claim_of,
    devices_of,
    gpus_by_name,
    is_quiet,
    one_gpu_each,
    reserved_for,
    using,
)
from stowplan.api import catalogue as c
from stowplan.api.status import ApiError, conflict

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def test_a_pod_gets_a_device_and_its_claim_says_which() -> None:
    async def story(world: World) -> None:
        add_claim(world)
        await world.add_pod("p", resourceClaims=using("c"))
        node = world.node_of("p")
        claim = claim_of(world)
        assert node
        assert devices_of(world) == [f"{node}/gpu-0"]
        assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        assert claim["status"]["reservedFor"] == [
            {"resource": "pods", "name": "p", "uid": world.pod("p")["metadata"]["uid"]}
        ]
        [term] = claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
        assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": [node]}]
        assert claim["status"]["allocation"]["allocationTimestamp"]
        assert is_quiet(world)

    live(story, before=one_gpu_each)


def test_no_device_is_given_twice_and_who_waits_gets_the_first_that_is_free() -> None:
    async def story(world: World) -> None:
        for number in range(3):
            add_claim(world, f"c{number}")
            world.put_pod(f"p{number}", resourceClaims=using(f"c{number}"))
        await world.settle(1)
        placed = {name for name in ("p0", "p1", "p2") if world.node_of(name)}
        assert len(placed) == 2
        [waiting] = {"p0", "p1", "p2"} - placed
        assert "2 cannot allocate all claims" in world.message(waiting)
        given = [device for number in range(3) for device in devices_of(world, f"c{number}")]
        assert sorted(given) == ["n1/gpu-0", "n2/gpu-0"]
        leaving = sorted(placed)[0]
        world.delete_pod(leaving)
        world.store.update(
            c.RESOURCE_CLAIMS, {**claim_of(world, f"c{leaving[1]}"), "status": {}}, subresource="status"
        )
        await world.settle(15)
        assert world.node_of(waiting)
        assert is_quiet(world)

    live(story, before=one_gpu_each)


def test_pods_share_a_claim_where_its_device_is() -> None:
    async def story(world: World) -> None:
        add_claim(world)
        await world.add_pod("p", resourceClaims=using("c"))
        await world.add_pod("q", resourceClaims=using("c"))
        assert world.node_of("q") == world.node_of("p") != ""
        assert reserved_for(world) == ["p", "q"]

    live(story, before=one_gpu_each)


def test_a_pod_waits_for_its_claim_before_it_is_tried() -> None:
    async def story(world: World) -> None:
        await world.add_pod("p", resourceClaims=using("c"))
        assert world.attempts("p") == []
        add_claim(world)
        await world.settle(1)
        assert world.node_of("p")

    live(story, before=one_gpu_each)


def test_devices_that_do_not_help_where_they_are_are_freed() -> None:
    async def story(world: World) -> None:
        add_claim(world)
        await world.add_pod("p", resourceClaims=using("c"))
        first = world.node_of("p")
        other = {"n1": "n2", "n2": "n1"}[first]
        world.delete_pod("p")
        body = claim_of(world)
        world.store.update(
            c.RESOURCE_CLAIMS,
            {**body, "status": {**body["status"], "reservedFor": []}},
            subresource="status",
        )
        selector = {"kubernetes.io/hostname": other}
        await world.add_pod("q", resourceClaims=using("c"), nodeSelector=selector)
        assert any("deallocation of ResourceClaim completed" in note for note in world.notes("q"))
        await world.settle(15)
        assert world.node_of("q") == other
        assert devices_of(world) == [f"{other}/gpu-0"]

    live(story, before=one_gpu_each)


@pytest.mark.parametrize(
    ("request_", "answer", "told"),
    [
        ("PUT resourceclaims/c", conflict(c.RESOURCE_CLAIMS, "c", MODIFIED), ""),
        (
            "PUT resourceclaims/c",
            ApiError(403, "Forbidden", "no"),
            "add finalizer to claim d/c: no",
        ),
        (
            "PUT resourceclaims/c/status",
            ApiError(500, "InternalError", "no leader"),
            "add allocation and reservation to claim d/c: no leader",
        ),
    ],
)
def test_a_write_that_fails_leaves_nothing_behind_and_is_tried_again(
    request_: str, answer: ApiError, told: str
) -> None:
    async def story(world: World) -> None:
        world.wire.answer(request_, answer)
        add_claim(world)
        await world.add_pod("p", resourceClaims=using("c"))
        if told:
            assert world.message("p") == f'running PreBind plugin "DynamicResources": {told}'
            assert is_quiet(world)
        await world.settle(15)
        assert world.node_of("p")
        assert devices_of(world)
        assert is_quiet(world)

    live(story, before=one_gpu_each)


@pytest.mark.parametrize(("condition", "is_bound"), [("Attached", True), ("Failed", False)])
def test_a_claim_that_another_one_replaced_when_it_is_written_leaves_nothing_behind(
    condition: str, is_bound: bool
) -> None:
    async def ready_later(world: World) -> None:
        add_class(world)
        world.add_node("n1")
        add_devices(world, "n1", bindingConditions=["Attached"], bindingFailureConditions=["Failed"])

    async def story(world: World) -> None:
        def replaced() -> None:
            world.store.delete(c.RESOURCE_CLAIMS, NAMESPACE, "c")
            add_claim(world)

        add_claim(world)
        decided = claim_of(world)["metadata"]["uid"]
        world.wire.answer("PUT resourceclaims/c", replaced)
        await world.add_pod("p", resourceClaims=using("c"))
        await world.settle(0.5)
        body = claim_of(world)
        assert body["metadata"]["uid"] != decided
        told = {
            "type": condition,
            "status": "True",
            "reason": "Done",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        device = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "conditions": [told]}
        status = {**body["status"], "devices": [device]}
        world.store.update(c.RESOURCE_CLAIMS, {**body, "status": status}, subresource="status")
        await world.settle(0.5)
        assert bool(world.node_of("p")) == is_bound
        assert is_quiet(world)

    live(story, before=ready_later)


def test_a_pod_waits_until_its_devices_are_ready() -> None:
    async def ready_later(world: World) -> None:
        add_class(world)
        world.add_node("n1")
        add_devices(world, "n1", bindingConditions=["Attached"], bindingFailureConditions=["Failed"])

    async def story(world: World) -> None:
        add_claim(world)
        await world.add_pod("p", resourceClaims=using("c"))
        assert devices_of(world) == ["n1/gpu-0"]
        assert not world.node_of("p")
        assert world.events("p", "BindingConditionsPending")
        report(world, "Attached")
        await world.settle(1)
        assert world.node_of("p") == "n1"

    live(story, before=ready_later)


def report(world: World, condition: str, name: str = "c") -> None:
    """The driver reports about the devices of a claim."""
    body = claim_of(world, name)
    told = {
        "type": condition,
        "status": "True",
        "reason": "Driver",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    devices = [
        {**{field: one[field] for field in ("driver", "pool", "device")}, "conditions": [told]}
        for one in body["status"]["allocation"]["devices"]["results"]
    ]
    changed = {**body, "status": {**body["status"], "devices": devices}}
    world.store.update(c.RESOURCE_CLAIMS, changed, subresource="status")


def test_a_pod_that_waits_for_the_end_of_an_allocation_is_tried_when_that_failed() -> None:
    """Nothing else would wake it: the claim lost its devices before, and is not written any more."""

    async def two_kinds(world: World) -> None:
        add_class(world)
        world.add_node("n1")
        add_devices(world, "n1", 2, bindingConditions=["Attached"], bindingFailureConditions=["Failed"])

    async def story(world: World) -> None:
        add_claim(world, "shared")
        add_claim(world, "own")
        await world.add_pod("p", resourceClaims=using("own", "shared"))
        report(world, "Attached", "shared")
        await world.settle(1)
        assert not world.node_of("p"), "its own device is not ready"
        world.store.update(
            c.RESOURCE_CLAIMS, {**claim_of(world, "shared"), "status": {}}, subresource="status"
        )
        await world.add_pod("q", resourceClaims=using("shared"))
        assert "resource claim d/shared is in the process of being allocated" in world.message("q")
        world.delete_pod("p")
        report(world, "Failed", "own")
        await world.settle(1)
        assert reserved_for(world, "shared") == ["q"]
        report(world, "Attached", "shared")
        await world.settle(1)
        assert world.node_of("q") == "n1"
        assert is_quiet(world)

    live(story, before=two_kinds)


def test_an_extended_resource_is_answered_with_devices() -> None:
    async def story(world: World) -> None:
        asked: dict[str, Any] = {"requests": {"cpu": "1", "example.com/gpu": "2"}}
        container = {"name": "c", "image": "i", "resources": {**asked, "limits": {"example.com/gpu": "2"}}}
        await world.add_pod("p", containers=[container])
        assert world.node_of("p") == "n1"
        status = world.pod("p")["status"]["extendedResourceClaimStatus"]
        assert status["requestMappings"] == [
            {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-1"}
        ]
        name = status["resourceClaimName"]
        assert name.startswith("p-extended-resources-")
        assert devices_of(world, name) == ["n1/gpu-0", "n1/gpu-1"]
        assert reserved_for(world, name) == ["p"]
        await world.add_pod("q", containers=[container])
        assert "1 cannot allocate all claims" in world.message("q")
        assert [one["metadata"]["name"] for one in world.store.list(c.RESOURCE_CLAIMS, NAMESPACE).items] == [
            name
        ]
        assert is_quiet(world)

    live(story, before=gpus_by_name)


async def one_gpu(world: World) -> None:
    add_class(world)
    world.add_node("n1")
    add_devices(world, "n1")


@pytest.mark.parametrize("also_deleted", [True, False], ids=["with its pod", "alone"])
def test_devices_of_an_allocation_that_came_to_nothing_go_to_a_pod_that_waits(also_deleted: bool) -> None:
    """No watch event reports them: the claim was deleted before it got them."""

    async def story(world: World) -> None:
        world.wire.seconds = 20
        add_claim(world)
        add_claim(world, "other")
        world.put_pod("p", resourceClaims=using("c"))
        while "PUT resourceclaims/c" not in world.wire.shorts:
            await world.settle(1)
        world.wire.seconds = 0
        await world.add_pod("q", resourceClaims=using("other"))
        assert "cannot allocate all claims" in world.message("q")
        if also_deleted:
            world.delete_pod("p")
        world.store.delete(c.RESOURCE_CLAIMS, NAMESPACE, "c")
        await world.settle(20)
        assert world.node_of("q") == "n1"
        assert is_quiet(world)

    live(story, before=one_gpu)
