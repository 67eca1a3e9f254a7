"""Authorization: roles, impersonation, access reviews, and the checks on granting rights."""

from collections.abc import Iterator
from typing import Any

import pytest

from localcluster.apiserver.served import MERGE, Answer, Served, serving
from stowplan.api import catalogue as c

GROUP = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/team/pods"


def rule(verbs: str, resources: str = "", groups: str = "", **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"verbs": verbs.split()}
    if resources:
        base |= {"apiGroups": groups.split(",") if groups else [""], "resources": resources.split()}
    return base | more


def role(name: str, *rules: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "rules": list(rules)}


def binding(name: str, kind: str, to: str, *subjects: dict[str, Any]) -> dict[str, Any]:
    ref = {"apiGroup": c.RBAC, "kind": kind, "name": to}
    return {"metadata": {"name": name}, "roleRef": ref, "subjects": list(subjects)}


def user(name: str) -> dict[str, Any]:
    return {"kind": "User", "name": name, "apiGroup": c.RBAC}


def created(api: Served, path: str, body: dict[str, Any], **headers: str) -> Answer:
    answer = api.ask("POST", path, body, **headers)
    assert answer.code == 201, answer.body
    return answer


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    """A server with a namespace, and roles for ann (reader), the group ops, and the account team/robot."""
    with serving() as served:
        created(served, "/api/v1/namespaces", {"metadata": {"name": "team"}})
        for account in ("default", "robot"):
            body = {"metadata": {"name": account}}
            created(served, "/api/v1/namespaces/team/serviceaccounts", body)
        roles, bindings = f"{GROUP}/namespaces/team/roles", f"{GROUP}/namespaces/team/rolebindings"
        only = rule("get update", "configmaps", resourceNames=["only"])
        created(served, roles, role("reader", rule("get list", "pods pods/log */scale", ",apps"), only))
        created(served, bindings, binding("reader", "Role", "reader", user("ann")))
        robot = {"kind": "ServiceAccount", "name": "robot"}
        created(served, bindings, binding("robot", "ClusterRole", "system:node-proxier", robot))
        paths = rule("get", nonResourceURLs=["/metrics", "/logs/*"])
        created(served, f"{GROUP}/clusterroles", role("ops", rule("*", "*", "*"), paths))
        ops = {"kind": "Group", "name": "ops", "apiGroup": c.RBAC}
        created(served, f"{GROUP}/clusterrolebindings", binding("ops", "ClusterRole", "ops", ops))
        created(served, bindings, binding("lost", "Role", "gone", user("bob")))
        yield served


@pytest.mark.parametrize(
    ("method", "path", "who", "code"),
    [
        ("GET", PODS, "ann", 200),
        ("GET", f"{PODS}/p", "ann", 404),
        ("GET", f"{PODS}/p/log", "ann", 404),
        ("GET", f"{PODS}/p/status", "ann", 403),
        ("GET", f"{PODS}?watch=1", "ann", 403),
        ("DELETE", PODS, "ann", 403),
        ("GET", "/api/v1/pods", "ann", 403),
        ("GET", "/apis/batch/v1/namespaces/team/pods", "ann", 403),
        ("GET", "/api/v1/namespaces/default/pods", "ann", 403),
        ("GET", "/apis/apps/v1/namespaces/team/deployments/d/scale", "ann", 404),
        ("GET", "/apis/apps/v1/namespaces/team/deployments/d", "ann", 403),
        ("GET", "/api/v1/namespaces/team/configmaps/only", "ann", 404),
        ("GET", "/api/v1/namespaces/team/configmaps/other", "ann", 403),
        ("GET", "/api/v1/namespaces/team/configmaps?fieldSelector=metadata.name%3Donly", "ann", 403),
        ("GET", "/apis/none.example/v1/things", "ann", 403),
        ("GET", "/apis/none.example/v1/things", "ops", 404),
        ("GET", "/version", "ann", 200),
        ("GET", "/apis", "ann", 200),
        ("GET", "/metrics", "ann", 403),
        ("GET", "/logs/a/b", "ops", 404),
        ("GET", "/api/v1/nodes", "ops", 200),
        ("GET", "/api/v1/namespaces/team/services", "system:serviceaccount:team:robot", 200),
        ("GET", "/api/v1/namespaces/team/pods", "system:serviceaccount:team:robot", 403),
        ("GET", "/api/v1/namespaces/team/services", "system:serviceaccount:team:other", 403),
        ("GET", "/api/v1/nodes", "system:kube-scheduler", 200),
        ("DELETE", "/api/v1/nodes/n", "system:kube-scheduler", 403),
    ],
)
def test_requests_are_allowed_by_roles(api: Served, method: str, path: str, who: str, code: int) -> None:
    more = {"Impersonate_Group": "ops"} if who == "ops" else {}
    answer = api.ask(method, path, Impersonate_User=who, **more)
    assert answer.code == code, answer.body


def test_a_right_is_gone_as_soon_as_its_binding_or_role_is(api: Served) -> None:
    path = f"{GROUP}/namespaces/team"
    created(api, f"{path}/roles", role("short", rule("list", "secrets")))
    created(api, f"{path}/rolebindings", binding("short", "Role", "short", user("eve")))
    secrets = "/api/v1/namespaces/team/secrets"
    assert api.ask("GET", secrets, Impersonate_User="eve").code == 200
    body = {"subjects": [user("mallory")]}
    assert api.ask("PATCH", f"{path}/rolebindings/short", body, Content_Type=MERGE).code == 200
    assert api.ask("GET", secrets, Impersonate_User="eve").code == 403
    assert api.ask("GET", secrets, Impersonate_User="mallory").code == 200
    assert api.ask("PATCH", f"{path}/roles/short", {"rules": None}, Content_Type=MERGE).code == 200
    assert api.ask("GET", secrets, Impersonate_User="mallory").code == 403


def test_a_refusal_names_a_role_that_does_not_exist(api: Served) -> None:
    answer = api.ask("GET", PODS, Impersonate_User="bob")
    assert answer.body["message"].endswith(
        'in the namespace "team": RBAC: role.rbac.authorization.k8s.io "gone" not found'
    )


def test_who_may_impersonate_whom_is_a_matter_of_roles(api: Served) -> None:
    rules = [rule("impersonate", "users", resourceNames=["ann"]), rule("impersonate", "groups")]
    created(api, f"{GROUP}/clusterroles", role("actor", *rules))
    created(api, f"{GROUP}/clusterrolebindings", binding("actor", "ClusterRole", "actor", user("act")))
    created(api, "/api/v1/namespaces/team/serviceaccounts", {"metadata": {"name": "act"}})
    account = {"kind": "ServiceAccount", "name": "act", "namespace": "team"}
    created(api, f"{GROUP}/clusterrolebindings", binding("actor2", "ClusterRole", "actor", account))
    request = {"spec": {"expirationSeconds": 600}}
    token = created(api, "/api/v1/namespaces/team/serviceaccounts/act/token", request).body["status"]["token"]
    me = {"Authorization": f"Bearer {token}"}
    assert api.ask("GET", PODS, **me, Impersonate_User="ann").code == 200
    assert api.ask("GET", PODS, **me, Impersonate_User="ann", Impersonate_Group="ops").code == 200
    refused = api.ask("GET", PODS, **me, Impersonate_User="bob")
    assert refused.code == 403
    assert 'cannot impersonate-on:user-info:list resource "pods"' in refused.body["message"]
    assert api.ask("GET", PODS, **me, Impersonate_User="ann", Impersonate_Uid="7").code == 403


@pytest.mark.parametrize(
    ("headers", "groups"),
    [
        ({"Impersonate_User": "bob"}, ["system:authenticated"]),
        ({"Impersonate_User": "bob", "Impersonate_Group": "g"}, ["g", "system:authenticated"]),
        (
            {"Impersonate_User": "system:serviceaccount:team:robot"},
            ["system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"],
        ),
        ({"Impersonate_User": "system:node:n"}, ["system:nodes", "system:authenticated"]),
        (
            {"Impersonate_User": "bob", "Impersonate_Group": "system:masters"},
            ["system:masters", "system:authenticated"],
        ),
    ],
)
def test_an_impersonated_user_gets_the_groups_that_go_with_the_name(
    api: Served, headers: dict[str, str], groups: list[str]
) -> None:
    answer = created(api, "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, **headers)
    assert answer.body["status"]["userInfo"]["groups"] == groups


def test_groups_without_a_user_cannot_be_impersonated(api: Served) -> None:
    assert api.ask("GET", PODS, Impersonate_Group="g").code == 400


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (
            role("more", rule("get delete", "pods secrets")),
            'user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not '
            'currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}',
        ),
        (role("same", rule("get list", "pods")), ""),
        (role("named", rule("get", "configmaps", resourceNames=["only"])), ""),
        (role("all", rule("get", "configmaps")), '{APIGroups:[""], Resources:["configmaps"], Verbs:["get"]}'),
    ],
)
def test_nobody_writes_a_role_with_rights_they_lack(api: Served, body: dict[str, Any], error: str) -> None:
    path = f"{GROUP}/namespaces/team"
    writer = role("writer", rule("create update patch", "roles rolebindings", c.RBAC))
    if api.ask("POST", f"{path}/roles", writer).code == 201:
        created(api, f"{path}/rolebindings", binding("writer", "Role", "writer", user("ann")))
    answer = api.ask("POST", f"{path}/roles", body, Impersonate_User="ann")
    assert answer.code == (403 if error else 201), answer.body
    if error:
        name = body["metadata"]["name"]
        assert answer.body["message"].startswith(f'roles.{c.RBAC} "{name}" is forbidden: user "ann"')
        assert answer.body["message"].endswith(error)


def test_nobody_binds_a_role_with_rights_they_lack_unless_they_may_bind_it(api: Served) -> None:
    path = f"{GROUP}/namespaces/team/rolebindings"
    body = binding("mine", "ClusterRole", "cluster-admin", user("zoe"))
    created(api, f"{GROUP}/namespaces/team/roles", role("binder", rule("create", "rolebindings", c.RBAC)))
    created(api, path, binding("binder", "Role", "binder", user("dan")))
    assert api.ask("POST", path, body, Impersonate_User="dan").code == 403
    missing = binding("none", "Role", "none", user("dan"))
    assert api.ask("POST", path, missing, Impersonate_User="dan").code == 404
    allowed = rule("bind", "clusterroles", c.RBAC, resourceNames=["cluster-admin"])
    created(api, f"{GROUP}/namespaces/team/roles", role("binds", allowed))
    created(api, path, binding("binds", "Role", "binds", user("dan")))
    assert api.ask("POST", path, body, Impersonate_User="dan").code == 201


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (
            {"resourceAttributes": {"namespace": "team", "verb": "list", "resource": "pods"}},
            'RBAC: allowed by RoleBinding "reader/team" of Role "reader" to User "ann"',
        ),
        ({"resourceAttributes": {"verb": "list", "resource": "pods"}}, None),
        ({"resourceAttributes": {"namespace": "team", "verb": "get", "resource": "configmaps"}}, None),
        ({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}, None),
    ],
)
def test_reviews_say_what_would_be_allowed_and_why(
    api: Served, what: dict[str, Any], reason: str | None
) -> None:
    review = f"{REVIEWS}/subjectaccessreviews"
    answer = created(api, review, {"spec": {"user": "ann", **what}})
    expected = {"allowed": reason is not None} | ({"reason": reason} if reason else {})
    assert answer.body["status"] == expected
    own = f"{REVIEWS}/selfsubjectaccessreviews"
    answer = created(api, own, {"spec": what}, Impersonate_User="ann")
    assert answer.body["status"]["allowed"] == (reason is not None)


def test_a_user_sees_the_rules_that_apply_to_them(api: Served) -> None:
    path = f"{REVIEWS}/selfsubjectrulesreviews"
    answer = created(api, path, {"spec": {"namespace": "team"}}, Impersonate_User="bob")
    shown = answer.body["status"]
    assert rule("create", "selfsubjectreviews", "authentication.k8s.io") in shown["resourceRules"]
    assert shown["evaluationError"] == 'role.rbac.authorization.k8s.io "gone" not found'
    assert api.ask("POST", path, {"spec": {}}).code == 400


@pytest.mark.parametrize(
    ("kind", "spec", "error"),
    [
        ("selfsubjectaccessreviews", {}, "spec.resourceAttributes: Invalid value: null: exactly one of"),
        (
            "subjectaccessreviews",
            {"nonResourceAttributes": {"verb": "get", "path": "/"}},
            'spec.user: Invalid value: "": at least one of user or group must be specified',
        ),
        (
            "selfsubjectaccessreviews",
            {"resourceAttributes": {"fieldSelector": {}}},
            "spec.resourceAttributes.fieldSelector.requirements: Required value",
        ),
    ],
)
def test_a_review_that_asks_nothing_is_refused(
    api: Served, kind: str, spec: dict[str, Any], error: str
) -> None:
    answer = api.ask("POST", f"{REVIEWS}/{kind}", {"spec": spec})
    assert answer.code == 422
    assert error in answer.body["message"]


def test_the_roles_of_every_cluster_are_there(api: Served) -> None:
    roles = api.ask("GET", f"{GROUP}/clusterroles").body["items"]
    names = {one["metadata"]["name"] for one in roles}
    assert names >= {"cluster-admin", "admin", "edit", "view", "system:discovery", "system:kube-scheduler"}
    bound = api.ask("GET", f"{GROUP}/clusterrolebindings").body["items"]
    [deployments] = [
        one for one in bound if one["metadata"]["name"] == "system:controller:deployment-controller"
    ]
    assert deployments["subjects"] == [
        {"kind": "ServiceAccount", "name": "deployment-controller", "namespace": "kube-system"}
    ]
