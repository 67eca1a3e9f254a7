"""Bodies as clients written in Go send them: recorded from kube-scheduler, and made up."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.apiserver.served import Served
from localcluster.customresources.definitions import DEFINITIONS, definition, version
from stowplan.localcluster.apiserver.bodies import protobuf_as_json
from stowplan.localcluster.schema import the_schema
from stowplan.localcluster.schema.protobuf import MAGIC, ProtobufError, decoded, encoded_object, envelope

RECORDED = json.loads(Path(__file__).with_name("protobuf.json").read_text())

PROTOBUF = "application/vnd.kubernetes.protobuf"


def without_empty(data: Any) -> Any:
    """The data without Go's empty values, which JSON shows here and there."""
    if isinstance(data, dict):
        kept = {key: without_empty(value) for key, value in data.items()}
        return {key: value for key, value in kept.items() if value not in (None, "", {})}
    return [without_empty(value) for value in data] if isinstance(data, list) else data


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_recorded_bodies_say_what_they_say_in_json(number: int) -> None:
    found = json.loads(protobuf_as_json(base64.b64decode(RECORDED[number]["protobuf"])))
    said = RECORDED[number]["json"]
    if said["kind"] == "DeleteOptions":
        said = {**said, "apiVersion": found["apiVersion"]}
    assert without_empty(found) == without_empty(said)


@given(st.binary(max_size=120))
def test_bytes_that_are_no_objects_are_refused_and_nothing_worse(raw: bytes) -> None:
    for name in ("core.v1.Pod", "apps.v1.Deployment", "core.v1.Node", "meta.v1.DeleteOptions"):
        try:
            decoded(the_schema().types[name], raw)
        except ProtobufError:
            continue
    with pytest.raises(ProtobufError):
        envelope(raw.replace(MAGIC[:1], b""))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"\x12\x03R\x01a\x12\x03B\x01b", {"spec": {"nodeName": "a", "serviceAccountName": "b"}}),
        (b"\n\x028\x05\n\x028\0", {}),
        (b"\x12\x07\xc8\x01\xfe\xff\xff\xff\x0f", {"spec": {"priority": -2}}),
        (
            b"\x12\x08r\x06\x22\x02\x01\x02\x20\x03",
            {"spec": {"securityContext": {"supplementalGroups": [1, 2, 3]}}},
        ),
    ],
    ids=["messages are merged", "the last value counts", "numbers of 32 bits", "packed numbers"],
)
def test_a_pod_is_read_as_go_reads_it(raw: bytes, expected: Any) -> None:
    found = decoded(the_schema().types["core.v1.Pod"], raw)
    assert without_empty(found) == expected


@pytest.mark.parametrize("raw", [b"\x02\x01a", b"\0\1", b"\xfa\xff\xff\xff\xff\x01\x01a", b"\x55aaaa"])
def test_tags_that_cannot_be_are_refused(raw: bytes) -> None:
    with pytest.raises(ProtobufError):
        decoded(the_schema().types["core.v1.PodSpec"], raw)


def test_a_lease_can_be_made_that_way(api: Served) -> None:
    body = next(each for each in RECORDED if each["json"]["kind"] == "Lease")
    answer = api.ask(
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
        base64.b64decode(body["protobuf"]),
        Content_Type="application/vnd.kubernetes.protobuf",
        Accept="application/vnd.kubernetes.protobuf, */*",
    )
    assert answer.code == 201, answer.body
    assert answer.body["spec"]["holderIdentity"] == body["json"]["spec"]["holderIdentity"]


def test_a_kind_nobody_knows_is_named(api: Served) -> None:
    unknown = MAGIC + b"\n\x0c\n\x04x/v1\x12\x04Gizm" + b"\x12\x00"
    path = "/api/v1/namespaces/default/pods"
    answer = api.ask("POST", path, unknown, Content_Type="application/vnd.kubernetes.protobuf")
    assert answer.code == 400
    assert "Gizm" in answer.body["message"]


SCHEMAS: list[Any] = [
    {"type": "array", "items": {"type": "string", "maxLength": 5}},
    {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
    {"type": "object", "additionalProperties": True},
    {"type": "object", "additionalProperties": False},
    {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1, "maximum": 2.5}},
    {"type": "array", "items": {}, "default": [], "enum": ["a", 1, None]},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_schemas_of_custom_resources_keep_their_alternatives(schema: Any) -> None:
    outer = {"type": "object", "properties": {"a": schema, "b": {"allOf": [schema]}}}
    sent = definition("widgets", versions=[version(schema=outer)])
    assert json.loads(protobuf_as_json(encoded_object(sent))) == sent


def test_a_definition_can_be_created_and_read_that_way(api: Served) -> None:
    array = {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string"}}}
    sent = definition("gadgets", versions=[version(schema={"type": "object", "properties": {"a": array}})])
    answer = api.ask("POST", DEFINITIONS, encoded_object(sent), Content_Type=PROTOBUF)
    assert answer.code == 201, answer.body
    read = api.ask("GET", f"{DEFINITIONS}/gadgets.example.com", Accept=PROTOBUF)
    found = json.loads(protobuf_as_json(read.body))
    spec = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec == {"type": "object", "properties": {"a": array}}


def test_schemas_are_read_from_the_bytes_that_go_writes() -> None:
    """items {type: string} is message 24 with the schema as 1; maximum is 64 bits; allows is 1."""
    type_ = the_schema().types["apiextensions.v1.JSONSchemaProps"]
    items = b"\xc2\x01\x0a\x0a\x08\x2a\x06string"
    assert decoded(type_, items) == {"items": {"type": "string"}}
    assert decoded(type_, b"\xf2\x01\x02\x08\x01") == {"additionalProperties": True}
    assert decoded(type_, b"\xf2\x01\x04\x08\x00\x12\x00") == {"additionalProperties": {}}
    assert decoded(type_, b"\x49\0\0\0\0\0\0\x04\x40") == {"maximum": 2.5}
    with pytest.raises(ProtobufError):
        decoded(type_, b"\x49\0\0\0\0\0\0\xf0\x7f")
