"""Devices on the map and beside it: how many are taken by driver, and who holds each."""

import asyncio
from random import Random
from typing import Any

from msgspec import to_builtins

from explain.web.test_stream import parsed
from stowplan.api.catalogue import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from stowplan.explain.web import EVERYTHING, Inspection
from stowplan.explain.web.stream import Subscription
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler import Scheduler, Settings
from stowplan.testing import node, pod

Json = dict[str, Any]
DRIVER = "gpu.example.com"
COLUMN = f"devices of {DRIVER}"


def slice_of(name: str, count: int) -> Json:
    bad = {"key": "example.com/health", "value": "bad", "effect": "NoSchedule"}
    devices = [
        {"name": f"gpu-{number}", **({"taints": [bad]} if not number else {})} for number in range(count)
    ]
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "resourceSliceCount": 1},
        "devices": devices,
    }
    return {"metadata": {"name": f"{name}-gpus"}, "spec": spec}


def hold(store: Store, name: str, device: str, holder: str) -> None:
    """A claim that has a device of n0, reserved for a pod."""
    created = store.create(RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": {}})
    result = {"request": "gpu", "driver": DRIVER, "pool": "n0", "device": device}
    reserved = [{"resource": "pods", "name": holder, "uid": f"uid of {holder}"}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    store.update(RESOURCE_CLAIMS, {**created, "status": status}, subresource="status")


def test_devices_are_columns_of_nodes_that_change_with_allocations() -> None:
    async def story(clock: VirtualClock) -> None:
        store = Store(clock, Random(1))
        for name in ("n0", "n1"):
            store.create(NODES, to_builtins(node(name).capacity(cpu=4).obj()))
        store.create(RESOURCE_SLICES, slice_of("n0", 4))
        store.create(PODS, to_builtins(pod("train").on("n0").obj()))
        scheduler = Scheduler(InProcessClient(store), Settings.of(), clock=clock, rng=Random(2))
        inspection = Inspection(lambda: scheduler, cluster="a test", release="1.37")
        page = Subscription(inspection, EVERYTHING)
        async with scheduler.running():
            nodes = inspection.nodes()
            assert (nodes.allocatable[COLUMN], nodes.requested[COLUMN]) == ([4, 0], [0, 0])
            await page.told(inspection.feed.look())
            hold(store, "claim", "gpu-1", "train")
            await asyncio.sleep(1)
            change = parsed(await page.told(inspection.feed.look()))["nodes"]
            assert change["devices"] == {COLUMN: {"index": [0], "requested": [1]}}
            assert inspection.nodes().requested[COLUMN] == [1, 0]

            shown = await inspection.node("n0", {"default"})
            assert shown is not None
            assert (shown.device_count, [one.taken for one in shown.devices]) == (
                4,
                [False, True, False, False],
            )
            held = shown.devices[1]
            assert (held.claim, held.pods) == ("default/claim", ("default/train",))
            assert shown.devices[0].taints == ("example.com/health=bad:NoSchedule",)
            hidden = await inspection.node("n0", {"team"})
            assert hidden is not None
            assert (hidden.devices[1].taken, hidden.devices[1].claim, hidden.devices[1].pods) == (
                True,
                "",
                (),
            )

            store.create(RESOURCE_SLICES, slice_of("n1", 2))
            await asyncio.sleep(1)
            assert parsed(await page.told(inspection.feed.look()))["nodes"] == {"reload": True}

    run(story)


def test_counters_say_how_much_taken_partitions_leave() -> None:
    async def story(clock: VirtualClock) -> None:
        store = Store(clock, Random(1))
        store.create(NODES, to_builtins(node("n0").capacity(cpu=4).obj()))
        about = {"driver": DRIVER, "nodeName": "n0", "pool": {"name": "n0", "resourceSliceCount": 2}}
        amounts = {"memory": {"value": "40Gi"}, "slices": {"value": "7"}}
        counters = [{"name": "gpu-0", "counters": amounts}]
        store.create(
            RESOURCE_SLICES, {"metadata": {"name": "a"}, "spec": {**about, "sharedCounters": counters}}
        )
        part = {"memory": {"value": "10Gi"}, "slices": {"value": "2"}}
        devices = [
            {"name": f"part-{place}", "consumesCounters": [{"counterSet": "gpu-0", "counters": part}]}
            for place in range(3)
        ]
        store.create(RESOURCE_SLICES, {"metadata": {"name": "b"}, "spec": {**about, "devices": devices}})
        for place in range(2):
            hold(store, f"claim-{place}", f"part-{place}", "train")
        scheduler = Scheduler(InProcessClient(store), Settings.of(), clock=clock, rng=Random(2))
        inspection = Inspection(lambda: scheduler, cluster="a test", release="1.37")
        async with scheduler.running():
            shown = await inspection.node("n0", {"default"})
        assert shown is not None
        assert [(one.set, one.counter, one.drawn, one.total, one.share) for one in shown.counters] == [
            ("gpu-0", "memory", "20Gi", "40Gi", 0.5),
            ("gpu-0", "slices", "4", "7", 0.5714),
        ]

    run(story)
