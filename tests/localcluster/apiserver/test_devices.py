"""resource.k8s.io over HTTP: versions, validation with compiled selectors, status, admin access, taints."""

from collections.abc import Iterator
from typing import Any

import pytest

from localcluster.apiserver.served import Served, serving
from releases import V1_36, V1_37
from stowplan.api import catalogue as c
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import Release
from stowplan.api.status import ApiError
from stowplan.localcluster.admission.devicefeatures import DeviceFeatures
from stowplan.localcluster.admission.validation import check_created

Json = dict[str, Any]
V1 = "/apis/resource.k8s.io/v1"
BETA1 = "/apis/resource.k8s.io/v1beta1"
DRIVER = "gpu.example.com"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    with serving() as server:
        yield server


def claim(name: str, version: str = "v1", **exactly: Any) -> Json:
    wanted = {"deviceClassName": DRIVER, **exactly}
    request = {"name": "r", **(wanted if version == "v1beta1" else {"exactly": wanted})}
    return of_kind("ResourceClaim", name, {"devices": {"requests": [request]}}, version)


def of_kind(kind: str, name: str, spec: Json, version: str = "v1") -> Json:
    body = {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": name}}
    return {**body, "spec": spec}


def a_slice(name: str, devices: list[Json], **spec: Any) -> Json:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    given = {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": devices, **spec}
    return of_kind(
        "ResourceSlice", name, {field: value for field, value in given.items() if value is not None}
    )


def rule(name: str, **taint: Any) -> Json:
    whole = {"key": "example.com/broken", "effect": "NoSchedule", **taint}
    return of_kind("DeviceTaintRule", name, {"deviceSelector": {}, "taint": whole})


# Versions


def test_a_claim_is_the_same_in_all_versions(api: Served) -> None:
    created = api.ask("POST", f"{BETA1}/namespaces/default/resourceclaims", claim("old", "v1beta1", count=2))
    assert created.code == 201
    warning = '299 - "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"'
    assert created.headers["Warning"] == warning
    [flat] = created.body["spec"]["devices"]["requests"]
    mode = {"allocationMode": "ExactCount", "count": 2}
    assert flat == {"name": "r", "deviceClassName": DRIVER, **mode}
    for version in ("v1", "v1beta2"):
        shown = api.ask("GET", f"/apis/resource.k8s.io/{version}/namespaces/default/resourceclaims/old").body
        assert shown["apiVersion"] == f"resource.k8s.io/{version}"
        [nested] = shown["spec"]["devices"]["requests"]
        assert nested == {"name": "r", "exactly": {"deviceClassName": DRIVER, **mode}}
    listed = api.ask("GET", f"{BETA1}/resourceclaims").body
    assert [one["metadata"]["name"] for one in listed["items"]] == ["old"]


def test_devices_of_v1beta1_are_basic_and_a_patch_in_that_version_is_understood(api: Served) -> None:
    device = {"name": "a", "attributes": {"model": {"string": "x"}}, "capacity": {"memory": {"value": "8Gi"}}}
    assert api.ask("POST", f"{V1}/resourceslices", a_slice("s", [device])).code == 201
    [shown] = api.ask("GET", f"{BETA1}/resourceslices/s").body["spec"]["devices"]
    basic = {field: value for field, value in device.items() if field != "name"}
    assert shown == {"name": "a", "basic": basic}
    patch = {"spec": {"devices": [{"name": "a", "basic": {"attributes": {"model": {"string": "y"}}}}]}}
    assert api.ask("PATCH", f"{BETA1}/resourceslices/s", patch, **MERGE).code == 200
    [stored] = api.ask("GET", f"{V1}/resourceslices/s").body["spec"]["devices"]
    assert stored == {"name": "a", "attributes": {"model": {"string": "y"}}}


def test_slices_are_selected_by_node_driver_and_pool(api: Served) -> None:
    assert api.ask("POST", f"{V1}/resourceslices", a_slice("one", [])).code == 201
    other = {"name": "elsewhere", "generation": 1, "resourceSliceCount": 1}
    assert api.ask("POST", f"{V1}/resourceslices", a_slice("two", [], pool=other, nodeName="m")).code == 201

    def found(selector: str) -> set[str]:
        items = api.ask("GET", f"{V1}/resourceslices?fieldSelector={selector}").body["items"]
        return {one["metadata"]["name"] for one in items} & {"one", "two"}

    assert found("spec.nodeName=m") == {"two"}
    assert found("spec.pool.name=n") == {"one"}
    assert found(f"spec.driver={DRIVER}") == {"one", "two"}


# Selectors


def selecting(expression: str) -> Json:
    return claim("c", selectors=[{"cel": {"expression": expression}}])


PLACE = "spec.devices.requests[0].exactly.selectors[0].cel.expression"


@pytest.mark.parametrize(
    ("expression", "reason", "message"),
    [
        (
            "devic.driver",
            "FieldValueInvalid",
            'Invalid value: "devic.driver": compilation failed: ERROR: <input>:1:1: undeclared reference to '
            "'devic' (in container '')\n | devic.driver\n | ^",
        ),
        (
            "device.driver",
            "FieldValueInvalid",
            'Invalid value: "device.driver": must evaluate to bool or the unknown type, not string',
        ),
        (
            f"'{'x' * 11_000}' == device.driver",
            "FieldValueTooLong",
            "Too long: may not be more than 10240 bytes",
        ),
        (
            " && ".join(
                ["device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, a < b)))"] * 8
            ),
            "FieldValueForbidden",
            "Forbidden: too complex, exceeds cost limit",
        ),
    ],
)
def test_selectors_are_compiled_when_they_are_written(
    api: Served, expression: str, reason: str, message: str
) -> None:
    refused = api.ask("POST", f"{V1}/namespaces/default/resourceclaims", selecting(expression))
    assert refused.code == 422
    assert refused.body["details"]["causes"] == [{"reason": reason, "message": message, "field": PLACE}]


def test_a_class_is_checked_again_only_if_its_selectors_change(api: Served) -> None:
    good = {"selectors": [{"cel": {"expression": "true"}}]}
    assert api.ask("POST", f"{V1}/deviceclasses", of_kind("DeviceClass", "k", good)).code == 201
    patch = {"spec": {"selectors": [{"cel": {"expression": "1"}}]}}
    assert api.ask("PATCH", f"{V1}/deviceclasses/k", patch, **MERGE).code == 422
    renamed = {"spec": {"extendedResourceName": "cpu"}}
    refused = api.ask("PATCH", f"{V1}/deviceclasses/k", renamed, **MERGE)
    assert "must be a valid extended resource name" in refused.body["message"]


# Rules for the rest


def constrained(constraint: Json) -> Json:
    return of_kind("ResourceClaim", "c", {"devices": {"constraints": [constraint]}})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (claim("c", count=-1), "exactly.count: Invalid value: -1: must be greater than zero"),
        (
            claim("c", tolerations=[{"key": "a", "operator": "Like"}]),
            'tolerations[0].operator: Unsupported value: "Like"',
        ),
        (
            constrained({"matchAttribute": "a"}),
            "a fully qualified name must be a domain and a name separated by a slash",
        ),
        (
            constrained({"requests": ["x"], "matchAttribute": "a.b/c"}),
            'constraints[0].requests[0]: Invalid value: "x": must be the name of a request in the claim',
        ),
        (
            a_slice("t", [{"name": f"d{n}"} for n in range(129)]),
            "spec.devices: Too many: 129: must have at most 128 items",
        ),
        (
            a_slice("t", [{"name": f"d{n}", "taints": [{"key": "a", "effect": "None"}]} for n in range(65)]),
            "spec.devices: Too many: 65: must have at most 64 items",
        ),
        (
            a_slice("t", [{"name": "d", "attributes": {"v": {"version": "1.2"}}}]),
            "must be a string compatible with semver.org spec 2.0.0",
        ),
        (
            a_slice(
                "t", [{"name": "d", "capacity": {"m": {"value": "1", "requestPolicy": {"default": "1"}}}}]
            ),
            "requestPolicy: Forbidden: allowMultipleAllocations must be true",
        ),
        (
            a_slice("t", [{"name": "d"}], sharedCounters=[{"name": "c", "counters": {"m": {"value": "1"}}}]),
            "only one of `sharedCounters` or `devices` is allowed",
        ),
        (
            a_slice("t", [{"name": "d", "bindingConditions": ["a"]}]),
            "bindingFailureConditions are required to use bindingConditions",
        ),
        (
            a_slice("t", [{"name": "d", "nodeName": "n"}]),
            "can only be set if `perDeviceNodeSelection` is set to true",
        ),
        (rule("t", effect="Evict"), 'spec.taint.effect: Unsupported value: "Evict"'),
        (rule("t", key="a/b/c"), 'spec.taint.key: Invalid value: "a/b/c"'),
    ],
)
def test_what_is_refused(api: Served, body: Json, message: str) -> None:
    plural = f"{body['kind'].lower()}s"
    place = f"namespaces/default/{plural}" if plural == "resourceclaims" else plural
    refused = api.ask("POST", f"{V1}/{place}", body)
    assert (refused.code, refused.body["reason"]) == (422, "Invalid")
    assert message in refused.body["message"]


def shared(**policy: Any) -> Json:
    capacity = {"m": {"value": "8", "requestPolicy": policy}}
    return a_slice("t", [{"name": "d", "allowMultipleAllocations": True, "capacity": capacity}])


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"validRange": {"min": "1"}}, "default: Required value: required when validRange is defined"),
        ({"default": "1", "validRange": {"min": "2"}}, 'Invalid value: "1": default is less than min: 2'),
        ({"default": "1", "validRange": {"min": "1", "max": "9"}}, "max is larger than capacity value: 8"),
        (
            {"default": "4", "validRange": {"min": "1", "step": "2"}},
            "not a multiple of a given step (2) from (1)",
        ),
        (
            {"default": "1", "validRange": {"min": "1", "step": "0"}},
            'validRange.step: Invalid value: "0": must be greater than zero',
        ),
        (
            {"default": "-2", "validRange": {"min": "-2", "step": "1"}},
            'validRange.min: Invalid value: "-2": must be greater than or equal to 0',
        ),
        (
            {"default": "1", "validRange": {"min": "1", "step": "18446744073709551616"}},
            'validRange.step: Invalid value: "18446744073709551616": must not be larger than',
        ),
        (
            {"default": "3", "validValues": ["1", "2"]},
            "default value is not valid according to the requestPolicy",
        ),
        ({"default": "1", "validValues": ["2", "1"]}, "values must be sorted in ascending order"),
        (
            {"default": "1", "validValues": ["1"], "validRange": {"min": "1"}},
            "exactly one policy can be specified",
        ),
    ],
)
def test_policies_of_shared_devices(api: Served, policy: Json, message: str) -> None:
    assert message in api.ask("POST", f"{V1}/resourceslices", shared(**policy)).body["message"]


def test_refusals_are_those_of_the_release() -> None:
    """A default out of its range is an error of another field, and `matches` has another cost."""
    every = "device.attributes.all({}, "
    costly = every.format("a") + every.format("b") + every.format("c") + "matches(a, '(x+x+)+y'))))"

    chosen = [{"cel": {"expression": f"{costly} && {costly}"}}]

    def refusals(release: Release) -> list[str]:
        found = []
        for resource, body in (
            (c.RESOURCE_SLICES, shared(default="1", validRange={"min": "2"})),
            (c.RESOURCE_CLAIMS, claim("c", allocationMode="ExactCount", count=1, selectors=chosen)),
        ):
            body["metadata"]["namespace"] = "default" if resource.namespaced else ""
            try:
                check_created(resource, body, optional=DeviceFeatures.of(FeatureGates(release=release)))
            except ApiError as error:
                found.append(error.message)
        return found

    before, after = refusals(V1_36), refusals(V1_37)
    assert [".validRange.min: " in before[0], ".validRange.default: " in after[0]] == [True, True]
    assert [len(before), "too complex, exceeds cost limit" in after[1]] == [1, True]


def test_what_cannot_be_changed(api: Served) -> None:
    claims = f"{V1}/namespaces/default/resourceclaims"
    assert api.ask("POST", claims, claim("fixed")).code == 201
    patch = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "other"}}]}}}
    refused = api.ask("PATCH", f"{claims}/fixed", patch, **MERGE)
    assert refused.code == 422
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == ["spec"]
    assert api.ask("PATCH", f"{claims}/fixed", {"metadata": {"labels": {"a": "b"}}}, **MERGE).code == 200


# Status

RESULT = {"request": "r", "driver": DRIVER, "pool": "n", "device": "gpu-0"}
ALLOCATION = {"devices": {"results": [RESULT]}}
MINE = {"resource": "pods", "name": "p", "uid": "u"}
REPORT = {"driver": DRIVER, "pool": "n", "device": "gpu-0"}


def test_the_status_of_a_claim_is_checked_and_reports_go_with_the_allocation(api: Served) -> None:
    claims = f"{V1}/namespaces/default/resourceclaims"
    assert api.ask("POST", claims, claim("used")).code == 201

    def write(**status: Any) -> Any:
        return api.ask("PATCH", f"{claims}/used/status", {"status": status}, **MERGE)

    assert "may not be specified when `allocated` is not set" in write(reservedFor=[MINE]).body["message"]
    wrong = {"devices": {"results": [{**RESULT, "request": "s"}]}}
    assert "results[0].request" in write(allocation=wrong).body["message"]
    assert write(allocation=ALLOCATION, reservedFor=[MINE]).code == 200
    moved = {"devices": {"results": [{**RESULT, "device": "gpu-1"}]}}
    assert "status.allocation: Invalid value" in write(allocation=moved).body["message"]
    other = write(devices=[{**REPORT, "device": "x"}])
    assert "must be an allocated device in the claim" in other.body["message"]
    assert write(devices=[REPORT]).body["status"]["devices"][0]["device"] == "gpu-0"
    many = [{**MINE, "uid": str(n)} for n in range(257)]
    assert (
        "reservedFor: Too many: 257: must have at most 256 items" in write(reservedFor=many).body["message"]
    )
    freed = write(allocation=None, reservedFor=None).body["status"]
    assert not freed.get("devices")


def test_admin_access_needs_a_label_of_the_namespace(api: Served) -> None:
    claims = f"{V1}/namespaces/default/resourceclaims"
    refused = api.ask("POST", claims, claim("admin", adminAccess=True))
    [cause] = refused.body["details"]["causes"]
    assert cause["field"] == "spec.devices.requests[0].adminAccess"
    assert cause["message"] == (
        "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label "
        "on the containing namespace"
    )
    assert api.ask("POST", claims, claim("plain")).code == 201
    granted = {"devices": {"results": [{**RESULT, "adminAccess": True}]}}
    status = {"status": {"allocation": granted}}
    assert api.ask("PATCH", f"{claims}/plain/status", status, **MERGE).code == 422
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    assert api.ask("PATCH", "/api/v1/namespaces/default", label, **MERGE).code == 200
    assert api.ask("POST", claims, claim("admin", adminAccess=True)).code == 201


# Rules


def test_a_rule_counts_its_changes_dates_its_taint_and_its_status_is_its_own(api: Served) -> None:
    rules = f"{V1}/devicetaintrules"
    made = api.ask("POST", rules, rule("r", timeAdded="2020-01-01T00:00:00Z")).body
    assert (made["metadata"]["generation"], made["spec"]["taint"]["timeAdded"]) == (1, "2020-01-01T00:00:00Z")
    executed = {"spec": {"taint": {"effect": "NoExecute"}}, "status": {"conditions": []}}
    changed = api.ask("PATCH", f"{rules}/r", executed, **MERGE).body
    assert changed["metadata"]["generation"] == 2
    assert changed["spec"]["taint"]["timeAdded"] > "2020"
    condition = {"type": "A", "status": "Maybe", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    refused = api.ask("PATCH", f"{rules}/r/status", {"status": {"conditions": [condition]}}, **MERGE)
    assert 'status.conditions[0].status: Unsupported value: "Maybe"' in refused.body["message"]
    good = {
        "status": {"conditions": [{**condition, "status": "True"}]},
        "spec": {"taint": {"effect": "None"}},
    }
    written = api.ask("PATCH", f"{rules}/r/status", good, **MERGE).body
    assert (written["spec"], written["metadata"]["generation"]) == (changed["spec"], 2)
    blind = api.ask("PUT", f"{rules}/r", rule("r"))
    assert blind.code == 422, "an update has to say which version it replaces"
    older = rule("r")
    older["apiVersion"] = "resource.k8s.io/v1alpha3"
    assert api.ask("PUT", "/apis/resource.k8s.io/v1alpha3/devicetaintrules/r", older).code == 200
    assert api.ask("DELETE", f"{rules}/r").body["kind"] == "Status"


def test_taints_of_a_slice_are_dated_when_they_come(api: Served) -> None:
    assert api.ask("POST", f"{V1}/resourceslices", a_slice("dated", [{"name": "d"}])).code == 201
    tainted = {"spec": {"devices": [{"name": "d", "taints": [{"key": "a", "effect": "NoExecute"}]}]}}
    shown = api.ask("PATCH", f"{V1}/resourceslices/dated", tainted, **MERGE).body
    [taint] = shown["spec"]["devices"][0]["taints"]
    assert taint["timeAdded"] >= shown["metadata"]["creationTimestamp"]


# Rights to write


def test_allocations_and_reports_of_drivers_need_rights_of_their_own(api: Served) -> None:
    claims = f"{V1}/namespaces/default/resourceclaims"
    assert api.ask("POST", claims, claim("guarded")).code == 201
    roles = "/apis/rbac.authorization.k8s.io/v1"
    group = {"apiGroups": ["resource.k8s.io"]}
    read = {**group, "resources": ["resourceclaims", "resourceclaims/status"], "verbs": ["get", "patch"]}
    binds = {**group, "resources": ["resourceclaims/binding"], "verbs": ["patch"]}
    drives = {**group, "resources": ["resourceclaims/driver"], "verbs": ["arbitrary-node:patch"]}
    named = {**drives, "resourceNames": [DRIVER]}
    rbac = {"apiGroup": "rbac.authorization.k8s.io"}
    for who, rules in (("nobody", [read]), ("scheduler", [read, binds]), ("driver", [read, named])):
        assert (
            api.ask("POST", f"{roles}/clusterroles", {"metadata": {"name": who}, "rules": rules}).code == 201
        )
        reference, subject = (
            {**rbac, "kind": "ClusterRole", "name": who},
            {**rbac, "kind": "User", "name": who},
        )
        body = {"metadata": {"name": who}, "roleRef": reference, "subjects": [subject]}
        assert api.ask("POST", f"{roles}/clusterrolebindings", body).code == 201

    def write(who: str, **written: Any) -> Any:
        headers = {**MERGE, "Impersonate-User": who}
        return api.ask("PATCH", f"{claims}/guarded/status", {"status": written}, **headers)

    refused = write("nobody", allocation=ALLOCATION)
    assert refused.code == 422
    [cause] = refused.body["details"]["causes"]
    assert (cause["field"], cause["message"]) == (
        "status.allocation",
        "Forbidden: changing status.allocation or status.reservedFor requires "
        'resource="resourceclaims/binding", verb="patch" permission: resourceclaims.resource.k8s.io is '
        'forbidden: User "nobody" cannot patch resource "resourceclaims/binding" in API group '
        '"resource.k8s.io" at the cluster scope',
    )
    assert write("driver", allocation=ALLOCATION).code == 422
    assert write("scheduler", allocation=ALLOCATION).code == 200
    assert 'verb="[arbitrary-node:patch]"' in write("scheduler", devices=[REPORT]).body["message"]
    assert write("driver", devices=[REPORT]).code == 200
