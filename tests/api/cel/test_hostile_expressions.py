"""Expressions made to hold the process: they end, soon, with an error that says why."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.api.cel.devices import COST_LIMIT, SelectorError, compile_selector, device_of
from stowplan.api.cel.program import INTERRUPTED, LIMIT_EXCEEDED
from waiting import within_cpu

DEVICE = device_of("d", {"attributes": {"s": {"string": "a100"}, "i": {"int": 4}, "v": {"version": "1.2.3"}}})


def nested(inner: str, each: str, depth: int) -> str:
    """`inner` within `depth` bindings, each of the one before it; the innermost name is `x0`."""
    for at in range(depth, 0, -1):
        inner = f"cel.bind(x{at}, {each.replace('X', f'x{at - 1}')}, {inner})"
    return inner


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("(" * 300 + "true" + ")" * 300, "expression recursion limit exceeded: 250"),
        ("[" * 50_000, "expression recursion limit exceeded: 250"),
        (" + ".join(["1"] * 400) + " > 0", "max recursion depth exceeded"),
        ("device" + ".a" * 400, "max recursion depth exceeded"),
        ("a" * 100_001, "expression code point size exceeds limit: size: 100001, limit 100000"),
        ("'x'.matches('((a{100}){100}){100}')", "invalid matches argument"),
    ],
)
def test_what_is_too_large_is_refused(expression: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector(expression)
    assert message in caught.value.message


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 240 + "true" + ")" * 240,
        "!" * 9000 + "true",
        " && ".join(["true"] * 5000),
        "[1].all(x, " * 200 + "true" + ")" * 200,
        "(" * 100 + " + ".join(["1"] * 200) + " > 0" + ")" * 100,
    ],
)
def test_what_is_large_but_allowed_is_evaluated(expression: str) -> None:
    assert compile_selector(expression).match(DEVICE).matched


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))", LIMIT_EXCEEDED),
        ("lists.range(9223372036854775807).size() > 0", LIMIT_EXCEEDED),
        ("lists.range(100000).map(x, string(x)).join('').size() > 0", LIMIT_EXCEEDED),
        ("lists.range(1000).sort().sort().size() > 0", LIMIT_EXCEEDED),
        ("cel.bind(x0, 'aaaaaaaaaa', " + nested("x40.size() > 0", "X + X", 40) + ")", LIMIT_EXCEEDED),
        ("cel.bind(x0, [1], " + nested("[x40] == [x40]", "[X, X]", 40) + ")", INTERRUPTED),
        ("cel.bind(x0, [1], " + nested("x40.flatten(99).size() > 0", "[X, X]", 40) + ")", INTERRUPTED),
        ("cel.bind(x0, [1], " + nested("'%s'.format([x40]) == ''", "[X, X]", 40) + ")", INTERRUPTED),
        (
            "cel.bind(a, lists.range(99999), cel.bind(b, lists.range(99999), [1, 2].all(x, [a] == [b]) && "
            "lists.range(999).all(x, [a] == [b])))",
            INTERRUPTED,
        ),
        (
            "cel.bind(x0, 'a', " + nested("x9.size() > 0", "X.replace('a', 'aaaaaaaaaa')", 9) + ")",
            "string.rep",
        ),
    ],
)
def test_what_costs_too_much_is_ended(expression: str, error: str) -> None:
    compiled = compile_selector(expression)
    with within_cpu(10):
        match = compiled.match(DEVICE)
    assert match.error is not None
    assert match.error.startswith(error)


def test_a_pattern_takes_time_by_the_length_of_the_text() -> None:
    text = "a" * 5000
    with within_cpu(10):
        for pattern in ("(a*)*b", "(a|aa)+$", "(a?){50}a{50}", "([a-z]+)*[0-9]"):
            compile_selector(f"'{text}'.matches('{pattern}') || true").match(DEVICE)
            compile_selector(f"'{text}'.find('{pattern}') == '' || true").match(DEVICE)


def test_a_smaller_limit_ends_an_expression_sooner() -> None:
    compiled = compile_selector("[1, 2, 3].all(x, x > 0)")
    assert compiled.match(DEVICE).cost == compiled.match(DEVICE, limit=16).cost == 16
    assert compiled.match(DEVICE, limit=5).error == LIMIT_EXCEEDED


_ATOMS = st.sampled_from(
    [
        "device",
        "device.driver",
        "device.attributes",
        "device.attributes['d']",
        "device.attributes['d'].s",
        "device.attributes['d'].i",
        "device.attributes['d'].v",
        "device.capacity['d'].c",
        "1",
        "-1",
        "2u",
        "1.5",
        "''",
        "'a'",
        "'é'",
        "b'a'",
        "true",
        "false",
        "null",
        "[]",
        "[1]",
        "['a']",
        "{}",
        "{'a':1}",
        "x",
        "y",
        "int",
        "string",
        "9223372036854775807",
        "quantity('1')",
        "semver('1.0.0')",
        "ip('::1')",
        "duration('1s')",
        "timestamp('2024-01-01T00:00:00Z')",
        "optional.of(1)",
        "optional.none()",
        "lists.range(3)",
        "?",
        ")",
        "(",
        "&",
        "'",
    ]
)
_METHODS = st.sampled_from(
    [
        "size",
        "lowerAscii",
        "trim",
        "reverse",
        "sum",
        "min",
        "isSorted",
        "sort",
        "flatten",
        "distinct",
        "value",
        "hasValue",
        "major",
        "asInteger",
        "getHours",
        "family",
        "string",
        "type",
        "startsWith",
        "matches",
        "find",
        "split",
        "join",
        "indexOf",
        "replace",
        "substring",
        "contains",
        "format",
        "compareTo",
        "isGreaterThan",
        "add",
        "includes",
        "slice",
        "lastIndexOf",
        "orValue",
    ]
)


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", "<=", "&&", "||", "in"])
    return st.one_of(
        st.tuples(inner, operators, inner).map(" ".join),
        st.tuples(inner, inner, inner).map(lambda parts: "({} ? {} : {})".format(*parts)),
        st.tuples(inner, _METHODS, st.lists(inner, max_size=2)).map(
            lambda parts: f"{parts[0]}.{parts[1]}({', '.join(parts[2])})"
        ),
        st.tuples(_METHODS, inner).map(lambda parts: f"{parts[0]}({parts[1]})"),
        st.tuples(inner, st.sampled_from(["all", "exists", "exists_one", "map", "filter"]), inner).map(
            lambda parts: f"{parts[0]}.{parts[1]}(x, {parts[2]})"
        ),
        st.tuples(inner, inner).map(lambda parts: f"{parts[0]}[{parts[1]}]"),
        st.tuples(inner, inner).map(lambda parts: f"{parts[0]}[?{parts[1]}]"),
        st.tuples(inner, inner).map(lambda parts: f"cel.bind(y, {parts[0]}, {parts[1]})"),
        inner.map(lambda part: f"dyn({part})"),
        inner.map(lambda part: f"has({part}.a)"),
        inner.map(lambda part: f"!({part})"),
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
    )


@settings(max_examples=400, deadline=None)
@given(st.recursive(_ATOMS, _compound, max_leaves=12))
def test_no_expression_raises_anything_but_a_selector_error_or_exceeds_its_cost(expression: str) -> None:
    for wanted in (expression, f"dyn({expression}) == dyn({expression})"):
        try:
            compiled = compile_selector(wanted)
        except SelectorError:
            continue
        match = compiled.match(DEVICE)
        assert match.cost is not None
        assert match.cost <= COST_LIMIT or match.error == LIMIT_EXCEEDED


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    with contextlib.suppress(SelectorError):
        compile_selector(text).match(DEVICE)
