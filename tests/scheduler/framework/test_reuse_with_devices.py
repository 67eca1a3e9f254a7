"""Kept results hold while devices, rules, classes and claims are added, changed and removed.

As in test_reuse_is_exact.py: after every step results of the reusing runtime are compared with a new table
and a runtime that reuses nothing. Claims are requested by name, two at once, by several pods and as extended
resources; they are in flight, written, assumed, shared, reserved, waiting for their devices, deallocated,
being deleted and gone.
"""

import random
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from effort import examples
from releases import EACH
from stowplan.api.decode import convert
from stowplan.api.devices import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import Pod, PodResourceClaim
from stowplan.api.releases import Release
from stowplan.config import build, default_config
from stowplan.lab.fuzz.device_world import DRIVER, NODES, TAINT, DeviceWorld
from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.plugins.dynamicresources import DynamicResources
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.devices import Claims
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import node, pod
from stowplan.testing.reuse_machine import describe_evaluation

NAMES = ("a", "b", "c")
CONDITIONS = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


def framework_of(table: ClusterTable, *, reuse: bool) -> Framework:
    gates = FeatureGates(release=table.release)
    [profile] = build(default_config(gates)).profiles
    return Framework(profile, table, in_tree_registry(), gates, reuse=reuse)


class LivingClaims(DeviceWorld):
    """Devices and claims with few names, whose life advances in steps."""

    def __init__(self, rng: random.Random, release: Release) -> None:
        self.rules: dict[str, DeviceTaintRule] = {}
        self.named = True
        self.cpu = dict.fromkeys(NODES, "100")
        super().__init__(rng, release)
        self.release = release
        self.kept = framework_of(self.table, reuse=True)
        self.lifecycle = Lifecycle(self.kept)
        self._uids = 0

    @property
    def claims(self) -> Claims:
        return self.table.devices.claims

    def fill(self, table: ClusterTable) -> None:
        table.put(convert({"metadata": {"name": "any"}, "spec": {}}, DeviceClass))
        for name in NODES:
            table.put_node(node(name).capacity(cpu=self.cpu[name], memory="100Gi", pods="110").obj())
        for rule in self.rules.values():
            table.put(rule)
        if self.named:
            table.put(self.extended_class())

    def extended_class(self) -> DeviceClass:
        spec = {"extendedResourceName": "example.com/gpu"}
        return convert({"metadata": {"name": "named"}, "spec": spec}, DeviceClass)

    def _device(self, number: int, kind: str) -> Any:
        device = super()._device(number, kind)
        return device | CONDITIONS if self.rng.random() < 0.2 else device

    def anew(self) -> Framework:
        table = self.rebuilt(self.release)
        for pending in self.claims.in_flight().values():
            for _ in range(pending.sharers):
                table.devices.claims.signal_pending(pending.claim)
        return framework_of(table, reuse=False)

    # Events

    def step(self) -> None:
        often = (self.put_claim, self.reserve, self.end_flight)
        seldom = (self.change, self.deallocate, self.delete, self.report)
        around = (self.change_rule, self.change_class, self.resize)
        self.rng.choice((*often, *often, *seldom, *around))()

    def put_claim(self) -> None:
        name = self.rng.choice(NAMES)
        if self.claims.get(f"default/{name}") is None:
            self._uids += 1
            metadata = {"name": name, "namespace": "default", "uid": f"{name}-{self._uids}"}
            self.table.put(convert({"metadata": metadata, "spec": self.spec()}, ResourceClaim))

    def reserve(self) -> None:
        """A pod is tried, and what it gets is in flight; another pod with the same claims may rely on it."""
        wanting = self.rng.choice(self.pods())
        info = self.kept.table.info(wanting)
        try:
            evaluation = self.kept.evaluate(info)
        except PluginError:
            return
        rows = evaluation.feasible_rows.tolist()
        if not rows:
            return
        before = self.whole_devices()
        self.lifecycle.reserve(evaluation.cycle, info, self.table.name_of(self.rng.choice(rows)))
        twice = [device for device, count in self.whole_devices().items() if count > max(1, before[device])]
        assert not twice, f"given to two claims: {twice}"

    def end_flight(self) -> None:
        """An allocation in flight is written, and told of or only assumed; or it comes to nothing."""
        for uid, pending in list(self.claims.in_flight().items())[:1]:
            stored = self.claims.get(pending.claim.key)
            allocation = pending.claim.allocation
            if stored is not None and stored.metadata.uid == uid and self.rng.random() < 0.7:
                assert allocation is not None
                self.write(stored, allocation)
            self.claims.remove_pending(uid, force=True)

    def write(self, claim: ResourceClaim, allocation: AllocationResult | None) -> None:
        self._uids += 1
        metadata = replace(claim.metadata, resource_version=str(self._uids))
        status = replace(claim.status, allocation=allocation, devices=())
        written = replace(claim, metadata=metadata, status=status)
        self.table.put(written)
        self.results.pop(claim.key, None)

    def allocated(self) -> list[ResourceClaim]:
        return [claim for claim in self.claims.all() if claim.allocation is not None]

    def deallocate(self) -> None:
        for claim in self.allocated()[:1]:
            self.write(claim, None)

    def delete(self) -> None:
        """A claim is being deleted, and then gone; also while it is in flight."""
        claims = sorted(self.claims.all(), key=lambda claim: claim.key)
        if claims:
            claim = self.rng.choice(claims)
            if claim.metadata.deletion_timestamp is None and self.rng.random() < 0.5:
                metadata = replace(claim.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
                self.table.put(replace(claim, metadata=metadata))
            else:
                self.table.discard(claim)

    def report(self) -> None:
        """The driver says of the devices of a claim that they are ready, or broken."""
        for claim in self.allocated()[:1]:
            condition = {"type": self.rng.choice(("ready", "broken")), "status": "True", "reason": "D"}
            assert claim.allocation is not None
            devices = [
                {"driver": one.driver, "pool": one.pool, "device": one.device, "conditions": [condition]}
                for one in claim.allocation.devices.results
            ]
            reported = convert({"status": {"devices": devices}}, ResourceClaim).status.devices
            self.table.put(replace(claim, status=replace(claim.status, devices=reported)))

    def change_rule(self) -> None:
        name = self.rng.choice("xy")
        if name in self.rules:
            self.table.discard(self.rules.pop(name))
        else:
            selector = self.rng.choice(({}, {"pool": self.rng.choice(NODES)}, {"device": "g0"}))
            spec = {"deviceSelector": {"driver": DRIVER, **selector}, "taint": TAINT}
            self.rules[name] = convert({"metadata": {"name": name}, "spec": spec}, DeviceTaintRule)
            self.table.put(self.rules[name])

    def change_class(self) -> None:
        self.named = not self.named
        (self.table.put if self.named else self.table.discard)(self.extended_class())

    def resize(self) -> None:
        name = self.rng.choice(NODES)
        self.cpu[name] = self.rng.choice(("1", "100"))
        self.table.put_node(node(name).capacity(cpu=self.cpu[name], memory="100Gi", pods="110").obj())

    # Comparison

    def pods(self) -> list[Pod]:
        def using(name: str, *claims: str) -> Pod:
            entries = tuple(PodResourceClaim(name=one, resource_claim_name=one) for one in claims)
            return pod(name).uid(name).requests(cpu="2").spec(resource_claims=entries).obj()

        extended = pod("e").uid("e").requests(cpu="2").requests(**{"example.com/gpu": 1}).obj()
        return [using("p", "a"), using("q", "a"), using("r", "b", "c"), extended]

    def whole_devices(self) -> Counter[tuple[str, str, str]]:
        """By how many claims every device is held that is not shared, in flight or written."""
        holding = {claim.metadata.uid: claim for claim in self.allocated()}
        holding |= {uid: one.claim for uid, one in self.claims.in_flight().items()}
        return Counter(
            result.id
            for claim in holding.values()
            for result in (() if claim.allocation is None else claim.allocation.devices.results)
            if result.share_id is None and not result.admin_access
        )


def outcome(framework: Framework, wanting: Pod) -> Any:
    """All that is said of a pod, with the devices it would get on every node; or the error."""
    try:
        evaluation = framework.evaluate(framework.table.info(wanting))
    except PluginError as error:
        return error.message
    said = describe_evaluation(framework, evaluation)
    if evaluation.rejected_outright is not None:
        # Whoever comes after the plugin that rejected the pod was not asked, or kept an answer from before.
        del said["skipped filters"]
        return said
    plugin = framework.plugins["DynamicResources"]
    assert isinstance(plugin, DynamicResources)
    state: Any = evaluation.cycle.read(plugin)
    for name in sorted(said["feasible"]):
        if getattr(state, "allocator", None) is not None:
            said[name] = [
                [(one.request, one.pool, one.device) for one in allocation.devices.results]
                for _, allocation in plugin.allocations(state, name)
            ]
    return said


@pytest.mark.parametrize("seed", range(examples(16)))
def test_what_is_kept_is_what_is_found_from_scratch(seed: int) -> None:
    world = LivingClaims(random.Random(f"reuse {seed}"), EACH[seed % 2])
    for _ in range(25):
        world.step()
        anew = world.anew()
        for wanting in world.pods():
            assert outcome(world.kept, wanting) == outcome(anew, wanting)
        allocated, again = world.claims.allocated, anew.table.devices.claims.allocated
        assert (allocated.devices, allocated.shared) == (again.devices, again.shared)


def test_a_claim_that_is_forgotten_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proof that the test above can fail."""
    monkeypatch.setattr(Claims, "_uncount", lambda self, known: None)
    with pytest.raises(AssertionError):
        test_what_is_kept_is_what_is_found_from_scratch(2)


def test_nothing_is_left_when_everything_is_gone() -> None:
    world = LivingClaims(random.Random("gone"), EACH[-1])
    for _ in range(60):
        world.step()
    for uid in list(world.claims.in_flight()):
        world.claims.remove_pending(uid, force=True)
    for claim in list(world.claims.all()):
        world.table.discard(claim)
    for pool in (*NODES, "fabric"):
        world.withdraw(pool)
    sizes = world.table.devices.sizes()
    assert {name: count for name, count in sizes.items() if count} == {"device classes": 1 + world.named}
