"""Numbers as Prometheus's text shows them when Go writes it: the shortest form that reads back the same."""

from decimal import Decimal
from math import isinf, isnan
from typing import Final

_PLAIN_BELOW: Final = 1_000_000
_SMALLEST_PLAIN: Final = -4
_LARGEST_PLAIN: Final = 6


def number_text(value: float) -> str:
    """A number: whole ones without a point, from a million on and far below 1 with an exponent."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if -_PLAIN_BELOW < value < _PLAIN_BELOW and value == (whole := int(value)):
        return str(whole)
    return _shortest(float(value))


def _shortest(value: float) -> str:
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) + exponent - 1
    minus = "-" if sign else ""
    if _SMALLEST_PLAIN <= power < _LARGEST_PLAIN:
        return repr(value).removesuffix(".0")
    mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
    return f"{minus}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
