"""Malicious requests: each gets an answer, and nothing is left half written."""

import http.client
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from localcluster.apiserver.served import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Served,
    deployment,
    pod,
    serving,
)
from stowplan.api.catalogue import BUILT_IN
from stowplan.localcluster.apiserver.responses import encode
from stowplan.localcluster.schema import the_schema
from stowplan.localcluster.schema.strict import struct_of
from stowplan.localcluster.store import Store

CODES = {200, 201, 400, 403, 404, 405, 406, 409, 410, 411, 413, 415, 422, 429, 501, 504}
NAMES = [
    "a",
    "b",
    "default",
    "kube-system",
    "none",
    "A_B",
    "..",
    "%2e%2e",
    "x" * 300,
    "ü",
    "%00",
    " ",
    "a%2Fb",
]
PARTS = ["status", "binding", "eviction", "scale", "finalize", "log", "exec", "nothing", "a"]
PLURALS = [resource.plural for resource in BUILT_IN]
TYPES = [
    "application/json",
    MERGE,
    STRATEGIC,
    JSON_PATCH,
    APPLY,
    "application/yaml",
    "text/plain",
    "",
    "a;b=c;",
]
PROTOBUF = "application/vnd.kubernetes.protobuf"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
RIGHT: dict[str, Any] = {
    "/api/v1/namespaces/default/pods": pod("a", labels={"x": "y"}, finalizers=["e.example/f"]),
    "/apis/apps/v1/namespaces/default/deployments": deployment("a"),
    "/apis/apps/v1/namespaces/default/statefulsets": {**deployment("a"), "kind": "StatefulSet"},
    "/apis/apps/v1/namespaces/default/daemonsets": {**deployment("a"), "kind": "DaemonSet"},
    "/apis/batch/v1/namespaces/default/jobs": {
        "metadata": {"name": "a"},
        "spec": {"template": {"spec": pod()["spec"] | {"restartPolicy": "Never"}}},
    },
    "/api/v1/namespaces/default/configmaps": {"metadata": {"name": "a"}, "data": {"k": "v"}},
    "/api/v1/namespaces/default/secrets": {"metadata": {"name": "a"}, "stringData": {"k": "v"}},
    "/api/v1/namespaces/default/services": {
        "metadata": {"name": "a"},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "targetPort": "http"}], "selector": {"a": "b"}},
    },
    "/api/v1/nodes": {
        "metadata": {"name": "a", "labels": {"zone": "z"}},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    "/api/v1/namespaces": {"metadata": {"name": "a"}},
    "/api/v1/persistentvolumes": {
        "metadata": {"name": "a"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/"}},
    },
    "/api/v1/namespaces/default/persistentvolumeclaims": {"metadata": {"name": "a"}, "spec": CLAIM},
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {
        "metadata": {"name": "a"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"x": "y"}}},
    },
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"metadata": {"name": "a"}, "value": 5},
    "/apis/storage.k8s.io/v1/storageclasses": {"metadata": {"name": "a"}, "provisioner": "p"},
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {
        "metadata": {"name": "a"},
        "spec": {"holderIdentity": "x", "renewTime": "2026-01-01T00:00:00.000000Z"},
    },
    "/api/v1/namespaces/default/events": {
        "metadata": {"name": "a"},
        "involvedObject": {"kind": "Pod", "name": "a"},
        "message": "m",
    },
    "/apis/events.k8s.io/v1/namespaces/default/events": {
        "metadata": {"name": "b"},
        "regarding": {"kind": "Pod", "name": "a"},
        "note": "m",
    },
}
PARTIAL: list[Any] = [
    {"metadata": {"labels": {"a": None, "b": "c"}}, "spec": {"replicas": 3}},
    {"metadata": {"$patch": "replace"}, "spec": {"containers": [{"$patch": "delete", "name": "main"}]}},
    {
        "spec": {
            "$setElementOrder/containers": [{"name": "main"}],
            "containers": [{"name": "main", "tty": True}],
        }
    },
    {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
    [{"op": "replace", "path": "/metadata/labels", "value": {"a": "b"}}],
    [
        {"op": "move", "from": "/spec", "path": "/spec/containers/0"},
        {"op": "remove", "path": "/metadata/name"},
    ],
    [{"op": "add", "path": "/spec/containers/-", "value": {"name": "x", "image": "y"}}],
]
VERBS: dict[str, Any] = {
    "pods/a/binding": {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "a"}},
    "pods/a/eviction": {"metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": 0}},
    "bindings": {"metadata": {"name": "a"}, "target": {"name": "a"}},
}
REVIEWS: dict[str, Any] = {
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": {
        "spec": {"resourceAttributes": {"verb": "get"}}
    },
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": {"spec": {"user": "u", "groups": ["g"]}},
    "/apis/authentication.k8s.io/v1/tokenreviews": {"spec": {"token": "x"}},
}
DELETION = {"gracePeriodSeconds": -1, "preconditions": {"uid": "x"}, "propagationPolicy": "Orphan"}
SEEDS: list[Any] = [*RIGHT.values(), *PARTIAL, *VERBS.values(), *REVIEWS.values(), DELETION]


class Request(NamedTuple):
    """Something to send."""

    method: str
    path: str
    body: bytes | None
    content_type: str


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.sampled_from(["", "a", "0", "-1", "1Gi", "1e400", "100%", "\ud800", "2026-01-01T00:00:00Z", "a/b/c"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def mutated(draw: Any, data: Any) -> Any:
    """The data with one thing somewhere in it replaced, taken away or added."""
    if isinstance(data, dict) and data and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(data)))
        what = draw(st.integers(0, 5))
        if what == 0:
            return {name: value for name, value in data.items() if name != key}
        if what == 1:
            return {
                **data,
                draw(st.sampled_from(["metadata", "spec", "name", "uid", "resourceVersion", "x"])): draw(
                    values
                ),
            }
        return {**data, key: mutated(draw, data[key])}
    if isinstance(data, list) and data and draw(st.integers(0, 2)):
        place = draw(st.integers(0, len(data) - 1))
        return [*data[:place], mutated(draw, data[place]), *data[place + 1 :]]
    return draw(values)


def spoiled(draw: Any, data: Any) -> bytes:
    """JSON text of the data with some things changed in it."""
    for _ in range(draw(st.integers(0, 3))):
        data = mutated(draw, data)
    return json.dumps(data).encode("utf-8", "surrogatepass")


@st.composite
def nearly_right(draw: Any) -> Request:
    """A request that makes sense but for a few things."""
    path = draw(st.sampled_from(sorted(RIGHT)))
    whole, what = RIGHT[path], draw(st.integers(0, 9))
    if what <= 2:
        return Request(
            "POST",
            path,
            spoiled(draw, whole),
            draw(st.sampled_from(["application/json", "application/yaml"])),
        )
    name = whole["metadata"]["name"]
    part = draw(st.sampled_from(["", "", "/status", "/scale", "/finalize"]))
    if what <= 4:
        kind = draw(st.sampled_from([MERGE, STRATEGIC, JSON_PATCH]))
        return Request(
            "PATCH", f"{path}/{name}{part}", spoiled(draw, draw(st.sampled_from([whole, *PARTIAL]))), kind
        )
    if what == 5:
        return Request("PATCH", f"{path}/{name}{part}?fieldManager=m&force=true", spoiled(draw, whole), APPLY)
    if what == 6:
        return Request("PUT", f"{path}/{name}{part}", spoiled(draw, whole), "application/json")
    if what == 7:
        return Request("DELETE", f"{path}/{name}", spoiled(draw, DELETION), "application/json")
    if what == 8:
        verb = draw(st.sampled_from(sorted(VERBS)))
        return Request(
            "POST", f"/api/v1/namespaces/default/{verb}", spoiled(draw, VERBS[verb]), "application/json"
        )
    review = draw(st.sampled_from(sorted(REVIEWS)))
    return Request("POST", review, spoiled(draw, REVIEWS[review]), "application/json")


@st.composite
def wild(draw: Any) -> Request:
    """A request that need not make any sense."""
    body = draw(
        st.one_of(st.none(), st.binary(max_size=60), st.binary(max_size=60).map(lambda raw: b"k8s\0" + raw))
    )
    if draw(st.booleans()):
        text = spoiled(draw, draw(st.sampled_from(SEEDS)))
        body = text[: draw(st.integers(0, len(text)))]
    method = draw(st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "TRACE"]))
    return Request(method, draw(paths()), body, draw(st.sampled_from([*TYPES, PROTOBUF])))


@st.composite
def paths(draw: Any) -> str:
    if not draw(st.integers(0, 9)):
        return "/" + quote(draw(st.text(max_size=30)), safe="/")
    if not draw(st.integers(0, 9)):
        return str(draw(st.sampled_from(["/api", "/apis", "/api/v1", "/openapi/v3/x", "/version", "//"])))
    resource = draw(st.sampled_from(BUILT_IN))
    path: str = resource.prefix
    if resource.namespaced:
        path += f"/namespaces/{quote(draw(st.sampled_from(['default', *NAMES])), safe='%')}"
    path += f"/{resource.plural}"
    if draw(st.booleans()):
        path += f"/{quote(draw(st.sampled_from(['a', *NAMES])), safe='%')}"
        if not draw(st.integers(0, 3)):
            path += f"/{draw(st.sampled_from(PARTS))}"
    return path


queries = st.dictionaries(
    st.sampled_from(
        [
            "labelSelector",
            "fieldSelector",
            "limit",
            "continue",
            "resourceVersion",
            "resourceVersionMatch",
            "dryRun",
            "force",
            "fieldManager",
            "fieldValidation",
            "gracePeriodSeconds",
            "propagationPolicy",
            "includeObject",
            "x",
        ]
    ),
    st.one_of(
        st.text(max_size=12),
        st.sampled_from(
            [
                "a=b",
                "a in (b,c)",
                "metadata.name=a",
                "All",
                "1",
                "0",
                "-5",
                "true",
                "Exact",
                "NotOlderThan",
                "Strict",
                "Orphan",
                "9" * 30,
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTksInN0YXJ0IjpbImEiLCJiIl19",
            ]
        ),
    ),
    max_size=3,
)


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    with serving() as served:
        for path, body in RIGHT.items():
            assert served.ask("POST", path, body).code == 201
        yield served


def whole(store: Store) -> list[str]:
    """Problems of the stored objects."""
    problems = []
    for resource in BUILT_IN:
        type_ = the_schema().of_kind(resource.group, resource.version, resource.kind)
        for key, obj in store._collection(resource).objects.items():
            metadata = obj["metadata"]
            if (metadata.get("namespace", ""), metadata["name"]) != key or not metadata["uid"]:
                problems.append(f"{resource.plural} {key}: its metadata is another's")
            if int(metadata["resourceVersion"]) > store.version or not metadata["creationTimestamp"]:
                problems.append(f"{resource.plural} {key}: a version that is not there yet")
            assert type_ is not None
            try:
                msgspec.json.decode(encode(obj), type=struct_of(type_.full_name))
            except msgspec.ValidationError as error:
                problems.append(f"{resource.plural} {key}: {error}")
    return problems


@settings(max_examples=examples(400))
@given(
    request=nearly_right() | nearly_right() | wild(),
    query=queries,
    accept=st.sampled_from(
        [
            "",
            "application/json",
            "*/*",
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            "application/yaml",
            PROTOBUF,
            "x",
        ]
    ),
)
def test_every_request_is_answered_and_nothing_is_half_written(
    api: Served, request: Request, query: dict[str, str], accept: str
) -> None:
    given = "&".join(f"{name}={quote(value, errors='replace')}" for name, value in query.items())
    asked = request.path + ("&" if "?" in request.path else "?") + given
    headers = api.headers(Content_Type=request.content_type, Accept=accept)
    connection = api.connection()
    try:
        connection.request(request.method, asked, request.body, headers)
        response = connection.getresponse()
        text = response.read()
    finally:
        connection.close()
    bad_binding = (
        response.status == 500 and b"target." in text and request.path.endswith(("binding", "bindings"))
    )
    unknown_field = response.status == 500 and b"typed patch object" in text
    assert response.status in CODES or bad_binding or unknown_field, text
    if response.status >= 400 and text and response.headers.get_content_type() == "application/json":
        told = json.loads(text)
        assert told["kind"] == "Status"
        assert told["message"]
    assert api.run(whole) == []


@settings(max_examples=examples(60))
@given(data=st.binary(max_size=200))
def test_bytes_that_are_no_requests_do_not_disturb_others(api: Served, data: bytes) -> None:
    connection = api.connection()
    connection.connect()
    assert connection.sock is not None
    connection.sock.sendall(data + b"\r\n\r\n")
    assert api.ask("GET", "/version").code == 200
    connection.close()


def test_a_request_that_never_ends_does_not_keep_others_waiting(api: Served) -> None:
    waiting: list[http.client.HTTPConnection] = []
    for _ in range(50):
        connection = api.connection()
        connection.putrequest("POST", "/api/v1/namespaces")
        connection.putheader("Authorization", "Bearer the-token")
        connection.putheader("Content-Length", "1000")
        connection.endheaders(b"{")
        waiting.append(connection)
    assert api.ask("GET", "/version").code == 200
    for connection in waiting:
        connection.close()


MAPS = "/api/v1/namespaces/default/configmaps"
_FRAGMENTS = ["a", "=", "==", "!=", "!", " in ", " notin ", "(", ")", ",", "\0", "\xff", " ", "/", ">", "1"]


@pytest.mark.parametrize(
    "query",
    [
        "labelSelector=%00%ff(((",
        "labelSelector=a%20in%20(b",
        "labelSelector=!!a",
        "labelSelector=" + "(" * 5000,
        "labelSelector=a%3Db%3Dc",
        "labelSelector=" + "x" * 300,
        "fieldSelector=a",
        "fieldSelector=spec.nothing%3Dx",
        "resourceVersion=-1",
        "resourceVersion=%ff",
        "limit=x",
        "continue=%00",
        "timeoutSeconds=x&watch=true",
        "resourceVersionMatch=Never&resourceVersion=1",
    ],
)
def test_options_of_lists_that_make_no_sense_are_refused(api: Served, query: str) -> None:
    answer = api.ask("GET", f"{MAPS}?{query}")
    assert answer.code in (400, 422), answer.body
    assert answer.body["message"]


@settings(max_examples=examples(150))
@given(parts=st.lists(st.sampled_from(_FRAGMENTS) | st.text(max_size=3), max_size=8))
def test_any_selector_selects_or_is_refused(api: Served, parts: list[str]) -> None:
    selector = quote("".join(parts), errors="replace")
    for name in ("labelSelector", "fieldSelector"):
        answer = api.ask("GET", f"{MAPS}?{name}={selector}")
        assert answer.code in (200, 400), answer.body
        assert answer.code == 200 or answer.body["message"]


_anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["f:data", "Apply", "v1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_fields = st.dictionaries(
    st.sampled_from(["f:data", ".", "k:{}", "v:1", "i:0", "x", "f:", 'k:{"name":"a"}']), _anything, max_size=3
)
_entries = st.fixed_dictionaries(
    {},
    optional={
        "manager": st.text(max_size=5),
        "operation": st.sampled_from(["Apply", "Update", "Other"]),
        "apiVersion": st.sampled_from(["v1", "v9", ""]),
        "time": st.sampled_from(["2026-01-01T00:00:00Z", "x"]),
        "fieldsType": st.sampled_from(["FieldsV1", "FieldsV2"]),
        "fieldsV1": _fields,
        "subresource": st.sampled_from(["", "status"]),
    },
)


@settings(max_examples=examples(150))
@given(entries=st.lists(_entries, max_size=3) | _anything, applied=_anything)
def test_any_managed_fields_are_taken_or_refused_and_applying_goes_on(
    api: Served, entries: Any, applied: Any
) -> None:
    named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "managed"}}
    api.ask("POST", MAPS, {**named, "data": {"a": "1"}})
    patch = {"metadata": {"managedFields": entries}, "data": {"b": "2"}}
    answer = api.ask("PATCH", f"{MAPS}/managed", patch, Content_Type=MERGE)
    assert answer.code in (200, 400, 422), answer.body
    path = f"{MAPS}/managed?fieldManager=me&force=true"
    for body in ({**named, "data": applied}, applied):
        answer = api.ask("PATCH", path, body, Content_Type=APPLY)
        unknown = "typed patch object" in answer.body.get("message", "")
        assert answer.code in (200, 400, 422) or unknown, answer.body
    answer = api.ask("PATCH", path, {**named, "data": {"b": "3"}}, Content_Type=APPLY)
    assert answer.code == 200, answer.body
    assert api.ask("GET", f"{MAPS}/managed").body["data"]["b"] == "3"
    assert api.run(whole) == []
