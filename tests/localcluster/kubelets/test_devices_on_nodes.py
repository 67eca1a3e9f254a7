"""Devices of pretend nodes: the slices they publish, and pods that wait for their claims."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from stowplan.api.catalogue import (
    DEVICE_CLASSES,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from stowplan.api.requests import Json
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects, create_default_account
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.controllerruntime.controller import ControllerContext, ControllerManager
from stowplan.localcluster.controllers.garbagecollector import GarbageCollector
from stowplan.localcluster.kubelets import Kubelets, KubeletSettings
from stowplan.localcluster.kubelets.config import shapes_of
from stowplan.localcluster.store import FieldManager, Store
from stowplan.runtime.clock import VirtualClock, run

MIG = {"profile": "1g.5gb", "count": 7, "capacity": {"memory": "5Gi"}, "consumes": {"slices": 1}}
SHAPES: list[Json] = [
    {
        "name": "n",
        "devices": [
            {"count": 8, "attributes": {"model": "H100", "uuid": "GPU-{node}-{}"}, "groups": {"nvlink": 4}},
            {"driver": "nic.example.org", "name": "nic", "type": "net", "attributes": {"fast": True}},
        ],
    },
    {
        "name": "m",
        "devices": [
            {
                "count": 10,
                "capacity": {"memory": "40Gi"},
                "counters": {"memory": "40Gi", "slices": 7},
                "partitions": [MIG],
            }
        ],
    },
]


class Place:
    def __init__(self, clock: VirtualClock, shapes: Any) -> None:
        self.store = Store(clock, random.Random(1), admission=ClusterAdmission(), fields=FieldManager())
        create_bootstrap_objects(self.store)
        self.store.create(NAMESPACES, {"metadata": {"name": "d"}})
        create_default_account(self.store, "d")
        client, settings = InProcessClient(self.store), KubeletSettings(start_delay=1.0, start_jitter=0.0)
        rng = random.Random(2)
        self.kubelets = Kubelets(client, shapes_of(shapes), settings, clock=clock, rng=rng)
        context = ControllerContext.of(client, clock, rng)
        self.collector = ControllerManager(context, [GarbageCollector(context)])

    def slices(self, node: str) -> list[Json]:
        found = self.store.list(RESOURCE_SLICES).items
        return [one for one in found if one["spec"]["nodeName"] == node]

    def status(self, name: str = "p") -> Json:
        status: Json = self.store.get(PODS, "d", name)["status"]
        return status


def live(story: Callable[[Place], Awaitable[None]], shapes: Any = SHAPES) -> None:
    async def begin(clock: VirtualClock) -> None:
        place = Place(clock, shapes)
        async with place.kubelets.running(), place.collector.running():
            await asyncio.sleep(0.5)
            await story(place)

    run(begin)


def test_a_node_publishes_a_pool_of_devices_for_each_driver() -> None:
    async def story(place: Place) -> None:
        gpus, nics = place.slices("n")
        pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
        assert (gpus["spec"]["driver"], gpus["spec"]["pool"]) == ("gpu.example.com", pool)
        devices = {one["name"]: one["attributes"] for one in gpus["spec"]["devices"]}
        assert list(devices) == [f"gpu-{number}" for number in range(8)]
        assert devices["gpu-5"] == {
            "type": {"string": "gpu"},
            "index": {"int": 5},
            "nvlink": {"int": 1},
            "model": {"string": "H100"},
            "uuid": {"string": "GPU-n-5"},
        }
        [nic] = nics["spec"]["devices"]
        assert (nic["name"], nic["attributes"]["fast"]) == ("nic", {"bool": True})
        classes = {one["metadata"]["name"] for one in place.store.list(DEVICE_CLASSES).items}
        assert classes == {"gpu.example.com", "net.example.org", "mig.example.com"}

    live(story)


def test_devices_share_counters_with_their_partitions_in_slices_of_the_size_allowed() -> None:
    async def story(place: Place) -> None:
        specs = [one["spec"] for one in place.slices("m")]
        assert {spec["pool"]["resourceSliceCount"] for spec in specs} == {len(specs)} == {4}
        assert [len(spec.get("sharedCounters", ())) for spec in specs] == [8, 2, 0, 0]
        devices = [one for spec in specs for one in spec.get("devices", ())]
        assert len(devices) == 10 * 8
        whole, part = devices[8], devices[9]
        assert (whole["name"], part["name"]) == ("gpu-1", "gpu-1-1g-5gb-0")
        counters = {"memory": {"value": "40Gi"}, "slices": {"value": "7"}}
        assert whole["consumesCounters"] == [{"counterSet": "gpu-1", "counters": counters}]
        counters = {"memory": {"value": "5Gi"}, "slices": {"value": "1"}}
        assert part["consumesCounters"] == [{"counterSet": "gpu-1", "counters": counters}]
        assert part["attributes"]["profile"] == {"string": "1g.5gb"}

    live(story)


def test_slices_go_with_their_node_and_come_with_the_next_one_of_its_name() -> None:
    async def story(place: Place) -> None:
        first = place.slices("n")[0]["metadata"]["uid"]
        place.store.delete(NODES, "", "n")
        await asyncio.sleep(5)
        assert place.slices("n") == []
        again = place.store.create(NODES, {"metadata": {"name": "n"}})
        await asyncio.sleep(5)
        gpus = place.slices("n")[0]["metadata"]
        assert gpus["uid"] != first
        assert gpus["ownerReferences"][0]["uid"] == again["metadata"]["uid"]

    live(story)


def pod_with_claim(place: Place) -> Json:
    spec = {
        "nodeName": "n",
        "containers": [{"name": "c", "image": "i"}],
        "resourceClaims": [{"name": "g", "resourceClaimName": "g"}],
    }
    return place.store.create(PODS, {"metadata": {"name": "p", "namespace": "d"}, "spec": spec})


def told(place: Place) -> list[str]:
    reason = "FailedPrepareDynamicResources"
    return [one["note"] for one in place.store.list(EVENTS).items if one["reason"] == reason]


def test_a_pod_starts_when_its_claim_is_reserved_for_it_and_the_devices_are_reported() -> None:
    failed = "Failed to prepare dynamic resources: prepare dynamic resources: "

    async def story(place: Place) -> None:
        pod = pod_with_claim(place)
        await asyncio.sleep(2)
        [container] = place.status()["containerStatuses"]
        assert container["state"] == {"waiting": {"reason": "ContainerCreating"}}
        missing = 'fetch ResourceClaim g: resourceclaims.resource.k8s.io "g" not found'
        assert told(place) == [failed + missing]
        requests = [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]
        claim = place.store.create(
            RESOURCE_CLAIMS,
            {"metadata": {"name": "g", "namespace": "d"}, "spec": {"devices": {"requests": requests}}},
        )
        await asyncio.sleep(20)
        uids = pod["metadata"]["uid"], claim["metadata"]["uid"]
        refused = f"pod p ({uids[0]}) is not allowed to use ResourceClaim g ({uids[1]})"
        assert told(place) == [failed + missing, failed + refused]
        result = {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "gpu-3"}
        reserved = [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
        place.store.update(RESOURCE_CLAIMS, {**claim, "status": status}, subresource="status")
        await asyncio.sleep(0.5)
        assert place.status()["phase"] == "Running"
        [device] = place.store.get(RESOURCE_CLAIMS, "d", "g")["status"]["devices"]
        [ready] = device["conditions"]
        assert (device["device"], ready["type"], ready["status"]) == ("gpu-3", "Ready", "True")

    live(story)
