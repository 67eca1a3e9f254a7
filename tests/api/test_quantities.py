"""Quantities: what is read, how it is rounded, printed and compared."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.quantity import (
    BINARY_SI,
    DECIMAL_EXPONENT,
    DECIMAL_SI,
    Quantity,
    QuantityError,
    milli_value_of,
    parse,
    quantity_of,
    value_of,
)

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
MAX_INT64 = 2**63 - 1

Written = tuple[str, Fraction]


@st.composite
def written_quantities(draw: st.DrawFn, digits: int = 12) -> Written:
    """A quantity's text, with the number it stands for worked out independently."""
    sign = draw(st.sampled_from(("", "-", "+")))
    number = draw(st.text("0123456789", min_size=1, max_size=digits))
    fraction = draw(st.text("0123456789", max_size=4))
    suffix = draw(st.sampled_from((*DECIMAL, *BINARY)) | st.integers(-12, 12).map("e{}".format))
    if suffix in DECIMAL:
        factor = Fraction(10) ** DECIMAL[suffix]
    elif suffix in BINARY:
        factor = Fraction(2) ** BINARY[suffix]
    else:
        factor = Fraction(10) ** int(suffix[1:])
    text = f"{sign}{number}.{fraction}{suffix}" if fraction else f"{sign}{number}{suffix}"
    return text, Fraction(f"{sign}{number}.{fraction}0") * factor


def amount(quantity: Quantity) -> Fraction:
    return quantity.mantissa * Fraction(10) ** quantity.scale


def away_from_zero(number: Fraction) -> int:
    return ceil(number) if number > 0 else -ceil(-number)


def as_kept(text: str, number: Fraction) -> Fraction:
    """Whole nanos, rounded away from zero; at most int64 in the binary family."""
    kept = Fraction(away_from_zero(number * 10**9), 10**9)
    if text[-1] == "i" and abs(kept) > MAX_INT64:
        return Fraction(MAX_INT64 if kept > 0 else -MAX_INT64)
    return kept


@given(written_quantities(digits=25))
def test_an_amount_is_exact_to_the_nano_and_beyond_rounded_away_from_zero(written: Written) -> None:
    text, number = written
    assert amount(parse(text)) == as_kept(text, number)


@given(written_quantities())
def test_value_and_milli_value_round_away_from_zero_while_they_fit_int64(written: Written) -> None:
    quantity = parse(written[0])
    kept = amount(quantity)
    if not quantity.wide and abs(kept) <= MAX_INT64:
        assert quantity.value() == away_from_zero(kept)
    if not quantity.wide and abs(kept * 1000) <= MAX_INT64:
        assert quantity.milli_value() == away_from_zero(kept * 1000)


@given(written_quantities())
def test_what_is_printed_is_read_back_as_the_same_amount(written: Written) -> None:
    quantity = parse(written[0])
    if abs(amount(quantity)) < 10**21:
        assert parse(str(quantity)) == quantity
        again = parse(quantity.canonical())
        assert again == quantity
        if again.format == quantity.format:
            assert again.canonical() == quantity.canonical()


@given(written_quantities(digits=22), written_quantities(digits=22))
def test_order_equality_and_hash_are_those_of_the_numbers(one: Written, two: Written) -> None:
    left, right = parse(one[0]), parse(two[0])
    assert (left < right) == (amount(left) < amount(right))
    assert (left >= right) == (amount(left) >= amount(right))
    assert (left == right) == (amount(left) == amount(right))
    assert (left != right) == (amount(left) != amount(right))
    assert left.cmp(right) == -right.cmp(left)
    assert left.cmp(left.as_wide()) == 0
    if left == right:
        assert hash(left) == hash(right)


@given(written_quantities(digits=22), written_quantities(digits=22))
def test_sums_and_differences_are_exact(one: Written, two: Written) -> None:
    left, right = parse(one[0]), parse(two[0])
    assert amount(left.add(right)) == amount(left) + amount(right)
    assert amount(left.sub(right)) == amount(left) - amount(right)
    assert left.add(right) == right.add(left)
    assert left.add(right).sub(right) == left


@given(written_quantities())
def test_the_cached_figures_are_those_of_the_quantity(written: Written) -> None:
    text = written[0]
    assert value_of(text) == parse(text).value()
    assert milli_value_of(text) == parse(text).milli_value()


def printed_or_refused(text: str) -> str:
    try:
        return parse(text).canonical()
    except QuantityError as error:
        return f"refused: {error}"


@given(st.text("0123456789.+-eEinumkKMGTP ", max_size=12))
def test_any_text_is_read_or_refused_with_a_reason(text: str) -> None:
    outcome = printed_or_refused(text)
    assert outcome[0] in "-0123456789" or outcome.startswith(
        ("refused: quantities must match", "refused: unable to parse")
    )


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1000m", "1"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("1500e3", "1500e3"),
        ("100e3", "100e3"),
        ("1000e3", "1e6"),
        ("+5", "+5"),
        ("-0", "0"),
        ("0.1n", "1n"),
        ("9Ei", "9223372036854775807"),
    ],
)
def test_a_quantity_prints_in_its_own_suffix_family(text: str, printed: str) -> None:
    assert str(parse(text)) == printed


@pytest.mark.parametrize(
    ("text", "family"), [("1", DECIMAL_SI), ("1k", DECIMAL_SI), ("1Ki", BINARY_SI), ("1e3", DECIMAL_EXPONENT)]
)
def test_a_quantity_remembers_its_suffix_family(text: str, family: str) -> None:
    assert parse(text).format == family


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "quantities must match the regular expression"),
        ("1 Ki", "quantities must match the regular expression"),
        ("1µ", "quantities must match the regular expression"),
        ("１", "quantities must match the regular expression"),
        ("1KI", "quantities must match the regular expression"),
        ("1ki", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("--1", "unable to parse quantity's suffix"),
        ("e-10", "unable to parse numeric part of quantity"),
    ],
)
def test_text_that_is_no_quantity_is_refused_with_the_servers_words(text: str, problem: str) -> None:
    with pytest.raises(QuantityError, match=problem):
        parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775808", -(2**63)),
        ("1e19", 0),
        ("10000000000G", 10**19 - 2**64),
        ("10E", 0),
        ("-1.5", -2),
    ],
)
def test_value_beyond_int64_is_what_the_server_makes_of_it(text: str, value: int) -> None:
    assert parse(text).value() == value


@pytest.mark.parametrize(
    ("raw", "milli"),
    [(2, 2000), (0.5, 500), (1e-7, 1), (1e20, 10**23 % 2**64), (" 3 ", 3000), (2.5, 2500)],
)
def test_plain_numbers_and_padded_text_from_documents_are_read_as_their_json_text(
    raw: str | int | float, milli: int
) -> None:
    assert milli_value_of(raw) == milli


@pytest.mark.parametrize("raw", ["\t1", "1\n", float("inf"), float("nan")])
def test_control_characters_and_odd_floats_are_refused(raw: str | float) -> None:
    with pytest.raises(QuantityError):
        quantity_of(raw)


@pytest.mark.parametrize("text", ["1e2147483647", "1e-2147483647", "0e2147483647"])
def test_huge_exponents_cost_nothing(text: str) -> None:
    quantity = parse(text)
    assert quantity.value() in (0, 1)
    assert quantity.cmp(parse("5")) in (-1, 1)
    assert str(quantity)


def test_zero_takes_over_the_suffix_family_of_what_is_added() -> None:
    assert str(parse("0").add(parse("2048Ki"))) == "2Mi"
    assert str(parse("0Ki").add(parse("2000k"))) == "2M"
    assert str(parse("1").add(parse("1023Ki"))) == "1047553"
