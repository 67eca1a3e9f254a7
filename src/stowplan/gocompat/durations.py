"""Durations as Go writes them in text: `10s`, `1m30s`, `1.5h`, exact to the nanosecond."""

import re
from dataclasses import dataclass

SECOND = 1_000_000_000
_MAX = 2**63 - 1
_MAX_DIGITS = 19
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_NUMBER = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?")
_UNIT = re.compile(r"[^0-9.]*")


class DurationError(ValueError):
    """Text that is no duration."""


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """A length of time in nanoseconds; `str()` gives the usual notation."""

    nanoseconds: int = 0

    @classmethod
    def of_seconds(cls, seconds: int) -> "Duration":
        return cls(seconds * SECOND)

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """Read `1h15m30.918s` and the like: numbers with units, an optional sign, or a bare `0`."""
        sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
        if rest == "0":
            return cls(0)
        if not rest:
            raise DurationError(f"time: invalid duration {_quote(text)}")
        total = place = 0
        while place < len(rest):
            nanoseconds, place = _part_at(rest, place, text)
            total += nanoseconds
            if total > _MAX + (sign < 0):
                raise DurationError(f"time: invalid duration {_quote(text)}")
        return cls(sign * total)

    @property
    def seconds(self) -> float:
        return self.nanoseconds / SECOND

    def __str__(self) -> str:
        sign = "-" if self.nanoseconds < 0 else ""
        rest = abs(self.nanoseconds)
        if rest == 0:
            return "0s"
        for unit, size in (("ns", 1_000), ("µs", 1_000_000), ("ms", SECOND)):
            if rest < size:
                return sign + _decimal(rest, _UNITS[unit]) + unit
        minutes, rest = divmod(rest, 60 * SECOND)
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
        return sign + text + _decimal(rest, SECOND) + "s"


def _part_at(rest: str, place: int, text: str) -> tuple[int, int]:
    """A number with its unit as nanoseconds, and the place after it."""
    number = _NUMBER.match(rest, place)
    assert number is not None
    whole, fraction = number["whole"], number["fraction"]
    if not whole and not fraction:
        raise DurationError(f"time: invalid duration {_quote(text)}")
    unit = _UNIT.match(rest, number.end())
    assert unit is not None
    if not unit.group():
        raise DurationError(f"time: missing unit in duration {_quote(text)}")
    size = _UNITS.get(unit.group())
    if size is None:
        raise DurationError(f"time: unknown unit {_quote(unit.group())} in duration {_quote(text)}")
    digits = whole.lstrip("0")
    if len(digits) > _MAX_DIGITS:
        raise DurationError(f"time: invalid duration {_quote(text)}")
    nanoseconds = int(digits or "0") * size
    if fraction:
        digits = _significant(fraction)
        nanoseconds += int(float(digits) * (float(size) / 10.0 ** len(digits)))
    return nanoseconds, unit.end()


def _significant(fraction: str) -> str:
    """The leading digits of a fraction that fit a 64-bit integer; the rest is below a nanosecond."""
    value, count = 0, 0
    for digit in fraction:
        value = value * 10 + int(digit)
        if value > _MAX + 1:
            break
        count += 1
    return fraction[:count]


def _quote(text: str) -> str:
    """Text in double quotes, everything outside ASCII byte by byte: how Go's clock quotes."""
    shown = []
    for byte in text.encode("utf-8", "surrogatepass"):
        character = chr(byte)
        if byte >= 0x80 or byte < 0x20:
            shown.append(f"\\x{byte:02x}")
        else:
            shown.append("\\" + character if character in '"\\' else character)
    return '"' + "".join(shown) + '"'


def _decimal(value: int, unit: int) -> str:
    """`value / unit` with exactly the digits it needs."""
    whole, fraction = divmod(value, unit)
    if not fraction:
        return str(whole)
    return f"{whole}.{fraction:0{len(str(unit)) - 1}d}".rstrip("0")
