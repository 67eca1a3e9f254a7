"""Roles and their bindings: kept, completed and judged like other objects."""

import random
from typing import Any

import pytest

from localcluster.store.stores import HandClock
from stowplan.api import catalogue as c
from stowplan.api.requests import PatchType
from stowplan.api.status import ApiError
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.store import FieldManager, Store

RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
VIEW = {"apiGroup": c.RBAC, "kind": "ClusterRole", "name": "view"}
SOMEBODY = {"kind": "User", "apiGroup": c.RBAC, "name": "ann"}


@pytest.fixture
def store() -> Store:
    made = Store(HandClock(), random.Random(1), admission=ClusterAdmission(), fields=FieldManager())
    create_bootstrap_objects(made)
    return made


def role(name: str = "r", **rule: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": [{**RULE, **rule}]}


def binding(subject: dict[str, Any] = SOMEBODY, **ref: Any) -> dict[str, Any]:
    return {"metadata": {"name": "b"}, "roleRef": {**VIEW, **ref}, "subjects": [subject]}


def within(resource: c.Resource) -> str:
    return "default" if resource.namespaced else ""


@pytest.mark.parametrize("resource", [c.ROLES, c.CLUSTER_ROLES])
@pytest.mark.parametrize("name", ["system:mine", "system::leader-locking", "Big", "a.b@c"])
def test_a_role_may_be_called_nearly_anything(store: Store, resource: c.Resource, name: str) -> None:
    assert store.create(resource, role(name), within(resource))["rules"] == [RULE]


@pytest.mark.parametrize("resource", [c.ROLE_BINDINGS, c.CLUSTER_ROLE_BINDINGS])
def test_a_binding_need_not_say_which_group_people_and_roles_belong_to(
    store: Store, resource: c.Resource
) -> None:
    account = {"kind": "ServiceAccount", "name": "a", "namespace": "default"}
    body = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "ann"}, {"kind": "Group", "name": "all"}, account],
    }
    made = store.create(resource, body, within(resource))
    assert made["roleRef"]["apiGroup"] == c.RBAC
    assert [subject.get("apiGroup") for subject in made["subjects"]] == [c.RBAC, c.RBAC, None]


def refused(resource: c.Resource, body: dict[str, Any], error: str) -> Any:
    return pytest.param(resource, body, error, id=f"{resource.kind}: {error}")


@pytest.mark.parametrize(
    ("resource", "body", "error"),
    [
        refused(c.ROLES, role("a/b"), "metadata.name: Invalid value: \"a/b\": may not contain '/'"),
        refused(c.ROLES, role(".."), "metadata.name: Invalid value: \"..\": may not be '..'"),
        refused(
            c.ROLES, role(verbs=[]), "rules[0].verbs: Required value: verbs must contain at least one value"
        ),
        refused(
            c.ROLES,
            role(apiGroups=[]),
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        ),
        refused(
            c.CLUSTER_ROLES,
            role(resources=[]),
            "rules[0].resources: Required value: resource rules must supply at least one resource",
        ),
        refused(
            c.ROLES,
            role(apiGroups=[], resources=[], nonResourceURLs=["/metrics"]),
            "namespaced rules cannot apply to non-resource URLs",
        ),
        refused(
            c.CLUSTER_ROLES,
            role(nonResourceURLs=["/metrics"]),
            "rules cannot apply to both regular resources and non-resource URLs",
        ),
        refused(
            c.CLUSTER_ROLES,
            {"metadata": {"name": "r"}, "aggregationRule": {}},
            "aggregationRule.clusterRoleSelectors: Required value",
        ),
        refused(c.CLUSTER_ROLE_BINDINGS, binding(kind="Role"), 'roleRef.kind: Unsupported value: "Role"'),
        refused(c.ROLE_BINDINGS, binding(apiGroup="x"), 'roleRef.apiGroup: Unsupported value: "x"'),
        refused(c.ROLE_BINDINGS, binding(name=""), "roleRef.name: Required value"),
        refused(
            c.ROLE_BINDINGS, binding({"kind": "Dog", "name": "d"}), "subjects[0].kind: Unsupported value"
        ),
        refused(c.ROLE_BINDINGS, binding({**SOMEBODY, "name": ""}), "subjects[0].name: Required value"),
        refused(
            c.ROLE_BINDINGS,
            binding({**SOMEBODY, "kind": "ServiceAccount"}),
            "subjects[0].apiGroup: Unsupported value",
        ),
        refused(
            c.CLUSTER_ROLE_BINDINGS,
            binding({"kind": "ServiceAccount", "name": "a"}),
            "subjects[0].namespace: Required value",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    store: Store, resource: c.Resource, body: dict[str, Any], error: str
) -> None:
    with pytest.raises(ApiError) as caught:
        store.create(resource, body, within(resource))
    assert caught.value.code == 422
    assert error in caught.value.message


@pytest.mark.parametrize("resource", [c.ROLE_BINDINGS, c.CLUSTER_ROLE_BINDINGS])
def test_a_binding_stays_with_its_role_but_not_with_its_people(store: Store, resource: c.Resource) -> None:
    store.create(resource, binding(), within(resource))
    with pytest.raises(ApiError, match="cannot change roleRef"):
        store.patch(resource, within(resource), "b", {"roleRef": {"name": "edit"}}, PatchType.MERGE)
    store.patch(resource, within(resource), "b", {"subjects": None}, PatchType.MERGE)
    assert "subjects" not in store.get(resource, within(resource), "b")
