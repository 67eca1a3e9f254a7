"""Server-side apply as rules: what several managers say of one object."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.store.stores import HandClock
from stowplan.api import catalogue as c
from stowplan.api.status import ApiError
from stowplan.localcluster.apply.fieldtree import (
    Tree,
    difference,
    from_fields_v1,
    intersection,
    paths,
    to_fields_v1,
    union,
)
from stowplan.localcluster.apply.shapes import compare, said, shape_of, whole, with_named_fields, without
from stowplan.localcluster.schema import the_schema
from stowplan.localcluster.store import FieldManager, Store
from stowplan.localcluster.store.writer import component

POD = shape_of(the_schema().of_kind("", "v1", "Pod"))
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


def fields(found: dict[str, Any], labels: dict[str, str]) -> Tree:
    return said(POD, pod_with(found, labels))


@given(containers, data)
def test_fields_survive_being_shown_as_managed_fields(found: dict[str, Any], labels: dict[str, str]) -> None:
    tree = whole(POD, pod_with(found, labels))
    del tree["."]
    assert from_fields_v1(to_fields_v1(tree)) == tree


@given(containers, containers, data, data)
def test_sets_of_fields_follow_the_rules_of_sets(
    found: dict[str, Any], other: dict[str, Any], labels: dict[str, str], others: dict[str, str]
) -> None:
    left, right = fields(found, labels), fields(other, others)
    mine, theirs = set(paths(left)), set(paths(right))
    assert set(paths(union(left, right))) == mine | theirs
    assert set(paths(difference(left, right))) == mine - theirs
    assert set(paths(intersection(left, right))) == mine & theirs


@given(containers, data)
def test_an_object_without_all_that_it_says_says_nothing(
    found: dict[str, Any], labels: dict[str, str]
) -> None:
    obj = pod_with(found, labels)
    left = without(POD, obj, with_named_fields(POD, said(POD, obj)))
    assert left in (None, {"spec": {"containers": []}})


@given(containers, containers, data, data)
def test_what_differs_is_found_in_one_of_the_two(
    found: dict[str, Any], other: dict[str, Any], labels: dict[str, str], others: dict[str, str]
) -> None:
    old, new = pod_with(found, labels), pod_with(other, others)
    changed, removed = compare(POD, old, new)
    same = labels == others and found == other
    assert bool(changed or removed) != same
    assert set(paths(changed)) <= set(paths(whole(POD, new)))
    assert set(paths(removed)) <= set(paths(whole(POD, old)))


def new_store() -> Store:
    return Store(HandClock(), random.Random(1), fields=FieldManager())


def applied(
    store: Store, labels: dict[str, str], found: dict[str, Any], manager: str, force: bool = True
) -> Any:
    return store.apply(c.PODS, pod_with(found, labels), component(manager), force=force)


@given(st.lists(st.tuples(st.sampled_from(["me", "you"]), data, containers), min_size=1, max_size=5))
def test_who_applied_last_finds_what_they_said_and_nothing_they_said_before(
    steps: list[tuple[str, dict[str, str], dict[str, Any]]],
) -> None:
    store = new_store()
    claims: dict[str, set[tuple[str, ...]]] = {}
    for manager, labels, found in steps:
        obj = applied(store, labels, found, manager)
        wanted = pod_with(found, labels)
        assert {**obj["metadata"].get("labels", {}), **labels} == obj["metadata"].get("labels", {})
        images = {container["name"]: container for container in obj["spec"]["containers"] or ()}
        for container in wanted["spec"]["containers"]:
            shown = images[container["name"]]
            assert {name: value for name, value in container.items() if value} == {
                name: shown[name] for name, value in container.items() if value
            }
        mine = set(paths(said(POD, wanted)))
        others = set().union(*(owned for name, owned in claims.items() if name != manager))
        left = set(paths(said(POD, obj)))
        gone = claims.get(manager, set()) - mine - others
        assert not {path for path in gone & left if path[-1].startswith("k:")}
        claims[manager] = mine


@given(data, containers)
def test_applying_twice_is_applying_once(labels: dict[str, str], found: dict[str, Any]) -> None:
    store = new_store()
    once = applied(store, labels, found, "me")
    assert applied(store, labels, found, "me", force=False) == once


def managers_of(obj: Any) -> list[tuple[str, str, str]]:
    entries = obj["metadata"]["managedFields"].entries()
    return [(entry["manager"], entry["operation"], entry.get("subresource", "")) for entry in entries]


def test_what_is_not_known_to_be_anybodys_is_somebodys() -> None:
    store = new_store()
    made = store.create(c.PODS, pod_with({"a": {"image": "1"}}, {}))
    made["metadata"].pop("managedFields")
    with pytest.raises(ApiError, match='conflict with "before-first-apply" using v1: '):
        applied(store, {}, {"a": {"image": "2"}}, "me", force=False)


def test_every_writer_owns_what_it_changed_and_nobody_what_is_gone() -> None:
    store = new_store()
    made = store.create(c.PODS, pod_with({"a": {"image": "1"}}, {"x": "1", "y": "1"}), by=component("one"))
    assert managers_of(made) == [("one", "Update", "")]
    change = {"metadata": {"labels": {"x": "2", "y": None}}}
    changed = store.patch(c.PODS, "default", "p", change, by=component("two"))
    one, two = changed["metadata"]["managedFields"].entries()
    assert to_data(one)["f:metadata"] == {"f:labels": {}}
    assert to_data(two) == {"f:metadata": {"f:labels": {"f:x": {}}}}


def to_data(entry: Any) -> Any:
    return msgspec.json.decode(entry["fieldsV1"])


def test_many_writes_by_many_managers_are_capped_as_ancient_changes() -> None:
    store = new_store()
    store.create(c.PODS, pod_with({}, {"n": "0"}), by=component("m0"))
    for number in range(1, 15):
        change = {"metadata": {"labels": {f"l{number}": "x"}}}
        store.patch(c.PODS, "default", "p", change, by=component(f"m{number}"))
    found = managers_of(store.get(c.PODS, "default", "p"))
    assert len(found) == 10
    assert ("ancient-changes", "Update", "") in found


@pytest.mark.parametrize("given_fields", [[], [{}]])
def test_an_update_can_reset_the_managed_fields(given_fields: list[Any]) -> None:
    store = new_store()
    made = store.create(c.PODS, pod_with({"a": {"image": "1"}}, {"x": "1"}))
    body = {**made, "metadata": {**made["metadata"], "managedFields": given_fields}}
    assert "managedFields" not in store.update(c.PODS, body)["metadata"]
    changed = store.patch(c.PODS, "default", "p", {"metadata": {"labels": {"x": "2"}}})
    assert "managedFields" not in changed["metadata"]


def test_a_change_of_the_status_keeps_who_manages_what() -> None:
    store = new_store()
    applied(store, {"a": "1"}, {"a": {"image": "1"}}, "me")
    store.patch(c.PODS, "default", "p", {"status": {"phase": "Running"}}, subresource="status")
    assert managers_of(store.get(c.PODS, "default", "p")) == [
        ("me", "Apply", ""),
        ("kube-apiserver", "Update", "status"),
    ]
    assert applied(store, {"a": "2"}, {"a": {"image": "1"}}, "me", force=False)["status"] == {
        "phase": "Running"
    }
