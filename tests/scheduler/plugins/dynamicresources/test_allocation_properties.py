"""Allocation against slow counterparts: an exhaustive search, and a scheduler that keeps nothing."""

import random
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from msgspec.structs import replace

from stowplan.api.decode import convert
from stowplan.api.devices import DeviceClass, DeviceConstraint, DeviceTaintRule, ResourceClaim, ResourceSlice
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import PodResourceClaim
from stowplan.api.releases import DEFAULT, Release
from stowplan.api.requests import Json
from stowplan.config import build, default_config
from stowplan.gocompat.durations import Duration
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.plugins.dynamicresources import DynamicResources
from stowplan.scheduler.plugins.dynamicresources.allocation.constraints import constraints_of, look_up
from stowplan.scheduler.plugins.dynamicresources.features import Features
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.devices import SliceView
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import node, pod

DRIVER = "d.example.com"
NODES = ("n0", "n1", "n2", "n3")


def device(rng: random.Random, number: int) -> Json:
    attributes = {"model": {"string": rng.choice("ab")}, "numa": {"int": rng.randrange(2)}}
    return {"name": f"g{number}", "attributes": attributes}


def slice_of(rng: random.Random, pool: str, where: Json, generation: int = 1) -> ResourceSlice:
    spec: Json = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
        "devices": [device(rng, number) for number in range(rng.randint(1, 4))],
        **where,
    }
    return convert({"metadata": {"name": pool, "resourceVersion": "1"}, "spec": spec}, ResourceSlice)


def claim(rng: random.Random, name: str) -> ResourceClaim:
    requests = []
    for number in range(rng.randint(1, 2)):
        asked: Json = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": rng.randint(1, 2)}
        if rng.random() < 0.5:
            model = rng.choice("ab")
            expression = f'device.attributes["{DRIVER}"].model == "{model}"'
            asked["selectors"] = [{"cel": {"expression": expression}}]
        requests.append({"name": f"r{number}", "exactly": asked})
    devices: Json = {"requests": requests}
    if rng.random() < 0.5:
        devices["constraints"] = [{"matchAttribute": f"{DRIVER}/numa"}]
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
    return convert({"metadata": metadata, "spec": {"devices": devices}}, ResourceClaim)


def cluster_with_devices(rng: random.Random, release: Release = DEFAULT) -> ClusterTable:
    table = ClusterTable(release)
    table.put(convert({"metadata": {"name": "any"}, "spec": {}}, DeviceClass))
    for name in NODES:
        table.put_node(node(name).capacity(cpu="100", memory="100Gi", pods="110").obj())
        table.put(slice_of(rng, name, {"nodeName": name}))
    if rng.random() < 0.5:
        table.put(slice_of(rng, "shared", {"allNodes": True}))
    return table


def framework_of(table: ClusterTable, **changed: bool) -> Framework:
    gates = FeatureGates(changed, table.release)
    return Framework(build(default_config(gates)).profiles[0], table, in_tree_registry(), gates)


def asking(table: ClusterTable, name: str) -> Any:
    return table.info(
        pod(f"p-{name}").spec(resource_claims=(PodResourceClaim(name="c", resource_claim_name=name),)).obj()
    )


def is_possible(table: ClusterTable, asked: ResourceClaim, name: str) -> bool:
    """True if any choice of free devices meets a claim on a node, tried one after the other."""
    taken = table.devices.claims.allocated.devices
    free = [
        ref for view in table.devices.slices.for_node(name) for ref in view.devices if ref.id not in taken
    ]
    wanted = asked.spec.devices
    exact = [request.exactly for request in wanted.requests if request.exactly is not None]

    def choices(place: int, used: frozenset[int]) -> Iterator[frozenset[int]]:
        if place == len(exact):
            yield used
            return
        for chosen in combinations([i for i in range(len(free)) if i not in used], exact[place].count):
            expressions = [one.cel.expression for one in exact[place].selectors if one.cel is not None]
            models = {free[i].device.attributes["model"].string_value for i in chosen}
            if all(models == {expression[-2]} for expression in expressions):
                yield from choices(place + 1, used | set(chosen))

    return any(
        not wanted.constraints or len({free[i].device.attributes["numa"].int_value for i in used}) == 1
        for used in choices(0, frozenset())
    )


@pytest.mark.parametrize("seed", range(40))
def test_devices_are_found_exactly_where_there_are_some_whatever_was_kept(seed: int) -> None:
    rng = random.Random(seed)
    table = cluster_with_devices(rng)
    keeping = framework_of(table)
    lifecycle = Lifecycle(keeping)
    kinds = [claim(rng, "kind") for _ in range(3)]
    holding: list[str] = []
    for number in range(12):
        asked = rng.choice(kinds)
        name = f"c{number}"
        metadata = convert({"metadata": {"name": name, "namespace": "default", "uid": name}}, ResourceClaim)
        table.put(ResourceClaim(metadata=metadata.metadata, spec=asked.spec))
        info = asking(table, name)
        kept, fresh = keeping.evaluate(info), framework_of(table).evaluate(info)
        rows = kept.feasible_rows.tolist()
        assert rows == fresh.feasible_rows.tolist()
        assert {table.name_of(row) for row in rows} == {
            one for one in NODES if is_possible(table, asked, one)
        }
        if rows:
            chosen = table.name_of(rng.choice(rows))
            assert lifecycle.reserve(kept.cycle, info, chosen).is_success
            holding.append(name)
            assert all(count == 1 for count in table.devices.claims.allocated.devices.values())
        if holding and rng.random() < 0.3:
            table.devices.claims.remove_pending(holding.pop(rng.randrange(len(holding))))
        if rng.random() < 0.2:
            where = rng.choice(NODES)
            table.put(slice_of(rng, where, {"nodeName": where}, generation=number + 2))


def test_a_taint_rule_keeps_devices_from_pods_that_do_not_tolerate_it(each_release: Release) -> None:
    table = cluster_with_devices(random.Random(1), each_release)
    table.put(claim(random.Random(0), "c"))
    framework, info = framework_of(table, DRADeviceTaintRules=True), asking(table, "c")
    before = framework.evaluate(info).feasible_count
    taint = {"key": "broken", "effect": "NoSchedule"}
    spec = {"deviceSelector": {"driver": DRIVER}, "taint": taint}
    rule = convert({"metadata": {"name": "rule"}, "spec": spec}, DeviceTaintRule)
    table.put(rule)
    assert (bool(before), framework.evaluate(info).feasible_count) == (True, 0)
    without_gate = framework_of(table, DRADeviceTaintRules=False)
    assert without_gate.evaluate(info).feasible_count == before
    framework = framework_of(table)
    honoured = each_release.gates["DRADeviceTaintRules"].default
    assert framework.evaluate(info).feasible_count == (0 if honoured else before)
    table.discard(rule)
    assert framework.evaluate(info).feasible_count == before


def test_lists_match_where_they_have_a_value_in_common() -> None:
    numas = {"g0": [0, 1], "g1": [1, 2], "g2": [0, 2]}
    spec: Json = {
        "driver": DRIVER,
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": name, "attributes": {"numa": {"ints": ints}}} for name, ints in numas.items()],
        "allNodes": True,
    }
    g0, g1, g2 = SliceView(convert({"spec": spec}, ResourceSlice), {}).devices
    constraint_of = constraints_of(Features(list_attributes=True))
    match = constraint_of(DeviceConstraint(match_attribute=f"{DRIVER}/numa"))
    assert match is not None
    assert [match.add("r", "", ref, look_up) for ref in (g0, g1, g2)] == [True, True, False]
    match.remove("r", "")
    assert match.add("r", "", g2, look_up)
    distinct = constraint_of(DeviceConstraint(distinct_attribute=f"{DRIVER}/numa"))
    assert distinct is not None
    assert [distinct.add(name, "", ref, look_up) for name, ref in (("r", g0), ("s", g1))] == [True, False]


def test_a_search_that_takes_too_long_fails_the_attempt() -> None:
    table = cluster_with_devices(random.Random(1))
    table.put(claim(random.Random(0), "c"))
    framework = framework_of(table)
    plugin = framework.plugins["DynamicResources"]
    assert isinstance(plugin, DynamicResources)
    plugin.args = replace(plugin.args, filter_timeout=Duration(1))
    with pytest.raises(PluginError, match="node n0: timed out trying to allocate devices"):
        framework.evaluate(asking(table, "c"))


def test_what_a_search_finds_does_not_depend_on_what_was_kept() -> None:
    rng = random.Random(7)
    table = cluster_with_devices(rng)
    keeping = framework_of(table)
    for number in range(6):
        table.put(claim(random.Random(number % 2), f"c{number}"))
        info = asking(table, f"c{number}")
        found = []
        for framework in (keeping, framework_of(table)):
            evaluation = framework.evaluate(info)
            plugin = framework.plugins["DynamicResources"]
            assert isinstance(plugin, DynamicResources)
            state = evaluation.cycle.read(plugin)
            found.append(
                {name: [one for _, one in plugin.allocations(state, name)] for name in NODES}
                if evaluation.feasible_count
                else {}
            )
        assert found[0] == found[1]
