"""The usual kinds of values: text, numbers, yes or no, durations, addresses, and lists of them."""

import ipaddress
from collections.abc import Callable
from typing import Final

from stowplan.gocompat.durations import Duration
from stowplan.gocompat.quoting import quote
from stowplan.run.flags.csvtext import read_list, write_list
from stowplan.run.flags.flag import Kind, Value
from stowplan.run.flags.numbers import read_bool, read_float32, read_int, read_uint, show_float32

_NO_LIST: Final = frozenset({"[]"})


def _plain(read: Callable[[str], Value]) -> Callable[[str, Value, bool], Value]:
    """Reading that does not care what was there before."""
    return lambda text, current, again: read(text)


def _show_bool(value: bool) -> str:
    return "true" if value else "false"


def _read_address(text: str, current: str, again: bool) -> str:
    """An IP address; no text leaves it as it is."""
    if not text:
        return current
    stripped = text.strip()
    try:
        address = ipaddress.ip_address("" if "%" in stripped else stripped)
    except ValueError:
        raise ValueError(f"failed to parse IP: {quote(text)}") from None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _growing(read: Callable[[str], tuple[Value, ...]]) -> Kind[tuple[Value, ...]]:
    """The reading half of a list: the first occurrence replaces the default, later ones add."""

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


STRING: Final[Kind[str]] = Kind("string", _plain(str), str, zeros=frozenset({""}), quoted=True)
BOOL: Final[Kind[bool]] = Kind("", _plain(read_bool), _show_bool, implied="true")
INT: Final[Kind[int]] = Kind("int", _plain(read_int), str)
INT32: Final[Kind[int]] = Kind("int32", _plain(lambda text: read_int(text, 32)), str)
FLOAT32: Final[Kind[float]] = Kind("float32", _plain(read_float32), show_float32)
LEVEL: Final[Kind[int]] = Kind("Level", _plain(lambda text: read_uint(text, 31)), str)
DURATION: Final[Kind[Duration]] = Kind("duration", _plain(Duration.parse), str, zeros=frozenset({"0s", "0"}))
ADDRESS: Final[Kind[str]] = Kind("ip", _read_address, str, zeros=frozenset({"<nil>"}))
STRINGS: Final[Kind[tuple[str, ...]]] = Kind(
    "strings", _growing(read_list).read, lambda values: f"[{write_list(values)}]", zeros=_NO_LIST
)
EACH: Final[Kind[tuple[str, ...]]] = Kind(
    "string", _growing(lambda text: (text,)).read, lambda values: f"[{write_list(values)}]", zeros=_NO_LIST
)
"""Text that is not taken apart; the flag is given once for each."""
NUMBERS: Final[Kind[tuple[int, ...]]] = Kind(
    "int32Slice", _growing(_read_numbers).read, _growing(_read_numbers).show
)
MAP: Final[Kind[dict[str, str]]] = Kind("stringToString", _read_map, _show_map)
