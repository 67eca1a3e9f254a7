"""Durations, quoted strings and field errors are read and written as Go does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.fielderrors import (
    EnumText,
    Path,
    aggregate,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from stowplan.gocompat.durations import Duration, DurationError
from stowplan.gocompat.numbers import parse_count, parse_int64
from stowplan.gocompat.quoting import quote


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0", "0s"),
        ("0s", "0s"),
        ("15s", "15s"),
        ("90s", "1m30s"),
        ("1h", "1h0m0s"),
        ("1h2m3.5s", "1h2m3.5s"),
        ("1.5h", "1h30m0s"),
        (".5s", "500ms"),
        ("1.s", "1s"),
        ("100us", "100µs"),
        ("1.5µs", "1.5µs"),
        ("7ns", "7ns"),
        ("-1m", "-1m0s"),
        ("+5s", "5s"),
        ("0.000000000000000000001h", "0s"),
        ("9223372036854775807ns", "2562047h47m16.854775807s"),
        ("-9223372036854775808ns", "-2562047h47m16.854775808s"),
    ],
)
def test_durations(text: str, shown: str) -> None:
    assert str(Duration.parse(text)) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("abc", 'time: invalid duration "abc"'),
        (".s", 'time: invalid duration ".s"'),
        ("15", 'time: missing unit in duration "15"'),
        ("1m5", 'time: missing unit in duration "1m5"'),
        ("15x", 'time: unknown unit "x" in duration "15x"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1ü", r'time: unknown unit "\xc3\xbc" in duration "1\xc3\xbc"'),
        ('1"s', r'time: unknown unit "\"s" in duration "1\"s"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
    ],
)
def test_text_that_is_no_duration(text: str, message: str) -> None:
    with pytest.raises(DurationError) as error:
        Duration.parse(text)
    assert str(error.value) == message


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_duration_reads_back_what_it_writes(nanoseconds: int) -> None:
    duration = Duration(nanoseconds)
    assert abs(Duration.parse(str(duration)).nanoseconds - nanoseconds) <= 1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (required(Path("a").child("b")), "a.b: Required value"),
        (required(Path("a"), "really"), "a: Required value: really"),
        (invalid(Path().child("a").at(3), -1, "too low"), "a[3]: Invalid value: -1: too low"),
        (invalid("a", "x\n<é\x7f", "bad"), 'a: Invalid value: "x\\n<é\\x7f": bad'),
        (invalid("a", EnumText("<"), "bad"), 'a: Invalid value: "\\u003c": bad'),
        (invalid("a", True, "bad"), "a: Invalid value: true: bad"),
        (invalid("a", (), "bad"), "a: Invalid value: null: bad"),
        (invalid("a", [], "bad"), "a: Invalid value: []: bad"),
        (invalid("a", ("x", "y"), "bad"), 'a: Invalid value: ["x","y"]: bad'),
        (duplicate("a", "x"), 'a: Duplicate value: "x"'),
        (forbidden("a", "off"), "a: Forbidden: off"),
        (not_supported("a", "x", ["y", "z"]), 'a: Unsupported value: "x": supported values: "y", "z"'),
    ],
)
def test_field_errors(error: str, text: str) -> None:
    assert str(error) == text


def test_several_errors_are_one_line_in_brackets_each_once() -> None:
    assert aggregate(["a"]) == "a"
    assert aggregate(["a", "a"]) == "a"
    assert aggregate(["b", "a", "b"]) == "[b, a]"


def test_text_is_quoted_as_go_quotes_it() -> None:
    assert quote('a"\\\t\x00\u200b\U000e0001') == r'"a\"\\\t\x00\u200b\U000e0001"'


@pytest.mark.parametrize(
    ("text", "ascii_only", "quoted"),
    [
        ("größe", False, '"größe"'),
        ("größe", True, r'"gr\u00f6\u00dfe"'),
        ("\udcff\x7f", False, r'"\xff\x7f"'),
    ],
)
def test_bytes_that_are_no_utf_8_and_text_beyond_ascii(text: str, ascii_only: bool, quoted: str) -> None:
    assert quote(text, ascii_only=ascii_only) == quoted


@pytest.mark.parametrize("text", ["9" * 300_000 + "h", "0" * 300_000 + "x", "1s" * 100_000 + "?"])
def test_long_durations_that_are_none_are_refused_in_one_pass(text: str) -> None:
    with pytest.raises(DurationError):
        Duration.parse(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0" * 300_000 + "7", 7),
        ("7" * 300_000, None),
        ("-" + "0" * 9, 0),
        ("", None),
        ("+", None),
        ("²", None),
    ],
    ids=lambda given: str(given)[:8],
)
def test_integers_of_any_length_are_read_in_one_pass(text: str, number: int | None) -> None:
    assert parse_int64(text) == number
    assert parse_count(text) == (None if text[:1] == "-" else number)
