"""Types of flag values: strings, numbers, booleans, durations, addresses, lists, and special ones."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stowplan.gocompat.durations import Duration
from stowplan.gocompat.quoting import quote
from stowplan.run.flags.gotext import (
    read_bool,
    read_float32,
    read_int,
    read_list,
    read_uint,
    show_float32,
    write_list,
)
from stowplan.run.flags.parser import Kind, Value
from stowplan.run.version import VERSION

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


def _appending(read: Callable[[str], tuple[Value, ...]]) -> Kind[tuple[Value, ...]]:
    """A list: the first occurrence replaces the default, later ones append."""

    def grown(text: str, current: tuple[Value, ...], again: bool) -> tuple[Value, ...]:
        values = read(text)
        return current + values if again else values

    return Kind("", grown, lambda values: f"[{','.join(map(str, values))}]")


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


STRING: Final[Kind[str]] = Kind("string", _replacing(str), str, zeros=frozenset({""}), quoted=True)
BOOL: Final[Kind[bool]] = Kind("", _replacing(read_bool), _show_bool, implied="true")
INT: Final[Kind[int]] = Kind("int", _replacing(read_int), str)
INT32: Final[Kind[int]] = Kind("int32", _replacing(lambda text: read_int(text, 32)), str)
FLOAT32: Final[Kind[float]] = Kind("float32", _replacing(read_float32), show_float32)
LEVEL: Final[Kind[int]] = Kind("Level", _replacing(lambda text: read_uint(text, 31)), str)
DURATION: Final[Kind[Duration]] = Kind(
    "duration", _replacing(Duration.parse), str, zeros=frozenset({"0s", "0"})
)
ADDRESS: Final[Kind[str]] = Kind("ip", _read_address, str, zeros=frozenset({"<nil>"}))
STRINGS: Final[Kind[tuple[str, ...]]] = Kind(
    "strings", _appending(read_list).read, lambda values: f"[{write_list(values)}]", zeros=_NO_LIST
)
EACH: Final[Kind[tuple[str, ...]]] = Kind(
    "string", _appending(lambda text: (text,)).read, lambda values: f"[{write_list(values)}]", zeros=_NO_LIST
)
"""A list with one element per occurrence (pflag's stringArray)."""
NUMBERS: Final[Kind[tuple[int, ...]]] = Kind(
    "int32Slice", _appending(_read_numbers).read, _appending(_read_numbers).show
)
MAP: Final[Kind[dict[str, str]]] = Kind("stringToString", _read_map, _show_map)


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


NAMED_PAIRS: Final[Kind[tuple[NamedPair, ...]]] = Kind(
    "namedCertKey", _read_pair, lambda pairs: f"[{';'.join(map(str, pairs))}]"
)
MODULE_LEVELS: Final[Kind[tuple[ModuleLevel, ...]]] = Kind(
    "pattern=N,...", _read_levels, lambda levels: ",".join(map(str, levels))
)
SETTINGS: Final[Kind[Settings]] = Kind("colonSeparatedMultimapStringString", _read_settings, _show_settings)
VERSION_ASKED: Final[Kind[str]] = Kind("version", _read_version, str, implied="true")
QUANTITY: Final[Kind[str]] = Kind("quantity", _read_quantity, _show_quantity)
"""A number of bytes such as `512` or `2Ki`, kept as text."""
