"""Deletion: pods get time to end, finalizers hold, and the right object is meant."""

from typing import Any

import pytest

from localcluster.store.stores import HandClock, Log, new_store, pod
from stowplan.api import catalogue as c
from stowplan.api.requests import DeleteOptions, Json, Selection
from stowplan.api.status import ApiError


def test_an_ordinary_object_is_gone_at_once() -> None:
    store, log = new_store(), Log()
    node = store.create(c.NODES, {"metadata": {"name": "n"}})
    store.watch(c.NODES, log)
    last = store.delete(c.NODES, "", "n")
    assert log.short == ["DELETED n"]
    assert last == {**node, "metadata": {**node["metadata"], "resourceVersion": "2"}}
    assert log.changes[0].object == last
    assert store.count(c.NODES) == 0


def test_deleting_what_is_not_there_is_not_found() -> None:
    with pytest.raises(ApiError, match=r'^pods "p" not found$'):
        new_store().delete(c.PODS, "default", "p")


def running(phase: str = "Running", node: str = "n", grace: Any = 30) -> tuple[Any, HandClock]:
    clock = HandClock()
    store = new_store(clock)
    body = pod("p", node=node)
    body["spec"]["terminationGracePeriodSeconds"] = grace
    store.create(c.PODS, body)
    store.patch(c.PODS, "default", "p", {"status": {"phase": phase}}, subresource="status")
    return store, clock


@pytest.mark.parametrize(
    ("phase", "node", "own", "asked", "seconds"),
    [
        ("Running", "n", 30, None, 30),
        ("Running", "n", 30, 5, 5),
        ("Running", "n", 30, 60, 60),
        ("Running", "n", 30, -1, 1),
        ("Running", "n", -5, None, 1),
        ("Running", "n", 30, 0, 0),
        ("Running", "n", None, None, 0),
        ("Pending", "n", 30, None, 30),
        ("Pending", "", 30, None, 0),
        ("Succeeded", "n", 30, None, 0),
        ("Failed", "n", 30, 60, 0),
    ],
)
def test_a_pod_gets_the_time_it_needs_to_end(
    phase: str, node: str, own: int | None, asked: int | None, seconds: int
) -> None:
    store, _ = running(phase, node, own)
    log = Log()
    store.watch(c.PODS, log)
    store.delete(c.PODS, "default", "p", DeleteOptions(asked))
    marked = log.changes[0].object["metadata"]
    assert marked["deletionGracePeriodSeconds"] == seconds
    assert marked["deletionTimestamp"] == f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z"
    assert marked["generation"] == 2
    assert log.short == (["MODIFIED p"] if seconds else ["MODIFIED p", "DELETED p"])


def test_a_second_deletion_without_grace_ends_a_pod() -> None:
    store, clock = running()
    store.delete(c.PODS, "default", "p")
    clock.time += 10
    log = Log()
    store.watch(c.PODS, log)
    last = store.delete(c.PODS, "default", "p", DeleteOptions(0))
    assert log.short == ["MODIFIED p", "DELETED p"]
    assert last["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:10Z"
    assert last["metadata"]["generation"] == 2
    assert store.count(c.PODS) == 0


@pytest.mark.parametrize(
    ("after", "asked", "deadline", "seconds"),
    [
        (10, 20, "00:20", 20),
        (10, 5, "00:10", 1),
        (10, 30, "00:30", 30),
        (10, 40, "00:30", 30),
        (10, None, "00:30", 30),
    ],
)
def test_the_time_to_end_can_be_shortened_but_not_extended(
    after: int, asked: int | None, deadline: str, seconds: int
) -> None:
    store, clock = running()
    store.delete(c.PODS, "default", "p")
    clock.time += after
    version = store.version
    metadata = store.delete(c.PODS, "default", "p", DeleteOptions(asked))["metadata"]
    assert metadata["deletionTimestamp"] == f"2026-01-01T00:{deadline}Z"
    assert metadata["deletionGracePeriodSeconds"] == seconds
    assert store.version == version + (0 if seconds == 30 else 1)


def test_a_finalizer_holds_an_object_and_marks_it_once() -> None:
    clock, log = HandClock(), Log()
    store = new_store(clock)
    store.create(c.CONFIG_MAPS, {"metadata": {"name": "x", "namespace": "d", "finalizers": ["a"]}})
    store.watch(c.CONFIG_MAPS, log)
    for _ in range(3):
        metadata = store.delete(c.CONFIG_MAPS, "d", "x")["metadata"]
        clock.time += 5
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == (
        "2026-01-01T00:00:00Z",
        0,
    )
    assert log.short == ["MODIFIED x"]


def test_a_held_pod_stays_after_its_grace() -> None:
    store = new_store()
    store.create(c.PODS, pod("p", node="n", finalizers=["a"]))
    store.delete(c.PODS, "default", "p")
    metadata = store.delete(c.PODS, "default", "p", DeleteOptions(0))["metadata"]
    assert (metadata["deletionGracePeriodSeconds"], metadata["generation"]) == (0, 2)
    assert store.count(c.PODS) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            DeleteOptions(uid="other"),
            "the UID in the precondition (other) does not match the UID in record (",
        ),
        (
            DeleteOptions(resource_version="9"),
            "the ResourceVersion in the precondition (9) does not match the ResourceVersion in record (1). "
            "The object might have been modified",
        ),
    ],
)
def test_a_deletion_meant_for_another_object_is_a_conflict(options: DeleteOptions, message: str) -> None:
    store = new_store()
    store.create(c.PODS, pod("p"))
    with pytest.raises(ApiError) as caught:
        store.delete(c.PODS, "default", "p", options)
    assert caught.value.is_conflict
    assert caught.value.message.startswith('Operation cannot be fulfilled on Pod "p": ')
    assert caught.value.details == {"name": "p", "kind": "Pod"}
    assert message in caught.value.message
    assert store.count(c.PODS) == 1


def test_a_deletion_meant_for_this_very_object_goes_through() -> None:
    store = new_store()
    metadata: Json = store.create(c.PODS, pod("p"))["metadata"]
    options = DeleteOptions(uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    store.delete(c.PODS, "default", "p", options)
    assert store.count(c.PODS) == 0


def test_a_collection_is_deleted_by_selection() -> None:
    store = new_store()
    for name, app in (("a", "web"), ("b", "db"), ("c", "web")):
        store.create(c.PODS, pod(name, labels={"app": app}))
    store.create(c.PODS, pod("d", "other", labels={"app": "web"}))
    gone = store.delete_collection(c.PODS, "default", Selection.parse("app=web"))
    assert [obj["metadata"]["name"] for obj in gone] == ["a", "c"]
    assert [obj["metadata"]["name"] for obj in store.list(c.PODS).items] == ["b", "d"]
