"""Objects as Go writes them, and the media types an answer can have."""

import json
from typing import Any

import pytest

from localcluster.apiserver.served import Served, deployment, pod
from stowplan.localcluster.apiserver.bodies import protobuf_as_json
from stowplan.localcluster.schema import the_schema
from stowplan.localcluster.schema.goform import as_written, zero_object

PROTOBUF = "application/vnd.kubernetes.protobuf"
PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize(
    ("kind", "given", "written"),
    [
        ("Pod", {}, {"metadata": {}, "spec": {"containers": None}, "status": {}}),
        (
            "Pod",
            {"spec": {"containers": [{"name": "c", "stdin": False}], "nodeName": "", "priority": 0}},
            {
                "metadata": {},
                "spec": {"containers": [{"name": "c", "resources": {}}], "priority": 0},
                "status": {},
            },
        ),
        (
            "Service",
            {"spec": {"ports": [{"port": 80}]}},
            {
                "metadata": {},
                "spec": {"ports": [{"port": 80, "targetPort": 0}]},
                "status": {"loadBalancer": {}},
            },
        ),
        (
            "PersistentVolume",
            {"metadata": {"labels": {}}, "spec": {"capacity": {"storage": "1024Mi"}}},
            {"metadata": {}, "spec": {"capacity": {"storage": "1Gi"}}, "status": {}},
        ),
    ],
)
def test_empty_values_are_there_or_not_as_go_writes_them(kind: str, given: Any, written: Any) -> None:
    type_ = the_schema().of_kind("", "v1", kind)
    found = as_written(type_, given)
    assert found == written
    assert as_written(type_, found) is found


def test_nothing_set_is_what_an_empty_object_writes() -> None:
    for name, type_ in the_schema().types.items():
        if type_.is_kind:
            assert zero_object(type_) == as_written(type_, {}), name


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (PODS, pod("seen", labels={"a": "b"})),
        ("/apis/apps/v1/namespaces/default/deployments", deployment("seen")),
    ],
)
def test_an_object_is_the_same_in_every_media_type(api: Served, path: str, body: Any) -> None:
    assert api.ask("POST", path, body).code == 201
    shown = api.ask("GET", f"{path}/seen").body
    answer = api.ask("GET", f"{path}/seen", Accept=PROTOBUF)
    assert answer.headers["Content-Type"] == PROTOBUF
    found = json.loads(protobuf_as_json(answer.body))
    found["metadata"].pop("managedFields")
    shown["metadata"].pop("managedFields")
    type_ = the_schema().of_kind(*_group_version(shown["apiVersion"]), shown["kind"])
    assert as_written(type_, found) == shown
    listed = api.ask("GET", path, Accept=PROTOBUF)
    assert listed.body.startswith(b"k8s\0")
    text = api.ask("GET", f"{path}/seen", Accept="application/yaml")
    assert text.headers["Content-Type"].startswith("application/yaml")
    assert text.body.startswith(b"apiVersion: ")


def _group_version(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    return group, version


def test_clients_that_accept_protobuf_and_json_get_json(api: Served) -> None:
    answer = api.ask("GET", PODS, Accept=f"{PROTOBUF},application/json")
    assert answer.body["kind"] == "PodList"
