"""Selecting objects by labels and fields, in lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.store.stores import new_store, pod
from stowplan.api import catalogue as c
from stowplan.api.labels import SelectorError
from stowplan.api.requests import FieldTerm, Selection, parse_field_selector
from stowplan.api.status import ApiError
from stowplan.localcluster.store import Store


def populated() -> Store:
    store = new_store()
    store.create(c.PODS, pod("b", "two", labels={"app": "web"}, node="n1"))
    store.create(c.PODS, pod("a", "two", labels={"app": "db", "tier": "back"}))
    store.create(c.PODS, pod("c", "one", labels={"app": "web"}))
    store.patch(c.PODS, "two", "a", {"status": {"phase": "Failed"}}, subresource="status")
    store.create(c.NODES, {"metadata": {"name": "n1"}, "spec": {"unschedulable": True}})
    store.create(c.NODES, {"metadata": {"name": "n2"}})
    return store


@pytest.mark.parametrize(
    ("namespace", "labels", "fields", "names"),
    [
        ("", "", "", "c a b"),
        ("two", "", "", "a b"),
        ("none", "", "", ""),
        ("", "app=web", "", "c b"),
        ("", "app in (web,db),!tier", "", "c b"),
        ("two", "app=web", "", "b"),
        ("", "", "metadata.name=a", "a"),
        ("", "", "metadata.namespace=two", "a b"),
        ("", "", "metadata.namespace!=two", "c"),
        ("", "", "spec.nodeName=n1", "b"),
        ("", "", "spec.nodeName==n1", "b"),
        ("", "", "spec.nodeName=", "c a"),
        ("", "", "spec.nodeName!=n1", "c a"),
        ("", "", "status.phase=Pending", "c b"),
        ("", "", "status.phase!=Succeeded,status.phase!=Failed", "c b"),
        ("", "", "status.phase=Pending,spec.nodeName=n1", "b"),
        ("", "", "spec.hostNetwork=false", "c a b"),
        ("", "app=web", "spec.nodeName=", "c"),
    ],
)
def test_lists_have_the_selected_objects_in_order(
    namespace: str, labels: str, fields: str, names: str
) -> None:
    items = populated().list(c.PODS, namespace, Selection.parse(labels, fields)).items
    assert " ".join(obj["metadata"]["name"] for obj in items) == names


def test_nodes_can_be_selected_by_whether_they_are_schedulable() -> None:
    for value, names in (("true", ["n1"]), ("false", ["n2"])):
        items = populated().list(c.NODES, selection=Selection.parse("", f"spec.unschedulable={value}")).items
        assert [obj["metadata"]["name"] for obj in items] == names


def test_a_list_says_at_which_version_it_is_so() -> None:
    store = populated()
    assert store.list(c.SERVICES).version == store.version == 6


@pytest.mark.parametrize(
    ("resource", "field", "message"),
    [
        (c.PODS, "spec.dnsPolicy=x", "field label not supported: spec.dnsPolicy"),
        (
            c.CONFIG_MAPS,
            "data=x",
            '"data" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
def test_a_field_that_cannot_be_selected_by_is_said_so(
    resource: c.Resource, field: str, message: str
) -> None:
    with pytest.raises(ApiError) as caught:
        new_store().list(resource, selection=Selection.parse("", field))
    assert (caught.value.code, caught.value.message) == (400, message)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        (",a=b,", [("a", "b", True)]),
        ("b=1,a!=2", [("a", "2", False), ("b", "1", True)]),
        ("a==b", [("a", "b", True)]),
        (r"a=x\,y\=z\\", [("a", "x,y=z\\", True)]),
        ("a=", [("a", "", True)]),
    ],
)
def test_field_selectors_are_read_as_they_are_written(text: str, terms: list[tuple[str, str, bool]]) -> None:
    assert parse_field_selector(text) == tuple(FieldTerm(*term) for term in terms)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abc", "invalid selector: 'abc'; can't understand 'abc'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=b\c", r"invalid field selector: invalid escape sequence: \c"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_a_field_selector_that_cannot_be_read_is_said_so(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)
    assert str(caught.value) == message


@given(st.lists(st.tuples(st.sampled_from(["a", "b.c"]), st.text(max_size=5), st.booleans()), max_size=4))
def test_a_selection_is_written_as_it_can_be_read(terms: list[tuple[str, str, bool]]) -> None:
    selection = Selection(fields=tuple(FieldTerm(*term) for term in terms))
    again = Selection.parse(selection.label_text, selection.field_text)
    assert sorted(again.fields) == sorted(selection.fields)
