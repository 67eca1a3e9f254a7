"""Access: the callers that get in, and the errors for others or for unreadable requests."""

import gzip
import json
import stat
from pathlib import Path

import pytest

from localcluster.apiserver.served import APPLY, MERGE, PODS, STRATEGIC, Served, pod, serving
from stowplan.localcluster.apiserver.server import write_kubeconfig


@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Bearer the-token2", "Bearer \u00fc", "Bearer a.b.c", "bearer x y"]
)
def test_a_wrong_token_is_refused(api: Served, header: str) -> None:
    answer = api.ask("GET", PODS, Authorization=header)
    assert answer.code == 401
    assert answer.body["reason"] == "Unauthorized"
    assert answer.body["kind"] == "Status"


@pytest.mark.parametrize("header", ["", "Basic the-token", "Bearer", "Bearer  the-token"])
def test_without_credentials_one_is_anonymous(api: Served, header: str) -> None:
    answer = api.ask("GET", PODS, Authorization=header)
    assert answer.code == 403
    assert answer.body["message"] == (
        'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" '
        'in the namespace "default"'
    )
    assert api.ask("GET", "/version", Authorization=header).code == 200
    assert api.ask("GET", "/api", Authorization=header).code == 403


def test_the_name_of_the_scheme_is_read_in_any_case(api: Served) -> None:
    assert api.ask("GET", PODS, Authorization="bearer the-token").code == 200


def test_health_may_be_asked_for_by_anybody(api: Served) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        answer = api.ask("GET", path, Authorization="")
        assert (answer.code, answer.body) == (200, b"ok")


def test_somebody_else_may_look_around_but_not_at_objects(api: Served) -> None:
    assert api.ask("GET", "/apis", Impersonate_User="bob").code == 200
    answer = api.ask("GET", PODS, Impersonate_User="bob")
    assert answer.code == 403
    assert answer.body["message"] == (
        'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default"'
    )
    named = api.ask("DELETE", "/apis/apps/v1/namespaces/x/deployments/d", Impersonate_User="bob").body
    assert named["details"] == {"name": "d", "group": "apps", "kind": "deployments"}
    assert 'deployments.apps "d" is forbidden: User "bob" cannot delete resource' in named["message"]
    assert api.ask("GET", PODS, Impersonate_User="bob", Impersonate_Group="system:masters").code == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "code", "reason"),
    [
        ("GET", "/api/v1/namespaces/default/pods/none", None, {}, 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/gizmos", None, {}, 404, "NotFound"),
        ("GET", "/apis/apps/v1/things", None, {}, 404, "NotFound"),
        ("POST", "/apis/apps/v9/things", {}, {}, 404, "NotFound"),
        ("POST", PODS, b"{", {}, 400, "BadRequest"),
        ("POST", PODS, b"\xff\xfe", {}, 400, "BadRequest"),
        ("POST", PODS, b"[1]", {}, 400, "BadRequest"),
        ("POST", PODS, b"", {}, 400, "BadRequest"),
        ("POST", PODS, b"[" * 100_000, {}, 400, "BadRequest"),
        ("POST", PODS, {"kind": "Service", "apiVersion": "v1"}, {}, 400, "BadRequest"),
        ("POST", PODS, {"spec": {"containers": 3}}, {}, 400, "BadRequest"),
        ("POST", PODS, pod("p", namespace="other"), {}, 400, "BadRequest"),
        ("POST", PODS, b"x", {"Content_Type": "text/plain"}, 415, "UnsupportedMediaType"),
        (
            "POST",
            PODS,
            b"k8s\x00\xff",
            {"Content_Type": "application/vnd.kubernetes.protobuf"},
            400,
            "BadRequest",
        ),
        ("PATCH", f"{PODS}/none", {}, {}, 415, "UnsupportedMediaType"),
        ("GET", PODS, None, {"Accept": "text/html"}, 406, "NotAcceptable"),
        ("PUT", PODS, {}, {}, 405, "MethodNotAllowed"),
        ("POST", f"{PODS}/p", {}, {}, 405, "MethodNotAllowed"),
        ("POST", "/api/v1/pods", pod("p"), {}, 405, "MethodNotAllowed"),
        ("OPTIONS", PODS, None, {}, 405, "MethodNotAllowed"),
        ("GET", f"{PODS}?labelSelector=%21%21", None, {}, 400, "BadRequest"),
        ("GET", f"{PODS}?fieldSelector=spec.color%3Dred", None, {}, 400, "BadRequest"),
        ("GET", f"{PODS}?limit=many", None, {}, 400, "BadRequest"),
        ("GET", f"{PODS}?continue=%00", None, {}, 400, "BadRequest"),
        ("GET", f"{PODS}?resourceVersion=x", None, {}, 400, "BadRequest"),
        ("GET", f"{PODS}?resourceVersion=99999999", None, {}, 504, "Timeout"),
        ("GET", f"{PODS}?watch=1&resourceVersionMatch=Exact", None, {}, 422, "Invalid"),
        ("POST", f"{PODS}?dryRun=Some", pod("p"), {}, 422, "Invalid"),
        ("POST", f"{PODS}?fieldValidation=Loud", pod("p"), {}, 422, "Invalid"),
        ("GET", f"{PODS}/p/log", None, {}, 404, "NotFound"),
        ("GET", f"{PODS}/p/nothing", None, {}, 404, "NotFound"),
    ],
)
def test_what_cannot_be_done_is_told_in_the_real_shape(
    api: Served, method: str, path: str, body: object, headers: dict[str, str], code: int, reason: str
) -> None:
    answer = api.ask(method, path, body, **headers)
    assert (answer.code, answer.body["reason"]) == (code, reason), answer.body
    assert answer.body["status"] == "Failure"
    assert answer.body["code"] == code
    assert answer.body["message"]


@pytest.mark.parametrize("kind", ["", MERGE, STRATEGIC, APPLY])
@pytest.mark.parametrize("depth", [150, 900, 5000])
def test_a_body_that_is_nested_too_deeply_is_refused(api: Served, kind: str, depth: int) -> None:
    path = "/apis/apps/v1/namespaces/default/controllerrevisions"
    body = b'{"metadata":{"name":"a"},"revision":1,"data":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    if kind:
        api.ask("POST", path, {"metadata": {"name": "a"}, "revision": 1, "data": {}})
        answer = api.ask("PATCH", f"{path}/a?fieldManager=m", body, Content_Type=kind)
    else:
        answer = api.ask("POST", path, body)
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")


def test_brackets_in_text_are_only_text(api: Served) -> None:
    body = {"metadata": {"name": "brackets"}, "data": {"a": '\\"{[' * 200}}
    assert api.ask("POST", "/api/v1/namespaces/default/configmaps", body).code == 201


def test_a_body_that_is_too_long_is_not_read(api: Served) -> None:
    answer = api.ask("POST", PODS, b" " * (3 * 1024 * 1024 + 1))
    assert answer.code == 413
    assert answer.body["reason"] == "RequestEntityTooLarge"


def test_a_body_that_grows_too_long_is_not_read_to_its_end(api: Served) -> None:
    connection = api.connection()
    chunks = (b" " * 65536 for _ in range(60))
    connection.request("POST", PODS, chunks, api.headers(), encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_a_small_body_that_unpacks_to_a_large_one_is_refused(api: Served) -> None:
    body = gzip.compress(b" " * (8 * 1024 * 1024))
    answer = api.ask("POST", PODS, body, Content_Encoding="gzip")
    assert answer.code in (400, 413, 415)


def test_with_tls_the_certificate_is_checked_against_itself_and_plain_requests_get_nowhere() -> None:
    with serving(plain=False) as served:
        assert served.ask("GET", "/version").code == 200
        assert served.server.url.startswith("https://127.0.0.1:")
        data = json.dumps(served.server.kubeconfig())
        assert "certificate-authority-data" in data
        assert "the-token" in data


def test_a_server_that_stops_ends_its_watches() -> None:
    with serving() as served:
        events = served.watch(
            f"{PODS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
            "&allowWatchBookmarks=true"
        )
        assert next(events)["type"] == "BOOKMARK"
    assert list(events) == []


def test_the_kubeconfig_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("old")
    path.chmod(0o644)
    write_kubeconfig(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_server_that_is_open_to_all_takes_everybody_for_its_administrator() -> None:
    with serving(open_to_all=True) as served:
        assert served.ask("GET", PODS, Authorization="").code == 200
