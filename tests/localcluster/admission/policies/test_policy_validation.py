"""Policies, bindings and match conditions that are refused when they are written, with field and reason."""

# ruff: noqa: E501

import random
from typing import Any

import pytest

from stowplan.api import catalogue as c
from stowplan.api.catalogue import Resource
from stowplan.api.status import ApiError
from stowplan.localcluster.admission import ClusterAdmission
from stowplan.localcluster.store import FieldManager, Store
from stowplan.runtime.clock import RealClock

Json = dict[str, Any]
RULE: Json = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["deployments"],
}
MATCH: Json = {"matchConstraints": {"resourceRules": [RULE]}}
VALIDATION: Json = {"validations": [{"expression": "object.spec.replicas <= 5"}]}
BUILT = "compilation failed: ERROR: <input>:"


def problems(resource: Resource, spec: Json, name: str = "p.example.com") -> list[str]:
    """Errors of an object with this spec: fields and messages, without the pointers into expressions."""
    store = Store(RealClock(), random.Random(0), admission=ClusterAdmission(), fields=FieldManager())
    content = spec if "webhooks" in spec else {"spec": spec}
    try:
        store.create(resource, {"metadata": {"name": name}, **content})
    except ApiError as error:
        causes = error.details["causes"] if error.code == 422 else [{"field": "", "message": str(error)}]
        return [f"{one['field']}: {one['message'].partition(chr(10))[0]}" for one in causes]
    return []


def validating(**spec: Any) -> list[str]:
    return problems(c.VALIDATING_ADMISSION_POLICIES, {**MATCH, **VALIDATION, **spec})


def mutating(*mutations: Json, **spec: Any) -> list[str]:
    given = {**MATCH, "reinvocationPolicy": "Never", "mutations": [*mutations], **spec}
    return problems(c.MUTATING_ADMISSION_POLICIES, given)


def validation(expression: str, **others: Any) -> Json:
    return {"validations": [{"expression": expression, **others}]}


def test_what_is_right_is_stored() -> None:
    assert (
        validating(
            paramKind={"apiVersion": "rules.example.com/v1", "kind": "ReplicaLimit"},
            matchConditions=[
                {"name": "not-a-kubelet", "expression": "!('system:nodes' in request.userInfo.groups)"}
            ],
            variables=[
                {"name": "limit", "expression": "int(params.maxReplicas)"},
                {"name": "twice", "expression": "variables.limit * 2"},
            ],
            validations=[
                {
                    "expression": "object.spec.replicas <= variables.twice && authorizer.group('').resource('pods')"
                    ".check('create').allowed() && namespaceObject.metadata.name != request.name",
                    "messageExpression": "'at most ' + string(variables.limit)",
                    "reason": "Forbidden",
                }
            ],
            auditAnnotations=[{"key": "limit", "valueExpression": "string(variables.limit)"}],
        )
        == []
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (validation("1"), "spec.validations[0].expression: Invalid value: \"1\": must evaluate to bool but got int"),
        (validation("object.spec.paused"), "spec.validations[0].expression: Invalid value: \"object.spec.paused\": must evaluate to bool but got dyn"),
        (validation("nope == 1"), f'spec.validations[0].expression: Invalid value: "nope == 1": {BUILT}1:1: undeclared reference to \'nope\' (in container \'\')'),
        (validation("params.x == 1"), f'spec.validations[0].expression: Invalid value: "params.x == 1": {BUILT}1:1: undeclared reference to \'params\' (in container \'\')'),
        (validation("variables.x == 1"), f'spec.validations[0].expression: Invalid value: "variables.x == 1": {BUILT}1:1: undeclared reference to \'variables\' (in container \'\')'),
        (validation("request.nope == 1"), f'spec.validations[0].expression: Invalid value: "request.nope == 1": {BUILT}1:8: undefined field \'nope\''),
        (validation("(true"), f"spec.validations[0].expression: Invalid value: \"(true\": {BUILT}1:6: Syntax error: missing ')' at '<EOF>'"),
        (validation(" "), "spec.validations[0].expression: Required value: expression is not specified"),
        (validation("true", messageExpression="1"), 'spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int'),
        (validation("true", messageExpression="' ' + authorizer"), f'spec.validations[0].messageExpression: Invalid value: "\' \' + authorizer": {BUILT}1:7: undeclared reference to \'authorizer\' (in container \'\')'),
        (validation("true", message="a\nb"), 'spec.validations[0].message: Invalid value: "a\\nb": must not contain line breaks'),
        (validation("true", reason="NotFound"), 'spec.validations[0].reason: Unsupported value: "NotFound": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"'),
        ({"matchConditions": [{"name": "a", "expression": "variables.x"}], "variables": [{"name": "x", "expression": "true"}]}, f'spec.matchConditions[0].expression: Invalid value: "variables.x": {BUILT}1:1: undeclared reference to \'variables\' (in container \'\')'),
        ({"matchConditions": [{"name": "a", "expression": "true"}, {"name": "a", "expression": "true"}]}, 'spec.matchConditions[1].name: Duplicate value: "a"'),
        ({"variables": [{"name": "a-b", "expression": "1"}]}, 'spec.variables[0].name: Invalid value: "a-b": must be a valid CEL identifier'),
        ({"variables": [{"name": "in", "expression": "1"}]}, 'spec.variables[0].name: Invalid value: "in": must be a valid CEL identifier'),
        ({"variables": [{"name": "a", "expression": "variables.b"}]}, f'spec.variables[0].expression: Invalid value: "variables.b": {BUILT}1:10: undefined field \'b\''),
        ({"variables": [{"name": "a", "expression": "'x'"}], **validation("variables.a > 1")}, f'spec.validations[0].expression: Invalid value: "variables.a > 1": {BUILT}1:13: found no matching overload for \'_>_\' applied to \'(string, int)\''),
        ({"auditAnnotations": [{"key": "k", "valueExpression": "1"}]}, 'spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one of [string null_type] but got int'),
        ({"auditAnnotations": [{"key": "k", "valueExpression": "'a'"}] * 2}, 'spec.auditAnnotations[1].key: Duplicate value: "k"'),
        ({"validations": []}, "spec.validations: Required value: validations or auditAnnotations must contain at least one item"),
        ({"failurePolicy": "Maybe"}, 'spec.failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"'),
        ({"paramKind": {"apiVersion": "a/b/c", "kind": "X"}}, 'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'),
        ({"matchConstraints": {}}, "spec.matchConstraints.resourceRules: Required value"),
    ],
)  # fmt: skip
def test_a_validating_policy_that_cannot_work_is_refused(spec: Json, expected: str) -> None:
    assert validating(**spec)[0] == expected


def test_a_policy_with_params_may_use_them_everywhere() -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    conditions = [{"name": "a", "expression": "params != null"}]
    expression = validation(
        "params.data.x == object.metadata.name", messageExpression="string(params.data.y)"
    )
    assert validating(paramKind=kind, matchConditions=conditions, **expression) == []


APPLY = "ApplyConfiguration"
PATCH = "JSONPatch"


@pytest.mark.parametrize(
    ("mutation", "expected"),
    [
        ({"patchType": APPLY, "applyConfiguration": {"expression": "Object{spec: Object.spec{replicas: 1}}"}}, []),
        ({"patchType": PATCH, "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/a', value: Object.a{}}]"}}, []),
        ({"patchType": APPLY, "applyConfiguration": {"expression": "{'spec': 1}"}}, ['spec.mutations[0].applyConfiguration.expression: Invalid value: "{\'spec\': 1}": must evaluate to Object but got map(string, int)']),
        ({"patchType": PATCH, "jsonPatch": {"expression": "JSONPatch{op: 'add'}"}}, ['spec.mutations[0].jsonPatch.expression: Invalid value: "JSONPatch{op: \'add\'}": must evaluate to list(JSONPatch) but got JSONPatch']),
        ({"patchType": PATCH, "jsonPatch": {"expression": "[Nope{}]"}}, [f'spec.mutations[0].jsonPatch.expression: Invalid value: "[Nope{{}}]": {BUILT}1:6: undeclared reference to \'Nope\' (in container \'\')']),
        ({"patchType": PATCH}, ["spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch"]),
        ({"patchType": APPLY, "applyConfiguration": {"expression": "Object{}"}, "jsonPatch": {"expression": "[]"}}, ['spec.mutations[0].jsonPatch: Invalid value: "{jsonPatch}": must not be specified when patchType is ApplyConfiguration']),
        ({"patchType": "Merge"}, ['spec.mutations[0].patchType: Unsupported value: "Merge": supported values: "ApplyConfiguration", "JSONPatch"']),
    ],
)  # fmt: skip
def test_mutations_make_objects_or_patches(mutation: Json, expected: list[str]) -> None:
    assert mutating(mutation) == expected


def test_a_mutating_policy_cannot_change_what_is_deleted() -> None:
    good = {"patchType": PATCH, "jsonPatch": {"expression": "[]"}}
    assert mutating() == ["spec.mutations: Required value: mutations must contain at least one item"]
    rules = {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}
    assert mutating(
        {**good, "jsonPatch": {"expression": "[JSONPatch{op: 'a'}]"}}, matchConstraints=rules
    ) == [
        'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": '
        'supported values: "*", "CONNECT", "CREATE", "UPDATE"'
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}}, ["spec.paramRef.name: Forbidden: name and selector are mutually exclusive", "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive"]),
        ({"paramRef": {"parameterNotFoundAction": "Allow"}}, ["spec.paramRef: Required value: one of name or selector must be specified"]),
        ({"paramRef": {"name": "a"}}, ["spec.paramRef.parameterNotFoundAction: Required value"]),
        ({"validationActions": ["Deny", "Warn"]}, ['spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)']),
        ({"validationActions": ["Audit", "Audit"]}, ['spec.validationActions[1]: Duplicate value: "Audit"']),
        ({"policyName": ""}, ["spec.policyName: Required value"]),
    ],
)  # fmt: skip
def test_bindings_name_a_policy_actions_and_params(spec: Json, expected: list[str]) -> None:
    given = {"policyName": "p", "validationActions": ["Deny"], **spec}
    assert problems(c.VALIDATING_ADMISSION_POLICY_BINDINGS, given) == expected


def test_match_conditions_of_webhooks_are_compiled() -> None:
    hook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://localhost"},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "leases", "expression": "request.resource.group != 'x' && params"}],
    }
    found = problems(c.VALIDATING_WEBHOOK_CONFIGURATIONS, {"webhooks": [hook]})
    assert len(found) == 1
    assert found[0].startswith("webhooks[0].matchConditions[0].expression: Invalid value")
    assert "undeclared reference to 'params'" in found[0]


def test_a_very_deep_expression_is_refused_in_a_line() -> None:
    found = validating(**validation("(" * 300))
    assert found[0].endswith(
        "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
    )
