"""Creating objects: what their creator may say, and what the server says."""

import random
import re
from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest

from localcluster.store.stores import START, HandClock, Log, new_store, pod
from stowplan.api import catalogue as c
from stowplan.api.meta import ObjectMeta
from stowplan.api.pod import Container, Pod, PodSpec
from stowplan.api.requests import Json
from stowplan.api.status import ApiError


def test_a_new_object_gets_its_identity_from_the_server() -> None:
    created = new_store(HandClock(START + 61.9)).create(c.PODS, pod("p", labels={"app": "web"}))
    uid = created["metadata"].pop("uid")
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", uid)
    assert created["metadata"] == {
        "name": "p",
        "namespace": "default",
        "labels": {"app": "web"},
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:01:01Z",
    }
    assert (created["apiVersion"], created["kind"]) == ("v1", "Pod")


def test_the_time_of_birth_is_the_second_it_falls_into() -> None:
    clock = HandClock(START + 0.25)
    store, seen = new_store(clock), []
    for name, time in (("a", 0.25), ("b", 0.9999), ("c", 1.0), ("d", 1.5), ("e", 2.0), ("f", 3600.0)):
        clock.time = START + time
        seen.append(store.create(c.PODS, pod(name))["metadata"]["creationTimestamp"])
    assert [text.removeprefix("2026-01-01T") for text in seen] == [
        "00:00:00Z",
        "00:00:00Z",
        "00:00:01Z",
        "00:00:01Z",
        "00:00:02Z",
        "01:00:00Z",
    ]


def test_a_uid_is_a_random_uuid_from_the_given_source_of_chance() -> None:
    store, chance = new_store(rng=random.Random(7)), random.Random(7)
    for number in range(50):
        created = store.create(c.PODS, pod(f"p{number}"))
        assert created["metadata"]["uid"] == str(UUID(int=chance.getrandbits(128), version=4))


@pytest.mark.parametrize("more", [{}, {"uid": "mine", "selfLink": "/x", "creationTimestamp": None}])
def test_a_body_that_is_handed_over_is_not_changed_by_the_store(more: Json) -> None:
    store, body = new_store(), {**pod("p", labels={"app": "web"}, **more), "status": {"phase": "Failed"}}
    before = deepcopy(body)
    store.create(c.PODS, body, handed_over=True)
    store.bind("default", "p", {"metadata": {"labels": {"a": "b"}}, "target": {"name": "n"}})
    assert body == before


def test_what_is_the_servers_to_say_is_not_taken_from_the_creator() -> None:
    said: Json = {
        "uid": "mine",
        "resourceVersion": "77",
        "generation": 9,
        "creationTimestamp": "1999-01-01T00:00:00Z",
        "deletionTimestamp": "1999-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 3,
        "managedFields": [{"manager": "me"}],
    }
    metadata = new_store().create(c.PODS, pod("p", **said))["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["resourceVersion"] == "1"
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert not metadata.keys() & {"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"}


def test_fields_that_no_type_declares_are_kept() -> None:
    store = new_store()
    store.create(c.PODS, pod("p") | {"spec": {"futureField": {"deep": [1, {"x": None}]}}})
    assert store.get(c.PODS, "default", "p")["spec"] == {"futureField": {"deep": [1, {"x": None}]}}


def test_uids_and_names_repeat_from_the_seed() -> None:
    def names() -> list[str]:
        store = new_store()
        made = [
            store.create(c.PODS, {"metadata": {"generateName": "web-"}}, namespace="d") for _ in range(20)
        ]
        return [f"{obj['metadata']['name']} {obj['metadata']['uid']}" for obj in made]

    assert names() == names()
    assert len(set(names())) == 20


def test_a_generated_name_begins_as_asked_and_is_not_too_long() -> None:
    created = new_store().create(c.PODS, {"metadata": {"generateName": "x" * 70, "namespace": "d"}})
    assert re.fullmatch("x{58}[bcdfghjklmnpqrstvwxz2456789]{5}", created["metadata"]["name"])
    assert created["metadata"]["generateName"] == "x" * 70


class Loaded:
    """A random source with given suffixes."""

    def __init__(self, *suffixes: str) -> None:
        self._suffixes = iter(suffixes)

    def choices(self, letters: str, k: int) -> list[str]:
        return list(next(self._suffixes))

    def getrandbits(self, bits: int) -> int:
        return 1


def test_generated_names_avoid_those_taken() -> None:
    store = new_store(rng=Loaded("aaaaa", "aaaaa", "aaaaa", "bbbbb"))
    made = [store.create(c.PODS, {"metadata": {"generateName": "p-"}}, "d") for _ in range(2)]
    assert [obj["metadata"]["name"] for obj in made] == ["p-aaaaa", "p-bbbbb"]


def test_when_every_generated_name_is_taken_that_is_said() -> None:
    store = new_store(rng=Loaded(*["12345"] * 8))
    store.create(c.PODS, pod("p-12345"))
    with pytest.raises(ApiError) as caught:
        store.create(c.PODS, {"metadata": {"generateName": "p-", "namespace": "default"}})
    assert caught.value.message == (
        'pods "p-12345" already exists, the server was not able to generate a unique name for the object'
    )
    assert caught.value.is_already_exists


def test_a_name_can_be_taken_once() -> None:
    store = new_store()
    store.create(c.LEASES, {"metadata": {"name": "l", "namespace": "kube-system"}})
    store.create(c.LEASES, {"metadata": {"name": "l", "namespace": "other"}})
    with pytest.raises(ApiError) as caught:
        store.create(c.LEASES, {"metadata": {"name": "l", "namespace": "kube-system"}})
    assert caught.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'leases.coordination.k8s.io "l" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "l", "group": "coordination.k8s.io", "kind": "leases"},
        "code": 409,
    }


def test_a_name_is_still_taken_while_its_object_is_being_deleted() -> None:
    store = new_store()
    store.create(c.PODS, pod("p", finalizers=["example.com/hold"]))
    store.delete(c.PODS, "default", "p")
    with pytest.raises(ApiError, match=r'^object is being deleted: pods "p" already exists$'):
        store.create(c.PODS, pod("p"))


@pytest.mark.parametrize(
    ("resource", "given", "stored"),
    [
        (c.PODS, {"phase": "Running"}, {"phase": "Pending"}),
        (c.PERSISTENT_VOLUME_CLAIMS, {"phase": "Bound"}, {"phase": "Pending"}),
        (c.PERSISTENT_VOLUMES, {"phase": "Bound"}, {"phase": "Pending"}),
        (c.NAMESPACES, None, {"phase": "Active"}),
        (c.RESOURCE_CLAIMS, {"allocation": {}}, None),
        (c.POD_DISRUPTION_BUDGETS, {"disruptionsAllowed": 5}, None),
        (c.NODES, {"capacity": {"cpu": "4"}}, {"capacity": {"cpu": "4"}}),
    ],
    ids=lambda value: value.plural if isinstance(value, c.Resource) else "",
)
def test_the_first_status_is_the_servers_to_give(resource: c.Resource, given: Json, stored: Json) -> None:
    body = {"metadata": {"name": "x", "namespace": "d"}, "status": given}
    assert new_store().create(resource, body).get("status") == stored


def test_a_gated_pod_is_told_so_by_the_server() -> None:
    body = pod("p")
    body["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    assert new_store().create(c.PODS, body)["status"] == {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ],
    }


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": [{"name": "c"}]}},
        b'{"metadata":{"name":"p","namespace":"d"},"spec":{"containers":[{"name":"c"}]}}',
        Pod(
            metadata=ObjectMeta(name="p", namespace="d"),
            spec=PodSpec(containers=(Container(name="c"),)),
        ),
    ],
    ids=["data", "text", "typed"],
)
def test_a_body_can_be_data_or_text_or_a_typed_object(body: Any) -> None:
    created = new_store().create(c.PODS, body)
    assert created["metadata"]["name"] == "p"
    assert list(created["spec"]["containers"]) == [{"name": "c"}]


def test_what_a_writer_does_to_its_body_afterwards_changes_nothing() -> None:
    store, body = new_store(), pod("p", labels={"a": "b"})
    store.create(c.PODS, body)
    body["metadata"]["labels"]["a"] = "changed"
    body["spec"]["containers"].append({"name": "more"})
    stored = store.get(c.PODS, "default", "p")
    assert stored["metadata"]["labels"] == {"a": "b"}
    assert stored["spec"]["containers"] == [{"name": "c"}]


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b"{", 400, "the object provided is not JSON: "),
        (b"[]", 400, "the object provided is unrecognized: expected a map"),
        ({"metadata": []}, 400, "metadata: expected a map"),
        ({"metadata": {"name": 3}}, 400, "metadata: Expected `str`, got `int` - at `$.name`"),
        (
            {"metadata": {"name": "p", "namespace": 3}},
            400,
            "metadata: Expected `str`, got `int` - at `$.namespace`",
        ),
        ({"metadata": {"name": "p", "labels": {"a": 1}}}, 400, "metadata: Expected `str`, got `int`"),
        ({"metadata": {"name": "p"}, "spec": 1}, 400, "spec: expected a map"),
        ({"kind": "Node"}, 400, "the kind in the data (Node) does not match the expected kind (Pod)"),
        ({"metadata": {"name": "p", "namespace": "e"}}, 400, "the namespace of the provided object does not"),
        ({"metadata": {}}, 422, 'Pod "" is invalid: metadata.name: Required value: name or generateName is'),
        ({"metadata": {"name": object()}}, 400, "the object provided is not JSON: "),
    ],
)
def test_a_body_that_is_no_object_gets_one_clear_line(body: Any, code: int, message: str) -> None:
    store = new_store()
    with pytest.raises(ApiError) as caught:
        store.create(c.PODS, body, namespace="d")
    assert caught.value.code == code
    assert caught.value.message.startswith(message)
    assert (store.count(c.PODS), store.version) == (0, 0)


def test_a_namespaced_object_needs_a_namespace_and_others_have_none() -> None:
    store = new_store()
    with pytest.raises(ApiError, match=r'Pod "p" is invalid: metadata\.namespace: Required value'):
        store.create(c.PODS, {"metadata": {"name": "p"}})
    node = store.create(c.NODES, {"metadata": {"name": "n", "namespace": "ignored"}}, namespace="ignored")
    assert "namespace" not in node["metadata"]


def test_custom_resources_can_be_registered() -> None:
    widgets = c.Resource("example.com", "v1", "widgets", "Widget", custom=True, generation=True)
    store = new_store()
    with pytest.raises(ApiError, match="the server could not find the requested resource"):
        store.create(widgets, {"metadata": {"name": "w", "namespace": "d"}})
    store.catalogue.register(widgets)
    created = store.create(widgets, {"metadata": {"name": "w", "namespace": "d"}, "size": 3})
    assert (created["apiVersion"], created["kind"], created["size"]) == ("example.com/v1", "Widget", 3)
    assert store.catalogue.named("widgets.v1.example.com") is widgets
    assert store.catalogue.of_kind("example.com/v1", "Widget") is widgets


def test_a_name_in_the_catalogue_cannot_be_given_twice() -> None:
    catalogue = c.Catalogue()
    catalogue.register(c.PODS)
    with pytest.raises(ValueError, match=r"pods\.v1\. \(kind Pod\) is registered already"):
        catalogue.register(c.Resource("", "v1", "pods", "Whale"))


def test_events_are_forgotten_after_an_hour() -> None:
    clock, log = HandClock(), Log()
    store = new_store(clock)
    store.watch(c.EVENTS, log)
    store.create(c.EVENTS, {"metadata": {"name": "early", "namespace": "d"}})
    clock.time += 3599
    store.create(c.EVENTS, {"metadata": {"name": "late", "namespace": "d"}})
    clock.time += 1
    store.create(c.EVENTS, {"metadata": {"name": "later", "namespace": "d"}})
    assert [obj["metadata"]["name"] for obj in store.list(c.EVENTS).items] == ["late", "later"]
    assert log.short == ["ADDED early", "ADDED late", "ADDED later", "DELETED early"]


def test_an_event_that_took_the_name_of_another_has_its_own_hour() -> None:
    clock = HandClock()
    store = new_store(clock)
    body = {"metadata": {"name": "e", "namespace": "d"}}
    store.create(c.EVENTS, body)
    store.delete(c.EVENTS, "d", "e")
    clock.time += 3000
    store.create(c.EVENTS, body)
    clock.time += 700
    store.create(c.EVENTS, {"metadata": {"name": "other", "namespace": "d"}})
    assert store.count(c.EVENTS) == 2


def test_no_more_events_are_kept_than_the_limit() -> None:
    store = new_store(event_limit=3)
    for number in range(10):
        store.create(c.EVENTS, {"metadata": {"name": f"e{number}", "namespace": "d"}})
    assert [obj["metadata"]["name"] for obj in store.list(c.EVENTS).items] == ["e7", "e8", "e9"]
    assert store.count(c.EVENTS) == 3
