"""YAML is read as Kubernetes reads it."""

from collections.abc import Callable
from typing import Any

import pytest

from stowplan.gocompat.jsontext import Number, TextError, Tree, float_text, to_python
from stowplan.gocompat.yamltext import ExpansionLimit, load_yaml, load_yaml_documents, to_yaml, yaml_to_json


def value_of(text: str) -> Tree:
    result = yaml_to_json(f"a: {text}".encode()).tree
    assert not isinstance(result, (list, str, bool, Number))
    assert result is not None
    return result.members[0][1]


@pytest.mark.parametrize("word", ["y", "Yes", "TRUE", "on", "ON"])
def test_words_for_true(word: str) -> None:
    assert value_of(word) is True


@pytest.mark.parametrize("word", ["n", "No", "FALSE", "off", "Off"])
def test_words_for_false(word: str) -> None:
    assert value_of(word) is False


@pytest.mark.parametrize("word", ["", "~", "null", "Null", "NULL"])
def test_words_for_nothing(word: str) -> None:
    assert value_of(word) is None


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("010", "8"),
        ("0o10", "8"),
        ("08", "8"),
        ("0x1F", "31"),
        ("-0x1F", "-31"),
        ("0b101", "5"),
        ("1_000", "1000"),
        ("+12", "12"),
        ("1e3", "1000"),
        ("3.0", "3"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("1.5e-7", "1.5e-7"),
        ("0.000001", "0.000001"),
        ("18446744073709551615", "18446744073709551615"),
        ("!!float 3", "3"),
    ],
)
def test_numbers(word: str, number: str) -> None:
    assert value_of(word) == Number(number)


@pytest.mark.parametrize(
    "word", ["yess", "1e400", "0x", "_1", "2020-01-01", "12:30", "0b2", "--1", "1.2.3", "tRue"]
)
def test_words_that_stay_text(word: str) -> None:
    assert value_of(word) == word


@pytest.mark.parametrize(("word", "text"), [("'yes'", "yes"), ('"010"', "010"), ("!!str 010", "010")])
def test_quoted_and_tagged_words_are_text(word: str, text: str) -> None:
    assert value_of(word) == text


def test_members_come_out_sorted_with_keys_as_text() -> None:
    tree = yaml_to_json(b"b: 1\ntrue: 2\n1.5: 3\n010: 4\na: 5").tree
    assert list(to_python(tree).items()) == [("1.5", 3), ("8", 4), ("a", 5), ("b", 1), ("true", 2)]


def test_only_the_first_document_counts() -> None:
    assert to_python(yaml_to_json(b"a: 1\n---\n]broken").tree) == {"a": 1}


def test_what_stands_behind_the_root_of_the_document_is_looked_at() -> None:
    with pytest.raises(TextError, match="line 2: mapping values are not allowed in this context"):
        yaml_to_json(b"a\nb: c\n")


def test_aliases_and_merges_are_followed() -> None:
    text = b"x: &x {a: 1, b: 2}\ny: &y {a: 7, c: 3}\nm:\n  <<: [*x, *y]\n  d: *x\n"
    assert to_python(yaml_to_json(text).tree)["m"] == {"a": 1, "b": 2, "c": 3, "d": {"a": 1, "b": 2}}


def test_repeated_keys_are_noted_with_the_line_of_the_value_and_the_last_wins() -> None:
    document = yaml_to_json(b"a: 1\nb:\n  c: 1\n  c: 2\na:\n  - 3\n1: x\n1: z\n")
    assert document.repeated_keys == (
        'line 4: key "c" already set in map',
        'line 6: key "a" already set in map',
        "line 8: key 1 already set in map",
    )
    assert to_python(document.tree) == {"a": [3], "b": {"c": 2}, "1": "z"}


def test_keys_that_are_equal_only_in_python_are_different_keys() -> None:
    assert yaml_to_json(b"1: a\ntrue: b\n1.0: c").repeated_keys == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "yaml: line 1: did not find expected node content"),
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a: 1\nb: c: d", "yaml: line 2: mapping values are not allowed in this context"),
        ("a:\n\t- b", "yaml: line 2: found character that cannot start any token"),
        ("a: 'x", "yaml: found unexpected end of stream"),
        ("a: *b", "yaml: unknown anchor 'b' referenced"),
        ("a: &a [*a]", "yaml: anchor 'a' value contains itself"),
        ("a: {{ b }}", 'yaml: invalid map key: map[interface {}]interface {}{"b":interface {}(nil)}'),
        ("[1]: 2", "yaml: invalid map key: []interface {}{1}"),
        ("<<: 3", "yaml: map merge requires map or sequence of maps as the value"),
        ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("a: !!binary '*'", "yaml: !!binary value contains invalid base64 data"),
        ("~: 1", "unsupported map key of type: %!s(<nil>), key: <nil>, value: 1"),
        ("a: .nan", "json: unsupported value: NaN"),
        ("a: -.inf", "json: unsupported value: -Inf"),
        ("a: \x01", "yaml: control characters are not allowed"),
    ],
)
def test_text_that_is_no_usable_yaml(text: str, message: str) -> None:
    with pytest.raises(TextError) as error:
        yaml_to_json(text.encode())
    assert str(error.value) == message


def test_a_document_of_nested_aliases_is_refused_before_it_explodes() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    with pytest.raises(TextError, match="excessive aliasing"):
        yaml_to_json("\n".join(lines).encode())


def test_a_document_nested_without_end_is_refused() -> None:
    with pytest.raises(TextError, match="exceeded max depth"):
        yaml_to_json(b"[" * 5000)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e16, "10000000000000000"), (1.5e20, "150000000000000000000"), (1e21, "1e+21"), (-0.0, "-0")],
)
def test_numbers_are_written_as_go_writes_them(value: float, text: str) -> None:
    assert float_text(value) == text


@pytest.mark.parametrize("text", ["a\x85", "\u2028b", "c\u2029d", "e\r", "f\r\ng", "h\n\x85"])
def test_odd_line_breaks_are_written_so_that_they_are_read_back(text: str) -> None:
    assert to_python(yaml_to_json(to_yaml({"k": text, text: 1}).encode()).tree) == {"k": text, text: 1}


def bomb(levels: int, width: int, *, merges: bool) -> bytes:
    """A few bytes that stand for width ** levels values."""
    lines = ["m0: &m0 {a: 1}"]
    for level in range(1, levels):
        uses = ", ".join([f"*m{level - 1}"] * width)
        lines.append(f"m{level}: &m{level} {{<<: [{uses}]}}" if merges else f"m{level}: &m{level} [{uses}]")
    return "\n".join(lines).encode()


@pytest.mark.parametrize("merges", [True, False])
@pytest.mark.parametrize("read", [yaml_to_json, load_yaml, load_yaml_documents])
def test_what_aliases_and_merges_stand_for_is_counted(read: Callable[[bytes], Any], merges: bool) -> None:
    with pytest.raises(TextError, match="document contains excessive aliasing"):
        read(bomb(12, 30, merges=merges))
    assert read(bomb(3, 4, merges=merges))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &a {<<: *a}", "anchor 'a' value contains itself"),
        ("[" * 100_000, "exceeded max depth"),
        ("- " * 100_000, "exceeded max depth"),
        (
            "\n".join(["a0: &a0 [1]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 300))]),
            "exceeded max depth",
        ),
        (f"a: &a {'x' * 60_000}\nb: [{', '.join(['*a'] * 900)}]", "excessive aliasing"),
    ],
)
def test_small_texts_that_would_be_large_or_deep_values_are_refused(text: str, problem: str) -> None:
    for read in (load_yaml, load_yaml_documents, lambda text: yaml_to_json(text.encode())):
        with pytest.raises(TextError, match=problem):
            read(text)


def test_a_limit_bounds_what_a_document_amounts_to() -> None:
    text = b"a: [" + b"b, " * 100 + b"]"
    assert yaml_to_json(text, ExpansionLimit(nodes=200, text=200)).tree
    with pytest.raises(TextError, match="more than 50 nodes"):
        yaml_to_json(text, ExpansionLimit(nodes=50, text=200))
    with pytest.raises(TextError, match="excessive aliasing"):
        yaml_to_json(text, ExpansionLimit(nodes=200, text=50))


def test_files_keep_the_order_of_members_and_single_letters_are_names() -> None:
    assert load_yaml("b: n\na: yes\nc: 2026-01-01\n") == {"b": "n", "a": True, "c": "2026-01-01"}
    assert list(load_yaml("b: 1\na: 2\n")) == ["b", "a"]
    assert load_yaml_documents("a: 1\n---\n---\n- x\n") == [{"a": 1}, None, ["x"]]
    assert load_yaml("") is None


def test_numbers_of_any_length_are_read_in_no_time() -> None:
    digits = "9" * 200_000
    assert load_yaml(f"a: {digits}\nb: 0x{digits}\nc: {'0' * 1000}7") == {
        "a": digits,
        "b": f"0x{digits}",
        "c": 7,
    }
