"""Label selectors: what they match, how they print, when two are the same, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.labels import (
    EVERYTHING,
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    compile_selector,
    parse_selector,
    selector_from_labels,
)
from stowplan.api.meta import LabelSelector, LabelSelectorRequirement

KEYS = st.sampled_from(("app", "tier", "example.com/x"))
VALUES = st.sampled_from(("", "a", "b", "10", "a.b_c-d"))
LABELS = st.dictionaries(KEYS, VALUES)


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "=", "==", "!=", "Gt", "Lt")))
    if operator in ("In", "NotIn"):
        values = draw(st.sets(VALUES, min_size=1))
    elif operator in ("Gt", "Lt"):
        values = {draw(st.sampled_from(("0", "5", "10")))}
    else:
        values = set() if operator in ("Exists", "DoesNotExist") else {draw(VALUES)}
    return Requirement(draw(KEYS), operator, tuple(sorted(values)))


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(
        match_expressions=(LabelSelectorRequirement(key=key, operator=operator, values=values),)
    )


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("app=web", {"app": "web"}, True),
        ("app=web", {}, False),
        ("app!=web", {}, True),
        ("app!=web", {"app": "web"}, False),
        ("app in (web, api)", {"app": "api"}, True),
        ("app notin (web)", {}, True),
        ("app notin (web)", {"app": "web"}, False),
        ("app", {"app": ""}, True),
        ("!app", {"app": ""}, False),
        ("!app", {}, True),
        ("n>5", {"n": "10"}, True),
        ("n>5", {"n": "5"}, False),
        ("n<5", {"n": "04"}, True),
        ("n<5", {"n": "four"}, False),
        ("n<5", {}, False),
        ("in in (in,notin)", {"in": "notin"}, True),
        ("app=", {"app": ""}, True),
        ("app=web,tier", {"app": "web"}, False),
    ],
)
def test_a_selector_in_text_form_matches_these_labels(
    text: str, labels: dict[str, str], matches: bool
) -> None:
    assert parse_selector(text).matches(labels) is matches


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        (" tier in (b,a) , app==web ", "app==web,tier in (a,b)"),
        ("a in ()", "a in ()"),
        ("a in (,x)", "a in (,x)"),
        ("!a", "!a"),
        ("a>1,b<2,c!=3", "a>1,b<2,c!=3"),
    ],
)
def test_a_selector_prints_its_demands_in_order_of_their_keys(text: str, printed: str) -> None:
    assert str(parse_selector(text)) == printed


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        (
            "n>x",
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_text_that_is_no_selector_is_refused_with_the_servers_words(text: str, problem: str) -> None:
    with pytest.raises(SelectorError) as error:
        parse_selector(text)
    assert str(error.value) == problem


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert compile_selector(None) is NOTHING
    assert compile_selector(LabelSelector()) == EVERYTHING
    assert not NOTHING.matches({})
    assert EVERYTHING.matches({})
    assert (NOTHING.is_empty, EVERYTHING.is_empty) == (False, True)
    assert NOTHING != EVERYTHING


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        (expression("app", "Near", "x"), '"Near" is not a valid label selector operator'),
        (
            expression("app", "In"),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            expression("app", "Exists", "x"),
            'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
        ),
    ],
)
def test_a_selector_that_cannot_be_read_is_refused_with_the_servers_words(
    selector: LabelSelector, problem: str
) -> None:
    with pytest.raises(SelectorError) as error:
        compile_selector(selector)
    assert str(error.value) == problem


def test_several_errors_of_one_requirement_come_in_one_line() -> None:
    with pytest.raises(SelectorError) as error:
        compile_selector(expression("a b", "In", "x y"))
    assert str(error.value).startswith('[key: Invalid value: "a b": name part must consist of')
    assert ', values[0][a b]: Invalid value: "x y": a valid label must be' in str(error.value)


@given(st.lists(requirements(), max_size=4), LABELS)
def test_selectors_are_equal_however_their_demands_are_ordered(
    demands: list[Requirement], labels: dict[str, str]
) -> None:
    selector, mirrored = Selector(tuple(demands)), Selector(tuple(reversed(demands)))
    assert selector == mirrored
    assert hash(selector) == hash(mirrored)
    assert selector.matches(labels) == mirrored.matches(labels)
    assert selector.matches(labels) == all(demand.matches(labels) for demand in demands)


@given(st.lists(requirements(), max_size=4))
def test_a_selector_that_is_printed_and_read_again_is_the_same(demands: list[Requirement]) -> None:
    selector = Selector(tuple(demands))
    assert parse_selector(str(selector)) == selector


@given(LABELS, LABELS)
def test_a_selector_from_labels_matches_whatever_has_them_all(
    wanted: dict[str, str], labels: dict[str, str]
) -> None:
    assert selector_from_labels(wanted).matches(labels) == (wanted.items() <= labels.items())


@pytest.mark.parametrize(
    ("one", "other"),
    [("app=web", "app==web"), ("app=web", "app in (web)"), ("app!=web", "app notin (web)"), ("a,a", "a")],
)
def test_spellings_of_one_demand_are_the_same_selector(one: str, other: str) -> None:
    assert len({parse_selector(one), parse_selector(other)}) == 1


def test_different_demands_are_different_selectors() -> None:
    texts = ("app=web", "app=api", "tier=web", "app!=web", "app", "!app", "app in (api,web)", "")
    assert len({parse_selector(text) for text in texts}) == len(texts)


def test_demands_can_be_added_but_not_to_nothing() -> None:
    selector = parse_selector("app=web").adding(parse_selector("!legacy,a=b"))
    assert str(selector) == "a=b,app=web,!legacy"
    assert NOTHING.adding(selector) is NOTHING
    assert selector.adding(NOTHING) is selector
