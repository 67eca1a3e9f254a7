"""Random devices and claims for comparisons: few names and few kinds, so that claims meet each other."""

from collections.abc import Iterator
from random import Random
from typing import Final

from msgspec import to_builtins
from msgspec.structs import replace

from stowplan.api.decode import convert
from stowplan.api.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from stowplan.api.releases import Release
from stowplan.lab.fuzz.slow_allocator import Json
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import node

DRIVER: Final = "d.example.com"
NODES: Final = ("n0", "n1", "n2", "n3")
POOLS: Final = (*NODES, "fabric")
TAINT: Final = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
POLICIES: Final[tuple[Json, ...]] = (
    {"default": "10Gi", "validValues": ["5Gi", "10Gi", "40Gi"]},
    {"default": "15Gi", "validRange": {"min": "5Gi", "max": "25Gi", "step": "10Gi"}},
    {"default": "4Gi", "validRange": {"min": "4Gi"}},
)


class DeviceWorld:
    """Slices and claims as plain data, and the same in a table."""

    def __init__(self, rng: Random, release: Release) -> None:
        self.rng = rng
        self.slices: dict[str, Json] = {}
        self.results: dict[str, list[Json]] = {}
        self._generation = 0
        self._claims = 0
        self.table = ClusterTable(release)
        self.fill(self.table)
        for pool in POOLS:
            self.publish(pool)

    def fill(self, table: ClusterTable) -> None:
        table.put(convert({"metadata": {"name": "any"}, "spec": {}}, DeviceClass))
        for name in NODES:
            table.put_node(node(name).capacity(cpu="100", memory="100Gi", pods="110").obj())

    def change(self) -> None:
        """Something that happens to devices: none, one or several of these."""
        rng = self.rng
        if self.results and rng.random() < 0.3:
            self.give_up()
        if rng.random() < 0.3:
            self.publish(rng.choice(POOLS))
        if rng.random() < 0.2 and self.slices:
            self.taint()
        if rng.random() < 0.1:
            self.withdraw(rng.choice(POOLS))

    # Slices

    def publish(self, pool: str) -> None:
        """A new generation of a pool: whole devices, shares, or parts of a card; sometimes incomplete."""
        rng = self.rng
        self.withdraw(pool)
        self._generation += 1
        kind = rng.choice(("whole", "whole", "shared", "parts"))
        devices = [self._device(number, kind) for number in range(rng.randint(1, 4 if pool in NODES else 2))]
        where: Json = {"nodeName": pool} if pool in NODES else {"allNodes": True}
        bodies: list[Json] = [{"devices": devices}]
        if kind == "parts":
            counters = {"memory": {"value": rng.choice(("20Gi", "30Gi"))}}
            bodies.append({"sharedCounters": [{"name": "card", "counters": counters}]})
        count = len(bodies) + (rng.random() < 0.05)
        for number, body in enumerate(bodies):
            named = {"name": pool, "generation": self._generation, "resourceSliceCount": count}
            self._put({"spec": {"driver": DRIVER, "pool": named, **where, **body}}, f"{pool}-{number}")

    def _put(self, body: Json, name: str) -> None:
        self.slices[name] = {"metadata": {"name": name}, **body}
        self.table.put(convert(self.slices[name], ResourceSlice))

    def withdraw(self, pool: str) -> None:
        for name in [name for name in self.slices if name.startswith(f"{pool}-")]:
            self.table.discard(convert(self.slices.pop(name), ResourceSlice))

    def taint(self) -> None:
        """Taint the devices of a slice, or take the taints away."""
        name = self.rng.choice(sorted(self.slices))
        spec = self.slices[name]["spec"]
        devices = [
            {**device, "taints": [] if device.get("taints") else [TAINT]}
            for device in spec.get("devices") or ()
        ]
        if devices:
            self._put({"spec": {**spec, "devices": devices}}, name)

    def _device(self, number: int, kind: str) -> Json:
        rng = self.rng
        attributes = {"model": {"string": rng.choice("ab")}, "numa": {"int": rng.randrange(3)}}
        if rng.random() < 0.1:
            del attributes["numa"]
        device: Json = {"name": f"g{number}", "attributes": attributes}
        if kind == "shared":
            memory: Json = {"value": "40Gi"}
            if rng.random() < 0.5:
                memory["requestPolicy"] = rng.choice(POLICIES)
            device |= {"allowMultipleAllocations": True, "capacity": {"memory": memory}}
        elif rng.random() < 0.3:
            device["capacity"] = {"memory": {"value": rng.choice(("10Gi", "40Gi"))}}
        if kind == "parts":
            drawn = {"memory": {"value": rng.choice(("10Gi", "20Gi"))}}
            device["consumesCounters"] = [{"counterSet": "card", "counters": drawn}]
        if rng.random() < 0.15:
            device["taints"] = [TAINT]
        return device

    @property
    def has_incomplete_pool(self) -> bool:
        """True if a pool lacks a slice: then requesting all devices is an error."""
        counts: dict[str, list[int]] = {}
        for one in self.slices.values():
            pool = one["spec"]["pool"]
            counts.setdefault(pool["name"], []).append(pool["resourceSliceCount"])
        return any(len(found) != found[0] for found in counts.values())

    # Claims

    def spec(self) -> Json:
        rng = self.rng
        requests = [self._request(f"r{number}") for number in range(rng.choice((1, 1, 2)))]
        devices: Json = {"requests": requests}
        if rng.random() < 0.4:
            kind = rng.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
            constraint: Json = {kind: f"{DRIVER}/{rng.choice(('numa', 'model'))}"}
            if rng.random() < 0.2:
                constraint["requests"] = [rng.choice(requests)["name"]]
            devices["constraints"] = [constraint]
        return {"devices": devices}

    def _request(self, name: str) -> Json:
        rng = self.rng
        if rng.random() < 0.25:
            return {"name": name, "firstAvailable": [{"name": f"s{n}", **self._asked()} for n in range(2)]}
        asked = self._asked()
        if rng.random() < 0.1:
            asked["adminAccess"] = True
        return {"name": name, "exactly": asked}

    def _asked(self) -> Json:
        rng = self.rng
        count = rng.choice((1, 1, 1, 2, 3))
        asked: Json = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": count}
        if rng.random() < 0.15:
            asked |= {"allocationMode": "All", "count": 0}
        if rng.random() < 0.5:
            expression = f'device.attributes["{DRIVER}"].model == "{rng.choice("ab")}"'
            asked["selectors"] = [{"cel": {"expression": expression}}]
        if rng.random() < 0.4:
            asked["capacity"] = {"requests": {"memory": rng.choice(("3Gi", "10Gi", "20Gi", "26Gi"))}}
        if rng.random() < 0.3:
            asked["tolerations"] = [{"key": "broken", "operator": "Exists"}]
        return asked

    def new_claim(self, spec: Json) -> ResourceClaim:
        """A new claim, known to the table."""
        self._claims += 1
        metadata = {"name": f"c{self._claims}", "namespace": "default", "uid": f"c{self._claims}"}
        claim = convert({"metadata": metadata, "spec": spec}, ResourceClaim)
        self.table.put(claim)
        return claim

    def give(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        allocated = replace(claim, status=replace(claim.status, allocation=allocation))
        self.table.put(allocated)
        self.results[claim.key] = to_builtins(allocation.devices.results)

    def give_up(self) -> None:
        key = self.rng.choice(sorted(self.results))
        del self.results[key]
        held = self.table.devices.claims.get(key)
        assert held is not None
        self.table.discard(held)

    def rebuilt(self, release: Release) -> ClusterTable:
        """The same in a table made anew."""
        table = ClusterTable(release)
        self.fill(table)
        for one in self.slices.values():
            table.put(convert(one, ResourceSlice))
        for claim in self.table.devices.claims.all():
            table.put(claim)
        return table


def options(spec: Json) -> Iterator[Json]:
    """Requests of a claim, alternatives one by one."""
    for request in spec["devices"]["requests"]:
        yield from [request["exactly"]] if "exactly" in request else request["firstAvailable"]
