"""ValidatingAdmissionPolicies: the examples of Kubernetes' documentation, and what else they can do."""

# ruff: noqa: E501 - an expression stands on one line

import json
from typing import Any

import pytest

from localcluster.admission.policies.policy_clusters import (
    RULE,
    PolicyCluster,
    config_map,
    deployment,
    pod,
)
from stowplan.api import catalogue as c
from stowplan.localcluster.auth.users import User

Json = dict[str, Any]
AT_MOST_FIVE: Json = {"validations": [{"expression": "object.spec.replicas <= 5"}]}
IN_TEST: Json = {"matchResources": {"namespaceSelector": {"matchLabels": {"environment": "test"}}}}
JANE = User("jane", ("system:authenticated", "developers"))


@pytest.fixture
def cluster() -> PolicyCluster:
    return PolicyCluster()


def rejection(cluster: PolicyCluster, expression: str, **spec: Any) -> str:
    """Why a deployment is denied by a policy with one expression, empty if it is not."""
    cluster.validating(validations=[{"expression": expression}], **spec)
    return cluster.deploy(user=JANE).denied


def test_the_first_example_of_the_documentation(cluster: PolicyCluster) -> None:
    cluster.validating("demo-policy.example.com", binding=IN_TEST, **AT_MOST_FIVE)
    refused = cluster.deploy(10, "test")
    text = (
        "ValidatingAdmissionPolicy 'demo-policy.example.com' with binding 'demo-policy.example.com-binding' "
        "denied request: failed expression: object.spec.replicas <= 5"
    )
    assert refused.message == f'deployments.apps "web" is forbidden: {text}'
    assert refused.error is not None
    assert (refused.error.code, refused.error.reason) == (422, "Invalid")
    causes = [{"message": text}]
    assert refused.error.details == {"name": "web", "group": "apps", "kind": "deployments", "causes": causes}
    assert cluster.deploy(5, "test").error is None
    assert cluster.deploy(10, "prod").error is None
    assert cluster.patch(c.DEPLOYMENTS, "web", {"spec": {"replicas": 6}}, "test").denied


def limited(cluster: PolicyCluster, *bindings: Json) -> None:
    """The policy of the documentation with a kind of params, here ConfigMaps."""
    cluster.validating(
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        validations=[
            {
                "expression": "object.spec.replicas <= int(params.data.maxReplicas)",
                "messageExpression": "'object.spec.replicas must be no greater than ' + params.data.maxReplicas",
                "reason": "Forbidden",
            }
        ],
        binding=bindings[0],
    )
    for number, binding in enumerate(bindings[1:]):
        cluster.bind("p", f"b{number}", **binding)


def test_each_binding_has_its_params(cluster: PolicyCluster) -> None:
    def binding(name: str, environment: str) -> Json:
        selector = {"namespaceSelector": {"matchLabels": {"environment": environment}}}
        reference = {"name": name, "namespace": "prod", "parameterNotFoundAction": "Deny"}
        return {"paramRef": reference, "matchResources": selector}

    limited(cluster, binding("limit-prod", "prod"), binding("limit-test", "test"))
    cluster.create(c.CONFIG_MAPS, config_map("limit-prod", {"maxReplicas": "100"}))
    missing = cluster.deploy(1, "test")
    assert missing.denied == (
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    )
    cluster.create(c.CONFIG_MAPS, config_map("limit-test", {"maxReplicas": "3"}))
    refused = cluster.deploy(4, "test")
    assert refused.denied == "object.spec.replicas must be no greater than 3"
    assert refused.error is not None
    assert (refused.error.code, refused.error.reason) == (403, "Forbidden")
    assert cluster.deploy(3, "test").error is None
    assert cluster.deploy(100).error is None


def test_params_of_the_namespace_of_the_object_are_selected_by_label(cluster: PolicyCluster) -> None:
    selector = {"matchLabels": {"limits": "yes"}}
    limited(cluster, {"paramRef": {"selector": selector, "parameterNotFoundAction": "Allow"}})
    assert cluster.deploy(9).error is None
    cluster.create(c.CONFIG_MAPS, config_map("a", {"maxReplicas": "10"}, labels={"limits": "yes"}))
    cluster.create(c.CONFIG_MAPS, config_map("b", {"maxReplicas": "7"}, labels={"limits": "yes"}))
    assert cluster.patch(c.DEPLOYMENTS, "web", {"spec": {"replicas": 8}}).denied.endswith("greater than 7")
    assert cluster.deploy(9, "test").error is None


def test_params_may_be_custom_resources_and_their_kind_must_exist(cluster: PolicyCluster) -> None:
    kind = {"apiVersion": "rules.example.com/v1", "kind": "ReplicaLimit"}
    reference = {"name": "limit", "parameterNotFoundAction": "Deny"}
    expression = [{"expression": "object.spec.replicas <= params.maxReplicas"}]
    cluster.validating(paramKind=kind, validations=expression, binding={"paramRef": reference})
    unknown = "failed to find resource referenced by paramKind: 'rules.example.com/v1, Kind=ReplicaLimit'"
    refused = cluster.deploy()
    assert refused.message.endswith(
        f"ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: {unknown}"
    )
    schema = {"type": "object", "properties": {"maxReplicas": {"type": "integer"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {
        "plural": "replicalimits",
        "singular": "replicalimit",
        "kind": "ReplicaLimit",
        "listKind": "ReplicaLimitList",
    }
    spec = {"group": "rules.example.com", "names": names, "scope": "Cluster", "versions": [version]}
    definition = {"metadata": {"name": "replicalimits.rules.example.com"}, "spec": spec}
    cluster.store.create(c.CUSTOM_RESOURCE_DEFINITIONS, definition)
    limits = cluster.store.catalogue.of_kind("rules.example.com/v1", "ReplicaLimit")
    assert limits is not None
    cluster.store.create(
        limits,
        {
            "apiVersion": "rules.example.com/v1",
            "kind": "ReplicaLimit",
            "metadata": {"name": "limit"},
            "maxReplicas": 3,
        },
    )
    assert cluster.deploy(4).denied == "failed expression: object.spec.replicas <= params.maxReplicas"
    assert cluster.deploy(3).error is None


def test_actions_deny_warn_and_audit(cluster: PolicyCluster) -> None:
    cluster.validating("p", binding={"validationActions": ["Warn", "Audit"]}, **AT_MOST_FIVE)
    found = cluster.deploy(6)
    assert found.error is None
    text = "failed expression: object.spec.replicas <= 5"
    assert found.warnings == [
        f"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p-binding': {text}"
    ]
    assert json.loads(found.annotations["validation.policy.admission.k8s.io/validation_failure"]) == [
        {
            "message": text,
            "policy": "p",
            "binding": "p-binding",
            "expressionIndex": 0,
            "validationActions": ["Warn", "Audit"],
        }
    ]


def test_audit_annotations(cluster: PolicyCluster) -> None:
    cluster.validating(
        auditAnnotations=[
            {
                "key": "replicas",
                "valueExpression": "'Deployment spec.replicas set to ' + string(object.spec.replicas)",
            },
            {"key": "empty", "valueExpression": "' '"},
            {"key": "null", "valueExpression": "null"},
        ],
    )
    assert cluster.deploy(60).annotations == {"p/replicas": "Deployment spec.replicas set to 60"}
    other = PolicyCluster()
    other.validating(auditAnnotations=[{"key": "k", "valueExpression": "object.spec.nope + ''"}])
    assert other.deploy().denied.endswith("no such key: nope")


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_errors_are_left_to_the_failure_policy(cluster: PolicyCluster, policy: str) -> None:
    found = rejection(cluster, "object.spec.nope == 1", failurePolicy=policy)
    text = "expression 'object.spec.nope == 1' resulted in error: no such key: nope"
    assert found == (text if policy == "Fail" else "")


def test_match_conditions_leave_requests_out(cluster: PolicyCluster) -> None:
    conditions = [
        {"name": "not-jane", "expression": "request.userInfo.username != 'jane'"},
        {"name": "by-developers", "expression": "'developers' in request.userInfo.groups"},
    ]
    assert rejection(cluster, "false", matchConditions=conditions) == ""
    joe = User("joe", ("developers",))
    assert cluster.deploy(user=joe, namespace="test").denied == "failed expression: false"


def test_an_error_of_a_match_condition_counts_unless_another_one_is_false(cluster: PolicyCluster) -> None:
    wrong = {"name": "wrong", "expression": "object.spec.nope"}
    wrong["expression"] = "object.spec.nope == 1"
    told = "expression 'object.spec.nope == 1' resulted in error: no such key: nope"
    assert rejection(cluster, "true", matchConditions=[wrong]) == told
    other = PolicyCluster()
    conditions = [wrong, {"name": "never", "expression": "false"}]
    assert rejection(other, "false", matchConditions=conditions) == ""


def test_variables_are_evaluated_lazily_and_build_on_each_other(cluster: PolicyCluster) -> None:
    """The example of the documentation: images by environment."""
    cluster.validating(
        variables=[
            {
                "name": "environment",
                "expression": "'environment' in namespaceObject.metadata.labels ? namespaceObject.metadata.labels['environment'] : 'prod'",
            },
            {
                "name": "exempt",
                "expression": "has(object.metadata.labels) && 'exempt' in object.metadata.labels",
            },
            {"name": "containers", "expression": "object.spec.template.spec.containers"},
            {
                "name": "toCheck",
                "expression": "variables.containers.filter(c, c.image.contains('example.com/'))",
            },
            {"name": "never", "expression": "object.spec.nope"},
        ],
        validations=[
            {
                "expression": "variables.exempt || variables.toCheck.all(c, c.image.startsWith(variables.environment + '.')) || variables.never",
                "messageExpression": "'only ' + variables.environment + ' images in namespace ' + namespaceObject.metadata.name",
            }
        ],
        failurePolicy="Fail",
    )
    made = deployment()
    image = made["spec"]["template"]["spec"]["containers"][0]
    made["spec"]["template"] = {
        **made["spec"]["template"],
        "spec": {"containers": [{**image, "image": "prod.example.com/nginx"}]},
    }
    assert cluster.create(c.DEPLOYMENTS, made).error is None
    made["metadata"]["namespace"] = "test"
    assert cluster.create(c.DEPLOYMENTS, made).denied == (
        "expression 'variables.exempt || variables.toCheck.all(c, c.image.startsWith(variables.environment + '.')) "
        '|| variables.never\' resulted in error: composited variable "never" fails to evaluate: no such key: nope'
    )
    made["metadata"]["labels"] = {"exempt": "yes"}
    assert cluster.create(c.DEPLOYMENTS, made).error is None


def test_the_authorizer_knows_roles(cluster: PolicyCluster) -> None:
    expression = "authorizer.group('').resource('secrets').namespace('prod').check('get').allowed()"
    assert rejection(cluster, expression) == f"failed expression: {expression}"
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    cluster.store.create(c.ROLES, {"metadata": {"name": "reader", "namespace": "prod"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]
    binding = {"metadata": {"name": "b", "namespace": "prod"}, "roleRef": reference, "subjects": subjects}
    cluster.store.create(c.ROLE_BINDINGS, binding)
    assert cluster.deploy(user=JANE).error is None


@pytest.mark.parametrize(
    "expression",
    [
        "request.kind.kind == 'Deployment' && request.resource.resource == 'deployments'",
        "request.operation == 'CREATE' && request.name == 'web' && request.namespace == 'prod'",
        "request.userInfo.username == 'jane' && !has(request.userInfo.uid) && request.dryRun == false",
        "!has(request.subResource) && oldObject == null && has(object.spec.strategy.rollingUpdate)",
        "timestamp(object.metadata.creationTimestamp).getFullYear() > 2000",
        "namespaceObject.metadata.labels.environment == 'prod' && namespaceObject.status.phase == 'Active'",
    ],
)
def test_the_request_as_expressions_see_it(cluster: PolicyCluster, expression: str) -> None:
    assert rejection(cluster, expression) == ""


def test_updates_and_deletions_see_the_old_object(cluster: PolicyCluster) -> None:
    rule = {**RULE, "operations": ["UPDATE", "DELETE"]}
    expression = "request.operation == 'DELETE' ? object == null && oldObject.spec.replicas < 3 : object.spec.replicas >= oldObject.spec.replicas"
    cluster.validating(rule=rule, validations=[{"expression": expression, "message": " only up "}])
    assert cluster.deploy(2).error is None
    assert cluster.patch(c.DEPLOYMENTS, "web", {"spec": {"replicas": 1}}).denied == "only up"
    assert cluster.patch(c.DEPLOYMENTS, "web", {"spec": {"replicas": 3}}).error is None
    assert cluster.delete(c.DEPLOYMENTS, "web").denied == "only up"


def test_status_and_scale_are_subresources(cluster: PolicyCluster) -> None:
    cluster.validating(
        rule={**RULE, "resources": ["deployments/status"]},
        validations=[{"expression": "object.status.replicas < 3"}],
    )
    made = cluster.deploy(5).object
    refused = cluster.attempt(
        lambda by: cluster.store.update(
            c.DEPLOYMENTS, {**made, "status": {"replicas": 3}}, subresource="status", by=by
        )
    )
    assert refused.denied == "failed expression: object.status.replicas < 3"


def test_a_policy_may_be_about_bindings_of_pods(cluster: PolicyCluster) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    cluster.validating(
        rule=rule,
        validations=[{"expression": "object.target.name != 'n1' && request.kind.kind == 'Binding'"}],
    )
    cluster.store.create(c.NODES, {"metadata": {"name": "n1"}})
    cluster.store.create(c.NODES, {"metadata": {"name": "n2"}})
    assert cluster.create(c.PODS, pod()).error is None

    def bound(node: str) -> str:
        body = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": node}}
        return cluster.attempt(lambda by: cluster.store.bind("prod", "web", body, by=by) or {}).denied

    assert bound("n1").startswith("failed expression")
    assert bound("n2") == ""


def test_messages_that_cannot_be_shown_are_replaced(cluster: PolicyCluster) -> None:
    for number, (told, expected) in enumerate(
        {
            "'a' + '\\n' + 'b'": "plain",
            "'  '": "plain",
            "object.spec.nope + ''": "plain",
            "'it is ' + string(object.spec.replicas)": "it is 1",
        }.items()
    ):
        other = PolicyCluster()
        one = {"expression": "false", "message": "plain", "messageExpression": told}
        other.validating(f"p{number}", validations=[one])
        assert other.deploy().denied == expected


def test_the_cost_of_one_expression_and_of_all_together_is_limited(cluster: PolicyCluster) -> None:
    long = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
    nested = (
        f"{long}.all(a, {long}.all(b, {long}.all(c, {long}.all(d, {long}.all(e, a + b + c + d + e > 0)))))"
    )
    found = rejection(cluster, nested)
    assert found.endswith("resulted in error: operation cancelled: actual cost limit exceeded")
    other = PolicyCluster()
    nearly = f"{long}.all(a, {long}.all(b, {long}.all(c, {long}.all(d, a + b + c + d > 0)))) && "
    heavy = {"expression": nearly * 9 + "true"}
    other.validating(validations=[heavy] * 20)
    assert other.deploy().denied == (
        "validation failed due to running out of cost budget, no further validation rules will be run"
    )


def test_policies_follow_their_objects(cluster: PolicyCluster) -> None:
    cluster.validating(**AT_MOST_FIVE)
    assert cluster.deploy(6).denied
    change = {"spec": {"validations": [{"expression": "object.spec.replicas <= 6"}]}}
    assert cluster.patch(c.VALIDATING_ADMISSION_POLICIES, "p", change, "").error is None
    assert cluster.deploy(6).error is None
    assert cluster.deploy(7, "test").denied
    cluster.delete(c.VALIDATING_ADMISSION_POLICY_BINDINGS, "p-binding", "")
    assert cluster.deploy(7, "test").error is None


def test_policies_never_guard_policies_and_webhooks(cluster: PolicyCluster) -> None:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    cluster.validating(rule=rule, validations=[{"expression": "false"}])
    assert cluster.create(c.CONFIG_MAPS, config_map("a", {})).denied
    assert cluster.delete(c.VALIDATING_ADMISSION_POLICIES, "p", "").error is None
    assert cluster.create(c.CONFIG_MAPS, config_map("a", {})).error is None


def test_an_object_is_matched_and_shown_in_an_equivalent_version(cluster: PolicyCluster) -> None:
    rule = {
        "apiGroups": ["autoscaling"],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["horizontalpodautoscalers"],
    }
    expression = "object.apiVersion == 'autoscaling/v1' && object.spec.targetCPUUtilizationPercentage < 90 && request.requestKind.version == 'v2'"
    cluster.validating(rule=rule, validations=[{"expression": expression}])
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}

    def scaled(percent: int) -> str:
        usage = {"type": "Utilization", "averageUtilization": percent}
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": usage}}
        spec = {"scaleTargetRef": target, "maxReplicas": 3, "metrics": [metric]}
        made = {"metadata": {"name": f"h{percent}", "namespace": "prod"}, "spec": spec}
        return cluster.create(c.HORIZONTAL_POD_AUTOSCALERS, made).denied

    assert scaled(95).startswith("failed expression")
    assert scaled(80) == ""


def test_several_policies_refuse_with_the_first_and_warn_with_all(cluster: PolicyCluster) -> None:
    cluster.validating("a", validations=[{"expression": "false", "message": "first"}])
    cluster.validating(
        "b",
        validations=[{"expression": "false", "message": "second"}],
        binding={"validationActions": ["Warn"]},
    )
    found = cluster.deploy()
    assert found.denied == "first"
    assert [text.rpartition(": ")[2] for text in found.warnings] == ["second"]


def test_each_plugin_can_be_disabled() -> None:
    forbidden = {"pod-security.kubernetes.io/enforce": "restricted"}
    rule = {**RULE, "apiGroups": [""], "resources": ["pods"]}
    for disabled in ("PodSecurity", "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"):
        cluster = PolicyCluster(disabled)
        cluster.validating(rule=rule, validations=[{"expression": "object.metadata.name != 'web'"}])
        cluster.mutating("m", "Object{metadata: Object.metadata{labels: {'a': 'b'}}}")
        cluster.patch(c.NAMESPACES, "prod", {"metadata": {"labels": forbidden}}, "")
        assert ("PodSecurity" in cluster.create(c.PODS, pod(name="a")).message) is (disabled != "PodSecurity")
        found = cluster.create(c.PODS, pod(namespace="test"))
        assert bool(found.denied) is (disabled != "ValidatingAdmissionPolicy")
        made = cluster.create(c.PODS, pod(namespace="test", name="b")).object["metadata"]
        assert ("labels" in made) is (disabled != "MutatingAdmissionPolicy")


def test_policies_are_found_again_when_a_store_is_restored(cluster: PolicyCluster) -> None:
    cluster.validating(**AT_MOST_FIVE)
    cluster.patch(
        c.NAMESPACES, "test", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}, ""
    )
    other = PolicyCluster.restored_from(cluster)
    assert other.deploy(6).denied
    refused = other.create(c.PODS, pod({"hostNetwork": True}, "test"))
    assert 'violates PodSecurity "baseline:latest"' in refused.message
