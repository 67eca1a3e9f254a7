"""Answers as extenders write them, good and bad."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.extenders.wire import (
    AnswerError,
    FilterAnswer,
    VictimsAnswer,
    read_bound,
    read_filtered,
    read_scores,
    read_victims,
)

NOTHING = FilterAnswer(None, None, {}, {}, "")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{}", NOTHING),
        (b"null", NOTHING),
        (b' {"unknown": [1, {"a": null}]}', NOTHING),
        (b'{"NodeNames": null, "Error": null, "FailedNodes": null, "Nodes": null}', NOTHING),
        (b'{"nodenames": []}', NOTHING._replace(node_names=[])),
        (b'{"NODENAMES": ["a", null]}', NOTHING._replace(node_names=["a", ""])),
        (b'{"failedNodes": {"a": "x", "b": null}}', NOTHING._replace(failed={"a": "x", "b": ""})),
        (b'{"failedandunresolvablenodes": {"a": "x"}}', NOTHING._replace(unresolvable={"a": "x"})),
        (b'{"error": "a", "Error": "b"}', NOTHING._replace(error="b")),
        (b'{"error": "x"} trailing', NOTHING._replace(error="x")),
        (b'{"error": "x"}{"error": "y"}', NOTHING._replace(error="x")),
        (b'{"error": "\xff"}', NOTHING._replace(error="\ufffd")),
        (b'{"error": "\\ud800!"}', NOTHING._replace(error="\ufffd!")),
        (b'{"nodes": {}}', NOTHING._replace(nodes=[])),
        (b'{"nodes": {"items": null}}', NOTHING._replace(nodes=[])),
    ],
)
def test_keys_have_any_case_and_null_is_as_good_as_absent(body: bytes, expected: FilterAnswer) -> None:
    assert read_filtered(body) == expected


def test_nodes_come_with_their_text() -> None:
    item = {"metadata": {"name": "a", "labels": None}, "extra": 1}
    answer = read_filtered(json.dumps({"nodes": {"Items": [item]}}).encode())
    assert answer.nodes is not None
    ((node, text),) = answer.nodes
    assert node.name == "a"
    assert json.loads(bytes(text)) == item


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "EOF"),
        (b" \n", "EOF"),
        (b"{", "unexpected EOF"),
        (b'{"Error": "x', "unexpected EOF"),
        (b"NaN", "invalid character 'N' looking for beginning of value"),
        pytest.param(b"[" * 100_000, "exceeded max depth", id="depths"),
        pytest.param(
            b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"} .", "exceeded max depth", id="more depths"
        ),
        (b"<html>", "invalid character '<' looking for beginning of value"),
        (b'{"Error": }', "invalid character '}' looking for beginning of value"),
        (b"[]", "json: cannot unmarshal array into Go value of type v1.ExtenderFilterResult"),
        (b'"no"', "json: cannot unmarshal string into Go value of type v1.ExtenderFilterResult"),
        (b'{"error": 5}', "… number into Go struct field ExtenderFilterResult.Error of type string"),
        (
            b'{"nodeNames": "a"}',
            "… string into Go struct field ExtenderFilterResult.NodeNames of type []string",
        ),
        (
            b'{"nodeNames": [true]}',
            "… bool into Go struct field ExtenderFilterResult.NodeNames of type string",
        ),
        (
            b'{"failedNodes": ["a"]}',
            "… array into Go struct field ExtenderFilterResult.FailedNodes of type v1.FailedNodesMap",
        ),
        (
            b'{"failedNodes": {"a": {}}}',
            "… object into Go struct field ExtenderFilterResult.FailedNodes of type string",
        ),
        (b'{"nodes": []}', "… array into Go struct field ExtenderFilterResult.Nodes of type v1.NodeList"),
        (
            b'{"nodes": {"items": {}}}',
            "… object into Go struct field NodeList.Nodes.items of type []v1.Node",
        ),
        (
            b'{"nodes": {"items": [{"metadata": {"name": 1}}]}}',
            "reading the nodes an extender gave back: Node: Expected `str`, got `int` - at `$.metadata.name`",
        ),
    ],
)
def test_a_filter_answer_that_makes_no_sense(body: bytes, problem: str) -> None:
    with pytest.raises(AnswerError) as caught:
        read_filtered(body)
    assert str(caught.value) == problem.replace("…", "json: cannot unmarshal")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, {}),
        ([], {}),
        ([{"host": "a", "score": 3}, {"Host": "b"}], {"a": 3, "b": 0}),
        ([{"Host": "a", "Score": 3}, {"Host": "a", "Score": 4}], {"a": 7}),
        ([None], {"": 0}),
        ({}, "object into Go value of type v1.HostPriorityList"),
        ([1], "number into Go value of type v1.HostPriority"),
        ([{"Score": "1"}], "string into Go struct field HostPriority.Score of type int64"),
        ([{"Score": 1.5}], "number 1.5 into Go struct field HostPriority.Score of type int64"),
        ([{"Score": 2**63}], f"number {2**63} into Go struct field HostPriority.Score of type int64"),
        ([{"Score": True}], "bool into Go struct field HostPriority.Score of type int64"),
        ([{"Host": []}], "array into Go struct field HostPriority.Host of type string"),
    ],
)
def test_scores(answer: Any, expected: Any) -> None:
    body = json.dumps(answer).encode()
    if not isinstance(expected, str):
        assert read_scores(body) == expected
        return
    with pytest.raises(AnswerError) as caught:
        read_scores(body)
    assert str(caught.value) == f"json: cannot unmarshal {expected}"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({}, {}),
        ({"nodeNameToMetaVictims": {}}, {}),
        ({"nodenametometavictims": {"a": None}}, {"a": VictimsAnswer([], 0)}),
        (
            {"NodeNameToMetaVictims": {"a": {"pods": [{"uid": "1"}, {}, None], "numPDBViolations": 2}}},
            {"a": VictimsAnswer(["1", "", None], 2)},
        ),
        (
            {"NodeNameToMetaVictims": []},
            "array into Go struct field ExtenderPreemptionResult.NodeNameToMetaVictims "
            "of type map[string]*v1.MetaVictims",
        ),
        (
            {"NodeNameToMetaVictims": {"a": {"Pods": {}}}},
            "object into Go struct field MetaVictims.NodeNameToMetaVictims.Pods of type []*v1.MetaPod",
        ),
        (
            {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": 7}]}}},
            "number into Go struct field MetaPod.NodeNameToMetaVictims.Pods.UID of type string",
        ),
    ],
)
def test_victims(answer: Any, expected: Any) -> None:
    body = json.dumps(answer).encode()
    if not isinstance(expected, str):
        assert read_victims(body) == expected
        return
    with pytest.raises(AnswerError) as caught:
        read_victims(body)
    assert str(caught.value) == f"json: cannot unmarshal {expected}"


def test_the_answer_to_bind() -> None:
    assert read_bound(b"{}") == ""
    assert read_bound(b'{"ERROR": "no"}') == "no"
    with pytest.raises(AnswerError):
        read_bound(b'{"Error": {}}')


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["Nodes", "items", "nodeNames", "Error", "Host", "Score", "Pods", "x"])
            | st.just("NodeNameToMetaVictims"),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.binary(max_size=40) | _JSON.map(lambda data: json.dumps(data).encode()))
def test_whatever_comes_back_is_read_or_refused(body: bytes) -> None:
    for read in (read_filtered, read_scores, read_bound, read_victims):
        with contextlib.suppress(AnswerError):
            read(body)
