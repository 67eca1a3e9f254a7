"""Pods with claims and a scheduler over HTTPS: what is written in which order and form, and what is left when
the network breaks, delays and repeats requests."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from client.http.networks import make_impatient, new_store, scheduling_through
from stowplan.api.catalogue import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from stowplan.api.requests import Json
from stowplan.localcluster.store import Store
from stowplan.scheduler import Scheduler
from stowplan.testing.proxy import MisbehavingProxy, WireFaults
from waiting import eventually

DRIVER = "gpu.example.com"
GPU = "example.com/gpu"
FINALIZER = "resource.kubernetes.io/delete-protection"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    make_impatient(monkeypatch)


class Listener(MisbehavingProxy):
    """Notes what is written: method, path, content type and body."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.writes: list[tuple[str, str, str, Json]] = []

    async def _pass_on(self, request: Any, client: Any, server: Any) -> None:
        first, *headers = request.head.decode().split("\r\n")
        method, path, _ = first.split(" ")
        kinds = [
            line.partition(":")[2].strip() for line in headers if line.lower().startswith("content-type")
        ]
        if method != "GET" and ("resourceclaims" in path or "/pods/" in path):
            self.writes.append(
                (method, path, *kinds, msgspec.json.decode(request.body) if request.body else {})
            )
        await super()._pass_on(request, client, server)


class World:
    def __init__(self, store: Store, proxy: Listener, scheduler: Scheduler) -> None:
        self.store = store
        self.proxy = proxy
        self.scheduler = scheduler

    def add_pod(self, name: str, claim: str = "", gpus: int = 0) -> None:
        amounts = {"cpu": "100m", **({GPU: str(gpus)} if gpus else {})}
        resources: Json = {"requests": amounts, "limits": {GPU: str(gpus)} if gpus else {}}
        spec: Json = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
        if claim:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
        self.store.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    def add_claim(self, name: str) -> None:
        asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
        spec = {"devices": {"requests": [{"name": "r", "exactly": asked}]}}
        metadata = {"name": name, "namespace": "default"}
        self.store.create(RESOURCE_CLAIMS, {"metadata": metadata, "spec": spec})

    def is_bound(self, name: str) -> bool:
        return bool(self.store.get(PODS, "default", name)["spec"].get("nodeName"))

    def allocations(self) -> list[tuple[Json, str]]:
        """Claims and their devices."""
        return [
            (claim, f"{result['pool']}/{result['device']}")
            for claim in self.store.list(RESOURCE_CLAIMS).items
            for result in (claim.get("status", {}).get("allocation") or {})
            .get("devices", {})
            .get("results", [])
        ]

    def is_quiet(self) -> bool:
        claims = self.scheduler.context.cache.table.devices.claims
        return not claims.in_flight() and not claims.assumed()


@asynccontextmanager
async def world(folder: Path, nodes: int, trouble: WireFaults, seed: int = 1) -> AsyncIterator[World]:
    store = new_store(seed)
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    spec = {"selectors": selectors, "extendedResourceName": GPU}
    store.create(DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": spec})
    for number in range(nodes):
        name, amounts = f"n{number}", {"cpu": "8", "memory": "32Gi", "pods": "40"}
        store.create(
            NODES, {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}
        )
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{device}"} for device in range(4)]
        slice_spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        store.create(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": slice_spec})
    async with scheduling_through(Listener, store, folder, trouble, seed) as (proxy, scheduler):
        yield World(store, proxy, scheduler)


CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
POD = "/api/v1/namespaces/default/pods/p"
PATCHED = "application/strategic-merge-patch+json"


def test_a_claim_is_protected_then_allocated_and_reserved_before_its_pod_is_bound(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path, 1, WireFaults()) as here:
            here.add_claim("c")
            here.add_pod("p", claim="c")
            await eventually(lambda: here.is_bound("p"))
            nominated, protected, reserved, bound = here.proxy.writes
            assert nominated[:3] == ("PATCH", f"{POD}/status", PATCHED)
            assert protected[:2] == ("PUT", f"{CLAIMS}/c")
            assert protected[3]["metadata"]["finalizers"] == [FINALIZER]
            assert reserved[:2] == ("PUT", f"{CLAIMS}/c/status")
            uid = here.store.get(PODS, "default", "p")["metadata"]["uid"]
            status = reserved[3]["status"]
            assert status["reservedFor"] == [{"resource": "pods", "name": "p", "uid": uid}]
            result = {"request": "r", "driver": DRIVER, "pool": "n0", "device": "gpu-0"}
            assert status["allocation"]["devices"] == {"results": [result]}
            only = {"key": "metadata.name", "operator": "In", "values": ["n0"]}
            assert status["allocation"]["nodeSelector"] == {"nodeSelectorTerms": [{"matchFields": [only]}]}
            assert status["allocation"]["allocationTimestamp"]
            assert bound[:2] == ("POST", f"{POD}/binding")

    asyncio.run(run())


def test_a_claim_for_extended_resources_is_made_allocated_and_named_in_the_pod(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path, 1, WireFaults()) as here:
            here.add_pod("p", gpus=2)
            await eventually(lambda: here.is_bound("p"))
            uid = here.store.get(PODS, "default", "p")["metadata"]["uid"]
            _, made, protected, reserved, named, bound = here.proxy.writes
            assert made[:2] == ("POST", CLAIMS)
            metadata = made[3]["metadata"]
            assert metadata["generateName"] == "p-extended-resources-"
            assert "name" not in metadata
            assert metadata["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
            owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
            assert metadata["ownerReferences"] == [owner]
            [claim] = here.store.list(RESOURCE_CLAIMS).items
            name = claim["metadata"]["name"]
            assert [one[:2] for one in (protected, reserved, named, bound)] == [
                ("PUT", f"{CLAIMS}/{name}"),
                ("PUT", f"{CLAIMS}/{name}/status"),
                ("PATCH", f"{POD}/status"),
                ("POST", f"{POD}/binding"),
            ]
            assert len(reserved[3]["status"]["allocation"]["devices"]["results"]) == 2
            assert named[3]["metadata"]["uid"] == uid
            assert named[3]["status"]["extendedResourceClaimStatus"]["resourceClaimName"] == name

    asyncio.run(run())


@pytest.mark.parametrize("seed", [1, 2])
def test_no_device_is_given_twice_and_nothing_is_left_behind_when_the_faults_are_over(
    tmp_path: Path, seed: int
) -> None:
    trouble = WireFaults(reset=0.05, lost=0.08, busy=0.03, broken=0.03, cut=0.04, slow=0.1, delay=0.05)

    async def run() -> None:
        async with world(tmp_path, 4, trouble, seed) as here:
            twice: list[Counter[str]] = []

            def check(_: Any) -> None:
                held = Counter(device for _, device in here.allocations())
                if max(held.values(), default=0) > 1:
                    twice.append(held)

            watcher = here.store.watch(RESOURCE_CLAIMS, check)
            names = [f"p{number}" for number in range(12)]
            for number, name in enumerate(names):
                if number % 3:
                    here.add_claim(name)
                here.add_pod(name, claim=name if number % 3 else "", gpus=0 if number % 3 else 1)
                await asyncio.sleep(0.03)
            await eventually(lambda: sum(map(here.is_bound, names)) >= 6)
            trouble.stop()
            await eventually(lambda: all(map(here.is_bound, names)) and here.is_quiet())
            watcher.close()
            assert not twice
            by_pod = Counter(
                one["name"]
                for claim in here.store.list(RESOURCE_CLAIMS).items
                for one in claim.get("status", {}).get("reservedFor", [])
            )
            assert by_pod == Counter(names)
            assert len({device for _, device in here.allocations()}) == len(names)

    asyncio.run(run())
