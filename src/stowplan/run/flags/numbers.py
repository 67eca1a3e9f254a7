"""Numbers and yes-or-no as text, read as Go reads them, refused with its words."""

import math
import re
import struct
from typing import Final

from stowplan.gocompat.quoting import quote

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_BASES: Final = {"0x": 16, "0o": 8, "0b": 2}
_PLAIN: Final = re.compile(r"[0-9]+")
_UNDERSCORED: Final = re.compile(r"_?[0-9a-zA-Z]+(_[0-9a-zA-Z]+)*")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_HEXADECIMAL: Final = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_WORDS: Final = frozenset({"inf", "+inf", "-inf", "infinity", "+infinity", "-infinity", "nan"})
_LARGEST_FLOAT: Final = 3.4028235677973366e38
"""From here on a number rounds to something a 32-bit float cannot hold."""
_MOST_DIGITS: Final = 4000


def read_bool(text: str) -> bool:
    if text not in _TRUE | _FALSE:
        raise _refused("ParseBool", text, "invalid syntax")
    return text in _TRUE


def read_int(text: str, bits: int = 64) -> int:
    """A whole number: decimal, or hexadecimal, octal or binary by its prefix."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    number = _magnitude(digits)
    if number is None:
        raise _refused("ParseInt", text, "invalid syntax")
    negative = text.startswith("-")
    if number > 2 ** (bits - 1) - (not negative):
        raise _refused("ParseInt", text, "value out of range")
    return -number if negative else number


def read_uint(text: str, bits: int) -> int:
    """A decimal number without a sign."""
    if not _PLAIN.fullmatch(text):
        raise _refused("ParseUint", text, "invalid syntax")
    number = _to_int(text, 10)
    if number >= 2**bits:
        raise _refused("ParseUint", text, "value out of range")
    return number


def read_float32(text: str) -> float:
    """A number rounded to what a 32-bit float holds."""
    lowered = text.lower()
    if lowered in _WORDS or _DECIMAL.fullmatch(text):
        number = float(lowered)
    elif _HEXADECIMAL.fullmatch(text):
        try:
            number = float.fromhex(text)
        except OverflowError:
            number = math.inf
    else:
        raise _refused("ParseFloat", text, "invalid syntax")
    if abs(number) >= _LARGEST_FLOAT and lowered not in _WORDS:
        raise _refused("ParseFloat", text, "value out of range")
    return _rounded(number)


def show_float32(number: float) -> str:
    """The shortest text that reads as the same 32-bit float, as Go prints it."""
    if math.isnan(number) or math.isinf(number):
        return "NaN" if math.isnan(number) else "+Inf" if number > 0 else "-Inf"
    digits = next(
        (count for count in range(9) if _rounded(float(f"{number:.{count}e}")) == _rounded(number)), 8
    )
    mantissa, _, power = f"{number:.{digits}e}".partition("e")
    exponent = int(power)
    if -4 <= exponent < 6:
        return f"{number:.{max(0, digits - exponent)}f}"
    return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _magnitude(digits: str) -> int | None:
    base = _BASES.get(digits[:2].lower(), 10)
    rest = digits[2:] if base != 10 else digits
    if base == 10 and len(digits) > 1 and digits.startswith("0"):
        base, rest = 8, digits[1:]
    if not _UNDERSCORED.fullmatch(rest) or (base == 10 and rest.startswith("_")):
        return None
    try:
        return _to_int(rest.replace("_", ""), base)
    except ValueError:
        return None


def _to_int(digits: str, base: int) -> int:
    """What is far too long to be read is just a large number."""
    significant = digits.lstrip("0")
    if len(significant) <= _MOST_DIGITS:
        return int(digits[-_MOST_DIGITS:], base)
    int(significant[:1], base)
    return int("1" + "0" * 100)


def _rounded(number: float) -> float:
    if math.isnan(number) or math.isinf(number):
        return number
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _refused(function: str, text: str, reason: str) -> ValueError:
    return ValueError(f"strconv.{function}: parsing {quote(text)}: {reason}")
