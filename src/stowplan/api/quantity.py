"""Kubernetes quantities ("100m", "1.5Gi", "3e6"), read, rounded and printed exactly as the API server does.

An amount is kept as `mantissa × 10^scale`. Go keeps most amounts in an int64 and moves to arbitrary precision
when that overflows; the two differ in the results beyond int64 (`value()` gives 0, a wrapped number or a
rounded one), so an amount remembers which of the two it is (`wide`).

An exponent stays an exponent: `1e999999999` is never multiplied out, and no integer here has more than about
twice MAX_DIGITS digits, regardless of the input. Digits beyond MAX_DIGITS are rounded up.
"""

import math
import re
from decimal import Decimal
from functools import lru_cache
from typing import Final

import msgspec

from stowplan.gocompat.numbers import MAX_INT64, MIN_INT64, fits_int64, parse_int64, wrap_int64

DECIMAL_SI: Final = "DecimalSI"
BINARY_SI: Final = "BinarySI"
DECIMAL_EXPONENT: Final = "DecimalExponent"

ERR_FORMAT: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
ERR_NUMERIC: Final = "unable to parse numeric part of quantity"
ERR_SUFFIX: Final = "unable to parse quantity's suffix"

NANO: Final = -9
MILLI: Final = -3

MAX_DIGITS: Final = 2000
"""Significant digits that are kept; Go keeps all, and spends minutes on amounts with millions of them."""

# From 10^64 on the low 64 bits of any amount are zero, in whole units and in thousandths: such an amount
# need not be written out in nanos for `value()` to be that of Go.
_WRITTEN_OUT: Final = 64

# Texts longer than this are not kept in caches, which would hold megabytes of them.
_CACHED_LENGTH: Final = 64

# Possessive, as the parts overlap: otherwise a long number with a bad end takes cubic time.
_QUANTITY = re.compile(r"([+-]?)(0*+)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)")
_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX_OF = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_SUFFIX_OF = {exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}


class QuantityError(ValueError):
    """Text that is no quantity."""


class Quantity(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An exact amount: `mantissa × 10^scale`, with the suffix family it was written in.

    Equality and order are those of the amount: `1024Mi` equals `1Gi`, `1` equals `1000m`.
    `text` is kept when what was parsed counts as canonical or has more digits than are kept, and printed
    back unchanged.
    """

    mantissa: int
    scale: int = 0
    format: str = DECIMAL_SI
    wide: bool = False
    text: str | None = None

    def value(self) -> int:
        """The amount as int64, rounded up (away from zero); overflow behaves as in Go."""
        return self._scaled(0)

    def milli_value(self) -> int:
        """The amount in thousandths as int64, rounded up (away from zero)."""
        return self._scaled(MILLI)

    @property
    def sign(self) -> int:
        return (self.mantissa > 0) - (self.mantissa < 0)

    @property
    def is_zero(self) -> bool:
        return not self.mantissa

    def canonical(self) -> str:
        """The shortest exact form without fraction, in this quantity's suffix family."""
        if not self.mantissa:
            return "0"
        if self.format == BINARY_SI and not _MINUS_KI < self < _KI:
            whole = _as_whole(self.mantissa, self.scale)
            if whole is not None:
                return _print_binary(whole)
        return _print_decimal(self.mantissa, self.scale, self.format)

    def __str__(self) -> str:
        return self.canonical() if self.text is None else self.text

    def add(self, other: "Quantity") -> "Quantity":
        """The sum. Zero takes over the suffix family of what is added to it."""
        format = self.format if self.mantissa else other.format
        if not (self.wide or other.wide):
            total = _add_int64(self.mantissa, self.scale, other.mantissa, other.scale)
            if total is not None:
                return Quantity(*total, format)
        return _add_wide(self, other, 1, format)

    def sub(self, other: "Quantity") -> "Quantity":
        """The difference. Zero takes over the suffix family of what is taken from it."""
        format = self.format if self.mantissa else other.format
        if not (self.wide or other.wide):
            total = _add_int64(self.mantissa, self.scale, wrap_int64(-other.mantissa), other.scale)
            if total is not None:
                return Quantity(*total, format)
        return _add_wide(self, other, -1, format)

    def times(self, other: "Quantity") -> "Quantity":
        """The product, in arbitrary precision."""
        mantissa, scale = _rounded(self.mantissa * other.mantissa, self.scale + other.scale)
        return Quantity(mantissa, scale, self.format, wide=True)

    def saturated(self, scale: int = 0) -> int:
        """The amount in units of 10^scale, rounded up; the largest or smallest int64 if it is beyond."""
        mantissa, shift = self.mantissa, self.scale - scale
        if shift >= 0:
            exact = mantissa * _power_of_ten(min(shift, 19))
        else:
            exact = _divided_up(mantissa, -shift)
        return min(max(exact, MIN_INT64), MAX_INT64)

    def as_int64(self) -> int | None:
        """The amount as Go's AsInt64 gives it: None if it is not kept as a whole int64."""
        if self.wide or self.scale < 0:
            return None
        if not self.mantissa:
            return 0
        whole = self.mantissa * _power_of_ten(min(self.scale, 19))
        return whole if fits_int64(whole) else None

    def approximate_float(self) -> float:
        """The nearest number Go's AsApproximateFloat64 finds; an infinity beyond the range of floats."""
        try:
            base = float(self.mantissa)
        except OverflowError:
            base = math.inf if self.mantissa > 0 else -math.inf
        if not self.scale:
            return base
        if self.scale > 308:
            return base * math.inf
        return base * float(f"1e{max(self.scale, -400)}")

    @property
    def size(self) -> int:
        """The number of digits before the point (not positive for a fraction); 0 for zero."""
        return len(str(abs(self.mantissa))) + self.scale if self.mantissa else 0

    def order_key(self) -> int:
        """An integer in which any two amounts compare as quantities do: nanos, of up to 64 digits."""
        mantissa, shift = self.mantissa, self.scale - NANO
        if not mantissa:
            return 0
        if self.size <= _WRITTEN_OUT:
            return _divided_up(mantissa, -shift) if shift < 0 else mantissa * _power_of_ten(shift)
        places = 2 * MAX_DIGITS
        fraction = abs(mantissa) * _power_of_ten(places - (self.size - self.scale))
        return self.sign * (self.size * _power_of_ten(places) + fraction)

    def cmp(self, other: "Quantity") -> int:
        """-1, 0 or 1 as this amount is less than, equal to or greater than the other."""
        return _compare(self.mantissa, self.scale, other.mantissa, other.scale)

    def as_wide(self) -> "Quantity":
        """The same amount in arbitrary precision, printing as before."""
        return self if self.wide else Quantity(self.mantissa, self.scale, self.format, True, self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.cmp(other) == 0

    def __ne__(self, other: object) -> bool:
        # Without it the one of msgspec.Struct compares identities.
        return not self == other

    def __lt__(self, other: "Quantity") -> bool:
        return self.cmp(other) < 0

    def __le__(self, other: "Quantity") -> bool:
        return self.cmp(other) <= 0

    def __gt__(self, other: "Quantity") -> bool:
        return self.cmp(other) > 0

    def __ge__(self, other: "Quantity") -> bool:
        return self.cmp(other) >= 0

    def __hash__(self) -> int:
        return hash(_without_tens(self.mantissa, self.scale))

    def _scaled(self, scale: int) -> int:
        if self.wide:
            return _scale_wide(self.mantissa, self.scale - scale)
        return _scale_int64(self.mantissa, self.scale - scale)


ZERO: Final = Quantity(0, text="0")
_KI: Final = Quantity(1024)
_MINUS_KI: Final = Quantity(-1024)


def parse(text: str) -> Quantity:
    """Read a quantity. Raises `QuantityError`."""
    if text == "0":
        return ZERO
    match = _QUANTITY.fullmatch(text) if text else None
    if match is None:
        raise QuantityError(ERR_FORMAT)
    sign, zeros, digits, fraction, suffix = match.groups(default="")
    exponent, format = _read_suffix(suffix)
    number = (digits or "0") + fraction
    scale = -len(fraction)
    if format != BINARY_SI:
        scale = _wrap_int32(scale + exponent)
    if scale >= NANO and _fits_narrow(number, scale, exponent, format):
        return _narrow(text, sign, number, scale, exponent, format)
    if not (zeros or digits or fraction):
        raise QuantityError(ERR_NUMERIC)
    return _wide(text, sign, number, scale, exponent, format)


def quantity_of(raw: str | int | float) -> Quantity:
    """The quantity that stands in a JSON or YAML document, as text or as a plain number."""
    if isinstance(raw, str) and len(raw) > _CACHED_LENGTH:
        return parse(_without_blanks(raw))
    return _short_quantity_of(raw)


@lru_cache(maxsize=65536, typed=True)
def _short_quantity_of(raw: str | int | float) -> Quantity:
    if isinstance(raw, str):
        return parse(_without_blanks(raw))
    if isinstance(raw, int):
        return parse(_integer_text(raw))
    return parse(_json_number(raw))


def value_of(raw: str | int | float) -> int:
    """`value()` of a quantity as it stands in a document."""
    return quantity_of(raw).value()


def milli_value_of(raw: str | int | float) -> int:
    """`milli_value()` of a quantity as it stands in a document."""
    return quantity_of(raw).milli_value()


def _integer_text(number: int) -> str:
    """An integer as text; of one with more digits than Python prints, the first."""
    mantissa, scale = _rounded(number, 0)
    return f"{mantissa}e{scale}" if scale else str(mantissa)


def _without_blanks(text: str) -> str:
    """Strip surrounding blanks, except control characters: those are escaped in JSON, and Go does not strip
    them."""
    if text[:1].isspace() or text[-1:].isspace():
        start, end = 0, len(text)
        while start < end and text[start].isspace() and text[start] >= " ":
            start += 1
        while end > start and text[end - 1].isspace() and text[end - 1] >= " ":
            end -= 1
        return text[start:end]
    return text


def _json_number(number: float) -> str:
    """A float as a JSON encoder writes it: without exponent from 1e-6 up to 1e21."""
    if 1e-6 <= abs(number) < 1e21:
        return format(Decimal(repr(number)).normalize(), "f")
    return repr(number)


def _read_suffix(suffix: str) -> tuple[int, str]:
    if suffix in _DECIMAL_SUFFIXES:
        return _DECIMAL_SUFFIXES[suffix], DECIMAL_SI
    if suffix in _BINARY_SUFFIXES:
        return _BINARY_SUFFIXES[suffix], BINARY_SI
    if suffix[0] in "eE":
        exponent = parse_int64(suffix[1:])
        if exponent is not None:
            return _wrap_int32(exponent), DECIMAL_EXPONENT
    raise QuantityError(ERR_SUFFIX)


def _fits_narrow(number: str, scale: int, exponent: int, format: str) -> bool:
    """True if that many digits are sure to fit an int64; the estimate itself is part of the rules."""
    if format == BINARY_SI:
        return scale == 0 and 14 - len(number) - exponent * 3 // 10 >= 0
    return len(number) <= 18


def _narrow(text: str, sign: str, number: str, scale: int, exponent: int, format: str) -> Quantity:
    """An amount that fits an int64. Text that is canonical, or nearly so, is kept for printing."""
    mantissa = int(number)
    if format == BINARY_SI:
        keep = mantissa & 7 != 0
        mantissa <<= exponent
    else:
        keep = scale % 3 == 0 and not number.endswith("000") and number[0] != "0"
    return Quantity(-mantissa if sign == "-" else mantissa, scale, format, text=text if keep else None)


def _wide(text: str, sign: str, number: str, scale: int, exponent: int, format: str) -> Quantity:
    """An amount with many digits: rounded up to whole nanos, in the binary family capped at int64."""
    digits = number.strip("0")
    if not digits:
        return Quantity(0, max(scale, NANO), format, wide=True)
    scale += len(number) - len(number.rstrip("0"))
    mantissa = int(digits[:MAX_DIGITS])
    surplus = max(len(digits) - MAX_DIGITS, 0)
    if surplus:
        mantissa, scale = mantissa + 1, scale + surplus
    # Digits below the nano are rounded up in any case: then nothing is lost of what Go keeps.
    kept = text if surplus and scale >= NANO else None
    if format == BINARY_SI:
        mantissa <<= exponent
    if scale < NANO:
        mantissa, scale = _divided_up(mantissa, NANO - scale), NANO
    elif scale <= _WRITTEN_OUT:
        mantissa, scale = mantissa * _power_of_ten(scale - NANO), NANO
    if format == BINARY_SI:
        if scale > NANO or mantissa > MAX_INT64 * 10**9:
            mantissa, scale = MAX_INT64, 0
        elif mantissa < 10**9:
            format = DECIMAL_SI
    return Quantity(-mantissa if sign == "-" else mantissa, scale, format, wide=True, text=kept)


def _divided_up(mantissa: int, places: int) -> int:
    """`mantissa / 10^places`, rounded up. The divisor has few digits more than the mantissa."""
    return -(-mantissa // _power_of_ten(min(places, mantissa.bit_length())))


def _rounded(mantissa: int, scale: int) -> tuple[int, int]:
    """An amount of at most MAX_DIGITS digits (or one more), rounded away from zero."""
    surplus = int(mantissa.bit_length() * 0.30103) - MAX_DIGITS
    if surplus <= 0:
        return mantissa, scale
    return (1 if mantissa > 0 else -1) * _divided_up(abs(mantissa), surplus), scale + surplus


def _add_wide(left: Quantity, right: Quantity, sign: int, format: str) -> Quantity:
    """The sum at the smaller scale, or at one where it has MAX_DIGITS digits, rounded away from zero."""
    scale = min(left.scale, right.scale)
    if max(left.scale, right.scale) - scale > 19:
        sizes = [one.size for one in (left, right) if one.mantissa]
        scale = max(scale, max(sizes, default=scale) - MAX_DIGITS)
    total = _at_scale(left, scale) + sign * _at_scale(right, scale)
    return Quantity(*_rounded(total, scale), format, wide=True)


def _at_scale(quantity: Quantity, scale: int) -> int:
    """An amount in units of 10^scale, rounded away from zero."""
    shift = quantity.scale - scale
    if not quantity.mantissa:
        return 0
    if shift >= 0:
        return quantity.mantissa * _power_of_ten(shift)
    return quantity.sign * _divided_up(abs(quantity.mantissa), -shift)


def _print_decimal(mantissa: int, scale: int, format: str) -> str:
    mantissa, scale = _without_tens(mantissa, scale)
    scale = _wrap_int32(scale)
    surplus = scale % 3
    mantissa *= 10**surplus
    scale = _wrap_int32(scale - surplus)
    if format == DECIMAL_EXPONENT:
        return f"{mantissa}e{scale}" if scale else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIX_OF.get(scale, '')}"


def _print_binary(whole: int) -> str:
    exponent = 0
    while whole % 1024 == 0:
        whole //= 1024
        exponent += 10
    return f"{whole}{_BINARY_SUFFIX_OF.get(exponent, '')}"


# Scaling up by these powers of ten wraps on overflow; scaling up by any other gives 0.
_WRAPPING_SHIFTS = frozenset((1, 2, 3, 6, 9))


def _power_of_ten(exponent: int) -> int:
    assert exponent <= 4 * MAX_DIGITS, exponent
    return int(10**exponent)


def _wrap_int32(number: int) -> int:
    """The number modulo 2^32 as a signed integer: Go keeps exponents in 32 bits."""
    return (number + 2**31) % 2**32 - 2**31


def _scale_int64(mantissa: int, shift: int) -> int:
    """`mantissa × 10^shift` the way Go's int64 amounts do it."""
    if shift == 0 or not mantissa:
        return mantissa
    if shift < 0:
        magnitude = -(-abs(mantissa) // _power_of_ten(min(-shift, 19)))
        return magnitude if mantissa > 0 else -magnitude
    if shift > 19:
        return 0
    scaled = mantissa * _power_of_ten(shift)
    if fits_int64(scaled):
        return scaled
    return wrap_int64(scaled) if shift in _WRAPPING_SHIFTS and mantissa != MIN_INT64 else 0


def _scale_wide(mantissa: int, shift: int) -> int:
    """`mantissa × 10^shift` the way Go's arbitrary-precision amounts do it."""
    if shift > _WRITTEN_OUT:
        return 0
    if shift >= 0:
        factor = _power_of_ten(shift) if shift <= 18 else MIN_INT64
        return wrap_int64(wrap_int64(mantissa) * factor)
    divisor = _power_of_ten(-shift)
    if mantissa < MAX_INT64 and -shift < 19:
        narrow = wrap_int64(mantissa)
        whole = abs(narrow) // divisor
        rest = abs(narrow) != whole * divisor
        return (whole if narrow >= 0 else -whole) + rest
    whole, remainder = divmod(mantissa, divisor)
    return wrap_int64(wrap_int64(whole) + (remainder != 0))


def _add_int64(left: int, left_scale: int, right: int, right_scale: int) -> tuple[int, int] | None:
    """The sum as int64 mantissa and scale, None when it overflows."""
    if not right:
        return left, left_scale
    if not left:
        return right, right_scale
    scale = min(left_scale, right_scale)
    if max(left_scale, right_scale) - scale > 19:
        return None
    left *= _power_of_ten(left_scale - scale)
    right *= _power_of_ten(right_scale - scale)
    total = left + right
    if fits_int64(left) and fits_int64(right) and fits_int64(total):
        return total, scale
    return None


def _as_whole(mantissa: int, scale: int) -> int | None:
    """The amount as an integer, None if it has a fraction or too many digits to be written out."""
    if scale >= 0:
        return mantissa * _power_of_ten(scale) if scale <= MAX_DIGITS else None
    whole, rest = divmod(mantissa, _power_of_ten(-scale))
    return None if rest else whole


def _without_tens(mantissa: int, scale: int) -> tuple[int, int]:
    """The same amount with all factors of ten in the scale."""
    if not mantissa:
        return 0, 0
    if not MIN_INT64 <= mantissa <= MAX_INT64:
        zeros = len(text := str(mantissa)) - len(text.rstrip("0"))
        return mantissa // _power_of_ten(zeros), scale + zeros
    while mantissa % 10 == 0:
        mantissa //= 10
        scale += 1
    return mantissa, scale


def _compare(left: int, left_scale: int, right: int, right_scale: int) -> int:
    """-1, 0 or 1 as the left amount is less, equal or greater; never builds a huge power of ten."""
    if left_scale != right_scale:
        signs = _sign(left), _sign(right)
        if signs[0] != signs[1] or not left:
            left, right = signs
        else:
            sizes = len(str(abs(left))) + left_scale, len(str(abs(right))) + right_scale
            if sizes[0] != sizes[1]:
                left, right = sizes[0] * signs[0], sizes[1] * signs[1]
            elif left_scale > right_scale:
                left *= _power_of_ten(left_scale - right_scale)
            else:
                right *= _power_of_ten(right_scale - left_scale)
    return (left > right) - (left < right)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
