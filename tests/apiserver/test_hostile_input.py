"""Requests that nobody in their right mind sends: each gets an answer, and nothing is left half written."""

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.serving import APPLY, JSON_PATCH, MERGE, STRATEGIC, Served, deployment, pod, serving
from effort import examples
from stowplan.api.catalogue import BUILT_IN
from stowplan.embedded.schema import the_schema
from stowplan.embedded.schema.structs import struct_of
from stowplan.embedded.store import Store

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
SEEDS: list[Any] = [
    pod("a"),
    pod("b", labels={"x": "y"}, finalizers=["e.example/f"]),
    deployment("a"),
    {"metadata": {"name": "a"}, "data": {"k": "v"}},
    {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "a"}},
    {"metadata": {"name": "a"}, "spec": {"replicas": 3}},
    {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    {"metadata": {"name": "a"}, "status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready"}]}},
    {
        "metadata": {"name": "a"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
    },
    {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"x": "y"}}}},
    {"metadata": {"name": "a"}, "spec": {"template": {"spec": pod()["spec"] | {"restartPolicy": "Never"}}}},
    {"metadata": {"name": "a"}, "value": 5, "provisioner": "p"},
    {"metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": 0}},
    {"spec": {"token": "x", "resourceAttributes": {"verb": "get"}}},
    [{"op": "replace", "path": "/metadata/labels", "value": {"a": "b"}}],
    [{"op": "move", "from": "/spec", "path": "/spec/containers/0"}],
    {"metadata": {"$patch": "replace"}, "spec": {"containers": [{"$patch": "delete", "name": "main"}]}},
    {"gracePeriodSeconds": -1, "preconditions": {"uid": "x"}, "propagationPolicy": "Orphan"},
]
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


@st.composite
def bodies(draw: Any) -> bytes | None:
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return None
    if kind == 1:
        return draw(st.binary(max_size=60))
    if kind == 2:
        return b"k8s\x00" + draw(st.binary(max_size=60))
    data = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(0, 3))):
        data = mutated(draw, data)
    text = json.dumps(data).encode("utf-8", "surrogatepass")
    return text[: draw(st.integers(0, len(text)))] if kind == 3 else text


@st.composite
def paths(draw: Any) -> str:
    if not draw(st.integers(0, 9)):
        return "/" + quote(draw(st.text(max_size=30)), safe="/")
    if not draw(st.integers(0, 9)):
        return draw(
            st.sampled_from(
                [
                    "/api",
                    "/apis",
                    "/api/v1",
                    "/openapi/v3/x",
                    "/version",
                    "//",
                    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                    "/apis/authentication.k8s.io/v1/tokenreviews",
                ]
            )
        )
    resource = draw(st.sampled_from([*BUILT_IN[:4], *BUILT_IN]))
    path = resource.prefix
    if draw(st.booleans()) or resource.namespaced:
        path += f"/namespaces/{quote(draw(st.sampled_from(['default', *NAMES])), safe='%')}"
    path += f"/{resource.plural}"
    if draw(st.integers(0, 3)):
        path += f"/{quote(draw(st.sampled_from(['a', 'a', *NAMES])), safe='%')}"
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
        yield served


def whole(store: Store) -> list[str]:
    """What is wrong with what is kept."""
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
                msgspec.json.decode(msgspec.json.encode(obj), type=struct_of(type_.full_name))
            except msgspec.ValidationError as error:
                problems.append(f"{resource.plural} {key}: {error}")
    return problems


@settings(max_examples=examples(400))
@given(
    method=st.sampled_from(["GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "HEAD", "TRACE"]),
    path=paths(),
    query=queries,
    body=bodies(),
    content_type=st.sampled_from([*TYPES, PROTOBUF]),
    accept=st.sampled_from(
        ["", "application/json", "*/*", "application/json;as=Table;v=v1;g=meta.k8s.io", "x"]
    ),
)
def test_every_request_is_answered_and_nothing_is_half_written(
    api: Served,
    method: str,
    path: str,
    query: dict[str, str],
    body: bytes | None,
    content_type: str,
    accept: str,
) -> None:
    asked = "&".join(f"{name}={quote(value, errors='replace')}" for name, value in query.items())
    connection = api.connection()
    try:
        connection.request(
            method, f"{path}?{asked}", body, api.headers(Content_Type=content_type, Accept=accept)
        )
        response = connection.getresponse()
        text = response.read()
    finally:
        connection.close()
    assert response.status in CODES, text
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
