"""Updates: a writer of an old version is refused, and writers cannot change fields that are not theirs."""

from typing import Any

import pytest

from localcluster.store.stores import HandClock, Log, new_store, pod
from stowplan.api import catalogue as c
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.store.writer import component


def labelled(obj: Json, **labels: str) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


def test_an_update_of_the_latest_version_is_written() -> None:
    store = new_store()
    first = store.create(c.PODS, pod("p"))
    second = store.update(c.PODS, labelled(first, app="web"))
    assert second["metadata"]["labels"] == {"app": "web"}
    assert (first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]) == ("1", "2")
    assert store.get(c.PODS, "default", "p") == second


def test_an_update_of_an_older_version_is_a_conflict() -> None:
    store = new_store()
    first = store.create(c.PODS, pod("p"))
    store.update(c.PODS, labelled(first, app="web"))
    with pytest.raises(ApiError) as caught:
        store.update(c.PODS, labelled(first, app="other"))
    assert caught.value.is_conflict
    assert caught.value.message == (
        'Operation cannot be fulfilled on pods "p": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


def test_an_update_that_names_no_version_overwrites_where_the_kind_allows_that() -> None:
    store = new_store()
    store.create(c.PODS, pod("p"))
    updated = store.update(c.PODS, pod("p", labels={"app": "web"}))
    assert updated["metadata"]["labels"] == {"app": "web"}


def test_a_lease_cannot_be_overwritten_without_naming_its_version() -> None:
    store = new_store()
    store.create(c.LEASES, {"metadata": {"name": "l", "namespace": "d"}})
    with pytest.raises(ApiError) as caught:
        store.update(c.LEASES, {"metadata": {"name": "l", "namespace": "d"}, "spec": {}})
    assert caught.value.code == 422
    assert caught.value.message == (
        'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update"
    )
    assert caught.value.details["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": "Invalid value: 0: must be specified for an update",
            "field": "metadata.resourceVersion",
        }
    ]


def test_an_update_of_what_does_not_exist_is_not_found_or_creates_it() -> None:
    store = new_store()
    with pytest.raises(ApiError, match=r'^pods "p" not found$'):
        store.update(c.PODS, pod("p"))
    created = store.update(c.LEASES, {"metadata": {"name": "l", "namespace": "d"}})
    assert created["metadata"]["resourceVersion"] == "1"


def test_an_update_that_changes_nothing_is_no_change() -> None:
    store, log = new_store(), Log()
    first = store.create(c.PODS, pod("p"))
    store.watch(c.PODS, log)
    assert store.update(c.PODS, first) is first
    assert (store.version, log.changes) == (1, [])


def test_an_update_meant_for_another_object_is_a_conflict() -> None:
    store = new_store()
    first = store.create(c.PODS, pod("p"))
    with pytest.raises(ApiError) as caught:
        store.update(c.PODS, {**first, "metadata": {**first["metadata"], "uid": "other"}})
    assert caught.value.is_conflict
    assert caught.value.message == (
        'Operation cannot be fulfilled on pods "p": StorageError: invalid object, Code: 4, '
        "Key: /registry/pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: other, UID in object meta: {first['metadata']['uid']}"
    )


def test_an_apply_meant_for_another_object_is_refused() -> None:
    store = new_store()
    first = store.create(c.PODS, pod("p"))
    other = {"metadata": {"name": "p", "namespace": "default", "uid": "other", "labels": {"a": "b"}}}
    with pytest.raises(ApiError) as caught:
        store.apply(c.PODS, other, component("someone"))
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert [cause["field"] for cause in caught.value.details["causes"]] == ["metadata.uid", "metadata.uid"]
    assert store.get(c.PODS, "default", "p") is first


def test_an_apply_with_a_uid_does_not_create_an_object() -> None:
    store = new_store()
    with pytest.raises(ApiError) as caught:
        store.apply(
            c.PODS, {"metadata": {"name": "p", "namespace": "default", "uid": "x"}}, component("someone")
        )
    assert caught.value.is_conflict
    assert caught.value.message == (
        'Operation cannot be fulfilled on pods "p": uid mismatch: the provided object specified uid x, '
        "and no existing object was found"
    )
    assert store.count(c.PODS) == 0


def test_system_metadata_cannot_be_changed() -> None:
    store = new_store()
    first = store.create(c.PODS, pod("p"))
    given = {**first["metadata"], "creationTimestamp": "1999-01-01T00:00:00Z", "generation": 50}
    updated = store.update(c.PODS, {**first, "metadata": {**given, "labels": {"a": "b"}}})
    assert updated["metadata"] == {**first["metadata"], "labels": {"a": "b"}, "resourceVersion": "2"}


def test_the_main_resource_leaves_the_status_alone_and_the_status_leaves_the_spec() -> None:
    store = new_store()
    first = store.create(c.PODS, pod("p", labels={"app": "web"}))
    tried = {**labelled(first, app="new"), "status": {"phase": "Failed"}}
    main = store.update(c.PODS, tried)
    assert (main["status"], main["metadata"]["labels"]) == ({"phase": "Pending"}, {"app": "new"})
    tried = {**labelled(main, app="newer"), "spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}
    after = store.update(c.PODS, tried, subresource="status")
    assert after["status"] == {"phase": "Failed"}
    assert after["spec"] is main["spec"]
    assert after["metadata"] == {**main["metadata"], "resourceVersion": "3", "labels": {"app": "newer"}}


def test_a_kind_without_status_subresource_has_none() -> None:
    store = new_store()
    config = store.create(c.CONFIG_MAPS, {"metadata": {"name": "x", "namespace": "d"}})
    for subresource in ("status", "scale"):
        with pytest.raises(ApiError, match="the server could not find the requested resource"):
            store.update(c.CONFIG_MAPS, config, subresource=subresource)


@pytest.mark.parametrize(
    ("change", "generation"),
    [
        ({"spec": {"containers": [{"name": "other"}]}}, 2),
        ({"metadata": {"name": "p", "namespace": "default", "labels": {"a": "b"}}}, 1),
        ({"status": {"phase": "Running"}}, 1),
    ],
)
def test_a_generation_counts_changes_of_the_spec_only(change: Json, generation: int) -> None:
    store = new_store()
    first = store.create(c.PODS, pod("p"))
    assert store.update(c.PODS, {**first, **change})["metadata"]["generation"] == generation


@pytest.mark.parametrize(
    ("change", "generation"), [({"size": 4}, 2), ({"status": {"ready": True}}, 1), ({"size": 3}, 1)]
)
def test_a_custom_resource_counts_every_change_but_of_its_status(change: Json, generation: int) -> None:
    widgets = c.Resource("e.com", "v1", "widgets", "Widget", custom=True, generation=True, status=True)
    store = new_store()
    store.catalogue.register(widgets)
    first = store.create(widgets, {"metadata": {"name": "w", "namespace": "d"}, "size": 3})
    assert store.update(widgets, {**first, **change})["metadata"]["generation"] == generation


def test_removing_the_last_finalizer_ends_an_object_that_is_being_deleted() -> None:
    store, log = new_store(), Log()
    store.create(c.PODS, pod("p", finalizers=["a", "b"]))
    store.delete(c.PODS, "default", "p")
    store.watch(c.PODS, log)
    for left in (["b"], []):
        current = store.get(c.PODS, "default", "p")
        store.update(c.PODS, {**current, "metadata": {**current["metadata"], "finalizers": left}})
    assert log.short == ["MODIFIED p", "DELETED p"]
    assert store.count(c.PODS) == 0


def test_removing_finalizers_before_the_grace_is_over_does_not_end_a_pod() -> None:
    store = new_store()
    store.create(c.PODS, pod("p", node="n", finalizers=["a"]))
    held = store.delete(c.PODS, "default", "p")
    store.update(c.PODS, {**held, "metadata": {**held["metadata"], "finalizers": []}})
    assert store.count(c.PODS) == 1


def test_no_finalizer_can_be_added_to_what_is_being_deleted() -> None:
    store = new_store()
    store.create(c.PODS, pod("p", finalizers=["a"]))
    held = store.delete(c.PODS, "default", "p")
    with pytest.raises(ApiError) as caught:
        store.update(c.PODS, {**held, "metadata": {**held["metadata"], "finalizers": ["a", "b"]}})
    assert caught.value.message == (
        'Pod "p" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object '
        'is being deleted, found new finalizers []string{"b"}'
    )


@pytest.mark.parametrize("body", [{}, {"metadata": {"namespace": "default"}}])
def test_an_update_needs_a_name(body: Any) -> None:
    with pytest.raises(ApiError) as caught:
        new_store().update(c.PODS, {"metadata": {"namespace": "default"}, **body})
    assert caught.value.code == 422


def test_reading_what_is_not_there_is_not_found() -> None:
    with pytest.raises(ApiError) as caught:
        new_store(HandClock()).get(c.NODES, "", "n")
    assert caught.value.is_not_found
    assert caught.value.message == 'nodes "n" not found'
