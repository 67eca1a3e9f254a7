"""Numbers, booleans and lists as Go's strconv and encoding/csv read and write them, with their errors."""

import math
import re
import struct
from collections.abc import Iterable
from typing import Final

from stowplan.gocompat.quoting import quote

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_BASES: Final = {"0x": 16, "0o": 8, "0b": 2}
_DIGITS: Final = re.compile(r"[0-9]+")
_UNDERSCORED: Final = re.compile(r"_?[0-9a-zA-Z]+(_[0-9a-zA-Z]+)*")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_HEXADECIMAL: Final = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_FLOAT_WORDS: Final = frozenset({"inf", "+inf", "-inf", "infinity", "+infinity", "-infinity", "nan"})
_FLOAT32_OVERFLOW: Final = 3.4028235677973366e38
"""The smallest number that overflows a 32-bit float."""
_MAX_DIGITS: Final = 4000

_SPECIAL: Final = frozenset(',"\r\n')


# Numbers and booleans


def read_bool(text: str) -> bool:
    if text not in _TRUE | _FALSE:
        raise _syntax_error("ParseBool", text, "invalid syntax")
    return text in _TRUE


def read_int(text: str, bits: int = 64) -> int:
    """strconv.ParseInt with base 0: the prefix tells the base."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    number = _magnitude(digits)
    if number is None:
        raise _syntax_error("ParseInt", text, "invalid syntax")
    negative = text.startswith("-")
    if number > 2 ** (bits - 1) - (not negative):
        raise _syntax_error("ParseInt", text, "value out of range")
    return -number if negative else number


def read_uint(text: str, bits: int) -> int:
    """strconv.ParseUint with base 10."""
    if not _DIGITS.fullmatch(text):
        raise _syntax_error("ParseUint", text, "invalid syntax")
    number = _to_int(text, 10)
    if number >= 2**bits:
        raise _syntax_error("ParseUint", text, "value out of range")
    return number


def read_float32(text: str) -> float:
    """strconv.ParseFloat with 32 bits."""
    lowered = text.lower()
    if lowered in _FLOAT_WORDS or _DECIMAL.fullmatch(text):
        number = float(lowered)
    elif _HEXADECIMAL.fullmatch(text):
        try:
            number = float.fromhex(text)
        except OverflowError:
            number = math.inf
    else:
        raise _syntax_error("ParseFloat", text, "invalid syntax")
    if abs(number) >= _FLOAT32_OVERFLOW and lowered not in _FLOAT_WORDS:
        raise _syntax_error("ParseFloat", text, "value out of range")
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
    """Numbers of thousands of digits are out of range anyway; int() would refuse them."""
    significant = digits.lstrip("0")
    if len(significant) <= _MAX_DIGITS:
        return int(digits[-_MAX_DIGITS:], base)
    int(significant[:1], base)
    return int("1" + "0" * 100)


def _rounded(number: float) -> float:
    if math.isnan(number) or math.isinf(number):
        return number
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _syntax_error(function: str, text: str, reason: str) -> ValueError:
    return ValueError(f"strconv.{function}: parsing {quote(text)}: {reason}")


# Lists: one line of comma-separated values


class _CsvError(ValueError):
    """A syntax error of encoding/csv."""

    def __init__(self, line: int, column: int, reason: str) -> None:
        super().__init__(f"parse error on line {line}, column {column}: {reason}")


def read_list(text: str) -> tuple[str, ...]:
    """The values of the first line that is not empty. Raises ValueError."""
    if not text:
        return ()
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if line.rstrip("\r")), None)
    if first is None:
        raise ValueError("EOF")
    rest = "\n".join(lines[first:])
    return tuple(_CsvReader(rest, first + 1).fields())


def write_list(values: Iterable[str]) -> str:
    return ",".join(map(_quoted, values))


def _quoted(value: str) -> str:
    if not (_SPECIAL & set(value) or value == r"\." or value[:1].isspace()):
        return value
    return '"' + value.replace('"', '""') + '"'


class _CsvReader:
    """Reads one record; quoted values may contain line ends."""

    def __init__(self, text: str, line: int) -> None:
        self._text = text
        self._at = 0
        self._line = line
        self._start = 0

    def fields(self) -> Iterable[str]:
        while True:
            yield self._quoted() if self._text.startswith('"', self._at) else self._plain()
            if not self._text.startswith(",", self._at):
                return
            self._at += 1

    def _plain(self) -> str:
        ends = (self._text.find(mark, self._at) for mark in ",\n")
        end = min((place for place in ends if place >= 0), default=len(self._text))
        value = self._text[self._at : end]
        if '"' in value:
            self._at += value.index('"')
            raise self._broken('bare " in non-quoted field')
        self._at = end
        last = not self._text.startswith(",", end)
        return value.removesuffix("\r") if last else value

    def _quoted(self) -> str:
        value = ""
        self._at += 1
        while True:
            end = self._text.find('"', self._at)
            if end < 0:
                self._skip(self._text[self._at :])
                raise self._broken('extraneous or missing " in quoted field')
            value += self._text[self._at : end]
            self._skip(self._text[self._at : end + 1])
            if self._text.startswith('"', self._at):
                value += '"'
                self._at += 1
                continue
            rest = self._text[self._at :]
            if not rest or rest[0] in ",\n" or rest.startswith("\r\n"):
                return value.replace("\r\n", "\n")
            self._at -= 1
            raise self._broken('extraneous or missing " in quoted field')

    def _skip(self, passed: str) -> None:
        self._line += passed.count("\n")
        self._at += len(passed)
        if "\n" in passed:
            self._start = self._at - (len(passed) - passed.rindex("\n") - 1)

    def _broken(self, reason: str) -> _CsvError:
        column = len(self._text[self._start : self._at].encode("utf-8", "surrogateescape")) + 1
        return _CsvError(self._line, column, reason)
