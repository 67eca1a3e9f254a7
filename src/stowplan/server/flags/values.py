"""Types of flag values: strings, numbers, booleans, durations, addresses, lists, and special ones.

Numbers, booleans and lists are read and written as Go's strconv and encoding/csv do, with their errors.
"""

import ipaddress
import math
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from stowplan.gocompat.durations import Duration
from stowplan.gocompat.quoting import quote
from stowplan.server.flags.parser import FlagKind, Value
from stowplan.server.version import VERSION

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_BASES: Final = {"0x": 16, "0o": 8, "0b": 2}
_DIGITS: Final = re.compile(r"[0-9]+")
_UNDERSCORED: Final = re.compile(r"_?[0-9a-zA-Z]+(_[0-9a-zA-Z]+)*")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]++\.?[0-9]*+|\.[0-9]++)([eE][+-]?[0-9]++)?")
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


# Types of values


_NO_LIST: Final = frozenset({"[]"})

_SEMANTIC: Final = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)(.*)", re.DOTALL)
_EXTRA: Final = re.compile(r"(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?\s*")

Settings = tuple[tuple[str, str], ...]
"""Pairs of a component, empty for the default one, and a setting, in the order given."""


def _replacing(read: Callable[[str], Value]) -> Callable[[str, Value, bool], Value]:
    """A type whose later occurrences replace earlier ones."""
    return lambda text, current, again: read(text)


def _show_bool(value: bool) -> str:
    return "true" if value else "false"


def _read_address(text: str, current: str, again: bool) -> str:
    """An IP address; an empty text leaves the value unchanged."""
    if not text:
        return current
    stripped = text.strip()
    try:
        address = ipaddress.ip_address("" if "%" in stripped else stripped)
    except ValueError:
        raise ValueError(f"failed to parse IP: {quote(text)}") from None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _appending(read: Callable[[str], tuple[Value, ...]]) -> FlagKind[tuple[Value, ...]]:
    """A list: the first occurrence replaces the default, later ones append."""

    def grown(text: str, current: tuple[Value, ...], again: bool) -> tuple[Value, ...]:
        values = read(text)
        return current + values if again else values

    return FlagKind("", grown, lambda values: f"[{','.join(map(str, values))}]")


def _read_numbers(text: str) -> tuple[int, ...]:
    return tuple(read_int(part, 32) for part in text.split(","))


def _read_map(text: str, current: dict[str, str], again: bool) -> dict[str, str]:
    """`key=value` pairs, several as comma-separated values."""
    pairs = text.count("=")
    if pairs == 0:
        raise ValueError(f"{text} must be formatted as key=value")
    found: dict[str, str] = {}
    for pair in (text.strip('"'),) if pairs == 1 else read_list(text):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair} must be formatted as key=value")
        found[key] = value
    return {**current, **found} if again else found


def _show_map(values: dict[str, str]) -> str:
    return f"[{write_list(f'{key}={values[key]}' for key in sorted(values))}]"


STRING: Final[FlagKind[str]] = FlagKind("string", _replacing(str), str, zeros=frozenset({""}), quoted=True)
BOOL: Final[FlagKind[bool]] = FlagKind("", _replacing(read_bool), _show_bool, implied="true")
INT: Final[FlagKind[int]] = FlagKind("int", _replacing(read_int), str)
INT32: Final[FlagKind[int]] = FlagKind("int32", _replacing(lambda text: read_int(text, 32)), str)
FLOAT32: Final[FlagKind[float]] = FlagKind("float32", _replacing(read_float32), show_float32)
LEVEL: Final[FlagKind[int]] = FlagKind("Level", _replacing(lambda text: read_uint(text, 31)), str)
DURATION: Final[FlagKind[Duration]] = FlagKind(
    "duration", _replacing(Duration.parse), str, zeros=frozenset({"0s", "0"})
)
ADDRESS: Final[FlagKind[str]] = FlagKind("ip", _read_address, str, zeros=frozenset({"<nil>"}))
STRINGS: Final[FlagKind[tuple[str, ...]]] = FlagKind(
    "strings", _appending(read_list).read, lambda values: f"[{write_list(values)}]", zeros=_NO_LIST
)
EACH: Final[FlagKind[tuple[str, ...]]] = FlagKind(
    "string", _appending(lambda text: (text,)).read, lambda values: f"[{write_list(values)}]", zeros=_NO_LIST
)
"""A list with one element per occurrence (pflag's stringArray)."""
NUMBERS: Final[FlagKind[tuple[int, ...]]] = FlagKind(
    "int32Slice", _appending(_read_numbers).read, _appending(_read_numbers).show
)
MAP: Final[FlagKind[dict[str, str]]] = FlagKind("stringToString", _read_map, _show_map)


# Types of one or two flags


@dataclass(frozen=True, slots=True)
class NamedPair:
    """A certificate, its key, and the server names it is for; without names, the certificate's own."""

    certificate: str
    key: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        files = f"{self.certificate},{self.key}"
        return f"{files}:{','.join(self.names)}" if self.names else files


@dataclass(frozen=True, slots=True)
class ModuleLevel:
    """A verbosity for files whose names match a pattern."""

    pattern: str
    level: int

    def __str__(self) -> str:
        return f"{self.pattern}={self.level}"


def _read_pair(text: str, current: tuple[NamedPair, ...], again: bool) -> tuple[NamedPair, ...]:
    files, colon, names = text.partition(":")
    if colon and not names.strip():
        raise ValueError("empty names list is not allowed")
    parts = [part.strip() for part in files.split(",")]
    if len(parts) != 2:
        raise ValueError("expected comma separated certificate and key file paths")
    listed = tuple(name.strip() for name in names.strip().split(",")) if colon else ()
    pair = NamedPair(parts[0], parts[1], listed)
    return (*current, pair) if again else (pair,)


def _read_levels(text: str, current: tuple[ModuleLevel, ...], again: bool) -> tuple[ModuleLevel, ...]:
    found = list(current)
    for part in filter(None, text.split(",")):
        pieces = part.split("=")
        if len(pieces) != 2 or not all(pieces):
            raise ValueError(f"{quote(part)} does not have the pattern=N format")
        try:
            level = read_uint(pieces[1], 31)
        except ValueError as error:
            raise ValueError(f"parsing verbosity in {quote(part)}: {error}") from None
        found.append(ModuleLevel(pieces[0], level))
    return tuple(found)


def _read_settings(text: str, current: Settings, again: bool) -> Settings:
    found = list(current)
    for part in filter(None, text.split(",")):
        component, colon, setting = part.partition(":")
        found.append((component.strip(), setting.strip()) if colon else ("", component.strip()))
    return tuple(found)


def _show_settings(settings: Settings) -> str:
    return ",".join(f"{component}:{setting}" for component, setting in sorted(settings, key=lambda it: it[0]))


def _read_version(text: str, current: str, again: bool) -> str:
    """`true` and `raw` print the version, `v…` sets the one to report."""
    if text == "raw":
        return text
    if text.startswith("v"):
        _check_version(text)
        return text
    return "true" if read_bool(text) else "false"


def _check_version(text: str) -> None:
    if text == VERSION:
        return
    match = _SEMANTIC.fullmatch(text)
    if match is None:
        raise ValueError(f"could not parse {quote(text)} as version")
    numbers = match[1].split(".")
    if len(numbers) != 3:
        raise ValueError(f"illegal version string {quote(text)}")
    for number in numbers:
        if len(number) > 1 and number.startswith("0"):
            raise ValueError(f"illegal zero-prefixed version component {quote(number)} in {quote(text)}")
    if not _EXTRA.fullmatch(match[2]):
        raise ValueError(f"could not parse pre-release/metadata ({match[2]}) in version {quote(text)}")
    own = _SEMANTIC.fullmatch(VERSION)
    if own is None or match[1] != own[1]:
        shown = f"version {quote(text)} must match major/minor/patch of default version {quote(VERSION)}"
        raise ValueError(shown)


def _show_quantity(value: str) -> str:
    return value


def _read_quantity(text: str, current: str, again: bool) -> str:
    from stowplan.api.quantity import parse

    return parse(text).canonical()


NAMED_PAIRS: Final[FlagKind[tuple[NamedPair, ...]]] = FlagKind(
    "namedCertKey", _read_pair, lambda pairs: f"[{';'.join(map(str, pairs))}]"
)
MODULE_LEVELS: Final[FlagKind[tuple[ModuleLevel, ...]]] = FlagKind(
    "pattern=N,...", _read_levels, lambda levels: ",".join(map(str, levels))
)
SETTINGS: Final[FlagKind[Settings]] = FlagKind(
    "colonSeparatedMultimapStringString", _read_settings, _show_settings
)
VERSION_ASKED: Final[FlagKind[str]] = FlagKind("version", _read_version, str, implied="true")
QUANTITY: Final[FlagKind[str]] = FlagKind("quantity", _read_quantity, _show_quantity)
"""A number of bytes such as `512` or `2Ki`, kept as text."""
