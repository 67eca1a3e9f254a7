"""Admission policies as clients of the API see them: statuses, warnings, dry runs, subresources."""

from collections.abc import Iterator
from typing import Any

import pytest

from localcluster.apiserver.served import APPLY, MERGE, Served, serving

Json = dict[str, Any]
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
def api() -> Iterator[Served]:
    with serving() as served:
        yield served


def validating(api: Served, expression: str, resource: str = "deployments", **binding: Any) -> None:
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [resource],
    }
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    body = {"metadata": {"name": "p"}, "spec": spec}
    assert api.ask("POST", f"{ADMISSION}/validatingadmissionpolicies", body).code == 201
    bound = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"], **binding}}
    assert api.ask("POST", f"{ADMISSION}/validatingadmissionpolicybindings", bound).code == 201


def deployment(replicas: int = 1) -> Json:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def test_a_denied_request_is_answered_with_a_status(api: Served) -> None:
    validating(api, "object.spec.replicas <= 5")
    answer = api.ask("POST", DEPLOYMENTS, deployment(6))
    text = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: "
    text += "object.spec.replicas <= 5"
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'deployments.apps "web" is forbidden: {text}',
        "reason": "Invalid",
        "details": {"name": "web", "group": "apps", "kind": "deployments", "causes": [{"message": text}]},
        "code": 422,
    }
    assert api.ask("POST", f"{DEPLOYMENTS}?dryRun=All", deployment(6)).code == 422
    applied = f"{DEPLOYMENTS}/web?fieldManager=m"
    assert api.ask("PATCH", applied, deployment(6), Content_Type=APPLY).code == 422
    assert api.ask("PATCH", applied, deployment(5), Content_Type=APPLY).code == 201
    assert api.ask("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 6}}, Content_Type=MERGE).code == 422
    assert api.ask("PUT", f"{DEPLOYMENTS}/web", deployment(7)).code == 422


def test_warnings_are_headers(api: Served) -> None:
    validating(api, "object.spec.replicas <= 5", validationActions=["Warn"])
    answer = api.ask("POST", DEPLOYMENTS, deployment(6))
    assert answer.code == 201
    assert answer.headers.get_all("Warning") == [
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': "
        'failed expression: object.spec.replicas <= 5"'
    ]


def test_scaling_is_an_update_of_a_scale(api: Served) -> None:
    validating(
        api,
        "object.kind == 'Scale' && object.spec.replicas <= 5 && request.subResource == 'scale'",
        "deployments/scale",
    )
    assert api.ask("POST", DEPLOYMENTS, deployment(9)).code == 201
    change = {"spec": {"replicas": 6}}
    assert api.ask("PATCH", f"{DEPLOYMENTS}/web/scale", change, Content_Type=MERGE).code == 422
    change = {"spec": {"replicas": 5}}
    assert api.ask("PATCH", f"{DEPLOYMENTS}/web/scale", change, Content_Type=MERGE).code == 200


def test_the_options_and_the_user_of_a_request_are_known(api: Served) -> None:
    validating(
        api,
        "request.options.kind == 'CreateOptions' && request.userInfo.groups.exists(g, g == 'system:masters')",
    )
    assert api.ask("POST", DEPLOYMENTS, deployment()).code == 201


def test_a_mutated_object_is_in_the_answer(api: Served) -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}
    change = "Object{metadata: Object.metadata{labels: {'team': 'blue'}}}"
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": change}}],
    }
    policies = f"{ADMISSION}/mutatingadmissionpolicies"
    assert api.ask("POST", policies, {"metadata": {"name": "m"}, "spec": spec}).code == 201
    binding = {"metadata": {"name": "m"}, "spec": {"policyName": "m"}}
    assert api.ask("POST", f"{ADMISSION}/mutatingadmissionpolicybindings", binding).code == 201
    made = api.ask("POST", DEPLOYMENTS, deployment()).body
    assert made["metadata"]["labels"] == {"team": "blue"}
    assert "f:metadata" not in made["metadata"]["managedFields"][0]["fieldsV1"]
    wrong = {"metadata": {"name": "w"}, "spec": {**spec, "mutations": []}}
    assert api.ask("POST", policies, wrong).code == 422


def test_a_broken_expression_is_refused_with_its_place(api: Served) -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "object.spec. >"}]}
    body = {"metadata": {"name": "p"}, "spec": spec}
    answer = api.ask("POST", f"{ADMISSION}/validatingadmissionpolicies", body)
    assert answer.code == 422
    assert answer.body["details"]["causes"][0]["field"] == "spec.validations[0].expression"
    assert "compilation failed: ERROR: <input>:1:14: Syntax error:" in answer.body["message"]
