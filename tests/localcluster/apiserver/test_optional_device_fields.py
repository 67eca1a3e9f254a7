"""Fields of resource.k8s.io that need a release and a feature gate, over HTTP: kept, dropped, validated."""

from collections.abc import Iterator
from typing import Any

import pytest

from localcluster.apiserver.served import APPLY, MERGE, Answer, Served, serving
from releases import V1_36, V1_37
from stowplan.api import catalogue as c
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import Release

Json = dict[str, Any]
GROUP = "/apis/resource.k8s.io"
DRIVER = "gpu.example.com"
TYPE = f"{DRIVER}/profile"
ALPHA = (
    "DRADerivedAttributes",
    "DRADeviceCompatibilityGroups",
    "DRANodeAllocatableResources",
    "DRAOptionalNodeOperations",
    "DRAPartitionableDevicesType",
    "DRAResourcePoolStatus",
)
RESOURCES: Json = {
    "cpu": {"mapping": {"deviceMultiplier": "2"}},
    "memory": {
        "mapping": {"capacityKey": "memory", "capacityMultiplier": "1"},
        "overhead": {"perPod": "1Gi", "perContainer": "512Mi"},
    },
}
COUNTERS: Json = {"counterSet": "s", "counters": {"slots": {"value": "1"}}}
DERIVED: list[Json] = [{"name": "derived/numa", "expression": f'device.attributes["{DRIVER}"].numa'}]


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    """A server of 1.37 with the gates on."""
    with serving(gates=FeatureGates(dict.fromkeys(ALPHA, True), V1_37)) as server:
        yield server


def of_kind(kind: str, spec: Json, version: str = "v1", **metadata: Any) -> Json:
    named = {"name": "x", **metadata}
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": named, "spec": spec}


def a_device(**more: Any) -> Json:
    attributes = {"profile": {"string": "Half"}, "numa": {"int": 1}}
    capacity = {"memory": {"value": "8Gi"}}
    return {"name": "a", "attributes": attributes, "capacity": capacity, **more}


def a_slice(device: Json, **spec: Any) -> Json:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    return of_kind(
        "ResourceSlice", {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": [device], **spec}
    )


def whole_slice() -> Json:
    """A slice with all that 1.37 adds."""
    counted = [{**COUNTERS, "compatibilityGroups": ["g1", "g2"]}]
    device = a_device(nodeAllocatableResources=RESOURCES, consumesCounters=counted)
    return a_slice(device, partitionTypeAttribute=TYPE, skipNodeOperations=["*"])


def a_claim(derived: list[Json] = DERIVED, attribute: str = "derived/numa", **constraint: Any) -> Json:
    asked = {"deviceClassName": DRIVER, "derivedAttributes": derived}
    requests = [{"name": "r", "exactly": asked}, {"name": "q", "exactly": {"deviceClassName": DRIVER}}]
    constraints = [{"matchAttribute": attribute, **constraint}]
    return of_kind("ResourceClaim", {"devices": {"requests": requests, "constraints": constraints}})


def of_template(claim: Json) -> Json:
    return of_kind("ResourceClaimTemplate", {"spec": claim["spec"]})


def created(api: Served, body: Json, dry: bool = True, **query: str) -> Answer:
    """The answer to a new object, which is not kept."""
    version, kind = body["apiVersion"].rpartition("/")[2], f"{body['kind'].lower()}s"
    within = "" if kind == "resourceslices" else "/namespaces/default"
    options = {**({"dryRun": "All"} if dry else {}), "fieldValidation": "Strict", **query}
    asked = "&".join(f"{name}={value}" for name, value in options.items())
    return api.ask("POST", f"{GROUP}/{version}{within}/{kind}?{asked}", body)


def refusals(api: Served, body: Json) -> list[tuple[str, str]]:
    answer = created(api, body)
    assert answer.code == 422, answer.body
    return [(cause["field"], cause["message"]) for cause in answer.body["details"]["causes"]]


def warnings(answer: Answer) -> list[str]:
    return [text.partition('"')[2].rstrip('"') for text in answer.headers.get_all("Warning") or ()]


# Gates and releases


def test_with_the_gates_of_1_37_everything_is_kept(api: Served) -> None:
    for body in (whole_slice(), a_claim(), of_template(a_claim())):
        answer = created(api, body)
        assert answer.code == 201, answer.body
        assert warnings(answer) == []
        shown = answer.body["spec"]
        if body["kind"] == "ResourceSlice":
            assert shown == body["spec"]
        else:
            devices = (shown if body["kind"] == "ResourceClaim" else shown["spec"])["devices"]
            assert devices["requests"][0]["exactly"]["derivedAttributes"] == DERIVED


@pytest.mark.parametrize("release", [V1_36, V1_37])
def test_without_gates_they_are_dropped_and_the_writer_is_warned(release: Release) -> None:
    told = "dropped, it needs the feature gate {} of Kubernetes 1.37"
    request = "requests[0].exactly.derivedAttributes: " + told.format("DRADerivedAttributes")
    with serving(gates=FeatureGates(release=release)) as api:
        answer = created(api, whole_slice(), dry=False)
        assert answer.code == 201, answer.body
        assert warnings(answer) == [
            "spec.devices[0].nodeAllocatableResources: " + told.format("DRANodeAllocatableResources"),
            "spec.devices[0].consumesCounters[0].compatibilityGroups: "
            + told.format("DRADeviceCompatibilityGroups"),
            "spec.partitionTypeAttribute: " + told.format("DRAPartitionableDevicesType"),
            "spec.skipNodeOperations: " + told.format("DRAOptionalNodeOperations"),
        ]
        plain = a_slice(a_device(consumesCounters=[COUNTERS]))
        assert api.ask("GET", f"{GROUP}/v1/resourceslices/x").body["spec"] == plain["spec"]
        for body, path in ((a_claim(), "spec.devices."), (of_template(a_claim()), "spec.spec.devices.")):
            answer = created(api, body)
            assert (answer.code, warnings(answer)) == (201, [path + request])
            assert "derivedAttributes" not in str(answer.body["spec"])


@pytest.mark.parametrize("release", [V1_36, V1_37])
def test_what_devices_take_of_their_node_has_the_form_of_the_release(release: Release) -> None:
    before = {"cpu": {"allocationMultiplier": "2"}}
    device = a_device(nodeAllocatableResourceMappings=before, nodeAllocatableResources=RESOURCES)
    with serving(gates=FeatureGates({"DRANodeAllocatableResources": True}, release)) as api:
        answer = created(api, a_slice(device))
    [shown] = answer.body["spec"]["devices"]
    given = (shown.get("nodeAllocatableResourceMappings"), shown.get("nodeAllocatableResources"))
    assert given == ((before, None) if release is V1_36 else (None, RESOURCES))
    assert len(warnings(answer)) == 1


def test_what_an_object_has_stays_without_the_gate() -> None:
    path = f"{GROUP}/v1/resourceslices/x"
    with serving(gates=FeatureGates(release=V1_37)) as api:
        stored = a_slice(a_device(nodeAllocatableResources=RESOURCES))
        api.run(lambda store: store.load(c.RESOURCE_SLICES, stored))
        more = [*stored["spec"]["devices"], a_device(name="b", nodeAllocatableResources=RESOURCES)]
        answer = api.ask("PATCH", path, {"spec": {"devices": more}}, Content_Type=MERGE)
        assert (answer.body["spec"]["devices"], warnings(answer)) == (more, [])
        none = [{"name": "b"}]
        assert api.ask("PATCH", path, {"spec": {"devices": none}}, Content_Type=MERGE).code == 200
        answer = api.ask("PATCH", path, {"spec": {"devices": more}}, Content_Type=MERGE)
        assert [one.get("nodeAllocatableResources") for one in answer.body["spec"]["devices"]] == [None, None]
        assert len(warnings(answer)) == 1


@pytest.mark.parametrize("release", [V1_36, V1_37])
def test_attributes_that_are_lists_have_no_value_without_the_gate(release: Release) -> None:
    path = f"{GROUP}/v1/resourceslices/x"
    listed = a_slice({"name": "a", "attributes": {"ports": {"ints": [1, 2]}}})
    both = a_slice({"name": "a", "attributes": {"ports": {"string": "1,2", "strings": ["1", "2"]}}})
    with serving(gates=FeatureGates({"DRAListTypeAttributes": True}, release)) as api:
        answer = created(api, listed)
        assert (answer.code, answer.body["spec"], warnings(answer)) == (201, listed["spec"], [])
    with serving(gates=FeatureGates(release=release)) as api:
        value = "spec.devices[0].attributes[ports]"
        assert refusals(api, listed) == [(value, "Required value: exactly one value must be specified")]
        answer = created(api, both)
        assert answer.body["spec"]["devices"][0]["attributes"] == {"ports": {"string": "1,2"}}
        told = f"{value}.strings: dropped, it needs the feature gate DRAListTypeAttributes"
        assert warnings(answer) == [told]
        api.run(lambda store: store.load(c.RESOURCE_SLICES, listed))
        more = [*listed["spec"]["devices"], {"name": "b", "attributes": {"ok": {"bools": [True]}}}]
        answer = api.ask("PATCH", path, {"spec": {"devices": more}}, Content_Type=MERGE)
        assert (answer.body["spec"]["devices"], warnings(answer)) == (more, [])


def test_older_versions_have_them_where_these_versions_have_such_fields(api: Served) -> None:
    asked = {"name": "r", "deviceClassName": DRIVER, "derivedAttributes": DERIVED}
    flat = {"devices": {"requests": [asked], "constraints": a_claim()["spec"]["devices"]["constraints"]}}
    body = of_kind("ResourceClaim", flat, "v1beta1", name="old")
    answer = created(api, body, dry=False)
    assert answer.code == 201, answer.body
    assert answer.body["spec"]["devices"]["requests"][0]["derivedAttributes"] == DERIVED
    stored = api.ask("GET", f"{GROUP}/v1/namespaces/default/resourceclaims/old").body
    assert stored["spec"]["devices"]["requests"][0]["exactly"]["derivedAttributes"] == DERIVED


def test_a_slice_is_applied_and_changed_with_them(api: Served) -> None:
    path = f"{GROUP}/v1/resourceslices/applied"
    body = whole_slice()
    body["metadata"]["name"] = "applied"
    assert api.ask("PATCH", f"{path}?fieldManager=me", body, Content_Type=APPLY).code == 201
    patch = {"spec": {"skipNodeOperations": ["NodePrepareResources", "NodeUnprepareResources"]}}
    changed = api.ask("PATCH", path, patch, Content_Type=MERGE)
    assert changed.body["spec"] == {**body["spec"], **patch["spec"]}


def test_allocations_say_what_nodes_skip_with_the_gate_only(api: Served) -> None:
    result = {"request": "r", "driver": DRIVER, "pool": "n", "device": "a", "skipNodeOperations": ["*"]}
    patch = {"status": {"allocation": {"devices": {"results": [result]}}}}

    def allocated(server: Served) -> Answer:
        body = a_claim()
        body["metadata"]["name"] = "taken"
        assert created(server, body, dry=False).code == 201
        path = f"{GROUP}/v1/namespaces/default/resourceclaims/taken/status"
        return server.ask("PATCH", path, patch, Content_Type=MERGE)

    assert allocated(api).body["status"]["allocation"]["devices"]["results"] == [result]
    with serving(gates=FeatureGates(release=V1_37)) as other:
        answer = allocated(other)
    [kept] = answer.body["status"]["allocation"]["devices"]["results"]
    assert "skipNodeOperations" not in kept
    assert warnings(answer) == [
        "status.allocation.devices.results[0].skipNodeOperations: dropped, it needs the feature gate "
        "DRAOptionalNodeOperations of Kubernetes 1.37"
    ]


def test_explain_knows_them(api: Served) -> None:
    document = api.ask("GET", "/openapi/v3/apis/resource.k8s.io/v1").body["components"]["schemas"]
    device = document["io.k8s.api.resource.v1.Device"]["properties"]
    assert "NodeAllocatableResource" in str(device["nodeAllocatableResources"])
    assert "feature gate DRANodeAllocatableResources" in device["nodeAllocatableResources"]["description"]
    overhead = document["io.k8s.api.resource.v1.NodeAllocatableOverhead"]["properties"]
    assert set(overhead) == {"perPod", "perContainer"}


# Validation


NODES = "spec.devices[0].nodeAllocatableResources"


@pytest.mark.parametrize(
    ("name", "resource", "field", "message"),
    [
        ("pods", {"overhead": {"perPod": "1"}}, "[pods]", "must be a node allocatable resource name"),
        ("cpu", {}, "[cpu]", "Required value: at least one of mapping or overhead must be set"),
        ("cpu", {"overhead": {}}, "[cpu].overhead", "at least one of perPod or perContainer must be set"),
        ("cpu", {"overhead": {"perPod": "-1"}}, "[cpu].overhead.perPod", '"-1": must be non-negative'),
        ("cpu", {"mapping": {}}, "[cpu].mapping", "must specify one of: `capacityKey`, `deviceMultiplier`"),
        (
            "cpu",
            {"mapping": {"capacityKey": "memory", "capacityMultiplier": "1", "deviceMultiplier": "1"}},
            "[cpu].mapping",
            '"{capacityKey, deviceMultiplier}": must specify exactly one of: `capacityKey`, '
            "`deviceMultiplier`",
        ),
        (
            "cpu",
            {"mapping": {"capacityKey": "memory"}},
            "[cpu].mapping.capacityMultiplier",
            "Required value: capacityMultiplier is required when capacityKey is set",
        ),
        (
            "cpu",
            {"mapping": {"capacityMultiplier": "1", "deviceMultiplier": "1"}},
            "[cpu].mapping.capacityKey",
            "Required value: capacityKey is required when capacityMultiplier is set",
        ),
        (
            "cpu",
            {"mapping": {"capacityKey": "cores", "capacityMultiplier": "1"}},
            "[cpu].mapping.capacityKey",
            'Not found: "cores"',
        ),
        (
            "cpu",
            {"mapping": {"deviceMultiplier": "0"}},
            "[cpu].mapping.deviceMultiplier",
            '"0": must be positive',
        ),
    ],
)
def test_what_a_device_can_take_of_its_node(
    api: Served, name: str, resource: Json, field: str, message: str
) -> None:
    [(where, what)] = refusals(api, a_slice(a_device(nodeAllocatableResources={name: resource})))
    assert where == NODES + field
    assert what.endswith(message)


def test_compatibility_groups_are_few_names_that_differ(api: Served) -> None:
    def refused(*groups: str) -> list[tuple[str, str]]:
        counted = [{**COUNTERS, "compatibilityGroups": [*groups]}]
        return refusals(api, a_slice(a_device(consumesCounters=counted)))

    path = "spec.devices[0].consumesCounters[0].compatibilityGroups"
    assert refused("a", "b", "c") == [(path, "Too many: 3: must have at most 2 items")]
    assert refused("a", "a") == [(f"{path}[1]", 'Duplicate value: "a"')]
    [(where, what)] = refused("A b")
    assert (where, "lower case alphanumeric" in what) == (f"{path}[0]", True)


def test_operations_that_nodes_skip(api: Served) -> None:
    def refused(*operations: str) -> list[tuple[str, str]]:
        return refusals(api, a_slice(a_device(), skipNodeOperations=[*operations]))

    path = "spec.skipNodeOperations"
    [(where, what)] = refused("NodePrepareResources")
    text = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
    assert (where, what.endswith(text)) == (path, True)
    assert refused("*", "*") == [(f"{path}[1]", 'Duplicate value: "*"')]
    supported = 'supported values: "*", "NodePrepareResources", "NodeUnprepareResources"'
    assert refused("Other") == [(f"{path}[0]", f'Unsupported value: "Other": {supported}')]


def test_the_attribute_that_says_of_which_type_partitions_are(api: Served) -> None:
    def refused(name: str, **device: Any) -> list[tuple[str, str]]:
        return refusals(api, a_slice(a_device(**device), partitionTypeAttribute=name))

    text = "may only be set on a slice which declares devices that consume counters"
    path = "spec.partitionTypeAttribute"
    assert refused(TYPE) == [(path, f'Invalid value: "{TYPE}": {text}')]
    counted = {"consumesCounters": [COUNTERS]}
    assert [where for where, _ in refused("profile", **counted)] == [path]
    [(where, what)] = refused(f"{DRIVER}/model", **counted)
    assert (where, what.startswith("Required value: device consumes counters")) == (
        f"spec.devices[0].attributes[{DRIVER}/model]",
        True,
    )
    [(_, what)] = refused(f"{DRIVER}/numa", **counted)
    assert what.endswith("must be a string value because `partitionTypeAttribute` names this attribute")


PLACE = "spec.devices.requests[0].exactly.derivedAttributes"
UNUSED = "must be referenced by at least one matchAttribute or distinctAttribute constraint"


def test_derived_attributes_are_for_constraints_of_their_request(api: Served) -> None:
    for body in (a_claim(attribute="example.com/other"), a_claim(requests=["q"])):
        [(where, what)] = refusals(api, body)
        assert (where, UNUSED in what) == (f"{PLACE}[0].name", True)
    assert created(api, a_claim(requests=["r"])).code == 201


def test_derived_attributes_are_named_once_and_have_an_expression(api: Served) -> None:
    assert refusals(api, a_claim([*DERIVED, *DERIVED])) == [
        (f"{PLACE}[1]", 'Duplicate value: "derived/numa"')
    ]
    assert refusals(api, a_claim([{"name": "derived/numa", "expression": ""}])) == [
        (f"{PLACE}[0].expression", "Required value")
    ]
    [(where, what)] = refusals(api, a_claim([{"name": "numa", "expression": "1"}], attribute="a.b/numa"))[:1]
    assert (where, "a fully qualified name must be a domain" in what) == (f"{PLACE}[0].name", True)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1.5", '"1.5": must evaluate to a primitive scalar (string, integer, boolean, semver), not double'),
        (
            "[1]",
            '"[1]": must evaluate to a primitive scalar (string, integer, boolean, semver), not list(int)',
        ),
        ("devic", "undeclared reference to 'devic'"),
    ],
)
def test_derived_attributes_are_compiled(api: Served, expression: str, message: str) -> None:
    [(where, what)] = refusals(api, a_claim([{"name": "derived/numa", "expression": expression}]))
    assert (where, message in what) == (f"{PLACE}[0].expression", True)


def test_lists_can_be_derived_if_attributes_can_be_lists() -> None:
    on = dict.fromkeys(("DRADerivedAttributes", "DRAListTypeAttributes"), True)
    with serving(gates=FeatureGates(on, V1_37)) as api:
        assert created(api, a_claim([{"name": "derived/numa", "expression": "[1]"}])).code == 201


def test_derived_attributes_of_a_claim_cost_no_more_than_one_selector(api: Served) -> None:
    most = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, a < b)))"
    costly = f"{most} && {most}"
    claim = a_claim([{"name": "derived/numa", "expression": costly}])
    assert created(api, claim).code == 201
    [_, other] = claim["spec"]["devices"]["requests"]
    other["exactly"]["derivedAttributes"] = [{"name": "derived/numa", "expression": costly}]
    text = "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"
    assert refusals(api, claim) == [("spec.devices", f"Forbidden: {text}")]
