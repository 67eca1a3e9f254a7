"""Binding a pod to a node."""

from typing import Any

import pytest

from localcluster.store.stores import START, HandClock, binding, new_store, pod
from stowplan.api import catalogue as c
from stowplan.api.meta import ObjectMeta
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.api.storage import ObjectReference
from stowplan.api.writes import Binding


def test_a_bound_pod_is_on_its_node_and_says_so() -> None:
    clock = HandClock()
    store = new_store(clock)
    uid = store.create(c.PODS, pod("p"))["metadata"]["uid"]
    clock.time += 5
    bound = store.bind("default", "p", binding("p", "n1", uid=uid))
    assert bound["spec"] == {**pod("p")["spec"], "nodeName": "n1"}
    assert bound["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-01T00:00:05Z",
        }
    ]
    assert (bound["metadata"]["generation"], bound["metadata"]["resourceVersion"]) == (1, "2")
    assert store.get(c.PODS, "default", "p") == bound


def test_a_typed_binding_does_the_same() -> None:
    store = new_store()
    uid = store.create(c.PODS, pod("p"))["metadata"]["uid"]
    typed = Binding(
        metadata=ObjectMeta(name="p", namespace="default", uid=uid),
        target=ObjectReference(kind="Node", name="n1"),
    )
    assert store.bind("default", "p", typed)["spec"]["nodeName"] == "n1"


def test_binding_replaces_the_condition_that_said_no_and_clears_the_nomination() -> None:
    store = new_store()
    store.create(c.PODS, pod("p"))
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    status = {"nominatedNodeName": "n1", "conditions": [{"type": "Other", "status": "True"}, said]}
    store.patch(c.PODS, "default", "p", {"status": status}, subresource="status")
    after = store.bind("default", "p", binding("p", "n1"))["status"]
    assert "nominatedNodeName" not in after
    assert [(cond["type"], cond["status"]) for cond in after["conditions"]] == [
        ("Other", "True"),
        ("PodScheduled", "True"),
    ]
    assert "message" not in after["conditions"][1]


def test_the_pod_gets_the_topology_labels_of_its_node_and_what_the_binding_carries() -> None:
    store = new_store()
    zone = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "other": "x"}
    store.create(c.NODES, {"metadata": {"name": "n1", "labels": zone}})
    store.create(c.PODS, pod("p", labels={"app": "web", "topology.kubernetes.io/zone": "old"}))
    given = binding("p", "n1", labels={"from": "binding"}, annotations={"note": "1"})
    metadata = store.bind("default", "p", given)["metadata"]
    assert metadata["labels"] == {
        "app": "web",
        "topology.kubernetes.io/zone": "z1",
        "topology.kubernetes.io/region": "r1",
        "from": "binding",
    }
    assert metadata["annotations"] == {"note": "1"}


def prepared(**changes: Any) -> tuple[Any, Json]:
    store = new_store(HandClock(START))
    body = pod("p", finalizers=["a"])
    body["spec"].update(changes)
    return store, store.create(c.PODS, body)


def test_a_pod_that_is_being_deleted_is_not_bound() -> None:
    store, _ = prepared()
    store.delete(c.PODS, "default", "p")
    with pytest.raises(ApiError) as caught:
        store.bind("default", "p", binding("p", "n1"))
    assert caught.value.message == (
        'Operation cannot be fulfilled on pods/binding "p": '
        "pod p is being deleted, cannot be assigned to a host"
    )
    assert caught.value.details == {"name": "p", "kind": "pods/binding"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"nodeName": "n9"}, 'pod p is already assigned to node "n9"'),
        ({"schedulingGates": [{"name": "g"}]}, "pod p has non-empty .spec.schedulingGates"),
    ],
)
def test_a_pod_that_has_a_node_or_a_gate_is_not_bound(spec: Json, message: str) -> None:
    store, before = prepared(**spec)
    with pytest.raises(ApiError) as caught:
        store.bind("default", "p", binding("p", "n1"))
    assert caught.value.is_conflict
    assert caught.value.message == f'Operation cannot be fulfilled on pods/binding "p": {message}'
    assert store.get(c.PODS, "default", "p") is before


def test_a_pod_is_bound_once() -> None:
    store, _ = prepared()
    store.bind("default", "p", binding("p", "n1"))
    with pytest.raises(ApiError, match='already assigned to node "n1"'):
        store.bind("default", "p", binding("p", "n1"))


def test_another_pod_of_the_same_name_is_not_bound() -> None:
    store, pod_ = prepared()
    with pytest.raises(ApiError) as caught:
        store.bind("default", "p", binding("p", "n1", uid="old"))
    assert caught.value.is_conflict
    assert caught.value.message == (
        'Operation cannot be fulfilled on pods "p": StorageError: invalid object, Code: 4, '
        "Key: /registry/pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: old, UID in object meta: {pod_['metadata']['uid']}"
    )


def test_a_binding_may_name_the_version_it_was_decided_for() -> None:
    store, _ = prepared()
    with pytest.raises(ApiError, match="the object has been modified"):
        store.bind("default", "p", binding("p", "n1", resourceVersion="7"))
    store.bind("default", "p", binding("p", "n1", resourceVersion="1"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (binding("q", "n1"), "name in URL does not match name in Binding object"),
        ({"metadata": {"name": "p"}}, "target.name: Required value"),
        ({"metadata": {"name": "p"}, "target": 5}, "target.name: Required value"),
        (
            {"metadata": {"name": "p"}, "target": {"kind": "Rack", "name": "r"}},
            'target.kind: Unsupported value: "Rack": supported values: "Node", "<empty>"',
        ),
    ],
)
def test_a_binding_that_makes_no_sense_gets_one_clear_line(body: Json, message: str) -> None:
    store, _ = prepared()
    with pytest.raises(ApiError) as caught:
        store.bind("default", "p", body)
    assert caught.value.message == message


def test_a_pod_that_is_gone_is_not_found() -> None:
    with pytest.raises(ApiError) as caught:
        new_store().bind("default", "gone", binding("gone", "n1"))
    assert caught.value.status()["details"] == {"name": "gone", "kind": "pods"}
    assert caught.value.message == 'pods "gone" not found'
