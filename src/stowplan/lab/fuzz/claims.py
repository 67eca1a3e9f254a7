"""Histories of claims and devices: allocations on every node are compared with the slow allocator.

Slices are replaced and removed, devices tainted, claims allocated and released in between. On every node the
same devices must be found for the same requests, by the scheduler that lives through the history and by one
that is started afresh; that one is of the other release, where releases do not differ.
"""

from random import Random
from typing import Any, Final, NamedTuple

from stowplan.api.devices import AllocationResult, ResourceClaim
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import PodResourceClaim
from stowplan.api.releases import RELEASES, Release
from stowplan.config import build, default_config
from stowplan.lab.fuzz.device_world import NODES, DeviceWorld, options
from stowplan.lab.fuzz.slow_allocator import CannotAddError, Json, SlowAllocator
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.plugins.dynamicresources import DynamicResources
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import pod

STEPS: Final = 10
_FAILED: Final = "cannot add device"

Devices = dict[str, list[tuple[str, str, str]]]
"""By node: request, pool and device of everything a claim gets there."""


class ComparedClaims(NamedTuple):
    """Result of a history: number of comparisons, and the differences."""

    claims: int
    differences: list[str]


def compare_claims(seed: int) -> ComparedClaims:
    """Live through the history of a seed."""
    rng = Random(f"claims {seed}")
    releases = list(RELEASES.values())
    release, other = releases[seed % 2], releases[1 - seed % 2]
    world = DeviceWorld(rng, release)
    keeping = _framework(world.table)
    kinds = [world.spec() for _ in range(4)]
    compared, differences = 0, []
    for step in range(STEPS):
        spec = rng.choice(kinds)
        claim = world.new_claim(spec)
        is_same = _is_same_in_all_releases(spec)
        if not (world.has_incomplete_pool and _asks_for_all(spec)):
            expected = _expected(world, spec, release)
            fresh = _framework(world.rebuilt(other if is_same else release))
            found, again = found_on_nodes(keeping, claim), found_on_nodes(fresh, claim)
            compared += 1
            for whose, what in (("kept", found), ("anew", again)):
                if shown(what) != expected:
                    where = f"history {seed}, step {step}, {release.name}, {whose}"
                    differences.append(f"{where}: {shown(what)} instead of {expected} for {spec}")
            if isinstance(found, dict) and found:
                world.give(claim, found[rng.choice(sorted(found))])
        world.change()
    return ComparedClaims(compared, differences)


def _expected(world: DeviceWorld, spec: Json, release: Release) -> Devices | str:
    choices = release.behaviour.devices
    slow = SlowAllocator(
        list(world.slices.values()),
        [one for results in world.results.values() for one in results],
        all_without_full=choices.all_mode_capacity == "remaining",
        distinct_from_last=choices.distinct_attribute == "last-device",
    )
    try:
        return {name: first for name in NODES if (first := slow.allocate(spec, name)) is not None}
    except CannotAddError:
        return _FAILED


def _framework(table: ClusterTable) -> Framework:
    gates = FeatureGates(release=table.release)
    [profile] = build(default_config(gates)).profiles
    return Framework(profile, table, in_tree_registry(), gates)


def found_on_nodes(framework: Framework, claim: ResourceClaim) -> dict[str, AllocationResult] | str:
    """By node that takes a pod with the claim, what the claim would get there; or why the attempt fails."""
    entry = PodResourceClaim(name="c", resource_claim_name=claim.name)
    info = framework.table.info(pod(f"p-{claim.name}").spec(resource_claims=(entry,)).obj())
    try:
        evaluation = framework.evaluate(info)
    except PluginError as error:
        return error.message
    plugin = framework.plugins["DynamicResources"]
    assert isinstance(plugin, DynamicResources)
    state: Any = evaluation.cycle.read(plugin)
    found = {}
    for row in evaluation.feasible_rows.tolist():
        name = framework.table.name_of(row)
        [(_, found[name])] = plugin.allocations(state, name)
    return found


def shown(found: dict[str, AllocationResult] | str) -> Devices | str:
    if isinstance(found, str):
        return _FAILED if _FAILED in found else found
    return {
        name: [(one.request, one.pool, one.device) for one in allocation.devices.results]
        for name, allocation in found.items()
    }


def _asks_for_all(spec: Json) -> bool:
    return any(one["allocationMode"] == "All" for one in options(spec))


def _is_same_in_all_releases(spec: Json) -> bool:
    """True if a claim has the same result in all releases."""
    distinct = any("distinctAttribute" in one for one in spec["devices"].get("constraints") or ())
    return not distinct and not _asks_for_all(spec)
