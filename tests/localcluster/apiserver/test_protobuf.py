"""Bodies as clients written in Go send them: recorded from kube-scheduler, and made up."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.apiserver.served import Served
from stowplan.localcluster.apiserver.bodies import protobuf_as_json
from stowplan.localcluster.schema import the_schema
from stowplan.localcluster.schema.protobuf import MAGIC, ProtobufError, decoded, envelope

RECORDED = json.loads(Path(__file__).with_name("protobuf.json").read_text())


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
