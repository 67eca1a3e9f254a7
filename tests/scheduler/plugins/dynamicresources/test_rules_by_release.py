"""Results of the allocator of each release for the same devices and claims, with and without gates."""

from typing import Any

import pytest

from releases import V1_36, V1_37
from stowplan.api.decode import convert
from stowplan.api.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import PodResourceClaim
from stowplan.api.releases import Release
from stowplan.api.requests import Json
from stowplan.config import build, default_config
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.plugins.dynamicresources import DynamicResources
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.scheduler.table.devices import with_allocation
from stowplan.scheduler.table.table import ClusterTable
from stowplan.testing import node, pod

DRIVER = "d.example.com"
NONE = "cannot allocate all claims"


class Rack:
    """One node with a pool, and claims for its devices."""

    def __init__(self, release: Release, devices: list[Json], *features: str, **gates: bool) -> None:
        self.table = ClusterTable(release)
        self.table.put(convert({"metadata": {"name": "any"}, "spec": {}}, DeviceClass))
        room = node("n").capacity(cpu="100", memory="100Gi", pods="110")
        self.table.put_node(room.features(*features).obj())
        counters = {"memory": {"value": "40Gi"}}
        self.publish(0, devices=devices)
        self.publish(1, sharedCounters=[{"name": "card", "counters": counters}])
        given = FeatureGates(gates, release)
        [profile] = build(default_config(given)).profiles
        self.framework = Framework(profile, self.table, in_tree_registry(), given)

    def publish(self, number: int, **body: Any) -> None:
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
        spec = {"driver": DRIVER, "nodeName": "n", "pool": pool, **body}
        self.table.put(convert({"metadata": {"name": f"s{number}"}, "spec": spec}, ResourceSlice))

    def ask(self, name: str = "c", constraints: Any = (), **exactly: Any) -> AllocationResult | str:
        """Devices that a claim gets from then on; or why it gets none."""
        asked = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, **exactly}
        spec = {"devices": {"requests": [{"name": "r", "exactly": asked}], "constraints": list(constraints)}}
        metadata = {"name": name, "namespace": "default", "uid": name}
        claim = convert({"metadata": metadata, "spec": spec}, ResourceClaim)
        self.table.put(claim)
        entry = PodResourceClaim(name="c", resource_claim_name=name)
        info = self.table.info(pod(f"p-{name}").spec(resource_claims=(entry,)).obj())
        try:
            evaluation = self.framework.evaluate(info)
        except PluginError as cause:
            return str(cause)
        if not evaluation.feasible_count:
            [status] = evaluation.rejections()
            return status.message
        plugin = self.framework.plugins["DynamicResources"]
        assert isinstance(plugin, DynamicResources)
        state: Any = evaluation.cycle.read(plugin)
        [(_, allocation)] = plugin.allocations(state, "n")
        self.table.put(with_allocation(claim, allocation))
        return allocation


def chosen(answer: AllocationResult | str) -> str:
    """The names of devices, or why there are none."""
    return answer if isinstance(answer, str) else " ".join(one.device for one in answer.devices.results)


def drawing(name: str, amount: str = "10Gi", groups: str = "", **more: Any) -> Json:
    drawn: Json = {"counterSet": "card", "counters": {"memory": {"value": amount}}}
    if groups:
        drawn["compatibilityGroups"] = groups.split()
    return {"name": name, "consumesCounters": [drawn], **more}


GROUPED = [drawing("a", groups="x"), drawing("b", groups="y"), drawing("c", groups="x y"), drawing("d")]
ALL = {"allocationMode": "All", "count": 0}
UPDATED = f"claim default/c, request r: asks for all devices, but resource pool {DRIVER}/p is currently being"


@pytest.mark.parametrize(
    ("release", "gates", "asked", "answer"),
    [
        (V1_36, {}, {"count": 2}, "a b"),
        (V1_37, {}, {"count": 2}, NONE),
        (V1_37, {}, ALL, UPDATED),
        (V1_37, {"DRADeviceCompatibilityGroups": True}, {"count": 2}, "a c"),
        (V1_37, {"DRADeviceCompatibilityGroups": True}, {"count": 3}, NONE),
    ],
)
def test_compatibility_groups(release: Release, gates: dict[str, bool], asked: Json, answer: str) -> None:
    assert answer in chosen(Rack(release, GROUPED, **gates).ask(**asked))


def test_devices_that_are_taken_have_groups_too() -> None:
    rack = Rack(V1_37, GROUPED, DRADeviceCompatibilityGroups=True)
    assert [chosen(rack.ask(name)) for name in "opq"] == ["a", "c", NONE]
    rack = Rack(V1_37, [GROUPED[3], drawing("e"), *GROUPED[:2]], DRADeviceCompatibilityGroups=True)
    assert [chosen(rack.ask(name)) for name in "opq"] == ["d", "e", NONE]


@pytest.mark.parametrize(("release", "second"), [(V1_36, NONE), (V1_37, "a")])
def test_a_device_in_use_is_charged_to_its_counters_once(release: Release, second: str) -> None:
    rack = Rack(release, [drawing("a", "30Gi", allowMultipleAllocations=True)])
    assert [chosen(rack.ask(name)) for name in "cd"] == ["a", second]


@pytest.mark.parametrize(("release", "answer"), [(V1_36, "a b c"), (V1_37, NONE)])
def test_distinct_attributes_of_one_request(release: Release, answer: str) -> None:
    numas = {"a": 0, "b": 1, "c": 0}
    rack = Rack(release, [{"name": k, "attributes": {"numa": {"int": v}}} for k, v in numas.items()])
    assert chosen(rack.ask(constraints=[{"distinctAttribute": f"{DRIVER}/numa"}], count=3)) == answer


NUMAS = [{"name": f"g{n}", "attributes": {"numa": {"int": n}}} for n in (0, 2, 1, 3)]
HALVED = [{"name": "derived/pair", "expression": f'device.attributes["{DRIVER}"].numa / 2'}]
PAIRED = [{"matchAttribute": "derived/pair"}]
DERIVED = "claim default/c, request r: cannot handle request with derived attributes, the feature is disabled"


@pytest.mark.parametrize(
    ("release", "gates", "answer"),
    [
        (V1_36, {}, NONE),
        (V1_37, {}, DERIVED),
        (V1_37, {"DRADerivedAttributes": True}, "g0 g1"),
    ],
)
def test_derived_attributes(release: Release, gates: dict[str, bool], answer: str) -> None:
    rack = Rack(release, NUMAS, **gates)
    assert answer in chosen(rack.ask(constraints=PAIRED, derivedAttributes=HALVED, count=2))


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("device.driver +", "compile derived attribute derived/pair failed: compilation failed: ERROR: "),
        (
            "device.capacity",
            "compile derived attribute derived/pair failed: must evaluate to a primitive scalar (string, "
            "integer, boolean, semver) or a list of these scalars, not map(string, map(string, ",
        ),
        (
            f'device.attributes["{DRIVER}"].other',
            f"evaluate derived attribute derived/pair on device {DRIVER}/p/g0 failed: no such key: other",
        ),
        (
            "dyn([dyn(1), dyn('a')])",
            f"evaluate derived attribute derived/pair on device {DRIVER}/p/g0 failed: "
            "expected list element at index 1 to be int, got string",
        ),
        (
            "dyn(1.5)",
            f"evaluate derived attribute derived/pair on device {DRIVER}/p/g0 failed: "
            "unsupported CEL return type: float64",
        ),
    ],
)
def test_derived_attributes_that_fail(expression: str, told: str) -> None:
    rack = Rack(V1_37, NUMAS, DRADerivedAttributes=True)
    derived = [{"name": "derived/pair", "expression": expression}]
    assert told in chosen(rack.ask(constraints=PAIRED, derivedAttributes=derived))


@pytest.mark.parametrize(
    ("features", "gates", "answer"),
    [
        ((), {}, "a"),
        ((), {"DRAOptionalNodeOperations": True}, NONE),
        (("DRAOptionalNodeOperations",), {"DRAOptionalNodeOperations": True}, "a"),
        (("DRAOptionalNodeOperations",), {"DRADerivedAttributes": True}, NONE),
    ],
)
def test_optional_node_operations(features: tuple[str, ...], gates: dict[str, bool], answer: str) -> None:
    rack = Rack(V1_37, [], *features, **gates)
    rack.publish(0, devices=[{"name": "a"}], skipNodeOperations=["*"])
    given = rack.ask()
    assert chosen(given) == answer
    if features and answer != NONE:
        assert isinstance(given, AllocationResult)
        assert given.devices.results[0].skip_node_operations == ("*",)


RANGE: Json = {"validRange": {"min": "500m", "step": "500m"}}


@pytest.mark.parametrize(
    ("release", "gates", "wanted", "consumed"),
    [
        (V1_36, {}, "1200m", "2"),
        (V1_37, {}, "1200m", "2"),
        (V1_37, {"DRAFractionalCapacityRange": True}, "1200m", "1500m"),
        (V1_37, {"DRAFractionalCapacityRange": True}, "1700m", "2"),
        (
            V1_37,
            {},
            "20E",
            f'claim default/c, request r: checking capacity for device {DRIVER}/p/a: capacity "cores": '
            "capacity request cannot be represented in the device's range arithmetic: "
            "request 20E exceeds MaxInt64",
        ),
        (
            V1_37,
            {"DRAFractionalCapacityRange": True},
            "1200u",
            f'claim default/c, request r: checking capacity for device {DRIVER}/p/a: capacity "cores": '
            "capacity value is negative",
        ),
    ],
)
def test_rounding_of_capacity(release: Release, gates: dict[str, bool], wanted: str, consumed: str) -> None:
    policy = RANGE if wanted != "1200u" else {"validValues": ["-1"], "default": "-1"}
    cores = {"cores": {"value": "4", "requestPolicy": policy}}
    rack = Rack(release, [{"name": "a", "allowMultipleAllocations": True, "capacity": cores}], **gates)
    capacity: dict[str, Any] = {} if wanted == "1200u" else {"capacity": {"requests": {"cores": wanted}}}
    given = rack.ask(**capacity)
    if isinstance(given, str):
        assert consumed in given
    else:
        assert given.devices.results[0].consumed_capacity == {"cores": consumed}


@pytest.mark.parametrize("step", ["0", "18446744073709551616", "0Gi"])
def test_a_step_of_zero_is_an_error_of_the_attempt(step: str, each_release: Release) -> None:
    """Slices with such a step may be stored, by a release that did not refuse them."""
    policy = {"default": "1", "validRange": {"min": "1", "step": step}}
    cores = {"cores": {"value": "4", "requestPolicy": policy}}
    rack = Rack(each_release, [{"name": "a", "allowMultipleAllocations": True, "capacity": cores}])
    text = f'device {DRIVER}/p/a: capacity "cores": the step of the capacity\'s range is zero'
    assert text in str(rack.ask(capacity={"requests": {"cores": "2"}}))
    assert not isinstance(rack.ask(), str), "the default needs no rounding"
