"""Every kind of claim against the slow allocator, and against a scheduler that keeps nothing from before.

That one is of the other release, wherever releases do not differ.

Slices are replaced and removed, devices tainted, claims allocated and given up in between. On every node the
same devices must be found for the same requests.
"""

import random
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from devices.slow_allocator import Json, SlowAllocator
from effort import examples
from releases import EACH
from stowplan.api.decode import convert
from stowplan.api.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from stowplan.api.feature_gates import FeatureGates
from stowplan.api.pod import PodResourceClaim
from stowplan.cluster.table import ClusterTable
from stowplan.config import build, default_config
from stowplan.framework.runtime import Framework
from stowplan.plugins.dynamicresources import DynamicResources
from stowplan.plugins.registry import in_tree_registry
from stowplan.releases import Release
from stowplan.testing import node, pod

DRIVER = "d.example.com"
NODES = ("n0", "n1", "n2", "n3")
TAINT = {"key": "broken", "value": "yes", "effect": "NoSchedule"}


class DeviceWorld:
    """Slices and claims as plain data, and the same in a table."""

    def __init__(self, rng: random.Random, release: Release) -> None:
        self.rng = rng
        self.slices: dict[str, Json] = {}
        self.results: dict[str, list[Json]] = {}
        self._generation = 0
        self._claims = 0
        self.table = ClusterTable(release)
        self.fill(self.table)
        for pool in (*NODES, "fabric"):
            self.publish(pool)

    def fill(self, table: ClusterTable) -> None:
        table.put(convert({"metadata": {"name": "any"}, "spec": {}}, DeviceClass))
        for name in NODES:
            table.put_node(node(name).capacity(cpu="100", memory="100Gi", pods="110").obj())

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
        attributes = {"model": {"string": rng.choice("ab")}, "numa": {"int": rng.randrange(2)}}
        if rng.random() < 0.1:
            del attributes["numa"]
        device: Json = {"name": f"g{number}", "attributes": attributes}
        if kind == "shared":
            device |= {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "40Gi"}}}
        elif rng.random() < 0.3:
            device["capacity"] = {"memory": {"value": rng.choice(("10Gi", "40Gi"))}}
        if kind == "parts":
            drawn = {"memory": {"value": rng.choice(("10Gi", "20Gi"))}}
            device["consumesCounters"] = [{"counterSet": "card", "counters": drawn}]
        if rng.random() < 0.15:
            device["taints"] = [TAINT]
        return device

    # Claims

    def spec(self) -> Json:
        rng = self.rng
        requests = [self._request(f"r{number}") for number in range(rng.choice((1, 1, 2)))]
        devices: Json = {"requests": requests}
        every = [one for request in requests for one in _options(request)]
        if rng.random() < 0.4 and all(one["allocationMode"] != "All" for one in every):
            kind = rng.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
            if kind == "matchAttribute" or all(one["count"] == 1 for one in every):
                devices["constraints"] = [{kind: f"{DRIVER}/{rng.choice(('numa', 'model'))}"}]
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
        asked: Json = {
            "deviceClassName": "any",
            "allocationMode": "ExactCount",
            "count": rng.choice((1, 1, 2)),
        }
        if rng.random() < 0.15:
            asked |= {"allocationMode": "All", "count": 0}
        if rng.random() < 0.5:
            expression = f'device.attributes["{DRIVER}"].model == "{rng.choice("ab")}"'
            asked["selectors"] = [{"cel": {"expression": expression}}]
        if rng.random() < 0.4:
            asked["capacity"] = {"requests": {"memory": rng.choice(("10Gi", "20Gi"))}}
        if rng.random() < 0.3:
            asked["tolerations"] = [{"key": "broken", "operator": "Exists"}]
        return asked

    def new_claim(self, spec: Json) -> ResourceClaim:
        self._claims += 1
        metadata = {"name": f"c{self._claims}", "namespace": "default", "uid": f"c{self._claims}"}
        return convert({"metadata": metadata, "spec": spec}, ResourceClaim)

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
        table = ClusterTable(release)
        self.fill(table)
        for one in self.slices.values():
            table.put(convert(one, ResourceSlice))
        for claim in self.table.devices.claims.all():
            table.put(claim)
        return table


def _options(request: Json) -> list[Json]:
    found: list[Json] = [request["exactly"]] if "exactly" in request else request["firstAvailable"]
    return found


def framework_of(table: ClusterTable) -> Framework:
    gates = FeatureGates(release=table.release)
    [profile] = build(default_config(gates)).profiles
    return Framework(profile, table, in_tree_registry(), gates)


def found_on_nodes(framework: Framework, claim: ResourceClaim) -> dict[str, AllocationResult]:
    """By node that takes a pod with the claim, what the claim would get there."""
    entry = PodResourceClaim(name="c", resource_claim_name=claim.name)
    info = framework.table.info(pod(f"p-{claim.name}").spec(resource_claims=(entry,)).obj())
    evaluation = framework.evaluate(info)
    plugin = framework.plugins["DynamicResources"]
    assert isinstance(plugin, DynamicResources)
    state: Any = evaluation.cycle.read(plugin)
    found = {}
    for row in evaluation.feasible_rows.tolist():
        name = framework.table.name_of(row)
        [(_, found[name])] = plugin.allocations(state, name)
    return found


def shown(allocations: dict[str, AllocationResult]) -> dict[str, list[tuple[str, str, str]]]:
    return {
        name: [(one.request, one.pool, one.device) for one in allocation.devices.results]
        for name, allocation in allocations.items()
    }


@pytest.mark.parametrize("seed", range(examples(30)))
def test_the_same_devices_are_found_as_by_trying_all_choices(seed: int) -> None:
    rng = random.Random(f"slow {seed}")
    release, other = EACH[seed % 2], EACH[1 - seed % 2]
    world = DeviceWorld(rng, release)
    keeping = framework_of(world.table)
    kinds = [world.spec() for _ in range(4)]
    for _ in range(10):
        spec = rng.choice(kinds)
        claim = world.new_claim(spec)
        world.table.put(claim)
        every = list(world.slices.values())
        takes_all = any(one["allocationMode"] == "All" for one in _all_options(spec))
        if takes_all and _is_incomplete(every):
            continue
        held = [one for results in world.results.values() for one in results]
        slow = SlowAllocator(every, held, all_without_full=release.name == "1.36")
        expected = {name: first for name in NODES if (first := slow.allocate(spec, name)) is not None}
        found = found_on_nodes(keeping, claim)
        assert shown(found) == expected, spec
        fresh = framework_of(world.rebuilt(release if takes_all else other))
        assert shown(found_on_nodes(fresh, claim)) == expected
        if found:
            world.give(claim, found[rng.choice(sorted(found))])
        if world.results and rng.random() < 0.3:
            world.give_up()
        if rng.random() < 0.3:
            world.publish(rng.choice((*NODES, "fabric")))
        if rng.random() < 0.2 and world.slices:
            world.taint()
        if rng.random() < 0.1:
            world.withdraw(rng.choice((*NODES, "fabric")))


def _all_options(spec: Json) -> list[Json]:
    return [one for request in spec["devices"]["requests"] for one in _options(request)]


def _is_incomplete(slices: list[Json]) -> bool:
    """Whether a pool lacks a slice: then asking for all devices is an error."""
    counts: dict[str, list[int]] = {}
    for one in slices:
        pool = one["spec"]["pool"]
        counts.setdefault(pool["name"], []).append(pool["resourceSliceCount"])
    return any(len(found) != found[0] for found in counts.values())
