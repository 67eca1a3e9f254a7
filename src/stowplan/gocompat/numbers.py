"""Go's numbers: the range and wrap-around of int64, integers read from text, floats written as JSON."""

import re
from typing import Final

MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)

_INTEGER = re.compile(r"([+-]?)(?=[0-9])0*+([0-9]*+)")


def fits_int64(number: int) -> bool:
    return MIN_INT64 <= number <= MAX_INT64


def wrap_int64(number: int) -> int:
    """The number modulo 2^64 as a signed integer: what an overflow leaves behind."""
    return number if MIN_INT64 <= number <= MAX_INT64 else (number + 2**63) % 2**64 - 2**63


def parse_int64(text: str) -> int | None:
    """A decimal integer with optional sign, None when it is none or too large."""
    match = _INTEGER.fullmatch(text)
    if match is None or len(match[2]) > 19:
        return None
    number = int(f"{match[1]}0{match[2]}")
    return number if fits_int64(number) else None


def parse_count(text: str) -> int | None:
    """A decimal integer of digits alone, None when it is none or does not fit an int64."""
    return parse_int64(text) if text.isascii() and text.isdigit() else None
