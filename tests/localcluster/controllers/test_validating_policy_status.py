"""Type checking of ValidatingAdmissionPolicies: warnings in the status about fields and types."""

# ruff: noqa: E501 - a message stands on one line

from typing import Any

import pytest

from localcluster.controllers.small_clusters import World, live
from stowplan.api import catalogue as c
from stowplan.localcluster.controllers.validatingpolicystatus import ValidatingPolicyStatusController

Json = dict[str, Any]
DEPLOYMENTS: Json = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["deployments"],
}
DEFINITION: Json = {
    "metadata": {"name": "limits.rules.example.com"},
    "spec": {
        "group": "rules.example.com",
        "scope": "Cluster",
        "names": {"plural": "limits", "singular": "limit", "kind": "Limit", "listKind": "LimitList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"most": {"type": "integer"}}}
                },
            }
        ],
    },
}


def policy(*expressions: str, rules: list[Json] | None = None, **spec: Any) -> Json:
    constraints = {"resourceRules": [DEPLOYMENTS] if rules is None else rules}
    validations = [{"expression": one} for one in expressions]
    return {
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": constraints, "validations": validations, **spec},
    }


def checked(obj: Json, *, change: Json | None = None) -> Json:
    """The status of a policy once it has been checked."""
    found: Json = {}

    async def story(world: World) -> None:
        world.store.create(c.CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
        world.store.create(c.VALIDATING_ADMISSION_POLICIES, obj)
        await world.settle()
        if change is not None:
            world.store.patch(c.VALIDATING_ADMISSION_POLICIES, "", "p", {"spec": change})
            await world.settle()
        found.update(world.store.get(c.VALIDATING_ADMISSION_POLICIES, "", "p").get("status") or {})

    live(story, lambda context: [ValidatingPolicyStatusController(context)])
    return found


def warnings(*expressions: str, rules: list[Json] | None = None, **spec: Any) -> list[tuple[str, str]]:
    """Field and first line of each warning."""
    status = checked(policy(*expressions, rules=rules, **spec))
    found = status["typeChecking"].get("expressionWarnings") or ()
    return [(one["fieldRef"], one["warning"].partition("\n")[0]) for one in found]


def test_a_policy_without_mistakes() -> None:
    assert checked(policy("object.spec.replicas <= 5")) == {"observedGeneration": 1, "typeChecking": {}}


def test_the_example_of_the_documentation() -> None:
    status = checked(policy("object.replicas > 1"))
    assert status["typeChecking"]["expressionWarnings"] == [
        {
            "fieldRef": "spec.validations[0].expression",
            "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n"
            " | object.replicas > 1\n | ......^\n",
        }
    ]


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("object.spec.replicas > '1'", "1:22: found no matching overload for '_>_' applied to '(int, string)'"),
        ("oldObject.spec.template.spec.containers.all(c, c.imagee != '')", "1:49: undefined field 'imagee'"),
        ("object.metadata.labels.all(k, k != '') && object.metadata.nope == 1", "1:58: undefined field 'nope'"),
        ("object.spec.strategy.rollingUpdate.maxSurge > 1", ""),
        ("object.metadata.creationTimestamp > timestamp('2026-01-01T00:00:00Z')", ""),
        ("object.spec.template.spec.containers[0].resources.limits['cpu'] == '1'", ""),
        ("variables.first.image.size() > 1", ""),
    ],
)  # fmt: skip
def test_fields_and_types_of_built_in_kinds(expression: str, told: str) -> None:
    first = {"name": "first", "expression": "object.spec.template.spec.containers[0]"}
    found = warnings(expression, variables=[first])
    prefix = "apps/v1, Kind=Deployment: ERROR: <input>:"
    assert [text for _, text in found] == ([prefix + told] if told else [])


def test_every_kind_of_the_rules_is_checked_and_wildcards_are_not() -> None:
    pods = {**DEPLOYMENTS, "apiGroups": [""], "resources": ["pods", "pods/status", "*/scale"]}
    found = checked(policy("object.spec.replicas > 1", rules=[DEPLOYMENTS, pods]))
    text = found["typeChecking"]["expressionWarnings"][0]["warning"]
    assert text.startswith("/v1, Kind=Pod: ERROR: <input>:1:12: undefined field 'replicas'")
    assert "Deployment" not in text
    assert warnings("object.nope == 1", rules=[{**DEPLOYMENTS, "apiGroups": ["*"]}]) == []


def test_messages_and_params_are_checked() -> None:
    spec = {
        "paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"},
        "validations": [
            {
                "expression": "object.spec.replicas <= params.least",
                "messageExpression": "'at most ' + string(params.most)",
            }
        ],
    }
    status = checked({"metadata": {"name": "p"}, "spec": {**policy()["spec"], **spec}})
    found = status["typeChecking"]["expressionWarnings"]
    assert [one["fieldRef"] for one in found] == ["spec.validations[0].expression"]
    assert "1:31: undefined field 'least'" in found[0]["warning"]


def test_custom_resources_are_checked_by_their_schema() -> None:
    rule = {**DEPLOYMENTS, "apiGroups": ["rules.example.com"], "resources": ["limits"]}
    assert warnings("object.most > 1 && object.metadata.labels.size() < 9", rules=[rule]) == []
    found = warnings("object.least > 1", rules=[rule])
    assert found[0][1] == "rules.example.com/v1, Kind=Limit: ERROR: <input>:1:7: undefined field 'least'"


def test_a_changed_policy_is_checked_again() -> None:
    change = {"validations": [{"expression": "object.spec.replicas > 1"}]}
    status = checked(policy("object.nope == 1"), change=change)
    assert status == {"observedGeneration": 2, "typeChecking": {}}
