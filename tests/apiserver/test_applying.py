"""Server-side apply as rules: what several managers say of one object."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.stores import HandClock
from stowplan.api import catalogue as c
from stowplan.api.status import ApiError
from stowplan.embedded.apply.fieldset import (
    form_of,
    from_fields_v1,
    paths_of,
    to_fields_v1,
    values_of,
    without,
)
from stowplan.embedded.schema import Field, the_schema
from stowplan.embedded.store import Store
from stowplan.embedded.store.writer import component

POD = the_schema().of_kind("", "v1", "Pod")
names = st.sampled_from(["a", "b", "c"])
texts = st.sampled_from(["1", "2"])
containers = st.dictionaries(
    names,
    st.fixed_dictionaries({}, optional={"image": texts, "command": st.lists(texts, max_size=2)}),
    max_size=3,
)
data = st.dictionaries(names, texts, max_size=3)


def pod_with(found: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    listed = [{"name": name, **parts} for name, parts in found.items()]
    return {
        "metadata": {"name": "p", "namespace": "default", "labels": labels},
        "spec": {"containers": listed},
    }


@given(containers, data)
def test_fields_survive_being_written_as_a_tree(found: dict[str, Any], labels: dict[str, str]) -> None:
    paths = paths_of(form_of(POD), pod_with(found, labels))
    assert set(from_fields_v1(to_fields_v1(paths))) == paths


@given(containers, data)
def test_an_object_without_all_that_it_says_says_nothing(
    found: dict[str, Any], labels: dict[str, str]
) -> None:
    obj = pod_with(found, labels)
    form = form_of(POD)
    left = without(Field("", form), obj, to_fields_v1(paths_of(form, obj)))
    assert all(value in ({}, []) for value in values_of(form, left).values())


def new_store() -> Store:
    return Store(HandClock(), random.Random(1))


def applied(
    store: Store, labels: dict[str, str], found: dict[str, Any], manager: str, force: bool = True
) -> Any:
    return store.apply(c.PODS, pod_with(found, labels), component(manager), force=force)


@given(st.lists(st.tuples(st.sampled_from(["me", "you"]), data, containers), min_size=1, max_size=5))
def test_who_applied_last_finds_what_they_said_and_nothing_they_said_before(
    steps: list[tuple[str, dict[str, str], dict[str, Any]]],
) -> None:
    store = new_store()
    said: dict[str, set[tuple[str, ...]]] = {}
    form = form_of(POD)
    for manager, labels, found in steps:
        obj = applied(store, labels, found, manager)
        wanted = values_of(form, pod_with(found, labels))
        kept = values_of(form, obj)
        for path, value in wanted.items():
            if value not in ({}, []):
                assert kept[path] == value
        others = set().union(*(paths for name, paths in said.items() if name != manager))
        for path in said.get(manager, set()) - set(wanted) - others:
            assert path not in kept or kept[path] in ({}, [])
        said[manager] = set(wanted)


@given(data, containers)
def test_applying_twice_is_applying_once(labels: dict[str, str], found: dict[str, Any]) -> None:
    store = new_store()
    once = applied(store, labels, found, "me")
    assert applied(store, labels, found, "me", force=False) == once


def test_what_was_there_before_anybody_applied_is_somebodys() -> None:
    store = new_store()
    store.create(c.PODS, pod_with({"a": {"image": "1"}}, {}))
    with pytest.raises(ApiError, match='conflict with "before-first-apply" using v1: '):
        applied(store, {}, {"a": {"image": "2"}}, "me", force=False)


def test_a_change_of_the_status_keeps_who_manages_what() -> None:
    store = new_store()
    applied(store, {"a": "1"}, {"a": {"image": "1"}}, "me")
    store.patch(c.PODS, "default", "p", {"status": {"phase": "Running"}}, subresource="status")
    managers = store.get(c.PODS, "default", "p")["metadata"]["managedFields"]
    assert [(entry["manager"], entry.get("subresource", "")) for entry in managers] == [
        ("me", ""),
        ("kube-apiserver", "status"),
    ]
    assert applied(store, {"a": "2"}, {"a": {"image": "1"}}, "me", force=False)["status"] == {
        "phase": "Running"
    }
