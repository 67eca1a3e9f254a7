"""Patches of every type."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.store.stores import Log, new_store, pod
from stowplan.api import catalogue as c
from stowplan.api.requests import Json, PatchType
from stowplan.api.status import ApiError
from stowplan.localcluster.schema import Form, Schema
from stowplan.localcluster.store.patches import apply_json_patch, merge_patch
from stowplan.localcluster.store.strategicpatch import MergeRules, merge_rules, strategic_merge

TYPES = """
[example.v1]
Document conditions:[Condition]~type reservedFor:[Consumer]~uid containers:[Container]~name
  finalizers:[string]~ tolerations:[Toleration] taints:[Taint] groups:{Document}
Condition type:string status:string
Consumer uid:string
Container name:string env:[Variable]~name
Variable name:string value:string
Toleration key:string
Taint key:string
"""
RULES = MergeRules(Schema(TYPES), Form("type", "example.v1.Document"))


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_does_what_its_rfc_says(document: Any, patch: Any, result: Any) -> None:
    assert merge_patch(document, patch) == result


DOCUMENT = {"a": {"b": [1, 2, 3]}, "m~n": 1, "x/y": 2, "t": True}


@pytest.mark.parametrize(
    ("steps", "result"),
    [
        ([{"op": "add", "path": "/c", "value": 5}], {**DOCUMENT, "c": 5}),
        ([{"op": "add", "path": "/a/b/1", "value": 9}], {**DOCUMENT, "a": {"b": [1, 9, 2, 3]}}),
        ([{"op": "add", "path": "/a/b/-", "value": 9}], {**DOCUMENT, "a": {"b": [1, 2, 3, 9]}}),
        ([{"op": "add", "path": "/a/b/3", "value": 9}], {**DOCUMENT, "a": {"b": [1, 2, 3, 9]}}),
        ([{"op": "remove", "path": "/a/b/0"}], {**DOCUMENT, "a": {"b": [2, 3]}}),
        ([{"op": "remove", "path": "/a"}], {"m~n": 1, "x/y": 2, "t": True}),
        ([{"op": "replace", "path": "/m~0n", "value": 7}], {**DOCUMENT, "m~n": 7}),
        ([{"op": "replace", "path": "/x~1y", "value": 7}], {**DOCUMENT, "x/y": 7}),
        ([{"op": "replace", "path": "", "value": {"new": 1}}], {"new": 1}),
        ([{"op": "move", "from": "/a/b/0", "path": "/first"}], {**DOCUMENT, "a": {"b": [2, 3]}, "first": 1}),
        ([{"op": "copy", "from": "/a/b", "path": "/c"}], {**DOCUMENT, "c": [1, 2, 3]}),
        ([{"op": "test", "path": "/a/b", "value": [1, 2, 3]}], DOCUMENT),
        ([{"op": "test", "path": "", "value": DOCUMENT}], DOCUMENT),
        ([{"op": "remove", "path": "/t"}, {"op": "remove", "path": "/a"}], {"m~n": 1, "x/y": 2}),
        ([], DOCUMENT),
    ],
)
def test_a_json_patch_does_what_its_rfc_says(steps: Any, result: Any) -> None:
    before = copy.deepcopy(DOCUMENT)
    assert apply_json_patch(DOCUMENT, steps) == result
    assert before == DOCUMENT


@pytest.mark.parametrize(
    "steps",
    [
        [{"op": "test", "path": "/a/b/0", "value": 2}],
        [{"op": "test", "path": "/t", "value": 1}],
        [{"op": "test", "path": "/none", "value": None}],
        [{"op": "remove", "path": "/none"}],
        [{"op": "replace", "path": "/none", "value": 1}],
        [{"op": "add", "path": "/none/deeper", "value": 1}],
        [{"op": "add", "path": "/a/b/5", "value": 1}],
        [{"op": "add", "path": "/a/b/01", "value": 1}],
        [{"op": "add", "path": "/t/x", "value": 1}],
        [{"op": "remove", "path": "/a/b/-"}],
        [{"op": "copy", "from": "/none", "path": "/c"}],
        [{"op": "move", "from": "/none", "path": "/c"}],
    ],
)
def test_a_json_patch_that_does_not_apply_is_unprocessable(steps: Any) -> None:
    with pytest.raises(ApiError) as caught:
        apply_json_patch(DOCUMENT, steps)
    assert caught.value.code == 422
    assert caught.value.message == "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ({"op": "add"}, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ([{"op": "add", "path": "a", "value": 1}], "path: expected a JSON pointer, got 'a'"),
        ([{"op": "add", "path": 3, "value": 1}], "path: expected a JSON pointer, got 3"),
        ([{"op": "add", "path": "/a"}], "value: expected a value"),
        ([{"op": "move", "path": "/a"}], "from: expected a JSON pointer, got None"),
    ],
)
def test_a_malformed_json_patch_is_a_bad_request(steps: Any, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        apply_json_patch(DOCUMENT, steps)
    assert (caught.value.code, caught.value.message) == (400, f"error decoding patch: {message}")


def test_a_json_patch_of_too_many_operations_is_too_large() -> None:
    with pytest.raises(ApiError) as caught:
        apply_json_patch({}, [{"op": "test", "path": "", "value": {}}] * 10_001)
    assert caught.value.code == 413


A, B, NEW = ({"type": name, "status": "True"} for name in ("A", "B", "New"))
BARE_A = {"type": "A"}
B_IS_X = {"type": "B", "status": "x"}


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"x": 1}, {"x": None, "y": 2}, {"y": 2}),
        ({"x": {"y": 1}}, {"x": {"z": 2, "n": None}}, {"x": {"y": 1, "z": 2}}),
        ({}, {"x": {"n": None, "z": {"n": None}}}, {"x": {"z": {}}}),
        # lists that are merged by a key
        ({"conditions": [A, B]}, {"conditions": [{"type": "B", "status": "x"}]}, {"conditions": [A, B_IS_X]}),
        (
            {"conditions": [A, B]},
            {"conditions": [{"type": "A", "status": None}]},
            {"conditions": [BARE_A, B]},
        ),
        ({}, {"conditions": [{"type": "A", "lastProbeTime": None}]}, {"conditions": [{"type": "A"}]}),
        ({"conditions": [A]}, {"conditions": [NEW]}, {"conditions": [NEW, A]}),
        (
            {"conditions": [A]},
            {"$setElementOrder/conditions": [{"type": "A"}, {"type": "New"}], "conditions": [NEW]},
            {"conditions": [A, NEW]},
        ),
        (
            {"conditions": [A, B]},
            {"$setElementOrder/conditions": [{"type": "B"}, {"type": "A"}]},
            {"conditions": [B, A]},
        ),
        (
            {"conditions": [A, NEW, B]},
            {"$setElementOrder/conditions": [{"type": "A"}, {"type": "B"}]},
            {"conditions": [A, NEW, B]},
        ),
        (
            {"conditions": [A, NEW, B]},
            {"$setElementOrder/conditions": [{"type": "B"}, {"type": "A"}]},
            {"conditions": [NEW, B, A]},
        ),
        ({"conditions": [A, B]}, {"conditions": [{"type": "A", "$patch": "delete"}]}, {"conditions": [B]}),
        ({"conditions": [A, B]}, {"conditions": [{"type": "X", "$patch": "delete"}]}, {"conditions": [A, B]}),
        ({"conditions": [A, B]}, {"conditions": [NEW, {"$patch": "replace"}]}, {"conditions": [NEW]}),
        ({"conditions": "odd"}, {"conditions": [A]}, {"conditions": [A]}),
        (
            {"reservedFor": [{"uid": "1"}, {"uid": "2"}]},
            {"reservedFor": [{"$patch": "delete", "uid": "1"}]},
            {"reservedFor": [{"uid": "2"}]},
        ),
        # a list within an element of a list
        (
            {"containers": [{"name": "c", "env": [{"name": "X", "value": "1"}]}]},
            {"containers": [{"name": "c", "env": [{"name": "Y", "value": "2"}]}]},
            {
                "containers": [
                    {"name": "c", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]}
                ]
            },
        ),
        # lists of plain values
        ({"finalizers": ["a", "b"]}, {"finalizers": ["b", "c"]}, {"finalizers": ["a", "b", "c"]}),
        ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
        ({}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {}),
        ({"finalizers": ["a", "b"]}, {"$setElementOrder/finalizers": ["b", "a"]}, {"finalizers": ["b", "a"]}),
        # lists that are replaced
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
        ({"taints": [{"key": "a"}]}, {"taints": []}, {"taints": []}),
        # whole maps
        ({"x": {"y": 1}}, {"x": {"$patch": "replace", "z": 2}}, {"x": {"z": 2}}),
        ({"x": {"y": 1}}, {"x": {"$patch": "delete"}}, {"x": {}}),
        ({"x": {"y": 1, "z": 2}}, {"x": {"$retainKeys": ["z", "w"], "w": 3}}, {"x": {"z": 2, "w": 3}}),
    ],
)
def test_a_strategic_merge_patch_merges_what_is_marked_for_it(
    document: Json, patch: Json, result: Json
) -> None:
    before = copy.deepcopy(document)
    assert strategic_merge(document, patch, RULES) == result
    assert document == before


@pytest.mark.parametrize(
    ("document", "patch", "code"),
    [
        ({}, [], 400),
        ({}, {"x": {"$patch": "explode"}}, 400),
        ({}, {"$retainKeys": ["a"], "b": 1}, 400),
        ({}, {"$retainKeys": "a"}, 400),
        ({"conditions": [A]}, {"$setElementOrder/conditions": "A"}, 400),
        ({"conditions": [A]}, {"conditions": [{"$patch": "merge", "type": "A"}]}, 400),
        ({"conditions": [A]}, {"conditions": [{"status": "no type"}]}, 422),
        ({"conditions": [A]}, {"conditions": [{"$patch": "delete"}]}, 422),
        ({"conditions": [A]}, {"conditions": ["text"]}, 422),
        ({"conditions": ["text"]}, {"conditions": [A]}, 422),
        ({"conditions": [A]}, {"$setElementOrder/conditions": [{"type": "A"}], "conditions": [B]}, 422),
        ({"finalizers": ["a"]}, {"finalizers": [{"a": 1}]}, 422),
        ({"finalizers": ["a"]}, {"$setElementOrder/finalizers": [["a"]]}, 422),
    ],
)
def test_a_strategic_merge_patch_that_makes_no_sense_gets_one_clear_line(
    document: Json, patch: Any, code: int
) -> None:
    with pytest.raises(ApiError) as caught:
        strategic_merge(document, patch, RULES)
    assert caught.value.code == code


def test_lists_of_the_same_name_are_merged_as_their_types_say() -> None:
    """By `port` in a service, by `containerPort` in a container, not at all in an endpoint slice."""
    old, new = {"port": 80, "name": "old"}, {"port": 80, "name": "new", "targetPort": 8080}
    service = strategic_merge({"spec": {"ports": [old]}}, {"spec": {"ports": [new]}}, merge_rules(c.SERVICES))
    assert service == {"spec": {"ports": [new]}}
    more = {"spec": {"ports": [{"port": 443}]}}
    merged = strategic_merge({"spec": {"ports": [old]}}, more, merge_rules(c.SERVICES))
    assert merged["spec"]["ports"] == [{"port": 443}, old]
    slices = merge_rules(c.ENDPOINT_SLICES)
    assert strategic_merge({"ports": [old]}, {"ports": [new]}, slices) == {"ports": [new]}
    hook = {"name": "h", "sideEffects": "None"}
    merged = strategic_merge(
        {"webhooks": [hook]},
        {"webhooks": [{"name": "h", "timeoutSeconds": 5}]},
        merge_rules(c.VALIDATING_WEBHOOK_CONFIGURATIONS),
    )
    assert merged == {"webhooks": [{**hook, "timeoutSeconds": 5}]}


def test_lists_in_the_values_of_a_map_are_merged_too() -> None:
    document = {"groups": {"x": {"conditions": [A]}}}
    patch = {"groups": {"x": {"conditions": [B_IS_X]}}}
    assert strategic_merge(document, patch, RULES) == {"groups": {"x": {"conditions": [B_IS_X, A]}}}


def test_a_patch_of_the_status_changes_the_status_and_labels_only() -> None:
    store, log = new_store(), Log()
    first = store.create(c.PODS, pod("p"))
    store.watch(c.PODS, log)
    patch = {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}, "metadata": {"labels": {"a": "b"}}}
    after = store.patch(c.PODS, "default", "p", patch, subresource="status")
    assert after["status"] == {"phase": "Running"}
    assert after["spec"] is first["spec"]
    assert after["metadata"]["labels"] == {"a": "b"}
    assert log.short == ["MODIFIED p"]


def test_a_patch_of_the_object_leaves_the_status_alone() -> None:
    store = new_store()
    store.create(c.PODS, pod("p"))
    patch = {"status": {"phase": "Running"}, "metadata": {"labels": {"a": "b"}}}
    after = store.patch(c.PODS, "default", "p", patch, PatchType.MERGE)
    assert (after["status"], after["metadata"]["labels"]) == ({"phase": "Pending"}, {"a": "b"})


def test_a_patch_that_changes_nothing_is_no_change() -> None:
    store = new_store()
    first = store.create(c.PODS, pod("p", labels={"a": "b"}))
    assert store.patch(c.PODS, "default", "p", {"metadata": {"labels": {"a": "b"}}}) is first
    assert store.version == 1


def test_a_patch_may_name_the_version_and_the_object_it_is_for() -> None:
    store = new_store()
    uid = store.create(c.PODS, pod("p"))["metadata"]["uid"]
    with pytest.raises(ApiError) as caught:
        store.patch(c.PODS, "default", "p", {"metadata": {"resourceVersion": "9"}})
    assert caught.value.is_conflict
    with pytest.raises(ApiError) as caught:
        store.patch(c.PODS, "default", "p", {"metadata": {"uid": "other"}}, subresource="status")
    assert caught.value.message == (
        'Pod "p" is invalid: metadata.uid: Invalid value: "other": field is immutable'
    )
    assert [cause["field"] for cause in caught.value.details["causes"]] == ["metadata.uid"] * 2
    given = {"metadata": {"uid": uid, "resourceVersion": "1"}, "status": {"phase": "Running"}}
    after = store.patch(c.PODS, "default", "p", given, subresource="status")
    assert after["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("patch", "kind", "code"),
    [
        ({"metadata": {"name": "q"}}, PatchType.MERGE, 422),
        ({"metadata": {"namespace": "q"}}, PatchType.STRATEGIC, 422),
        ({"metadata": {"labels": {"a": 1}}}, PatchType.MERGE, 400),
        ({"metadata": "x"}, PatchType.MERGE, 400),
        ({"kind": "Node"}, PatchType.MERGE, 400),
        ({"spec": "x"}, PatchType.MERGE, 400),
        ("text", PatchType.MERGE, 400),
        ([{"op": "remove", "path": ""}], PatchType.JSON, 400),
        (b"{", PatchType.MERGE, 400),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, PatchType.MERGE, 400),
    ],
)
def test_a_patch_cannot_make_an_object_into_something_else(patch: Any, kind: PatchType, code: int) -> None:
    store = new_store()
    first = store.create(c.PODS, pod("p"))
    with pytest.raises(ApiError) as caught:
        store.patch(c.PODS, "default", "p", patch, kind)
    assert caught.value.code == code
    assert store.get(c.PODS, "default", "p") is first


def test_custom_resources_have_no_strategic_merge() -> None:
    widgets = c.Resource("e.com", "v1", "widgets", "Widget", custom=True)
    store = new_store()
    store.catalogue.register(widgets)
    store.create(widgets, {"metadata": {"name": "w", "namespace": "d"}})
    with pytest.raises(ApiError) as caught:
        store.patch(widgets, "d", "w", {"size": 1})
    assert caught.value.code == 415
    assert store.patch(widgets, "d", "w", {"size": 1}, PatchType.MERGE)["size"] == 1


def test_what_a_patch_does_not_touch_is_shared() -> None:
    store = new_store()
    first = store.create(c.PODS, pod("p", labels={"a": "b"}))
    after = store.patch(c.PODS, "default", "p", {"status": {"phase": "Running"}}, subresource="status")
    assert after["spec"] is first["spec"]
    assert first["status"] == {"phase": "Pending"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["conditions", "finalizers", "type", "$patch", "x"]), inner)
    ),
    max_leaves=8,
)


@given(
    document=st.dictionaries(st.sampled_from(["conditions", "finalizers", "x"]), json_values),
    patch=json_values,
)
def test_no_patch_does_anything_but_apply_or_be_refused(document: Json, patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    for apply in (
        lambda: merge_patch(document, patch),
        lambda: apply_json_patch(document, patch),
        lambda: strategic_merge(document, patch, RULES),
    ):
        with contextlib.suppress(ApiError):
            apply()
    assert (document, patch) == before
