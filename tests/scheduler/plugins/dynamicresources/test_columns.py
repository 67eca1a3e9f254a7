"""Columns against a plain counterpart: every node searched on its own, from slices as they are, nothing kept.

The counterpart gathers the pools of a node anew and runs the search that recordings of kube-scheduler check.
"""

import random
from typing import Any

import pytest

from releases import EACH
from stowplan.api.decode import convert
from stowplan.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import PodResourceClaim
from stowplan.api.releases import DEFAULT, Release
from stowplan.api.requests import Json
from stowplan.config import build, default_config
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.plugins.dynamicresources import DynamicResources, verdicts
from stowplan.scheduler.plugins.dynamicresources.allocation.allocator import Allocator, InvalidPoolsError
from stowplan.scheduler.plugins.dynamicresources.allocation.choice import AllocationError
from stowplan.scheduler.plugins.dynamicresources.allocation.pools import gather_pools
from stowplan.scheduler.plugins.dynamicresources.allocation.selectors import Selectors
from stowplan.scheduler.plugins.dynamicresources.columns import simple_claim
from stowplan.scheduler.plugins.dynamicresources.features import Features, features_of
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import node, pod

DRIVER = "d.example.com"
NODES = tuple(f"n{number}" for number in range(6))


def device(rng: random.Random, number: int, *, counts: bool) -> Json:
    made: Json = {"name": f"g{number}", "attributes": {"model": {"string": rng.choice("ab")}}}
    if rng.random() < 0.9:
        made["attributes"]["numa"] = {"int": rng.randrange(2)}
    if rng.random() < 0.1:
        made["taints"] = [{"key": "broken", "effect": rng.choice(["NoSchedule", "NoExecute", "None"])}]
    if rng.random() < 0.1:
        made["capacity"] = {"memory": {"value": rng.choice(["4Gi", "8Gi"])}}
        made["allowMultipleAllocations"] = rng.random() < 0.5
    if counts and rng.random() < 0.7:
        drawn = {"engines": {"value": str(rng.randint(1, 3))}}
        made["consumesCounters"] = [{"counterSet": "card", "counters": drawn}]
    return made


def slices_of(rng: random.Random, name: str, where: Json, generation: int) -> list[ResourceSlice]:
    """A pool; it may have counters, be incomplete, or be invalid."""
    counts = rng.random() < 0.3
    devices = [device(rng, number, counts=counts) for number in range(rng.randint(1, 5))]
    if rng.random() < 0.05:
        devices[-1]["name"] = devices[0]["name"]
    slices = 1 + counts + (rng.random() < 0.05)
    pool = {"name": name, "generation": generation, "resourceSliceCount": slices}
    specs: list[Json] = [{"driver": DRIVER, "pool": pool, "devices": devices, **where}]
    if counts:
        counters = [{"name": "card", "counters": {"engines": {"value": "4"}}}]
        specs.append({"driver": DRIVER, "pool": pool, "sharedCounters": counters, **where})
    return [
        convert({"metadata": {"name": f"{name}-{place}"}, "spec": spec}, ResourceSlice)
        for place, spec in enumerate(specs)
    ]


def wish(rng: random.Random) -> Json:
    asked: Json = {
        "deviceClassName": "any",
        "allocationMode": "ExactCount",
        "count": rng.choice([1, 1, 2, 3]),
    }
    if rng.random() < 0.5:
        expressions = [
            f'device.attributes["{DRIVER}"].model == "a"',
            f'device.attributes["{DRIVER}"].numa == 1',
        ]
        asked["selectors"] = [{"cel": {"expression": rng.choice(expressions)}}]
    if rng.random() < 0.2:
        asked["tolerations"] = [{"operator": "Exists"}]
    if rng.random() < 0.2:
        asked["capacity"] = {"requests": {"memory": "4Gi"}}
    devices: Json = {"requests": [{"name": "r", "exactly": asked}]}
    if rng.random() < 0.4:
        devices["constraints"] = [{"matchAttribute": f"{DRIVER}/numa"}]
    return devices


class Cluster:
    """Nodes with pools of all kinds, and claims for them."""

    def __init__(self, rng: random.Random, release: Release = DEFAULT) -> None:
        self.rng = rng
        self.gates = FeatureGates(release=release)
        self.table = ClusterTable(release)
        self.table.put(convert({"metadata": {"name": "any"}, "spec": {}}, DeviceClass))
        for number, name in enumerate(NODES):
            labels = {"half": str(number % 2)}
            self.table.put_node(
                node(name).capacity(cpu="100", memory="100Gi", pods="110").labels(**labels).obj()
            )
        self.generation = 0
        for name in NODES:
            self.publish(name)
        if rng.random() < 0.3:
            self.publish("shared")
        profile = build(default_config(self.gates)).profiles[0]
        self.framework = Framework(profile, self.table, in_tree_registry(), self.gates)
        self.lifecycle = Lifecycle(self.framework)

    def publish(self, pool: str) -> None:
        """Another generation of a pool."""
        self.generation += 1
        half = {"key": "half", "operator": "In", "values": ["0"]}
        anywhere: list[Json] = [
            {"allNodes": True},
            {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [half]}]}},
        ]
        where = self.rng.choice(anywhere) if pool == "shared" else {"nodeName": pool}
        for view in list(self.table.devices.slices.of_pool((DRIVER, pool))):
            self.table.discard(view.slice)
        for one in slices_of(self.rng, pool, where, self.generation):
            self.table.put(one)

    def claim(self, name: str, devices: Json) -> ResourceClaim:
        metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
        made = convert({"metadata": metadata, "spec": {"devices": devices}}, ResourceClaim)
        self.table.put(made)
        return made

    def info(self, name: str) -> Any:
        asked = PodResourceClaim(name="c", resource_claim_name=name)
        return self.table.info(pod(f"p-{name}").spec(resource_claims=(asked,)).obj())

    def searched(self, claim: ResourceClaim) -> dict[str, str] | str:
        """By node what a search says; or the error that ends the attempt."""
        devices, features = self.table.devices, features_of(self.gates)
        found: dict[str, str] = {}
        for row, name in enumerate(NODES):
            where = self.table.nodes[row]
            assert where is not None
            allocator = Allocator(features, devices.claims.allocated, devices.classes, Selectors(features))
            try:
                pools = gather_pools(devices.slices, where, features)
                answer = allocator.allocate(where, pools, [claim])
            except InvalidPoolsError:
                found[name] = "invalid resource pools were encountered"
            except AllocationError as cause:
                return str(cause)
            else:
                found[name] = "" if answer is not None else "cannot allocate all claims"
        return found

    def compared(self, name: str) -> dict[str, str] | str:
        """The same as the scheduler has it, and what it evaluated."""
        try:
            self.evaluation = self.framework.evaluate(self.info(name))
        except PluginError as cause:
            return str(cause)
        found = dict.fromkeys(NODES, "")
        for status, rows in self.evaluation.rejections().items():
            for row in rows.tolist():
                found[self.table.name_of(row)] = status.message
        return found


@pytest.mark.parametrize("few", [0, 64], ids=["all at once", "row by row"])
@pytest.mark.parametrize("seed", range(25))
def test_columns_say_what_searches_of_every_node_say(
    seed: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "_FEW", few)
    rng = random.Random(seed)
    cluster = Cluster(rng, EACH[seed % 2])
    wishes = [wish(rng) for _ in range(3)]
    holding: list[str] = []
    for number in range(15):
        name = f"c{number}"
        claim = cluster.claim(name, rng.choice(wishes))
        wanted, found = cluster.searched(claim), cluster.compared(name)
        if isinstance(wanted, str):
            assert wanted in str(found)
            continue
        assert found == wanted
        rows = cluster.evaluation.feasible_rows.tolist()
        if rows:
            chosen = cluster.table.name_of(rng.choice(rows))
            info = cluster.info(name)
            assert cluster.lifecycle.reserve(cluster.evaluation.cycle, info, chosen).is_success
            holding.append(name)
        if holding and rng.random() < 0.3:
            cluster.table.devices.claims.remove_pending(holding.pop(rng.randrange(len(holding))))
        if rng.random() < 0.3:
            cluster.publish(rng.choice((*NODES, "shared")))


def test_simple_claims_are_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    search = Allocator.search

    def counting(self: Allocator, node: Any, *args: Any) -> Any:
        searched.append(node.name)
        return search(self, node, *args)

    monkeypatch.setattr(Allocator, "search", counting)
    cluster = Cluster(random.Random(0))
    for name in NODES:
        spec: Json = {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 100, "resourceSliceCount": 1},
            "devices": [{"name": f"g{number}"} for number in range(3)],
        }
        for view in list(cluster.table.devices.slices.of_pool((DRIVER, name))):
            cluster.table.discard(view.slice)
        cluster.table.put(convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice))
    for number in range(4):
        exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 2}
        name = f"c{number}"
        claim = cluster.claim(name, {"requests": [{"name": "r", "exactly": exactly}]})
        assert simple_claim([claim], cluster.table.devices.classes, Features()) is not None
        cluster.compared(name)
        chosen = cluster.table.name_of(cluster.evaluation.feasible_rows.tolist()[0])
        assert cluster.lifecycle.reserve(cluster.evaluation.cycle, cluster.info(name), chosen).is_success
        assert searched.pop() == chosen
    assert not searched
    assert isinstance(cluster.framework.plugins["DynamicResources"], DynamicResources)
