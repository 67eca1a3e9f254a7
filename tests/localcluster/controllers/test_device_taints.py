"""Pods leave devices with NoExecute taints: in slices and by rules, at once or when a toleration ends."""

from typing import Any

import pytest

from localcluster.controllers.small_clusters import World, live, template
from stowplan.api.catalogue import (
    DEVICE_TAINT_RULES,
    EVENTS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllers.devices.devicetainteviction import DeviceTaintEvictionController
from stowplan.localcluster.controllers.devices.resourceclaim import ResourceClaimController

DRIVER = "gpu.example.com"
TAINT = {"key": "example.com/broken", "value": "fan", "effect": "NoExecute"}
FOR_GOOD = {"key": "example.com/broken", "operator": "Exists", "effect": "NoExecute"}


def controllers(context: ControllerContext) -> list[Controller]:
    return [DeviceTaintEvictionController(context), ResourceClaimController(context)]


def slice_of(devices: dict[str, list[Json]], name: str = "n-gpus", generation: int = 1) -> Json:
    pool = {"name": "n", "generation": generation, "resourceSliceCount": 1}
    listed = [{"name": device, "taints": taints} for device, taints in devices.items()]
    spec = {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": listed}
    return {"metadata": {"name": name}, "spec": spec}


def use_device(world: World, name: str, device: str = "gpu-0", tolerations: Any = ()) -> None:
    """A pod on a node, with a claim of its own that has a device."""
    claims = [{"name": "gpu", "resourceClaimName": name}]
    pod = world.put(PODS, {**template(nodeName="n", resourceClaims=claims), "metadata": {"name": name}})
    requests = [{"name": "r", "exactly": {"deviceClassName": DRIVER}}]
    made = world.put(
        RESOURCE_CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
    )
    result = {"request": "r", "driver": DRIVER, "pool": "n", "device": device, "tolerations": [*tolerations]}
    reserved = [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    world.store.update(RESOURCE_CLAIMS, {**made, "status": status}, subresource="status")


def rule(effect: str, **selector: str) -> Json:
    taint = {**TAINT, "effect": effect}
    return {"metadata": {"name": "rule"}, "spec": {"deviceSelector": selector, "taint": taint}}


def is_leaving(world: World, name: str) -> bool:
    return name not in world.names(PODS) or "deletionTimestamp" in world.get(PODS, name)["metadata"]


def told(world: World) -> list[tuple[str, str]]:
    return [
        (event["regarding"]["name"], event["note"])
        for event in world.all(EVENTS)
        if event["reason"] == "DeviceTaintManagerEviction"
    ]


def condition(world: World) -> Json:
    [found] = world.get(DEVICE_TAINT_RULES, "rule")["status"]["conditions"]
    return {field: found[field] for field in ("type", "status", "reason", "message")}


def tainted(world: World, taints: list[Json]) -> None:
    world.patch(RESOURCE_SLICES, "n-gpus", {"spec": {"devices": [{"name": "gpu-0", "taints": taints}]}})


def test_a_taint_in_a_slice_evicts_who_uses_the_device_and_nobody_else() -> None:
    async def story(world: World) -> None:
        world.put(RESOURCE_SLICES, slice_of({"gpu-0": [], "gpu-1": []}))
        use_device(world, "p")
        use_device(world, "tolerant", tolerations=[FOR_GOOD])
        use_device(world, "elsewhere", "gpu-1")
        await world.settle(1)
        world.patch(RESOURCE_SLICES, "n-gpus", slice_of({"gpu-0": [TAINT], "gpu-1": []}))
        await world.until(lambda: is_leaving(world, "p"))
        await world.settle(2)
        assert not is_leaving(world, "tolerant")
        assert not is_leaving(world, "elsewhere")
        assert told(world) == [("p", "Marking for deletion")]
        conditions = world.get(PODS, "p")["status"]["conditions"]
        [target] = [one for one in conditions if one["type"] == "DisruptionTarget"]
        assert target["reason"] == "DeletionByDeviceTaintManager"
        assert target["message"] == "Device Taint manager: deleting due to NoExecute taint"

    live(story, controllers)


@pytest.mark.parametrize(
    "toleration", [{"key": "example.com/broken", "operator": "Exists"}, {"effect": "NoSchedule"}]
)
def test_a_toleration_holds_off_eviction_only_if_it_names_the_effect(toleration: Json) -> None:
    async def story(world: World) -> None:
        world.put(RESOURCE_SLICES, slice_of({"gpu-0": [TAINT]}))
        use_device(world, "p", tolerations=[{"operator": "Exists", **toleration}])
        await world.until(lambda: is_leaving(world, "p"))

    live(story, controllers)


def test_a_toleration_ends_so_many_seconds_after_the_taint_came_and_an_eviction_can_be_cancelled() -> None:
    async def story(world: World) -> None:
        world.put(RESOURCE_SLICES, slice_of({"gpu-0": []}))
        use_device(world, "p", tolerations=[{**FOR_GOOD, "tolerationSeconds": 30}])
        use_device(world, "q", tolerations=[{**FOR_GOOD, "tolerationSeconds": 300}])
        await world.settle(60)
        tainted(world, [TAINT])
        await world.settle(25)
        assert not is_leaving(world, "p")
        await world.settle(10)
        assert is_leaving(world, "p")
        tainted(world, [])
        await world.settle(1)
        assert told(world) == [("p", "Marking for deletion"), ("q", "Cancelling deletion")]
        await world.settle(400)
        assert not is_leaving(world, "q")

    live(story, controllers)


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    async def story(world: World) -> None:
        world.put(RESOURCE_SLICES, slice_of({"gpu-0": []}, "newer", 2))
        world.put(RESOURCE_SLICES, slice_of({"gpu-0": [TAINT]}))
        use_device(world, "p")
        await world.settle(5)
        assert not is_leaving(world, "p")
        world.delete(RESOURCE_SLICES, "newer")
        await world.until(lambda: is_leaving(world, "p"))

    live(story, controllers)


def test_a_rule_tells_what_it_would_do_then_does_it_and_tells_that() -> None:
    dry = (
        "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace "
        "if the effect was NoExecute. This information will not be updated again. Recreate the "
        "DeviceTaintRule to trigger an update."
    )

    async def story(world: World) -> None:
        world.put(RESOURCE_SLICES, slice_of({"gpu-0": [], "gpu-1": []}))
        use_device(world, "p", tolerations=[{**FOR_GOOD, "tolerationSeconds": 15}])
        made = world.put(DEVICE_TAINT_RULES, rule("None", driver=DRIVER))
        await world.settle(1)
        kind = "EvictionInProgress"
        assert condition(world) == {"type": kind, "status": "False", "reason": "NoEffect", "message": dry}
        world.patch(DEVICE_TAINT_RULES, "rule", {"spec": {"taint": {"effect": "NoExecute"}}})
        changed = world.get(DEVICE_TAINT_RULES, "rule")
        assert (made["metadata"]["generation"], changed["metadata"]["generation"]) == (1, 2)
        assert changed["spec"]["taint"]["timeAdded"] > made["spec"]["taint"]["timeAdded"]
        await world.settle(1)
        pending = "1 pod needs to be evicted in 1 namespace."
        expected = {"status": "True", "reason": "PodsPendingEviction", "message": pending}
        assert condition(world) == {"type": kind, **expected}
        await world.until(lambda: is_leaving(world, "p"))
        world.delete(PODS, "p")
        await world.settle(30)
        done = "1 pod evicted since starting the controller."
        assert condition(world) == {"type": kind, "status": "False", "reason": "Completed", "message": done}

    live(story, controllers)


@pytest.mark.parametrize(
    ("effect", "selector", "evicts", "reason"),
    [
        ("NoExecute", {"pool": "n", "device": "gpu-0"}, True, ""),
        ("NoExecute", {}, True, ""),
        ("NoExecute", {"device": "gpu-1"}, False, "NotStarted"),
        ("NoSchedule", {}, False, "OtherEffect"),
    ],
)
def test_which_devices_a_rule_selects(
    effect: str, selector: dict[str, str], evicts: bool, reason: str
) -> None:
    async def story(world: World) -> None:
        use_device(world, "p")
        await world.settle(1)
        world.put(DEVICE_TAINT_RULES, rule(effect, **selector))
        await world.settle(2)
        assert is_leaving(world, "p") is evicts
        if reason:
            assert condition(world)["reason"] == reason

    live(story, controllers)


def test_without_their_gate_rules_evict_nobody() -> None:
    async def story(world: World) -> None:
        use_device(world, "p")
        world.put(DEVICE_TAINT_RULES, rule("NoExecute"))
        await world.settle(5)
        assert not is_leaving(world, "p")
        assert world.get(DEVICE_TAINT_RULES, "rule")["status"] == {}

    live(story, lambda context: [DeviceTaintEvictionController(context, rules=False)])
