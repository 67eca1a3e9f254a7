"""Quantities with extreme exponents and millions of digits: as upstream's where it gives an answer, and never
more digits than are bounded.

`WRITTEN` and `ADDED` are what resource.Quantity of Kubernetes 1.37 was seen to do.
"""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.decode import convert
from stowplan.api.pod import Pod
from stowplan.api.quantity import MAX_DIGITS, Quantity, QuantityError, parse, quantity_of
from stowplan.api.rules.resources import incoming_requests, pod_limits
from stowplan.scheduler.table.volumepools import exact_size

MAX_INT64 = 2**63 - 1
MOST_BITS = math.ceil((2 * MAX_DIGITS + 100) * math.log2(10))

# Text, Value(), MilliValue(), String(), AsApproximateFloat64()
WRITTEN = [
    ("1e10000000", 0, 0, "10e9999999", math.inf),
    ("1e999999999", 0, 0, "1e999999999", math.inf),
    ("-1e10000000", 0, 0, "-10e9999999", -math.inf),
    ("1e2147483643", 0, 0, "1e2147483643", math.inf),
    ("1e4294967296", 1, 1000, "1e4294967296", 1.0),
    ("1e9223372036854775807", 1, 100, "100e-3", 0.1),
    ("0e10000000", 0, 0, "0", math.nan),
    ("0e-30", 0, 0, "0", 0.0),
    ("1e19", 0, 0, "10e18", 1e19),
    ("9e18", 9 * 10**18, 0, "9e18", 9e18),
    ("999999999999999999e30", 0, 0, "999999999999999999e30", 1e48),
    ("1234567890123456789e10", 5097733592002180096, 6432227658343849984, "12345678901234567890e9", None),
    ("1234567890123456789e60", 5764607523034234880, -(2**63), "1234567890123456789e60", None),
    ("1234567890123456789e100", 0, 0, "12345678901234567890e99", None),
    ("1234567890123456789e10000", 0, 0, "12345678901234567890e9999", math.inf),
    ("-1234567890123456789e1000", 0, 0, "-12345678901234567890e999", -math.inf),
    ("1e-100000", 1, 1, "1e-9", 1e-9),
    ("1234567890123456789e-1000", 1, 1, "1e-9", 1e-9),
    ("1e308", 0, 0, "100e306", 1e308),
    ("1e309", 0, 0, "1e309", math.inf),
    ("1000000000000000000000000000000", 5076944270305263616, 4089650035136921600, "1", 1e30),
    ("123456789012345678901234567890Ei", MAX_INT64, -1000, "9223372036854775807", float(MAX_INT64)),
    ("-123456789012345678901234567890Ei", -MAX_INT64, 1000, "-9223372036854775807", -float(MAX_INT64)),
    ("0.000000000000000000000000000001Ki", 1, 1, "1n", 1e-9),
]

# Left, right, Cmp(), String() of sum and difference, MilliValue() of the sum
ADDED = [
    ("1e100", "1", 1, f"1{'0' * 99}1", "9" * 100, 1000),
    ("-1e100", "1", -1, f"-{'9' * 100}", f"-1{'0' * 99}1", 1000),
    ("1Ki", "1e30", -1, "976562500000000000000000001Ki", "-976562499999999999999999999Ki", None),
    ("1e30", "1e30", 0, "2e30", "0", 0),
    ("1e10000", "1e10000", 0, "20e9999", "0", 0),
    ("1e10000000", "2e10000000", -1, "30e9999999", "-10e9999999", 0),
    ("1e10000001", "1e10000000", 1, "110e9999999", "90e9999999", 0),
    ("999999999999999999e30", "9e47", 1, "1899999999999999999e30", "99999999999999999e30", 0),
    ("0e1000", "1", -1, "1", "-1", 1000),
    ("1", "0e-30", 1, "1", "1", 1000),
    ("1e100000", "1e99999", 1, "11e99999", "9e99999", 0),
]


@pytest.mark.parametrize(("text", "value", "milli", "printed", "approximate"), WRITTEN)
def test_extreme_amounts_have_the_value_and_the_text_of_upstreams(
    text: str, value: int, milli: int, printed: str, approximate: float | None
) -> None:
    quantity = parse(text)
    assert (quantity.value(), quantity.milli_value(), str(quantity)) == (value, milli, printed)
    if approximate is not None:
        assert quantity.approximate_float() == pytest.approx(approximate, rel=1e-15, nan_ok=True)


@pytest.mark.parametrize(("left", "right", "order", "total", "difference", "milli"), ADDED)
def test_sums_and_order_of_extreme_amounts_are_those_of_upstream(
    left: str, right: str, order: int, total: str, difference: str, milli: int | None
) -> None:
    one, other = parse(left), parse(right)
    assert one.cmp(other) == order
    assert (str(one.add(other)), str(one.sub(other))) == (total, difference)
    if milli is not None:
        assert one.add(other).milli_value() == milli


_numbers = st.builds(
    "{}{}{}".format,
    st.sampled_from(("", "+", "-")),
    st.text("01789", min_size=1, max_size=30) | st.just("9" * 2500) | st.just("1" + "0" * 3000),
    st.just("") | st.text("059", max_size=25).map(".{}".format) | st.just("." + "0" * 3000 + "1"),
)
_suffixes = st.sampled_from(("", "n", "m", "k", "E", "Ki", "Ei")) | st.builds(
    "e{}".format, st.integers(-(2**33), 2**33) | st.integers(-100, 100) | st.sampled_from((1999, 2001, 10**5))
)
_texts = st.builds("{}{}".format, _numbers, _suffixes)


def bounded(quantity: Quantity) -> bool:
    return quantity.mantissa.bit_length() <= MOST_BITS


@given(_texts, _texts)
def test_no_integer_has_more_digits_than_are_bounded_whatever_is_written(left: str, right: str) -> None:
    one, other = parse(left), parse(right)
    results = [one, other, one.add(other), one.sub(other), one.times(other), one.add(other).add(one)]
    for quantity in results:
        assert bounded(quantity)
        assert len(quantity.canonical()) <= 2 * MAX_DIGITS + 50
        assert quantity.order_key().bit_length() <= MOST_BITS
        assert -(2**63) <= quantity.saturated(-3) <= MAX_INT64
        assert -(2**63) <= quantity.value() <= MAX_INT64
        hash(quantity)
        quantity.approximate_float()
        quantity.as_int64()


@given(_texts, _texts)
def test_order_is_kept_by_sums_and_by_keys(left: str, right: str) -> None:
    one, other = parse(left), parse(right)
    assert one.cmp(other) == -other.cmp(one)
    assert (one == other) == (one.order_key() == other.order_key())
    assert (one < other) == (one.order_key() < other.order_key())
    if other.sign > 0:
        assert one.add(other) >= one
    if one == other:
        assert hash(one) == hash(other)


@given(
    st.integers(-(10**25), 10**25),
    st.integers(-9, 60),
    st.integers(-(10**25), 10**25),
    st.integers(-9, 60),
)
def test_within_the_digits_that_are_kept_arithmetic_is_exact(m: int, e: int, n: int, f: int) -> None:
    one, other = parse(f"{m}e{e}"), parse(f"{n}e{f}")
    x, y = m * Fraction(10) ** e, n * Fraction(10) ** f
    for quantity, exact in (
        (one, x),
        (one.add(other), x + y),
        (one.sub(other), x - y),
        (one.times(other), x * y),
    ):
        assert quantity.mantissa * Fraction(10) ** quantity.scale == exact
        assert quantity.saturated() == min(max(math.ceil(exact), -(2**63)), MAX_INT64)
    assert one.cmp(other) == (x > y) - (x < y)


def test_a_million_digits_are_rounded_up_and_printed_back_as_they_were_written() -> None:
    text = "7" * 1_000_000
    quantity = quantity_of(text)
    assert bounded(quantity)
    assert str(quantity) == text
    assert parse(f"7e{999_999}") < quantity < parse(f"8e{999_999}")
    assert quantity.saturated() == MAX_INT64


@pytest.mark.parametrize("start", ["0", "1", "1.0", "1e0", "1e1"])
def test_a_million_digits_with_a_bad_end_are_refused_at_once(start: str) -> None:
    """An expression that backtracks would take days."""
    with pytest.raises(QuantityError):
        quantity_of(start + start[-1] * 1_000_000 + "x")


@pytest.mark.parametrize("amount", ["1e10000000", "1e999999999", "9" * 1_000_000, "1" + "0" * 100_000])
def test_a_pod_of_a_huge_request_counts_as_the_largest_number(amount: str) -> None:
    spec = {
        "containers": [
            {"name": name, "resources": {"requests": {"cpu": given}, "limits": {"memory": given}}}
            for name, given in (("one", amount), ("two", "1"))
        ]
    }
    pod = convert({"metadata": {"name": "huge"}, "spec": spec}, Pod)
    assert incoming_requests(pod).milli_cpu == MAX_INT64
    assert pod_limits(pod)["memory"].saturated() == MAX_INT64


def test_volumes_of_huge_sizes_are_told_apart() -> None:
    sizes = ["1", "1Ei", "1e64", "1e65", "11e64", "1e10000000", "2e10000000", "1e10000001"]
    keys = [exact_size(text) for text in sizes]
    assert keys == sorted(set(keys))
    assert max(keys).bit_length() <= MOST_BITS
