"""Writes of claims whose answers are lost or late: no device is given twice, nothing stays behind."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from scheduler.live_scheduler import NAMESPACE, World, configured, live
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
from stowplan.api.devices import ResourceClaim
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import Release
from stowplan.api.requests import PatchType
from stowplan.api.status import ApiError, unreachable
from stowplan.client.interface import GeneratorWatch
from stowplan.localcluster.client import typed

STATUS = "PUT resourceclaims/c/status"
UNRESERVE = "PATCH resourceclaims/c/status"
BINDING = "POST pods/p/binding"


def lost(world: World, act: Callable[[Any], object]) -> Callable[[], None]:
    """The server processes the request, and the connection breaks before the answer."""

    def answer() -> None:
        act(world.wire.writes[-1].body)
        raise unreachable("the connection broke")

    return answer


def test_an_allocation_whose_answer_is_lost_is_found_and_used() -> None:
    async def story(world: World) -> None:
        world.wire.answer(
            STATUS,
            lost(world, lambda body: world.store.update(c.RESOURCE_CLAIMS, body, subresource="status")),
        )
        add_claim(world)
        await world.add_pod("p", resourceClaims=using("c"))
        assert devices_of(world) == [f"{world.node_of('p')}/gpu-0"]
        assert reserved_for(world) == ["p"]
        assert world.wire.shorts.count(STATUS) == 1
        assert is_quiet(world)

    live(story, before=one_gpu_each)


def test_a_pod_whose_devices_could_not_be_freed_is_tried_again_after_its_backoff() -> None:
    async def story(world: World) -> None:
        add_claim(world)
        await world.add_pod("p", resourceClaims=using("c"))
        other = {"n1": "n2", "n2": "n1"}[world.node_of("p")]
        world.delete_pod("p")
        body = claim_of(world)
        unused = {**body, "status": {**body["status"], "reservedFor": []}}
        world.store.update(c.RESOURCE_CLAIMS, unused, subresource="status")
        world.wire.answer(STATUS, unreachable("no route to host"), unreachable("no route to host"))
        selector = {"kubernetes.io/hostname": other}
        await world.add_pod("q", resourceClaims=using("c"), nodeSelector=selector)
        assert any("no route to host" in note for note in world.notes("q"))
        await world.settle(20)
        assert devices_of(world) == [f"{other}/gpu-0"]
        assert reserved_for(world) == ["q"]

    live(story, before=one_gpu_each)


NO_ROUTE = unreachable("no route to host")
FORBIDDEN = ApiError(403, "Forbidden", "resourceclaims is forbidden")
UNAUTHORIZED = ApiError(401, "Unauthorized", "Unauthorized")
CONFLICT = ApiError(409, "Conflict", "the object has been modified")


@pytest.mark.parametrize("problem", [NO_ROUTE, FORBIDDEN, UNAUTHORIZED, CONFLICT])
def test_devices_stay_taken_until_it_is_known_what_became_of_a_write(problem: ApiError) -> None:
    """However the API server refuses to say what the claim is now."""

    async def one_gpu(world: World) -> None:
        add_class(world)
        world.add_node("n1")
        add_devices(world, "n1")

    async def story(world: World) -> None:
        silent = True

        async def get(*args: Any) -> Any:
            if silent:
                raise problem
            return world.store.get(*args)

        world.wire.get = get  # type: ignore[method-assign,assignment]
        world.wire.answer(STATUS, NO_ROUTE)
        add_claim(world)
        add_claim(world, "other")
        await world.add_pod("p", resourceClaims=using("c"))
        await world.add_pod("q", resourceClaims=using("other"))
        await world.settle(30)
        assert "cannot allocate all claims" in world.message("q")
        assert devices_of(world) == []
        silent = False
        await world.settle(30)
        assert [*devices_of(world), *devices_of(world, "other")] == ["n1/gpu-0"]
        assert [bool(world.node_of(name)) for name in ("p", "q")].count(True) == 1

    live(story, before=one_gpu)


def test_a_claim_for_extended_resources_is_made_once_though_the_answer_is_lost() -> None:
    async def story(world: World) -> None:
        world.wire.answer(
            "POST resourceclaims",
            lost(world, lambda body: world.store.create(c.RESOURCE_CLAIMS, body, NAMESPACE)),
        )
        resources = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
        await world.add_pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
        [claim] = world.store.list(c.RESOURCE_CLAIMS, NAMESPACE).items
        status = world.pod("p")["status"]["extendedResourceClaimStatus"]
        assert status["resourceClaimName"] == claim["metadata"]["name"]
        assert world.node_of("p") == "n1"
        assert is_quiet(world)

    live(story, before=gpus_by_name)


@pytest.mark.parametrize("failures", [3, 12])
def test_a_reservation_is_taken_back_however_often_that_fails(failures: int) -> None:
    """Also if the pod is tried again meanwhile: then it is bound only when it has been reserved anew."""

    async def story(world: World) -> None:
        world.wire.answer(BINDING, ApiError(403, "Forbidden", "not now"))
        world.wire.answer(UNRESERVE, *[ApiError(503, "ServiceUnavailable", "busy")] * failures)
        add_claim(world)
        await world.add_pod("p", resourceClaims=using("c"))
        await world.settle(90)
        assert world.node_of("p")
        assert reserved_for(world) == ["p"]
        writes = [one for one in world.wire.shorts if one in (STATUS, UNRESERVE, BINDING)]
        assert writes == [STATUS, BINDING, *[UNRESERVE] * (failures + 1), STATUS, BINDING]

    live(story, before=one_gpu_each)


def test_a_reservation_from_before_a_restart_is_taken_back_if_the_pod_is_not_placed() -> None:
    async def left_behind(world: World) -> None:
        await one_gpu_each(world)
        world.put_pod("p", cpu="100", resourceClaims=using("c"))
        uid = world.pod("p")["metadata"]["uid"]
        add_claim(world)
        result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
        status = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [
                {"resource": "pods", "name": "p", "uid": uid},
                {"resource": "pods", "name": "q", "uid": "another"},
            ],
        }
        world.store.update(c.RESOURCE_CLAIMS, {**claim_of(world), "status": status}, subresource="status")

    async def story(world: World) -> None:
        await world.settle(2)
        assert not world.node_of("p")
        assert reserved_for(world) == ["q"]
        assert devices_of(world) == ["n1/gpu-0"]

    live(story, before=left_behind)


def test_a_write_that_is_under_way_when_its_pod_is_preempted_keeps_its_devices(
    each_release: Release,
) -> None:
    """Also if the watch is late: only the answer shows that the claim has its devices."""

    async def one_gpu(world: World) -> None:
        add_class(world)
        world.add_node("n1")
        add_devices(world, "n1")

    async def story(world: World) -> None:
        world.wire.seconds = 4.0
        add_claim(world)
        add_claim(world, "other")
        await world.add_pod("p", cpu="3", resourceClaims=using("c"))
        while STATUS not in world.wire.shorts:
            await world.settle(0.5)
        claims = world.scheduler.context.cache.table.devices.claims
        claims.put = lambda claim: None  # type: ignore[method-assign]
        await world.settle(2)
        assert devices_of(world) == ["n1/gpu-0"]
        world.put_pod("urgent", cpu="3", priority=100)
        world.put_pod("q", cpu="100m", resourceClaims=using("other"))
        for _ in range(60):
            await world.settle(0.5)
            assert len(devices_of(world)) + len(devices_of(world, "other")) <= 1
        assert world.node_of("urgent")
        assert world.has_pod("p"), "it was not bound yet, so that it is not deleted"
        assert not world.node_of("p")
        assert (devices_of(world), devices_of(world, "other")) == (["n1/gpu-0"], [])
        del claims.put
        for name in ("c", "other"):
            claims.put(typed(claim_of(world, name), ResourceClaim))
        await world.settle(60)
        assert reserved_for(world) == []
        assert is_quiet(world)

    live(story, before=one_gpu, config=configured(gates=FeatureGates(release=each_release)))


def reserved(world: World, name: str, **changed: Any) -> None:
    """A claim that an earlier attempt allocated on n1 and reserved for the pod p."""
    add_claim(world, name)
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    consumer = {"resource": "pods", "name": "p", "uid": world.pod("p")["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    claim = {**claim_of(world, name), "status": status}
    claim["metadata"] = {**claim["metadata"], "finalizers": ["resource.kubernetes.io/delete-protection"]}
    world.store.update(c.RESOURCE_CLAIMS, claim)
    claim["metadata"] = claim_of(world, name)["metadata"]
    world.store.update(c.RESOURCE_CLAIMS, claim, subresource="status")


@pytest.mark.parametrize("rejected", ["claim is being deleted", "volume is missing"])
def test_a_pod_that_waits_for_something_else_keeps_no_reservation_from_before(rejected: str) -> None:
    """Of a claim that is being deleted it would never end; devices would be kept from others."""
    waits: dict[str, Any] = {}
    if rejected == "volume is missing":
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}
        waits = {"volumes": [volume]}

    async def left_behind(world: World) -> None:
        await one_gpu_each(world)
        world.put_pod("p", resourceClaims=using("c"), **waits)
        reserved(world, "c")
        if not waits:
            world.store.delete(c.RESOURCE_CLAIMS, NAMESPACE, "c")

    async def story(world: World) -> None:
        await world.settle(2)
        assert not world.node_of("p")
        assert reserved_for(world) == []

    live(story, before=left_behind)


def test_a_reservation_stays_if_another_scheduler_has_bound_the_pod() -> None:
    """The informer may be late to tell of it."""

    async def left_behind(world: World) -> None:
        await one_gpu_each(world)
        world.put_pod("p", cpu="100", resourceClaims=using("c"))
        reserved(world, "c")

    async def story(world: World) -> None:
        async def get(*args: Any) -> Any:
            stored = world.store.get(*args)
            return {**stored, "spec": {**stored["spec"], "nodeName": "n1"}} if args[0] == c.PODS else stored

        world.wire.get = get  # type: ignore[method-assign,assignment]
        await world.settle(2)
        assert reserved_for(world) == ["p"]

    live(story, before=left_behind)


@pytest.mark.parametrize("names_claim", [False, True])
def test_a_claim_for_extended_resources_goes_if_another_scheduler_has_bound_the_pod_without_it(
    names_claim: bool,
) -> None:
    """The pod knows nothing of a claim that its status does not name, and would keep it for nothing."""

    async def story(world: World) -> None:
        def bound_by_another() -> None:
            claim = world.store.list(c.RESOURCE_CLAIMS, NAMESPACE).items[0]["metadata"]["name"]
            if names_claim:
                patch = {"status": {"extendedResourceClaimStatus": {"resourceClaimName": claim}}}
                world.store.patch(c.PODS, NAMESPACE, "p", patch, PatchType.MERGE, subresource="status")
            world.store.bind(NAMESPACE, "p", {"metadata": {"name": "p"}, "target": {"name": "n1"}})
            raise unreachable("the connection broke")

        announced = ApiError(403, "Forbidden", "not now")
        world.wire.answer("PATCH pods/p/status", announced, bound_by_another)
        resources = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
        await world.add_pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
        await world.settle(30)
        assert world.node_of("p") == "n1"
        assert len(world.store.list(c.RESOURCE_CLAIMS, NAMESPACE).items) == names_claim
        assert is_quiet(world)

    live(story, before=gpus_by_name)


def test_a_claim_that_comes_and_goes_at_once_is_not_waited_for() -> None:
    """Nobody tells of it again; its pod would fail only when the patience with the informer is over."""

    async def story(world: World) -> None:
        claims = world.scheduler.context.cache.table.devices.claims
        resources = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
        late: list[ResourceClaim] = []
        put = claims.put
        claims.put = late.append  # type: ignore[method-assign,assignment]
        world.wire.answer(
            "PATCH pods/p/status", ApiError(403, "Forbidden", "not now"), ApiError(403, "Forbidden", "no")
        )
        await world.add_pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
        assert "FailedScheduling p" not in world.wire.shorts
        put(late[0])
        claims.remove(late[0])
        claims.put = put  # type: ignore[method-assign]
        await world.settle(5)
        assert "FailedScheduling p" in world.wire.shorts

    live(story, before=gpus_by_name)


def test_a_claim_for_extended_resources_that_cannot_be_deleted_keeps_its_devices() -> None:
    """Also if the watch is late: only the answer shows that the claim has its devices."""

    async def one_gpu(world: World) -> None:
        add_class(world, extendedResourceName="example.com/gpu")
        world.add_node("n1")
        add_devices(world, "n1")

    async def story(world: World) -> None:
        async def get(*args: Any) -> Any:
            if args[0] == c.PODS:
                raise FORBIDDEN
            return world.store.get(*args)

        world.wire.get = get  # type: ignore[method-assign,assignment]
        world.wire.answer("PATCH pods/p/status", FORBIDDEN, FORBIDDEN, FORBIDDEN)
        claims = world.scheduler.context.cache.table.devices.claims
        put = claims.put

        def put_without_status(claim: ResourceClaim) -> None:
            if claim.allocation is None:
                put(claim)

        claims.put = put_without_status  # type: ignore[method-assign]
        resources = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
        await world.add_pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
        add_claim(world)
        await world.add_pod("q", resourceClaims=using("c"))
        names = [claim["metadata"]["name"] for claim in world.store.list(c.RESOURCE_CLAIMS, NAMESPACE).items]
        assert len(names) == 2, "nobody could delete the claim that the scheduler made"
        assert devices_of(world) == []

    live(story, before=one_gpu)


def test_a_claim_stays_if_its_pod_was_bound_and_neither_answer_nor_watch_told_of_it() -> None:
    """Its next attempt finds the claim with devices, and would delete it to start over."""
    silent = [False]

    async def late(world: World) -> None:
        await gpus_by_name(world)
        watch = world.wire.watch

        async def held(events: Any) -> AsyncGenerator[Any, None]:
            async for event in events:
                while silent[0]:
                    await asyncio.sleep(0.1)
                yield event

        def watch_late(resource: Any, cls: Any, **about: Any) -> Any:
            events = watch(resource, cls, **about)
            return GeneratorWatch(held(events)) if resource is c.PODS else events

        world.wire.watch = watch_late  # type: ignore[method-assign]

    async def story(world: World) -> None:
        def lose() -> None:
            silent[0] = True
            sent = world.wire.writes[-1].body
            world.store.patch(c.PODS, NAMESPACE, "p", {"spec": {"nodeName": sent["target"]["name"]}})
            raise unreachable("the connection broke")

        world.wire.answer(BINDING, lose)
        resources = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
        await world.add_pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
        await world.settle(8)
        silent[0] = False
        await world.settle(20)
        name = world.pod("p")["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
        assert world.node_of("p") == "n1"
        assert len(devices_of(world, name)) == 1
        assert not [short for short in world.wire.shorts if short.startswith("DELETE resourceclaims")]

    live(story, before=late)
