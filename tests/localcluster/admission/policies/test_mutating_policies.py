"""MutatingAdmissionPolicies: apply configurations, JSON patches, and when they are applied again."""

# ruff: noqa: E501 - an expression stands on one line

from typing import Any

import pytest
import yaml

from docs.pages import ROOT, blocks
from localcluster.admission.policies.policy_clusters import (
    RULE,
    PolicyCluster,
    Result,
    config_map,
    pod,
)
from stowplan.api import catalogue as c

Json = dict[str, Any]
SIDECAR = (
    "Object{spec: Object.spec{initContainers: [Object.spec.initContainers{"
    "name: 'mesh-proxy', image: 'mesh/proxy:v1.0.0', args: ['proxy', 'sidecar'], restartPolicy: 'Always'}]}}"
)


@pytest.fixture
def cluster() -> PolicyCluster:
    return PolicyCluster()


def created(cluster: PolicyCluster, obj: Json | None = None) -> Json:
    result = cluster.create(c.PODS, obj or pod())
    assert result.error is None, result.message
    return result.object


def names(made: Json) -> list[str]:
    return [one["name"] for one in made["spec"].get("initContainers") or ()]


def test_the_sidecar_of_the_documentation_without_its_atomic_list(cluster: PolicyCluster) -> None:
    sidecar = SIDECAR.replace("args: ['proxy', 'sidecar'], ", "")
    condition = {
        "name": "does-not-already-have-sidecar",
        "expression": "!has(object.spec.initContainers) || !object.spec.initContainers.exists(c, c.name == 'mesh-proxy')",
    }
    cluster.mutating("sidecar", sidecar, matchConditions=[condition], reinvocationPolicy="IfNeeded")
    other = {"name": "first", "image": "busybox"}
    made = created(cluster, pod({"initContainers": [other]}))
    assert names(made) == ["first", "mesh-proxy"]
    assert made["spec"]["initContainers"][1]["imagePullPolicy"] == "IfNotPresent"
    assert "mesh-proxy" not in str(made["metadata"].get("managedFields"))


def test_the_json_patch_of_the_documentation(cluster: PolicyCluster) -> None:
    patch = (
        "[JSONPatch{op: 'add', path: '/spec/initContainers/-', value: Object.spec.initContainers{"
        "name: 'mesh-proxy', image: 'mesh-proxy/v1.0.0', restartPolicy: 'Always'}}]"
    )
    cluster.mutating("sidecar", patch)
    other = {"name": "first", "image": "busybox"}
    assert names(created(cluster, pod({"initContainers": [other]}))) == ["first", "mesh-proxy"]
    refused = cluster.create(c.PODS, pod(name="other"))
    assert refused.message == (
        "policy 'sidecar' with binding 'sidecar-binding' denied request: JSON Patch: add operation does not "
        'apply: doc is missing path: "/spec/initContainers/-": missing value'
    )
    assert refused.error is not None
    assert (refused.error.code, refused.error.reason) == (403, "Invalid")


def test_values_of_json_patches(cluster: PolicyCluster) -> None:
    cluster.mutating(
        "p",
        "[JSONPatch{op: 'test', path: '/metadata/name', value: 'web'},"
        " JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}},"
        " JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/team'), value: 'x'},"
        " JSONPatch{op: 'copy', from: '/metadata/labels/a', path: '/metadata/labels/c'},"
        " JSONPatch{op: 'add', path: '/spec/terminationGracePeriodSeconds', value: 5},"
        " JSONPatch{op: 'add', path: '/spec/tolerations', value: [Object.spec.tolerations{key: 'gpu', operator: 'Exists'}]}]",
    )
    refused = cluster.create(c.PODS, pod())
    assert (
        refused.message.endswith(
            'type mismatch: unexpected type name "Object.spec.tolerations", expected "Object.spec.tolerations", which matches field name path from root Object type'
        )
        is False
    )
    made = refused.object
    assert made["metadata"]["labels"] == {"a": "b", "example.com/team": "x", "c": "b"}
    assert made["spec"]["terminationGracePeriodSeconds"] == 5
    assert made["spec"]["tolerations"][0] == {"key": "gpu", "operator": "Exists"}


def test_a_patch_whose_test_fails_is_left_out(cluster: PolicyCluster) -> None:
    cluster.mutating(
        "p",
        "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}},"
        " JSONPatch{op: 'test', path: '/metadata/name', value: 'other'}]",
    )
    assert "labels" not in created(cluster)["metadata"]


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        (SIDECAR, "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.initContainers[0].args"),
        ("Object{spec: Object.spec{nope: 1}}", "error applying patch: failed to convert patch object to typed object: .spec.nope: field not declared in schema"),
        ("Object{spec: Object.metadata{name: 'x'}}", 'type mismatch: unexpected type name "Object.metadata", expected "Object.spec", which matches field name path from root Object type'),
        ("Object{metadata: Object.metadata{name: object.nope}}", "expression 'Object{metadata: Object.metadata{name: object.nope}}' resulted in error: no such key: nope"),
        ("[JSONPatch{op: 'add', path: '/metadata/labels', value: quantity('1')}]", "JSONPath valueExpression evaluated to a type that could not marshal to JSON: kubernetes.Quantity"),
        ("[JSONPatch{op: 'frob', path: '/metadata/labels'}]", "JSON Patch: unexpected kind: frob"),
    ],
)  # fmt: skip
def test_mutations_that_cannot_be_applied(cluster: PolicyCluster, expression: str, told: str) -> None:
    cluster.mutating("p", expression)
    assert cluster.create(c.PODS, pod()).denied == told
    ignoring = PolicyCluster()
    ignoring.mutating("p", expression, failurePolicy="Ignore")
    assert ignoring.create(c.PODS, pod()).error is None


def test_what_a_policy_makes_is_validated_and_seen_by_validating_policies(cluster: PolicyCluster) -> None:
    cluster.mutating("bad", "Object{spec: Object.spec{restartPolicy: 'Maybe'}}")
    result = cluster.create(c.PODS, pod())
    assert result.error is not None
    assert "spec.restartPolicy: Unsupported value" in result.message
    other = PolicyCluster()
    rule = {**RULE, "apiGroups": [""], "resources": ["pods"]}
    other.mutating("label", "Object{metadata: Object.metadata{labels: {'team': 'a'}}}")
    other.validating(rule=rule, validations=[{"expression": "object.metadata.labels.team == 'a'"}])
    assert created(other)["metadata"]["labels"] == {"team": "a"}


def test_mutations_see_those_before_them_and_params(cluster: PolicyCluster) -> None:
    cluster.create(c.CONFIG_MAPS, config_map("params", {"team": "blue"}))
    reference = {"paramRef": {"name": "params", "parameterNotFoundAction": "Deny"}}
    cluster.mutating(
        "p",
        "Object{metadata: Object.metadata{labels: {'team': params.data.team}}}",
        "Object{metadata: Object.metadata{annotations: {'was': string(object.metadata.labels.team), 'in': namespaceObject.metadata.name}}}",
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        binding=reference,
    )
    made = created(cluster)
    assert made["metadata"]["annotations"] == {"was": "blue", "in": "prod"}


def counted(annotation: str) -> str:
    """A mutation that counts in an annotation how often it was applied."""
    now = f"has(object.metadata.annotations) && '{annotation}' in object.metadata.annotations"
    more = f"({now} ? object.metadata.annotations['{annotation}'] : '') + 'x'"
    return f"Object{{metadata: Object.metadata{{annotations: {{'{annotation}': {more}}}}}}}"


def test_policies_are_applied_again_only_if_they_ask_for_it(cluster: PolicyCluster) -> None:
    cluster.mutating("a", counted("a"), reinvocationPolicy="IfNeeded")
    cluster.mutating("b", counted("b"), reinvocationPolicy="Never")
    assert created(cluster)["metadata"]["annotations"] == {"a": "xx", "b": "x"}


def test_only_matching_objects_are_changed_also_on_update(cluster: PolicyCluster) -> None:
    selector = {"objectSelector": {"matchLabels": {"mutate": "yes"}}}
    constraints = {"matchConstraints": {"resourceRules": [RULE], **selector}}
    cluster.mutating("p", "Object{spec: Object.spec{replicas: 3}}", **constraints)
    assert cluster.deploy(1).object["spec"]["replicas"] == 1
    change: Json = {"metadata": {"labels": {"mutate": "yes"}}}
    found: Result = cluster.patch(c.DEPLOYMENTS, "web", change)
    assert found.object["spec"]["replicas"] == 3
    assert found.object["metadata"]["generation"] == 2
    assert cluster.delete(c.DEPLOYMENTS, "web").error is None


def test_custom_resources_are_merged_by_their_schema(cluster: PolicyCluster) -> None:
    item = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        "required": ["name"],
    }
    keyed = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"disks": keyed}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names_ = {"plural": "vms", "singular": "vm", "kind": "VM", "listKind": "VMList"}
    spec = {"group": "example.com", "names": names_, "scope": "Namespaced", "versions": [version]}
    cluster.store.create(
        c.CUSTOM_RESOURCE_DEFINITIONS, {"metadata": {"name": "vms.example.com"}, "spec": spec}
    )
    kind = cluster.store.catalogue.of_kind("example.com/v1", "VM")
    assert kind is not None
    rule = {
        "apiGroups": ["example.com"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["vms"],
    }
    cluster.mutating(
        "p", "Object{spec: Object.spec{disks: [Object.spec.disks{name: 'root', size: 20}]}}", rule=rule
    )
    disks = [{"name": "root"}, {"name": "data", "size": 1}]
    made = {
        "apiVersion": "example.com/v1",
        "kind": "VM",
        "metadata": {"name": "a", "namespace": "prod"},
        "spec": {"disks": disks},
    }
    assert cluster.create(kind, made).object["spec"]["disks"] == [{"name": "root", "size": 20}, disks[1]]


def test_the_policy_of_our_documentation_sends_pods_to_another_scheduler(cluster: PolicyCluster) -> None:
    text = next(
        one.text for one in blocks(ROOT / "docs" / "deploy.md") if "MutatingAdmissionPolicy" in one.text
    )
    policy, binding = yaml.safe_load_all(text)
    cluster.store.create(c.MUTATING_ADMISSION_POLICIES, policy)
    cluster.store.create(c.MUTATING_ADMISSION_POLICY_BINDINGS, binding)
    cluster.patch(c.NAMESPACES, "prod", {"metadata": {"labels": {"scheduled-by": "stowplan"}}}, "")
    assert created(cluster)["spec"]["schedulerName"] == "stowplan"
    assert created(cluster, pod({"schedulerName": "mine"}, name="b"))["spec"]["schedulerName"] == "mine"
    assert created(cluster, pod(namespace="test"))["spec"]["schedulerName"] == "default-scheduler"
