"""Go's regular expressions: what matches, what is refused, and that nothing takes for ever."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.gocompat import regexps
from waiting import within_cpu


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("^[a-z]([-a-z0-9]*[a-z0-9])?$", ["a", "a-b", "x9"], ["", "-a", "a-", "A"]),
        ("b+", ["abbc", "b"], ["", "ac"]),
        ("^(a|bc){2,3}$", ["abc", "aaa", "bcbcbc"], ["a", "aaaa"]),
        ("^x{2}$", ["xx"], ["x", "xxx"]),
        ("^x{,2}$", ["x{,2}"], ["xx"]),
        (r"^\d+\.\d*$", ["1.", "12.5"], [".5", "1"]),
        (r"^[\w.]+@[[:alpha:]]+$", ["a.b@c"], ["a b@c", "a@1"]),
        ("(?i)^straße$", ["STRAßE"], ["strase"]),
        ("(?i:A)b", ["ab", "Ab"], ["aB"]),
        ("^a.c$", ["abc"], ["a\nc"]),
        ("(?s)^a.c$", ["a\nc"], ["ac"]),
        ("(?m)^b$", ["a\nb"], ["ab"]),
        (r"\bfoo\b", ["a foo b"], ["food"]),
        (r"^\p{Lu}\pN$", ["Ä7"], ["ä7"]),
        (r"^\Q.*\E$", [".*"], ["ab"]),
        ("^[^a-c]$", ["d", "\n"], ["b"]),
        ("^[]a-]$", ["]", "-", "a"], ["b"]),
        (r"\x41\x{1F600}", ["A\U0001f600"], ["B"]),
        ("^(?P<year>[0-9]{4})$", ["2026"], ["26"]),
        ("", ["", "x"], []),
        ("^a??b*?$", ["ab", "bb"], ["aa"]),
        ("(?i)^[^a]$", ["b", "B"], ["a", "A"]),
        (r"(?i)^[^\pL0]$", ["1"], ["a", "A", "0"]),
        ("^[[:a]+$", ["[:a"], ["b"]),
        ("^ba(?i)+$", ["ba", "baa"], ["baba", "b"]),
        ("^(?)a$", ["a"], ["b"]),
    ],
)
def test_what_matches(pattern: str, matching: list[str], others: list[str]) -> None:
    found = regexps.compile(pattern)
    assert [text for text in matching if not found.matches(text)] == []
    assert [text for text in others if found.matches(text)] == []


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)b", "invalid or unsupported Perl syntax: `(?<`"),
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[a", "missing closing ]: `[a`"),
        ("\\", "trailing backslash at end of expression: ``"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"\y", r"invalid escape sequence: `\y`"),
        ("(?P<1", "invalid named capture: `(?P<1`"),
    ],
)
def test_what_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(regexps.RegexpError) as caught:
        regexps.compile(pattern)
    assert str(caught.value) == f"error parsing regexp: {message}"


def test_patterns_that_would_hold_a_backtracking_matcher() -> None:
    with within_cpu(10):
        assert not regexps.compile("^(a+)+$").matches("a" * 5000 + "b")
        assert not regexps.compile("^(a|a?)+$").matches("a" * 5000 + "b")
        assert not regexps.compile("(x+x+)+y").matches("x" * 5000)
        with pytest.raises(regexps.TooCostlyError):
            regexps.compile("(a|b)*a(a|b){900}$").matches("ab" * 5000)
        with pytest.raises(regexps.RegexpError, match="too large"):
            regexps.compile("(a{1000}){1000}")
        with pytest.raises(regexps.RegexpError, match="nests too deeply"):
            regexps.compile("(" * 5000 + ")" * 5000)


_SIMPLE = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "^", "$"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda two: f"(?:{two[0]}){two[1]}"),
        inner.map(lambda one: f"(?:{one}){{1,2}}"),
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(_SIMPLE, st.text("abc", max_size=6))
def test_where_both_mean_the_same_it_agrees_with_python(pattern: str, text: str) -> None:
    expected = re.search(pattern.replace("$", r"\Z"), text) is not None
    assert regexps.compile(pattern).matches(text) is expected


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab(){}[]*+?|^$.\\-,012:<>=!PQEdpsimx\n"), max_size=14), st.text(max_size=6))
def test_whatever_the_pattern_it_is_matched_or_refused(pattern: str, text: str) -> None:
    try:
        found = regexps.compile(pattern)
    except regexps.RegexpError:
        return
    assert found.matches(text) in (True, False)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a|ab", "xab", "a"),
        ("a*?b", "xaab", "aab"),
        ("a+", "baac", "aa"),
        ("a+?", "aaa", "a"),
        ("(?U)a+", "aaa", "a"),
        ("a{2,3}", "aaaa", "aaa"),
        ("a{2,3}?", "aaaa", "aa"),
        ("x*", "abc", ""),
        (r"\bb", "ab b", "b"),
        ("z", "abc", None),
    ],
)
def test_of_several_matches_the_one_that_go_prefers_is_found(
    pattern: str, text: str, found: str | None
) -> None:
    span = regexps.compile(pattern).find(text)
    assert (None if span is None else text[span[0] : span[1]]) == found


def test_all_matches_that_do_not_overlap_are_found_up_to_a_limit() -> None:
    assert regexps.compile("[0-9]+").find_all("a1b22c333") == ["1", "22", "333"]
    assert regexps.compile("[0-9]+").find_all("a1b22c333", 2) == ["1", "22"]
    assert regexps.compile("a*").find_all("baac") == ["", "aa", ""]
    assert regexps.compile("a").find_all("aaa", 0) == []


_PLAIN = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.sampled_from(["a", "b", "."]).flatmap(
            lambda one: st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{1,2}"]).map(
                lambda many: one + many
            )
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(_PLAIN, st.text("abc", max_size=6))
def test_the_match_found_is_the_one_python_finds(pattern: str, text: str) -> None:
    expected = re.search(pattern, text)
    assert regexps.compile(pattern).find(text) == (None if expected is None else expected.span())


def test_matches_that_each_look_at_the_whole_rest_count_together() -> None:
    with pytest.raises(regexps.TooCostlyError):
        regexps.compile("a*b|a").find_all("a" * 20_000)


def test_a_pattern_longer_than_any_automaton_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(regexps.RegexpError, match="expression too large"):
        regexps.compile("(" * 300_000)
